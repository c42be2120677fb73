"""Metrics: Karmada's names where they mean the same, stages timed from their cause, parks counted as errors."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from schemas.agent import Expiry
from schemas.events.binding import BindingReleased
from schemas.events.placement import PlacementDecided
from schemas.keys import ObjectKey
from services._kit.base.metrics import KitMetrics, exponential
from services._rules.scheduling import reschedule_triggers as ladder
from services.cluster_monitor import metrics as monitor_metrics
from services.cluster_monitor.state import MonitorState, Probe
from services.scheduler import metrics as scheduler_metrics
from services.scheduler.state import SchedulerState
from tests.support.manual_clock import ManualClock

KEY = ObjectKey("deployments", "apps", "default", "nginx")


def _value(registry: CollectorRegistry, name: str, **labels: str) -> float | None:
    return registry.get_sample_value(name, labels)


def test_karmada_buckets_are_exact_powers() -> None:
    assert exponential(0.001, 2, 12)[-1] == 2.048
    assert 0.512 in exponential(0.001, 2, 15)


def test_events_without_a_cause_are_not_timed() -> None:
    metrics = KitMetrics("scheduler")
    heard: list[tuple[int, float]] = []
    metrics.on_stored(lambda events, seconds: heard.append((len(events), seconds)))
    metrics.stored([object(), object()], 0.003)
    metrics.stored([object()], -1.0)
    assert heard == [(2, 0.003), (1, -1.0)]
    assert _value(metrics.registry, "fleetlog_stage_seconds_count", component="scheduler") == 2
    assert _value(metrics.registry, "fleetlog_stage_seconds_bucket", component="scheduler", le="0.004") == 2
    assert _value(metrics.registry, "fleetlog_stage_seconds_bucket", component="scheduler", le="0.002") == 0


def test_schedule_attempts_are_counted_by_type_and_result() -> None:
    metrics = KitMetrics("scheduler")
    scheduler_metrics.register(metrics, SchedulerState(), scheduler_metrics.DecisionCounts(), lambda: 3)
    scaled = PlacementDecided(key=KEY, uid="u", clusters=(), trigger=scheduler_metrics.SCALED)
    placed = PlacementDecided(key=KEY, uid="u", clusters=(), trigger="the placement changed")
    metrics.stored([scaled], 0.01)
    metrics.stored([placed], 0.01)
    metrics.stored([BindingReleased(key=KEY, uid="u")], 0.01)
    metrics.failed(-1.0)
    name = "karmada_scheduler_schedule_attempts_total"
    found = {
        (result, kind): _value(metrics.registry, name, result=result, schedule_type=kind)
        for result in ("scheduled", "error")
        for kind in ("ReconcileSchedule", "ScaleSchedule")
    }
    assert found == {
        ("scheduled", "ScaleSchedule"): 1,
        ("scheduled", "ReconcileSchedule"): 1,
        ("error", "ReconcileSchedule"): 1,
        ("error", "ScaleSchedule"): None,
    }
    assert _value(metrics.registry, "scheduler_pending_bindings", queue="active") == 3


def test_scaling_trigger_is_that_of_the_rules() -> None:
    assert ladder.__file__ is not None
    with open(ladder.__file__, encoding="utf-8") as source:
        assert f'Trigger("ScaleSchedule", "{scheduler_metrics.SCALED}")' in source.read()


def test_members_are_offered_as_their_status_says() -> None:
    metrics, state = KitMetrics("cluster_monitor"), MonitorState()
    monitor_metrics.register(metrics.reads, state, ManualClock(1000.0))
    state.of("m1").manifest = {
        "metadata": {"name": "m1"},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeSummary": {"totalNum": 3, "readyNum": 2},
            "resourceSummary": {"allocatable": {"cpu": "24", "memory": "1Gi"}, "allocated": {"cpu": "1500m"}},
        },
    }
    state.of("m1").probe = Probe(at=1000.0, expiry=Expiry(at=1600.0))
    state.of("m2").manifest = {"metadata": {"name": "m2"}}
    found = {
        name: _value(metrics.registry, name, member_cluster="m1")
        for name in (
            "cluster_ready_state",
            "cluster_node_number",
            "cluster_ready_node_number",
            "cluster_cpu_allocatable_number",
            "cluster_cpu_allocated_number",
            "cluster_memory_allocatable_bytes",
        )
    }
    assert found == {
        "cluster_ready_state": 1,
        "cluster_node_number": 3,
        "cluster_ready_node_number": 2,
        "cluster_cpu_allocatable_number": 24,
        "cluster_cpu_allocated_number": 1.5,
        "cluster_memory_allocatable_bytes": 1 << 30,
    }
    assert _value(metrics.registry, "cluster_ready_state", member_cluster="m2") == 0
    expire = "fleetlog_member_credentials_expire_seconds"
    assert _value(metrics.registry, expire, member_cluster="m1") == 600
    assert _value(metrics.registry, expire, member_cluster="m2") is None
