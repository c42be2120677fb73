"""The checker of autoscaling finds steps that were lost or made twice, and runs that were."""

from __future__ import annotations

import pytest
from msgspec import Raw

from schemas.events.autoscaling import AutoscalingEvent, ReplicasRecommended, RuleProgress, RuleRun, ScheduleAdvanced
from schemas.keys import PolicyKey
from tests.faults.checker_autoscaling import changes, runs, steps

KEY = PolicyKey("FederatedHPA", "default", "web")
SCHEDULE = PolicyKey("CronFederatedHPA", "default", "web")


def fact(current: int, desired: int, write: str = "") -> ReplicasRecommended:
    return ReplicasRecommended(
        key=KEY, uid="u", spec=Raw(b"{}"), current=current, desired=desired, recommended=desired, write=write
    )


def step(current: int, desired: int, how: str = "done") -> list[ReplicasRecommended]:
    return [fact(current, desired, "asked"), fact(current, desired, how)]


def test_steps_that_follow_one_another_are_right() -> None:
    assert steps([fact(1, 1), *step(1, 3), *step(3, 2, "refused"), *step(3, 2)], 2, 2) == []


@pytest.mark.parametrize(
    ("events", "writes", "replicas", "words"),
    [
        ([fact(1, 3, "asked"), *step(1, 3)], 1, 3, "before it is known how it went"),
        ([fact(1, 3, "asked"), fact(3, 3)], 1, 3, "before it is known how it went"),
        ([*step(1, 3), fact(1, 3, "done")], 2, 3, "was not asked for"),
        ([*step(1, 3), *step(1, 2)], 2, 2, "begins with other replicas"),
        ([*step(1, 3), fact(3, 4, "asked")], 1, 4, "how it went is not recorded"),
        (step(1, 3), 2, 3, "the target was written 2 times"),
        (step(1, 3), 0, 3, "the target was written 0 times"),
        (step(1, 3), 1, 2, "the target has 2 replicas"),
    ],
)
def test_steps_that_are_not_right_are_found(
    events: list[AutoscalingEvent], writes: int, replicas: int, words: str
) -> None:
    (found,) = [complaint for complaint in steps(events, writes, replicas) if words in complaint]
    assert "web" in found or "recorded as done" in found


def progress(last: float, *ended: float, failed: tuple[float, ...] = (), running: bool = False) -> ScheduleAdvanced:
    done = tuple(RuleRun(at, at + 1, replicas=5) for at in ended)
    gone = tuple(RuleRun(at, at + 1, problem="no answer") for at in failed)
    rule = RuleProgress("up", Raw(b"{}"), last=last, running=running, successes=done, failures=gone)
    return ScheduleAdvanced(key=SCHEDULE, uid="u", target=Raw(b"{}"), rules=(rule,))


def test_runs_that_end_once_are_counted() -> None:
    facts = [
        progress(0.0),
        progress(60.0, running=True),
        progress(60.0, 60.0),
        progress(120.0, 60.0, running=True),
        progress(120.0, 60.0, failed=(120.0,)),
        progress(180.0, 60.0, failed=(120.0,), running=True),
        progress(180.0, 180.0, 60.0, failed=(120.0,)),
    ]
    assert runs(facts) == (2, 1, [])


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ([progress(60.0, running=True)], "never ended"),
        ([progress(60.0, 60.0), progress(60.0, 60.0, failed=(60.0,))], "has ended twice"),
        ([progress(120.0, 120.0), progress(60.0, 60.0, 120.0)], "after it ran for"),
        ([progress(0.0, 60.0)], "was not on the log"),
    ],
)
def test_runs_that_are_not_right_are_found(facts: list[AutoscalingEvent], words: str) -> None:
    assert any(words in complaint for complaint in runs(facts)[2])


def test_changes_are_those_of_one_user_and_object() -> None:
    record = {"user": "a", "namespace": "n", "name": "web", "subresource": "scale", "changed": True}
    others = [{**record, key: "x"} for key in ("user", "namespace", "name", "subresource")]
    assert changes([record, {**record, "changed": False}, *others], "a", "n", "web", "scale") == 1
