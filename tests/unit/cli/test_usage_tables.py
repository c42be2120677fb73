"""What `top` says of pods and nodes: sums, shares, orders, and members without metrics."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from services._kit.kube.client import ApiError, KubeClient, Unreachable
from services.cli.listing import top
from services.cli.listing.listing_options import PodTopQuery, TopQuery
from services.cli.listing.usage_tables import in_order, node_table, pod_table, usage_of_node, usage_of_pod
from services.cli.members.clusters import Endpoint

METRICS = {
    "metadata": {"name": "web", "namespace": "shop"},
    "containers": [
        {"name": "app", "usage": {"cpu": "100500001n", "memory": "20Mi"}},
        {"name": "log", "usage": {"cpu": "5m", "memory": "1536Ki"}},
    ],
}
POD_METRICS = "/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods"
PODS = "/api/v1/namespaces/shop/pods"


def test_pods_are_summed_or_shown_by_container() -> None:
    whole = usage_of_pod("m1", METRICS, containers=False)
    look = {"namespaces": True, "total": False, "no_headers": False}
    assert pod_table(whole, containers=False, **look).split("\n")[:2] == [
        "NAMESPACE   NAME   CLUSTER   CPU(cores)   MEMORY(bytes)",
        "shop        web    m1        106m         21Mi",
    ]
    each = pod_table(usage_of_pod("m1", METRICS, containers=True), containers=True, **look)
    assert [row.split() for row in each.splitlines()] == [
        ["NAMESPACE", "POD", "CLUSTER", "NAME", "CPU(cores)", "MEMORY(bytes)"],
        ["shop", "web", "m1", "app", "101m", "20Mi"],
        ["shop", "web", "m1", "log", "5m", "1Mi"],
    ]


def test_the_sum_stands_below_its_columns() -> None:
    found = usage_of_pod("m1", METRICS, containers=False) * 2
    lines = pod_table(found, namespaces=False, containers=False, total=True, no_headers=True).splitlines()
    assert [line.split() for line in lines[-2:]] == [["________", "________"], ["212m", "43Mi"]]
    assert lines[-1].index("212m") == lines[0].index("106m")


def test_nodes_are_measured_by_what_they_offer() -> None:
    offered = {"allocatable": {"cpu": "2", "memory": "1Gi"}, "capacity": {"cpu": "4", "memory": "2Gi"}}
    node = {"metadata": {"name": "n1"}, "status": offered}
    metrics = {"usage": {"cpu": "500m", "memory": "512Mi"}}
    for capacity, shares in ((False, ["25%", "50%"]), (True, ["12%", "25%"])):
        usage = usage_of_node("m1", node, metrics, capacity=capacity)
        assert node_table([usage], no_headers=True).split()[3::2] == shares
    unknown = usage_of_node("m1", node, None, capacity=False)
    assert node_table([unknown], no_headers=True).split() == ["n1", "m1", *["<unknown>"] * 4]


def test_orders_are_by_place_or_by_the_largest() -> None:
    small = usage_of_pod("m2", METRICS, containers=True)
    found = [*small, *usage_of_pod("m1", METRICS, containers=False)]
    assert [usage.cluster for usage in in_order(found, "")] == ["m1", "m2", "m2"]
    assert [usage.cpu for usage in in_order(found, "cpu")] == [106, 101, 5]
    assert [usage.container for usage in in_order(small, "memory")] == ["app", "log"]


class _Member:
    def __init__(self, answers: dict[str, Any]) -> None:
        self._answers = answers

    async def get(self, path: str, **_: object) -> Any:
        answer = self._answers[path]
        if isinstance(answer, Exception):
            raise answer
        # As old as that now, however long ago the tests were collected.
        return _pod(answer) if isinstance(answer, timedelta) else answer


def _pod(age: timedelta) -> dict[str, Any]:
    created = (datetime.now(UTC) - age).isoformat()
    return {"items": [{"metadata": {"name": "web", "namespace": "shop", "creationTimestamp": created}}]}


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ({POD_METRICS: ApiError(404, "Not Found", "no such group")}, "error: cluster(m1): Metrics API not available"),
        ({POD_METRICS: {"items": []}, PODS: {"items": []}}, None),
        ({POD_METRICS: {"items": []}, PODS: timedelta(hours=-1)}, "metrics not available yet"),
        ({POD_METRICS: {"items": []}, PODS: timedelta(hours=1)}, "not available for pod shop/web, age: 3"),
        ({POD_METRICS: Unreachable("it hangs")}, "check authorization or network: it hangs"),
        ({POD_METRICS: {"items": [{"metadata": {"name": "a"}, "containers": [{"usage": {"cpu": "x"}}]}]}}, "cannot be"),
    ],
)
async def test_members_without_metrics_say_why(answers: dict[str, Any], said: str | None) -> None:
    member = Endpoint("m1", cast("KubeClient", _Member(answers)))
    (found,) = await top.each_of([member], lambda one: top.pods_of(one, "shop", TopQuery(), PodTopQuery()))
    assert not found.usages
    assert (said is None) == (not found.troubles)
    assert said is None or said in found.troubles[0]
