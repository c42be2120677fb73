"""Estimates of what fits, example by example (reference 02 §10.7, §10.8)."""

from typing import Any

import pytest

from schemas.manifest import Manifest
from services._rules.capacity import general_estimate as estimation
from services._rules.capacity import node_estimate as estimation_nodes
from services._rules.capacity import quota_estimate as estimation_quota
from services._rules.capacity import resource_summary as estimation_summary
from services._rules.capacity.general_estimate import Assumed, component_of, demand_of
from services._rules.capacity.node_index import MemberRooms


def nodes_of(nodes: list[Manifest], pods: list[Manifest]) -> list[estimation_nodes.Node]:
    rooms = MemberRooms()
    rooms.list_nodes(nodes)
    rooms.list_pods(pods)
    return rooms.nodes()


# Default grades: lower bounds of cpu and memory.
GRADES = [
    ("0", "0"),
    ("1", "4Gi"),
    ("2", "16Gi"),
    ("4", "32Gi"),
    ("8", "64Gi"),
    ("16", "128Gi"),
    ("32", "256Gi"),
    ("64", "512Gi"),
    ("128", "1Ti"),
]
MODELS = [
    {"grade": grade, "ranges": [{"name": "cpu", "min": cpu}, {"name": "memory", "min": memory}]}
    for grade, (cpu, memory) in enumerate(GRADES)
]


def cluster(
    allocatable: Manifest,
    allocated: Manifest | None = None,
    allocating: Manifest | None = None,
    counts: dict[int, int] | None = None,
    models: list[Manifest] | None = None,
) -> estimation.Capacity:
    summary: Manifest = {"allocatable": allocatable, "allocated": allocated, "allocating": allocating}
    if counts:
        summary["allocatableModelings"] = [{"grade": grade, "count": count} for grade, count in counts.items()]
    return estimation.capacity_of({"spec": {"resourceModels": models}, "status": {"resourceSummary": summary}})


def test_cluster_without_a_summary_has_no_capacity() -> None:
    assert estimation.max_replicas(estimation.capacity_of({}), None) == 0
    assert estimation.max_component_sets(estimation.capacity_of({}), ()) == 0


@pytest.mark.parametrize(
    ("allocatable", "allocated", "allocating", "request_", "replicas"),
    [
        ({"pods": 110}, {"pods": 10}, {"pods": 5}, None, 95),
        ({"pods": 110, "cpu": 8}, {"cpu": 2}, {"cpu": 1}, {"cpu": "500m"}, 10),
        ({"pods": 110, "cpu": "500m"}, {}, {}, {"cpu": "300m"}, 1),
        ({"pods": 110, "memory": "8Gi"}, {"memory": "500Mi"}, {}, {"memory": "1Gi"}, 7),
        ({"pods": 110, "cpu": 8}, {}, {}, {"nvidia.com/gpu": 1}, 0),
        ({"pods": 7}, {}, {}, {"cpu": 0, "memory": "0"}, 7),
        ({"pods": 10}, {"pods": 8}, {"pods": 5}, None, 0),
        ({"pods": 10, "cpu": "broken"}, {}, {}, {"cpu": 1}, 0),
    ],
)
def test_estimate_by_summary(
    allocatable: Manifest, allocated: Manifest, allocating: Manifest, request_: Manifest | None, replicas: int
) -> None:
    demand = None if request_ is None else demand_of(request_)
    assert estimation.max_replicas(cluster(allocatable, allocated, allocating), demand) == replicas


AMPLE = {"pods": 1000, "cpu": 22, "memory": "4Ti", "nvidia.com/gpu": 9}


@pytest.mark.parametrize(
    ("counts", "request_", "replicas"),
    [
        ({0: 5, 1: 1, 2: 2, 5: 1}, {"cpu": 1, "memory": "4Gi"}, 21),
        ({0: 5, 1: 1, 2: 2, 5: 1}, {"cpu": 3}, 5),
        ({0: 5, 1: 1, 2: 2, 5: 1}, {"nvidia.com/gpu": 1}, 0),
        ({0: 1, 1: 1}, {}, 220),
        ({1: 2}, {"cpu": "1m"}, 220),
    ],
)
def test_estimate_by_resource_models(counts: dict[int, int], request_: Manifest, replicas: int) -> None:
    assert estimation.max_replicas(cluster(AMPLE, counts=counts, models=MODELS), demand_of(request_)) == replicas


