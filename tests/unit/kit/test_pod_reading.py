"""What is read of nodes and pods counts as much room as they do whole."""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from services._kit.base.answer_limits import DEFAULTS
from services._kit.kube.api import BadAnswer
from services._kit.members.pod_fields import CompactObject, Nodes, PodsOnNodes
from services._rules.capacity.node_estimate import finished, pod_request
from services._rules.capacity.node_index import MemberRooms
from services._rules.capacity.resource_summary import PodSums, ResourceSummary, node_summary
from services._rules.capacity.unschedulable_pods import MemberWaiting
from tests.support.deep_size import deep_size


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


LABELS = {"a": "x" * 1000}
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
    kept = PodsOnNodes().read(Raw(msgspec.json.encode(whole)), "v1", "Pod")
    assert PodsOnNodes().version(kept) == "7"
    found = kept.manifest
    assert pod_request(found) == pod_request(whole)
    assert finished(found) == finished(whole)
    rooms, as_before = MemberRooms(), MemberRooms()
    rooms.list_pods([found])
    as_before.list_pods([whole])
    assert rooms.size == as_before.size


def test_unscheduled_pod_has_its_time_and_its_owner() -> None:
    waiting = MemberWaiting()
    waiting.put_pod(PodsOnNodes().read(Raw(msgspec.json.encode(PODS[-1])), "v1", "Pod").manifest)
    assert waiting.count("a", "owner", {"app": "x"}, 4e9) == 1


def test_of_a_pod_on_a_node_only_that_is_kept() -> None:
    found = PodsOnNodes().read(Raw(msgspec.json.encode(PODS[0])), "v1", "Pod").manifest
    assert sorted(found["metadata"]) == ["name", "namespace", "resourceVersion"]
    assert sorted(found["spec"]) == ["containers", "nodeName"]


def resource_summary(nodes: list[dict[str, Any]], pods: list[dict[str, Any]]) -> ResourceSummary:
    sums = PodSums()
    for each in pods:
        sums.take(each)
    return sums.summary(nodes)


def test_a_list_sums_up_as_before() -> None:
    reading = PodsOnNodes()
    reading.begin()
    pods = [reading.read(Raw(msgspec.json.encode(whole)), "v1", "Pod").manifest for whole in PODS]
    assert resource_summary([], pods) == resource_summary([], PODS)


def test_pods_that_ask_for_the_same_share_what_says_so() -> None:
    reading = PodsOnNodes()
    first, second = (reading.read(Raw(msgspec.json.encode(pod(name))), "v1", "Pod") for name in ("a", "b"))
    assert first.shared is second.shared
    assert first.manifest["metadata"] != second.manifest["metadata"]


@pytest.mark.parametrize("node", ["n1", None])
def test_pods_that_all_differ_are_kept_up_to_a_limit(node: str | None) -> None:
    reading = PodsOnNodes()
    reading.begin()
    taken = 0

    def take_all() -> None:
        nonlocal taken
        for number in range(200_000):
            requests = [{"resources": {"requests": {"cpu": number}}}] * 20
            whole = {**pod("x", node, containers=requests), "metadata": {"name": f"p{number}", "labels": LABELS}}
            reading.read(Raw(msgspec.json.encode(whole)), "v1", "Pod")
            taken += 1

    with pytest.raises(BadAnswer, match="bytes"):
        take_all()
    assert 1000 < taken < 50_000


@pytest.mark.parametrize("reading", [Nodes(), PodsOnNodes()], ids=["nodes", "pods"])
def test_small_objects_take_no_more_memory_than_the_limit(reading: Nodes | PodsOnNodes) -> None:
    kept: list[CompactObject] = []
    reading.begin()
    with contextlib.suppress(BadAnswer):
        for number in range(50_000):
            whole = {"metadata": {"name": f"invented-{number}", "resourceVersion": str(number), "labels": {"a": "b"}}}
            kept.append(reading.read(Raw(msgspec.json.encode(whole)), "v1", ""))
    assert len(kept) > 10_000
    assert deep_size(kept) < DEFAULTS.list_kept_bytes


@pytest.mark.parametrize(
    "wrong",
    [
        b"7",
        b"[]",
        b"{}",
        b'{"metadata":null}',
        b'{"metadata":{}}',
        b'{"metadata":{"name":7}}',
        b'{"metadata":{"name":"a"},"spec":[]}',
        b'{"metadata":{"name":"a"},"spec":{"containers":[1]}}',
        b'{"metadata":{"name":"a"},"status":{"conditions":[null]}}',
        b'{"metadata":{"name":"a"},"spec":{"containers":[{"resources":{"requests":{"a":'
        + b"[" * 9000
        + b"]" * 9000
        + b"}}}]}}",
    ],
)
def test_what_is_no_pod_is_a_bad_answer(wrong: bytes) -> None:
    with pytest.raises(BadAnswer):
        PodsOnNodes().read(Raw(wrong), "v1", "Pod")


def test_a_node_offers_as_before() -> None:
    whole = {
        "metadata": {"name": "n1", "labels": {"zone": "a"}, "annotations": {"x": "y"}},
        "spec": {"unschedulable": True, "podCIDR": "10.0.0.0/8", "taints": [{"key": "k", "effect": "NoSchedule"}]},
        "status": {
            "allocatable": {"cpu": "2", "pods": 110},
            "conditions": [{"type": "Ready", "status": "True"}],
            "images": [{"names": ["i"]}],
        },
    }
    found = Nodes().read(Raw(msgspec.json.encode(whole)), "v1", "Node").manifest
    assert "images" not in found["status"]
    assert node_summary([found]) == node_summary([whole])
    assert resource_summary([found], []) == resource_summary([whole], [])
    rooms, as_before = MemberRooms(), MemberRooms()
    for each, node in ((rooms, found), (as_before, whole)):
        each.list_nodes([node])
        each.list_pods([])
    assert msgspec.to_builtins(rooms.nodes()) == msgspec.to_builtins(as_before.nodes())
