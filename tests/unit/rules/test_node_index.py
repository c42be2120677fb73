"""The compact view of a member answers like complete lists of its nodes and pods, whatever happened in between."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from schemas.manifest import Manifest
from services._rules.capacity.node_estimate import finished
from services._rules.capacity.node_index import MemberRooms

NAMES = st.sampled_from(["a", "b", "c"])
PHASES = st.sampled_from(["Pending", "Running", "Succeeded", "Failed"])


def node(name: str, cpu: str, cordoned: bool) -> Manifest:
    allocatable = {"cpu": cpu, "memory": "8Gi", "pods": "5"}
    spec = {"unschedulable": cordoned, "taints": [{"key": cpu, "effect": "NoSchedule"}]}
    return {"metadata": {"name": name, "labels": {"cpu": cpu}}, "spec": spec, "status": {"allocatable": allocatable}}


def pod(name: str, on: str, cpu: str, phase: str) -> Manifest:
    requests = {"cpu": cpu, "memory": "1Gi"}
    spec = {"nodeName": on, "containers": [{"resources": {"requests": requests}}]}
    return {"metadata": {"name": name, "namespace": "n"}, "spec": spec, "status": {"phase": phase}}


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("node"), NAMES, st.sampled_from(["1", "4"]), st.booleans()),
        st.tuples(st.just("no node"), NAMES),
        st.tuples(st.just("pod"), NAMES, st.sampled_from(["a", "b", ""]), st.sampled_from(["500m", "1", "3"]), PHASES),
        st.tuples(st.just("no pod"), NAMES),
        st.tuples(st.just("listed")),
    ),
    max_size=30,
)


@given(STEPS)
def test_changes_one_by_one_end_where_lists_begin(steps: list[tuple[Any, ...]]) -> None:
    rooms = MemberRooms()
    rooms.list_nodes([])
    rooms.list_pods([])
    nodes: dict[str, Manifest] = {}
    pods: dict[str, Manifest] = {}
    for step in steps:
        match step:
            case ("node", name, cpu, cordoned):
                nodes[name] = node(name, cpu, cordoned)
                rooms.put_node(nodes[name])
            case ("no node", name):
                nodes.pop(name, None)
                rooms.drop_node(name)
            case ("pod", name, on, cpu, phase):
                pods[name] = pod(name, on, cpu, phase)
                rooms.put_pod(pods[name])
            case ("no pod", name):
                pods.pop(name, None)
                rooms.drop_pod("n", name)
            case _:
                rooms.list_nodes(nodes.values())
                rooms.list_pods(pods.values())
        wanted = MemberRooms()
        wanted.list_nodes(nodes.values())
        wanted.list_pods(item for item in pods.values() if not finished(item))
        assert sorted(map(_shown, rooms.nodes())) == sorted(map(_shown, wanted.nodes()))


def _shown(item: Any) -> tuple[Any, ...]:
    return (
        item.name,
        sorted(item.labels.items()),
        str(item.taints),
        item.unschedulable,
        sorted(item.free.items()),
        item.pods,
    )


def test_nodes_stay_in_listed_order_when_their_pods_change() -> None:
    names = [f"n{number}" for number in (7, 3, 9, 1, 5, 2, 8)]
    rooms = MemberRooms()
    rooms.list_nodes([node(name, "4", False) for name in names])
    rooms.list_pods([])
    assert [item.name for item in rooms.nodes()] == names
    for name in names[:3]:
        rooms.put_pod(pod("p", name, "1", "Running"))
        assert [item.name for item in rooms.nodes()] == names


def test_an_unchanged_object_leaves_the_version_as_it_is() -> None:
    rooms = MemberRooms()
    rooms.list_nodes([node("a", "4", False)])
    rooms.list_pods([pod("p", "a", "1", "Running")])
    before = rooms.version
    rooms.put_node(node("a", "4", False))
    rooms.put_pod(pod("p", "a", "1", "Running"))
    rooms.put_pod(pod("waiting", "", "1", "Pending"))
    rooms.drop_pod("n", "unknown")
    assert rooms.version == before
    rooms.put_pod(pod("p", "a", "1", "Succeeded"))
    assert rooms.version > before


def test_unreadable_pod_requests_nothing_but_takes_a_slot() -> None:
    rooms = MemberRooms()
    rooms.list_nodes([node("a", "4", False), node("b", "broken", False)])
    rooms.list_pods([pod("p", "a", "broken", "Running")])
    made = {item.name: item for item in rooms.nodes()}
    assert made["a"].pods == 4
    assert made["a"].free["cpu"] == 4000
    assert made["b"].unschedulable
    assert made["b"].pods == 0


def test_a_view_is_complete_after_both_lists() -> None:
    rooms = MemberRooms()
    rooms.list_pods([])
    rooms.list_pods([])
    assert not rooms.complete
    rooms.list_nodes([])
    assert rooms.complete
