"""What is read of pods counts as much room as the whole pods do."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import Raw

from services._kit.kube_api import decode
from services._kit.pod_reading import PodsOnNodes, pods_of
from services._rules.estimation_nodes import finished, pod_request
from services._rules.estimation_rooms import MemberRooms
from services._rules.estimation_summary import resource_summary
from services._rules.estimation_waiting import MemberWaiting


def pod(name: str, node: str | None = "n1", phase: str = "Running", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "a",
            "resourceVersion": "7",
            "labels": {"app": "x"},
            "ownerReferences": [{"uid": "owner", "controller": True, "kind": "ReplicaSet", "name": "rs"}],
            "managedFields": [{"manager": "kubelet"}],
        },
        "spec": {
            **({"nodeName": node} if node is not None else {}),
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m", "memory": "1Mi"}}}],
            **spec,
        },
        "status": {
            "phase": phase,
            "conditions": [
                {
                    "type": "PodScheduled",
                    "status": "False" if node is None else "True",
                    "reason": "Unschedulable",
                    "lastTransitionTime": "2026-11-21T18:00:00Z",
                }
            ],
        },
    }


INIT = [{"name": "i", "resources": {"requests": {"cpu": 2}}}, {"name": "j"}]
PODS = [
    pod("plain"),
    pod("init", initContainers=INIT, overhead={"cpu": "5m"}),
    pod("bare", containers=[{"name": "c"}, {"name": "d", "resources": {}}, {"name": "e", "resources": None}]),
    pod("none", containers=None),
    pod("done", phase="Succeeded"),
    pod("waits", None, "Pending"),
]


@pytest.mark.parametrize("whole", PODS, ids=lambda whole: whole["metadata"]["name"])
def test_a_pod_counts_as_before(whole: dict[str, Any]) -> None:
    found = PodsOnNodes().read(Raw(msgspec.json.encode(whole)), "v1", "Pod")
    assert pod_request(found) == pod_request(whole)
    assert finished(found) == finished(whole)
    assert PodsOnNodes().version(found) == "7"
    rooms, as_before = MemberRooms(), MemberRooms()
    rooms.list_pods([found])
    as_before.list_pods([whole])
    assert rooms.size == as_before.size


def test_a_pod_that_waits_for_a_node_says_since_when_and_whose_it_is() -> None:
    waiting = MemberWaiting()
    waiting.put_pod(PodsOnNodes().read(Raw(msgspec.json.encode(PODS[-1])), "v1", "Pod"))
    assert waiting.count("a", "owner", {"app": "x"}, 4e9) == 1


def test_of_a_pod_on_a_node_only_that_is_kept() -> None:
    found = PodsOnNodes().read(Raw(msgspec.json.encode(PODS[0])), "v1", "Pod")
    assert sorted(found["metadata"]) == ["name", "namespace", "resourceVersion"]
    assert sorted(found["spec"]) == ["containers", "nodeName"]


def test_a_list_sums_up_as_before_and_says_where_it_goes_on() -> None:
    page = msgspec.json.encode({"kind": "PodList", "metadata": {"continue": "next"}, "items": PODS})
    pods, following = pods_of(page)
    assert following == "next"
    assert resource_summary([], pods) == resource_summary([], decode(page)["items"])


@pytest.mark.parametrize("page", [b"{}", b'{"items":null}', b'{"items":[],"metadata":{}}'])
def test_a_list_may_be_empty(page: bytes) -> None:
    assert pods_of(page) == ([], "")
