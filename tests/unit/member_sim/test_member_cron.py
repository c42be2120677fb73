"""CronJobs in the simulated cluster, and when schedules fire."""

from datetime import UTC, datetime
from typing import Any

import pytest

from services.member_sim.controllers.cronjob import next_after


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("schedule", "zone", "after", "expected"),
    [
        ("* * * * *", "", "2024-02-28 23:59:30", "2024-02-29 00:00:00"),
        ("*/15 * * * *", "", "2024-01-01 00:15:00", "2024-01-01 00:30:00"),
        ("5,35 9-10 * * mon-fri", "", "2024-01-05 10:35:00", "2024-01-08 09:05:00"),
        ("0 0 1 jan *", "", "2024-01-01 00:00:00", "2025-01-01 00:00:00"),
        ("0 0 29 2 *", "", "2024-03-01 00:00:00", "2028-02-29 00:00:00"),
        ("0 0 13 * 5", "", "2024-09-01 00:00:00", "2024-09-06 00:00:00"),
        ("0 0 ? * 5", "", "2024-01-01 00:00:00", "2024-01-05 00:00:00"),
        ("0 0 * * 7", "", "2024-01-01 00:00:00", "2024-01-07 00:00:00"),
        ("@hourly", "", "2024-01-01 00:00:01", "2024-01-01 01:00:00"),
        ("@every 1m30s", "", "2024-01-01 00:00:00", "2024-01-01 00:01:30"),
        ("30 9 * * *", "Asia/Tokyo", "2024-01-01 00:00:00", "2024-01-01 00:30:00"),
    ],
)
def test_next_time_of_a_schedule(schedule: str, zone: str, after: str, expected: str) -> None:
    assert next_after(schedule, zone, at(after)) == at(expected)


@pytest.mark.parametrize(
    ("schedule", "zone"),
    [
        ("0 0 31 2 *", ""),
        ("* * *", ""),
        ("* * * * * *", ""),
        ("60 * * * *", ""),
        ("*/0 * * * *", ""),
        ("x * * * *", ""),
        ("@every soon", ""),
        ("@every ", ""),
        ("* * * * *", "Mars/Olympus"),
        ("* * * * *", "../etc"),
    ],
)
def test_what_never_fires_or_cannot_be_read_has_no_next_time(schedule: str, zone: str) -> None:
    assert next_after(schedule, zone, at("2024-01-01 00:00:00")) is None


def cronjob(template: Any, **spec: Any) -> dict[str, Any]:
    job = {"parallelism": 1, "completions": 1, "template": template(restartPolicy="Never")}
    return {"schedule": "* * * * *", "jobTemplate": {"spec": job}, **spec}


def test_cronjob_starts_jobs_and_keeps_the_last_three(cluster: Any, template: Any) -> None:
    cluster.create("CronJob", "tick", spec=cronjob(template))
    cluster.settle(60 * 6)
    jobs = cluster.all("Job")
    assert len(jobs) == 3
    status = cluster.get("CronJob", "tick")["status"]
    assert "active" not in status
    assert status["lastScheduleTime"] == "2023-11-14T22:19:00Z"
    assert status["lastSuccessfulTime"] >= status["lastScheduleTime"]
    last = int(at("2023-11-14 22:19:00")) // 60
    assert {job["metadata"]["name"] for job in jobs} == {f"tick-{last - n}" for n in range(3)}


def test_suspended_cronjob_starts_nothing(cluster: Any, template: Any) -> None:
    cluster.create("CronJob", "tick", spec=cronjob(template, suspend=True))
    cluster.settle(300)
    assert cluster.all("Job") == []


@pytest.mark.parametrize(("policy", "running"), [("Allow", 3), ("Forbid", 1), ("Replace", 1)])
def test_concurrency_policy(make_cluster: Any, template: Any, policy: str, running: int) -> None:
    cluster = make_cluster(job_run=10_000.0)
    cluster.create("CronJob", "tick", spec=cronjob(template, concurrencyPolicy=policy))
    cluster.settle(60 * 3)
    jobs = cluster.all("Job")
    assert len(jobs) == running
    assert len(cluster.get("CronJob", "tick")["status"]["active"]) == running


def test_missed_times_are_made_up_for_once_unless_too_late(cluster: Any, template: Any) -> None:
    cluster.now += 3600
    cluster.create("CronJob", "late", spec=cronjob(template))
    cluster.create("CronJob", "strict", spec=cronjob(template, schedule="0 0 1 1 *", startingDeadlineSeconds=10))
    cluster.step()
    assert len(cluster.all("Job")) == 1