def test_models_that_cannot_be_used_leave_the_summary() -> None:
    assert estimation.max_replicas(cluster(AMPLE, counts={1: 2}), demand_of({"cpu": 1})) == 22
    capacity = cluster(AMPLE, counts={1: 2}, models=MODELS)
    assert estimation.max_replicas(capacity, demand_of({"cpu": 1}), models=False) == 22
    assert estimation.max_replicas(cluster(AMPLE, counts={1: -2}, models=MODELS), demand_of({"cpu": 1})) == 22


def component(name: str, replicas: int, **request_: Any) -> estimation.Component:
    requirements = {"resourceRequest": {key.replace("_", "-"): value for key, value in request_.items()}}
    return component_of({"name": name, "replicas": replicas, "replicaRequirements": requirements})


FLINK = (component("jm", 1, cpu="1", memory="1Gi"), component("tm", 2, cpu="1500m", memory="2Gi"))


@pytest.mark.parametrize(
    ("allocatable", "sets"),
    [
        ({"cpu": 10, "memory": "8Gi", "pods": 100}, 1),
        ({"cpu": 10, "memory": "16Gi", "pods": 100}, 2),
        ({"cpu": 100, "memory": "160Gi", "pods": 5}, 1),
    ],
)
def test_component_sets_by_summary(allocatable: Manifest, sets: int) -> None:
    assert estimation.max_component_sets(cluster(allocatable), FLINK) == sets


@pytest.mark.parametrize(("counts", "sets"), [({3: 2}, 2), ({2: 2}, 0), ({2: 3}, 1)])
def test_component_sets_by_models(counts: dict[int, int], sets: int) -> None:
    ample = {"cpu": 100, "memory": "1Ti", "pods": 1000}
    assert estimation.max_component_sets(cluster(ample, counts=counts, models=MODELS), FLINK) == sets


def test_assumed_workloads_reduce_the_estimate() -> None:
    capacity = cluster({"pods": 10, "cpu": 10})
    flying = [Assumed("ns", (component("a", 3, cpu="2"),))]
    assert estimation.max_replicas(capacity, demand_of({"cpu": 1}), assumed=flying) == 4
    assert estimation.max_replicas(capacity, None, assumed=flying) == 7
    assert estimation.max_replicas(capacity, demand_of({"cpu": 1})) == 10


def node(name: str, pods: int, cpu: int, memory: int, **parts: Any) -> Manifest:
    return {
        "metadata": {"name": name, "labels": parts.pop("labels", {})},
        "spec": parts,
        "status": {"allocatable": {"cpu": cpu, "memory": memory, "pods": pods}},
    }


NODES = [node("n1", 8, 2, 6, labels={"a": "1"}), node("n2", 9, 3, 5, labels={"a": "3"}), node("n3", 11, 8, 16)]
SMALL = demand_of({"cpu": 1, "memory": 2})


def expression(operator: str, *values: str) -> Manifest:
    terms = [{"matchExpressions": [{"key": "a", "operator": operator, "values": list(values)}]}]
    return {"hardNodeAffinity": {"nodeSelectorTerms": terms}}


@pytest.mark.parametrize(
    ("claim", "replicas"),
    [
        (None, 12),
        ({"nodeSelector": {"a": "3"}}, 2),
        (expression("Gt", "0"), 4),
        (expression("In"), 0),
        ({"hardNodeAffinity": {"nodeSelectorTerms": [{}]}}, 0),
        (
            {
                "hardNodeAffinity": {
                    "nodeSelectorTerms": [
                        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n3"]}]}
                    ]
                }
            },
            8,
        ),
    ],
)
def test_estimate_on_nodes(claim: Manifest | None, replicas: int) -> None:
    nodes = nodes_of(NODES, [])
    assert estimation_nodes.estimate_replicas(nodes, SMALL, claim).value == replicas


