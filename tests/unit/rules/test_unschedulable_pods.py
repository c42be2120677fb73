"""Which pods count as unschedulable for a Deployment: of its present template, controlled, waiting long enough."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.manifest import Manifest
from services._kit.members.unschedulable import NotCounted, unschedulable_replicas
from services._rules.capacity.unschedulable_pods import MemberWaiting, newest_replica_set

SINCE = 1_767_225_600.0  # 2026-01-01T00:00:00Z


def owner(uid: str, *, controller: bool = True) -> Manifest:
    return {"uid": uid, "controller": controller, "kind": "Any", "name": uid}


def pod(name: str, uid: str = "rs", *, node: str = "", app: str = "web", **condition: Any) -> Manifest:
    found = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        **condition,
    }
    metadata = {"name": name, "namespace": "n", "labels": {"app": app}, "ownerReferences": [owner(uid)]}
    return {"metadata": metadata, "spec": {"nodeName": node}, "status": {"conditions": [found]}}


def counted(waiting: MemberWaiting, before: float = SINCE + 60) -> int:
    return waiting.count("n", "rs", {"app": "web"}, before)


def test_unschedulable_pods_count_after_the_threshold() -> None:
    waiting = MemberWaiting()
    waiting.list_pods(
        [
            pod("waits"),
            pod("runs", node="a"),
            pod("gated", reason="SchedulingGated"),
            pod("placed", status="True", reason=""),
            pod("timeless", lastTransitionTime="some day"),
            pod("other", "another"),
            pod("foreign", app="db"),
        ]
    )
    assert counted(waiting) == 1
    assert counted(waiting, SINCE) == 0


def test_scheduled_or_deleted_pod_is_not_counted() -> None:
    waiting = MemberWaiting()
    waiting.list_pods([pod("a"), pod("b"), pod("c")])
    waiting.put_pod(pod("a", node="x"))
    waiting.drop_pod("n", "b")
    assert counted(waiting) == 1
    waiting.list_pods([])
    assert len(waiting) == 0


def replica_set(name: str, image: str, created: str = "", uid: str = "d", number: str = "1") -> Manifest:
    labels = {"app": "web", "pod-template-hash": number}
    return {
        "metadata": {"name": name, "creationTimestamp": created, "ownerReferences": [owner(uid)]},
        "spec": {"template": {"metadata": {"labels": labels}, "spec": {"image": image}}},
    }


DEPLOYMENT: Manifest = {
    "metadata": {"uid": "d"},
    "spec": {"template": {"metadata": {"labels": {"app": "web"}, "creationTimestamp": None}, "spec": {"image": "new"}}},
}


def test_newest_replica_set_is_oldest_of_the_present_template() -> None:
    sets = [
        replica_set("old", "old", "2026-01-01"),
        replica_set("second", "new", "2026-01-03", number="2"),
        replica_set("first", "new", "2026-01-02", number="3"),
        replica_set("foreign", "new", "2026-01-01", uid="other"),
    ]
    newest = newest_replica_set(DEPLOYMENT, sets)
    assert newest is not None
    assert newest["metadata"]["name"] == "first"
    assert newest_replica_set(DEPLOYMENT, sets[:1]) is None


async def test_unschedulable_replicas_of_other_kinds_are_refused() -> None:
    client: Any = None
    workload = {"kind": "StatefulSet", "namespace": "n", "name": "db"}
    with pytest.raises(NotCounted, match=r"kind\(StatefulSet\) of workload\(n/db\) is not supported"):
        await unschedulable_replicas(client, MemberWaiting(), workload, 60.0, SINCE)
    web = {"kind": "Deployment", "namespace": "n", "name": "web"}
    assert await unschedulable_replicas(client, MemberWaiting(), web, -1.0, SINCE) == 0
