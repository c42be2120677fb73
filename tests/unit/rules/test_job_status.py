"""Which statuses of a Job an API server refuses since Kubernetes 1.32."""

from __future__ import annotations

import pytest

from schemas.manifest import Manifest
from services._rules.kubernetes.validation.job_status import job_status

EARLY, LATE = "2026-01-05T08:00:00Z", "2026-01-05T09:00:00Z"


def ended(*kinds: str, **fields: object) -> Manifest:
    return {"startTime": EARLY, "conditions": [{"type": kind, "status": "True"} for kind in kinds], **fields}


COMPLETE = ended("SuccessCriteriaMet", "Complete", completionTime=LATE)
FAILED = ended("FailureTarget", "Failed")


@pytest.mark.parametrize(
    ("status", "fields"),
    [
        (COMPLETE, []),
        (FAILED, []),
        ({"active": 2, "ready": 1, "startTime": EARLY}, []),
        ({"active": 1, "ready": 2}, ["status.ready"]),
        (ended("Complete", completionTime=LATE), ["status.conditions"]),
        (ended("Failed"), ["status.conditions"]),
        (ended("SuccessCriteriaMet", "Complete"), ["status.completionTime"]),
        ({**COMPLETE, "active": 1}, ["status.active"]),
        ({**COMPLETE, "terminating": 1}, ["status.terminating"]),
        ({**COMPLETE, "uncountedTerminatedPods": {"failed": ["u"]}}, ["status.uncountedTerminatedPods"]),
        ({**COMPLETE, "startTime": LATE, "completionTime": EARLY}, ["status.completionTime"]),
        ({**FAILED, "startTime": None}, ["status.startTime"]),
        ({"startTime": EARLY, "completionTime": LATE}, ["status.completionTime"]),
        (ended("FailureTarget", "SuccessCriteriaMet", "Complete", completionTime=LATE), ["status.conditions"]),
    ],
)
def test_how_a_job_ends(status: Manifest, fields: list[str]) -> None:
    assert [error.field for error in job_status({"status": status}, {})] == fields


@pytest.mark.parametrize(
    ("before", "status", "field"),
    [
        ({"succeeded": 2}, {"succeeded": 1}, "status.succeeded"),
        ({"failed": 2}, {}, "status.failed"),
        ({"startTime": EARLY}, {"startTime": LATE}, "status.startTime"),
        (ended("FailureTarget"), {"startTime": EARLY}, "status.conditions"),
        (COMPLETE, {**COMPLETE, "completionTime": "2026-01-05T10:00:00Z"}, "status.completionTime"),
    ],
)
def test_what_never_changes_back(before: Manifest, status: Manifest, field: str) -> None:
    assert [error.field for error in job_status({"status": status}, {"status": before})] == [field]


def test_a_job_that_waits_may_start_again() -> None:
    waiting = {"spec": {"suspend": True}, "status": {"startTime": EARLY}}
    assert job_status({"status": {"startTime": LATE}}, waiting) == []