def test_taints_and_cordons_keep_replicas_off() -> None:
    taint = {"key": "k", "effect": "NoSchedule"}
    nodes = [{**item, "spec": {"taints": [{**taint, "value": item["metadata"]["name"]}]}} for item in NODES[:2]]
    claim = {"tolerations": [{"key": "k", "value": "n1"}]}
    found = nodes_of([*nodes, NODES[2]], [])
    assert estimation_nodes.estimate_replicas(found, SMALL, claim).value == 10
    cordoned = nodes_of([{**NODES[2], "spec": {"unschedulable": True}}], [])
    assert estimation_nodes.estimate_replicas(cordoned, SMALL).value == 0
    everything = {"tolerations": [{"operator": "Exists"}]}
    assert estimation_nodes.estimate_replicas(cordoned, SMALL, everything).value == 8


def pod(node_name: str, cpu: str, phase: str = "Running", init: str = "0") -> Manifest:
    return {
        "metadata": {"name": f"{node_name}-{cpu}"},
        "spec": {
            "nodeName": node_name,
            "containers": [{"resources": {"requests": {"cpu": cpu}}}],
            "initContainers": [{"resources": {"requests": {"cpu": init}}}],
        },
        "status": {"phase": phase},
    }


def test_pods_hold_the_greater_of_containers_and_init_containers() -> None:
    nodes = nodes_of([node("n", 10, 8, 0)], [pod("n", "1", init="3"), pod("n", "2", init="1")])
    assert nodes[0].free["cpu"] == 3000
    assert nodes[0].pods == 8


def test_sets_on_nodes() -> None:
    nodes = nodes_of([node("n1", 9, 4, 99), node("n2", 9, 2, 99)], [])
    parts = (component("a", 1, cpu="1"), component("b", 2, cpu="1"))
    assert estimation_nodes.estimate_components(nodes, parts).value == 2
    assert estimation_nodes.estimate_components(nodes, ()).value == estimation_nodes.UNLIMITED
    none = estimation_nodes.estimate_components(nodes, (component("a", 9, cpu="1"),))
    assert none == estimation_nodes.Estimate(0, unschedulable=True)
    flying = [Assumed("ns", (component("x", 3, cpu="1"),))]
    assert estimation_nodes.estimate_components(nodes, parts, flying).value == 1


def quota(hard: Manifest, used: Manifest, **spec: Any) -> Manifest:
    return {"metadata": {"namespace": "ns"}, "spec": spec, "status": {"hard": hard, "used": used}}


def by_class(operator: str, *values: str) -> Manifest:
    expression_ = {"scopeName": "PriorityClass", "operator": operator, "values": list(values)}
    return {"scopeSelector": {"matchExpressions": [expression_]}}


FREE = ({"cpu": 10}, {"cpu": 2})
THREE = ({"cpu": 4}, {"cpu": 1})
UNLIMITED = estimation_nodes.UNLIMITED


@pytest.mark.parametrize(
    ("quotas", "request_", "priority", "value"),
    [
        ([quota(*FREE)], {"cpu": "500m"}, "", 16),
        ([quota({"limits.cpu": 1, "pods": 1}, {"limits.cpu": 1, "pods": 1})], {"cpu": 1}, "", UNLIMITED),
        ([quota({"cpu": 1}, {})], {"cpu": 1}, "", UNLIMITED),
        ([quota(*FREE, scopes=["BestEffort"])], {"cpu": 1}, "", UNLIMITED),
        ([quota(*FREE), quota({"memory": "4Gi"}, {"memory": "1Gi"})], {"cpu": 1, "memory": "1Gi"}, "", 3),
        ([quota({"cpu": 2}, {"cpu": 2})], {"cpu": 1}, "", 0),
        ([quota({"cpu": 2}, {"cpu": 3})], {"cpu": 1}, "", -1),
        ([quota(*THREE, **by_class("In", "high"))], {"cpu": 1}, "high", 3),
        ([quota(*THREE, **by_class("In", "high"))], {"cpu": 1}, "low", UNLIMITED),
        ([quota(*THREE, **by_class("NotIn", "high"))], {"cpu": 1}, "", 3),
        ([quota(*THREE, **by_class("DoesNotExist"))], {"cpu": 1}, "", 3),
        ([quota(*THREE, **by_class("Exists"))], {"cpu": 1}, "", UNLIMITED),
        ([quota(*THREE, scopes=["BestEffort"], **by_class("In", "high"))], {"cpu": 1}, "high", 3),
        ([quota({"cpu": 3, "requests.cpu": 9}, {"cpu": 0, "requests.cpu": 0})], {"cpu": 1}, "", 9),
    ],
)
def test_estimate_in_resource_quotas(quotas: list[Manifest], request_: Manifest, priority: str, value: int) -> None:
    found = estimation_quota.estimate_replicas(quotas, "ns", demand_of(request_), priority)
    assert found.value == value
    assert found.unschedulable is (value == 0)
    assert estimation_quota.estimate_replicas(quotas, "other", demand_of(request_), priority).value == UNLIMITED


