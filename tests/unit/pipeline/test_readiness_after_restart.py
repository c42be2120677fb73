"""A monitor that starts takes the published readiness for what was observed before."""

from __future__ import annotations

import pytest

from services.cluster_monitor.readiness import filter_ready, remembered
from services.cluster_monitor.state import Probe, ReadyMemory

READY = {"type": "Ready", "status": "True", "reason": "ClusterReady", "message": "cluster is healthy"}
AWAY = {"type": "Ready", "status": "False", "reason": "ClusterNotReachable", "message": "cluster is not reachable"}


@pytest.mark.parametrize(("published", "online", "kept"), [(READY, False, "True"), (AWAY, True, "False")])
def test_a_first_probe_that_disagrees_opens_the_window(published: dict[str, str], online: bool, kept: str) -> None:
    memory, shown = ReadyMemory(), []
    window = {"success_seconds": 30.0, "failure_seconds": 30.0}
    for at in (100.0, 129.0, 130.0):
        probe = Probe(at=at, online=online, healthy=online)
        memory = remembered(memory, probe)
        shown.append(filter_ready(published, probe, memory, **window).status)
    assert shown == [kept, kept, str(online)]


def test_cluster_without_condition_publishes_its_first_probe() -> None:
    wanted = filter_ready(
        None, Probe(at=100.0, online=False), ReadyMemory(), success_seconds=30.0, failure_seconds=30.0
    )
    assert wanted.status == "False"
