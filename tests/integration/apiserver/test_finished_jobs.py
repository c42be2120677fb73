"""Finished Jobs with a time to live are deleted from a control plane."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from services.apiserver.controllers.finished_jobs import ends_at
from tests.integration.apiserver.core_objects import MERGE, until_gone

JOBS = "/apis/batch/v1/namespaces/default/jobs"


def job(name: str, ttl: int | None) -> dict[str, Any]:
    pod = {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}
    spec = {"template": {"spec": pod}, **({} if ttl is None else {"ttlSecondsAfterFinished": ttl})}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def finished(at: str, kind: str = "Complete") -> dict[str, Any]:
    first = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}.get(kind)
    kinds = [kind] if first is None else [first, kind]
    times = {"startTime": at, **({"completionTime": at} if kind == "Complete" else {})}
    return {
        "status": {**times, "conditions": [{"type": one, "status": "True", "lastTransitionTime": at} for one in kinds]}
    }


async def test_a_finished_job_goes_when_its_time_is_over(client: Any) -> None:
    before = (datetime.now(UTC) - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    for name, ttl in (("over", 60), ("later", 86_400), ("never", None), ("runs", 0)):
        code, made = await client("POST", JOBS, job(name, ttl))
        assert code == 201, made
    for name, kind in (("never", "Complete"), ("later", "Complete"), ("over", "Failed")):
        code, _ = await client("PATCH", f"{JOBS}/{name}/status", finished(before, kind), media=MERGE)
        assert code == 200
    await until_gone(client, f"{JOBS}/over")
    # Those before it in the queue were looked at, too.
    for name in ("never", "later", "runs"):
        _, found = await client("GET", f"{JOBS}/{name}")
        assert "deletionTimestamp" not in found["metadata"]


async def test_a_job_that_ends_is_deleted_after_its_seconds(client: Any) -> None:
    await client("POST", JOBS, job("a", 1))
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert (await client("PATCH", f"{JOBS}/a/status", finished(now), media=MERGE))[0] == 200
    async with asyncio.timeout(60):
        await until_gone(client, f"{JOBS}/a")


@pytest.mark.parametrize(
    ("status", "ends"),
    [
        (finished("1970-01-01T00:01:00Z")["status"], 62.0),
        (finished("1970-01-01T00:01:00Z", "Suspended")["status"], None),
        ({"conditions": [{"type": "Complete", "status": "False", "lastTransitionTime": "1970-01-01T00:01:00Z"}]}, None),
        (finished("soon")["status"], None),
        ({"conditions": [{"type": "Failed", "status": "True"}]}, None),
        ({}, None),
    ],
)
def test_end_of_a_job(status: dict[str, Any], ends: float | None) -> None:
    assert ends_at({"spec": {"ttlSecondsAfterFinished": 2}, "status": status}) == ends
    assert ends_at({"spec": {}, "status": status}) is None