def test_quotas_count_workloads_in_flight_of_the_same_namespace() -> None:
    demand = demand_of({"cpu": 1})
    flying = Assumed("ns", (component("x", 2, cpu="1"),))
    elsewhere = Assumed("other", (component("x", 2, cpu="1"),))
    assert estimation_quota.estimate_replicas([quota(*FREE)], "ns", demand, "", [flying, elsewhere]).value == 6
    too_much = Assumed("ns", (component("x", 9, cpu="1"),))
    assert estimation_quota.estimate_replicas([quota(*FREE)], "ns", demand, "", [too_much]).value == 0


def test_nodes_are_graded_by_their_scarcest_resource() -> None:
    nodes = [
        {"metadata": {"name": name}, "status": {"allocatable": {"cpu": cpu, "memory": memory, "pods": 9}}}
        for name, cpu, memory in [
            ("a", "500m", "2Gi"),
            ("b", "1500m", "10Gi"),
            ("c", "4", "10Gi"),
            ("d", "1", "4Gi"),
            ("e", "16", "200Gi"),
        ]
    ]
    nodes.append({"metadata": {"name": "f"}, "status": {"allocatable": {"cpu": 64, "pods": 9}}})
    counts = dict(estimation_summary.allocatable_modelings(MODELS, nodes, {}) or [])
    assert {grade: count for grade, count in counts.items() if count} == {0: 2, 1: 3, 5: 1}


def summed(pods: list[Manifest]) -> estimation_summary.PodSums:
    sums = estimation_summary.PodSums(by_node=True)
    for each in pods:
        sums.take(each)
    return sums


def test_grading_stops_at_a_node_without_pod_slots() -> None:
    nodes = [
        {"metadata": {"name": name}, "status": {"allocatable": {"cpu": cpu, "memory": memory, "pods": pods}}}
        for name, cpu, memory, pods in [("a", 4, "16Gi", 2), ("b", 4, "16Gi", 9), ("c", 8, "32Gi", 9)]
    ]
    full = [pod("a", "0"), pod("a", "0")]
    assert not any(
        count for _, count in estimation_summary.allocatable_modelings(MODELS, nodes, summed(full).by_node) or []
    )
    one_done = [pod("a", "0"), pod("a", "0", phase="Succeeded")]
    counts = dict(estimation_summary.allocatable_modelings(MODELS, nodes, summed(one_done).by_node) or [])
    assert {grade: count for grade, count in counts.items() if count} == {2: 2, 3: 1}


def test_summary_counts_the_largest_init_container() -> None:
    nodes = [node("n", 10, 8, 100)]
    found = summed([pod("n", "1", init="3"), pod("n", "1", init="3"), pod("", "2")]).summary(nodes)
    assert {name: str(amount) for name, amount in found.allocated.items()} == {"cpu": "4", "pods": "2"}
    assert {name: str(amount) for name, amount in found.allocating.items()} == {"cpu": "2", "pods": "1"}
    assert {name: str(amount) for name, amount in found.allocatable.items()} == {
        "cpu": "8",
        "memory": "100",
        "pods": "10",
    }
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    assert estimation_summary.node_summary([ready, {}]) == estimation_summary.NodeSummary(2, 1)
