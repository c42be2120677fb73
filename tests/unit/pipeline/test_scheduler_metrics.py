"""The scheduler's metrics have Karmada's names, labels and buckets, and count what happened (reference 02 §9.4)."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from prometheus_client import CollectorRegistry

from schemas.codec import Known
from services._kit.base.metrics import KitMetrics
from services.scheduler.app import Scheduler
from services.scheduler.metrics import NAME, STEPS, StepTimes
from services.scheduler.settings import SchedulerSettings
from tests.support.facts import ANYWHERE, NOW, STATIC, binding, cluster, only
from tests.support.harness import Harness, running
from tests.support.manual_clock import ManualClock


class Measured(Harness):
    """A leading scheduler without a log, and its metrics."""

    def __init__(self) -> None:
        self.service = Scheduler(SchedulerSettings())
        super().__init__(running(self.service))
        self.metrics = KitMetrics("scheduler")

    async def leads(self) -> Measured:
        projection = SimpleNamespace(state=self.state, dirty={}, marking=True)
        context: Any = SimpleNamespace(
            projection=projection, logs={}, metrics=self.metrics, clock=ManualClock(NOW), settings=None
        )
        await self.service.start(context)
        await self.service.on_leading()
        return self

    def takes(self, decided: Sequence[Known]) -> list[Known]:
        """Count what is stored."""
        for event in decided:
            self.metrics.stored([event], 0.003)
        return super().takes(decided)

    def value(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(name, labels)


def asked(name: str, replicas: int, placement: dict[str, Any] | None = None) -> Known:
    return binding(replicas, placement, name=name)


async def test_incoming_bindings_are_counted_by_cause() -> None:
    scheduler = await Measured().leads()
    scheduler.given(cluster("m1"), cluster("m2"), asked("web", 2), asked("all", 1, ANYWHERE), asked("web", 3))
    scheduler.decides("web")
    scheduler.decides("all")
    scheduler.given(cluster("m3"))
    name = "karmada_scheduler_queue_incoming_bindings_total"
    assert scheduler.value(name, event="BindingAdd") == 2
    assert scheduler.value(name, event="BindingUpdate") == 1
    assert scheduler.value(name, event="ClusterChanged") == 1
    assert scheduler.value(name, event="ScheduleAttemptFailure") is None


async def test_attempts_are_counted_by_result_and_type() -> None:
    scheduler = await Measured().leads()
    name = "karmada_scheduler_schedule_attempts_total"
    scheduler.given(cluster("m1"), cluster("m2"), asked("web", 2), asked("nowhere", 1, only("x")))
    scheduler.decides("web")
    scheduler.decides("nowhere")
    assert scheduler.value(name, result="scheduled", schedule_type="ReconcileSchedule") == 2, (
        "no cluster fits is an answer"
    )
    scheduler.given(asked("web", 4))
    scheduler.decides("web")
    assert scheduler.value(name, result="scheduled", schedule_type="ScaleSchedule") == 1
    scheduler.decides("web")
    assert scheduler.value(name, result="scheduled", schedule_type="ScaleSchedule") == 1, (
        "nothing called for a schedule"
    )
    scheduler.decides("nowhere")
    assert scheduler.value(name, result="scheduled", schedule_type="ReconcileSchedule") == 3
    spread = [{"spreadByField": "cluster", "minGroups": 5, "maxGroups": 9}]
    scheduler.given(asked("spread", 1, {"clusterAffinity": {}, "spreadConstraints": spread}))
    scheduler.decides("spread")
    assert scheduler.value(name, result="error", schedule_type="ReconcileSchedule") == 1
    assert scheduler.value("karmada_scheduler_queue_incoming_bindings_total", event="ScheduleAttemptFailure") == 1
    assert scheduler.value("scheduler_pending_bindings", queue="backoff") == 1
    assert scheduler.value("scheduler_pending_bindings", queue="unschedulable") == 2
    lasted = "karmada_scheduler_e2e_scheduling_duration_seconds"
    assert scheduler.value(f"{lasted}_bucket", result="scheduled", schedule_type="ScaleSchedule", le="0.004") == 1


async def test_each_step_is_timed_once_per_run() -> None:
    scheduler = await Measured().leads()
    scheduler.given(cluster("m1"), cluster("m2"), asked("web", 2, STATIC))
    scheduler.decides("web")
    assert [scheduler.value(f"{NAME}_count", schedule_step=step) for step in STEPS] == [1, 1, 1, 1]
    scheduler.decides("web")
    assert scheduler.value(f"{NAME}_count", schedule_step="Filter") == 1, "the algorithm was not run again"


def test_step_lasts_from_the_end_of_the_one_before() -> None:
    clock = iter([10.0, 10.0015, 10.5, 30.5, 100.5])
    times = StepTimes(lambda: next(clock))
    for step in ("", *STEPS):
        times(step)
    registry = CollectorRegistry()
    registry.register(times)

    def at(step: str, bound: str) -> float | None:
        return registry.get_sample_value(f"{NAME}_bucket", {"schedule_step": step, "le": bound})

    assert (at("Filter", "0.001"), at("Filter", "0.002")) == (0, 1)
    assert (at("Select", "16.384"), at("Select", "+Inf")) == (0, 1)
    assert registry.get_sample_value(f"{NAME}_sum", {"schedule_step": "AssignReplicas"}) == 70
