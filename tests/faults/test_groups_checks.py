"""The checker of shard groups finds writers that do not lead, and those that write what another group owns."""

from __future__ import annotations

import pytest

from schemas.codec import encode
from schemas.envelope import HEADER_PRODUCER
from schemas.events.lease import LeaseTaken
from schemas.keys import ObjectKey
from schemas.shard_groups import ShardGroup, group_name
from schemas.subjects import facet, lease, observed, work
from services._kit.log.stream_port import Message
from tests.faults.checker_groups import UNDER_WAY, decided_by_owners, reported_by_leaders

KEY = ObjectKey("apps", "deployments", "d", "a")
CLUSTER = "m1"
OWNER = group_name("executor", next(index for index in range(2) if ShardGroup(index, 2).owns(CLUSTER)))
OTHER = "executor-1" if OWNER == "executor" else "executor"


def taken(name: str, instance: str, seq: int, *, at: float = 0.0, groups: int = 2) -> Message:
    event = LeaseTaken(prev=0, service=name, instance=instance, groups=groups)
    return Message(lease(name), seq, at, {}, encode(event))


def written(subject: str, producer: str, seq: int, *, at: float = 0.0) -> Message:
    return Message(subject, seq, at, {HEADER_PRODUCER: producer}, b"")


def report(producer: str, at: float) -> Message:
    return written(observed(CLUSTER, KEY), producer, 1, at=at)


LEASES = [taken(OWNER, "a", 1, at=10.0), taken(OTHER, "b", 2, at=10.0), taken(OWNER, "b", 3, at=20.0)]


@pytest.mark.parametrize(
    ("producer", "at"),
    [
        (f"{OWNER}/a", 15.0),
        (f"{OWNER}/a", 20.0 + UNDER_WAY / 2),
        (f"{OWNER}/b", 20.0),
        (f"{OWNER}/b", 30.0),
        (f"{OWNER}/x", 9.0),
        ("agent-m1/agent-m1", 15.0),
    ],
    ids=["leader", "under way", "heir", "heir later", "before what is known", "no group"],
)
def test_reports_of_leaders_are_right(producer: str, at: float) -> None:
    assert reported_by_leaders(LEASES, [report(producer, at)]) == []


@pytest.mark.parametrize(
    ("producer", "at", "complaint"),
    [
        (f"{OWNER}/a", 20.0 + 2 * UNDER_WAY, "while b led"),
        (f"{OWNER}/b", 15.0, "while a led"),
        (f"{OTHER}/b", 15.0, "does not own it"),
    ],
    ids=["replaced leader", "not yet leader", "other group"],
)
def test_reports_of_others_are_found(producer: str, at: float, complaint: str) -> None:
    (found,) = reported_by_leaders(LEASES, [report(producer, at)])
    assert found.endswith(complaint)


@pytest.mark.parametrize(
    ("service", "subject", "unit"),
    [("override_renderer", work(CLUSTER, KEY), str(KEY)), ("status_aggregator", facet("rollup", KEY), KEY.namespace)],
    ids=["works by object", "rollups by namespace"],
)
def test_a_group_decides_about_its_own_units_alone(service: str, subject: str, unit: str) -> None:
    owner = next(index for index in range(2) if ShardGroup(index, 2).owns(unit))
    right, wrong = group_name(service, owner), group_name(service, 1 - owner)
    leases = [taken(right, "a", 1), taken(wrong, "b", 2)]
    assert decided_by_owners([*leases, written(subject, f"{right}/a", 3)]) == []
    (found,) = decided_by_owners([*leases, written(subject, f"{wrong}/b", 3)])
    assert "does not own it" in found


def test_an_undivided_first_group_decides_about_everything() -> None:
    subject = work(CLUSTER, KEY)
    leases = [taken("override_renderer", "a", 1, groups=1)]
    assert decided_by_owners([*leases, written(subject, "override_renderer/a", 2)]) == []
