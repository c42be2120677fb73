"""Writes to a member are counted by what they did and how they ended, across lanes that are opened anew."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from services._kit.base.metrics import ReadCollector
from services._kit.delivery.lane import Lane
from services._kit.delivery.lane_metrics import WriteMetrics
from services._kit.delivery.lane_parts import LaneSettings
from services._kit.kube.client import KubeClient

pytestmark = pytest.mark.asyncio(loop_scope="module")


def config_map(name: str, value: str, namespace: str = "default") -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": value}}


class Counts:
    """What is offered, without zeros."""

    def __init__(self) -> None:
        reads = ReadCollector("executor")
        self.written = WriteMetrics(reads)
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(reads)

    def of(self, name: str, **labels: str) -> float:
        place = {"apiversion": "v1", "kind": "ConfigMap", "member_cluster": "m1", **labels}
        return self._registry.get_sample_value(name, place) or 0.0

    def all(self) -> dict[str, float]:
        return {
            "created": self.of("create_resource_to_cluster", result="success", recreate="false"),
            "created again": self.of("create_resource_to_cluster", result="success", recreate="true"),
            "not created": self.of("create_resource_to_cluster", result="error", recreate="false"),
            "updated": self.of("update_resource_to_cluster", result="success", operationResult="updated"),
            "deleted": self.of("delete_resource_from_cluster", result="success"),
        }


async def test_each_write_counts_once_whichever_lane_made_it(member: Any, fresh_name: str) -> None:
    counts, desk = Counts(), member.new_desk()

    def lane() -> Lane:
        def opening() -> Any:
            return KubeClient.from_kubeconfig(member.running.kubeconfig)

        return Lane("m1", opening, desk.source, LaneSettings(), written=counts.written)

    first = lane()
    first.start()
    try:
        key = desk.give(config_map(fresh_name, "1"))
        first.look_at(key)
        made = await desk.until(key, lambda event: event.applied)
        await member.client.delete(member.path(config_map(fresh_name, "1")), propagation="Background")
        again = await desk.until(key, lambda event: bool(event.drift))
        lost = desk.give(config_map(fresh_name, "1", "nowhere"))
        first.look_at(lost)
        assert "nowhere" in (await desk.until(lost, lambda event: not event.applied)).message
        desk.withdraw(lost)
    finally:
        await first.close()
    assert (made.operation, again.operation) == ("created", "created")
    seen = counts.all()
    assert seen.pop("not created") >= 1
    assert seen == {"created": 1, "created again": 1, "updated": 0, "deleted": 0}

    second = lane()
    second.start()
    try:
        desk.give(config_map(fresh_name, "2"), 2)
        second.look_at(key)
        await desk.until(key, lambda event: event.operation == "updated")
        desk.withdraw(key)
        second.look_at(key)
        await desk.until(key, lambda event: event.absent)
    finally:
        await second.close()
    seen = counts.all()
    del seen["not created"]
    assert seen == {"created": 1, "created again": 1, "updated": 1, "deleted": 1}
