"""The scheduler's metrics have Karmada's names, labels and buckets, and count what happened (reference 02 §9.4)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry

from schemas.codec import Known, subject_of
from schemas.envelope import Provenance
from schemas.keys import ObjectKey
from services._kit.base.metrics import KitMetrics
from services._kit.log.stream_port import Message
from services.scheduler.app import Scheduler
from services.scheduler.metrics import NAME, STEPS, StepTimes
from services.scheduler.settings import SchedulerSettings
from tests.support.facts import STATIC, binding, cluster
from tests.support.manual_clock import ManualClock

NOW = 1_793_232_000.0


def key(name: str) -> ObjectKey:
    return ObjectKey("apps", "deployments", "default", name)


class Desk:
    """A leading scheduler without a log, and its metrics."""

    def __init__(self) -> None:
        self.service = Scheduler(SchedulerSettings())
        self.state = self.service.new_state()
        self.metrics = KitMetrics("scheduler")
        self.seq = 0

    async def leads(self) -> Desk:
        projection = SimpleNamespace(state=self.state, dirty={}, marking=True)
        context: Any = SimpleNamespace(
            projection=projection, logs={}, metrics=self.metrics, clock=ManualClock(NOW), settings=None
        )
        await self.service.start(context)
        await self.service.on_leading()
        return self

    def given(self, *events: Known) -> None:
        for event in events:
            self.seq += 1
            list(self.service.fold(self.state, Message(subject_of(event), self.seq, NOW, {}, b""), event))

    def decides(self, name: str) -> None:
        """Decide an object, and store what comes out."""
        for event in self.service.decide(self.state, key(name), NOW).events:
            self.metrics.stored([event], 0.003)
            self.given(msgspec.structs.replace(event, provenance=Provenance(as_of=self.seq)))

    def value(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(name, labels)


def asked(name: str, replicas: int, placement: dict[str, Any] | None = None) -> Known:
    return msgspec.structs.replace(binding(replicas, placement), key=key(name))


async def test_what_comes_in_is_counted_by_its_cause() -> None:
    desk = await Desk().leads()
    anywhere = {"clusterAffinity": {}}
    desk.given(cluster("m1"), cluster("m2"), asked("web", 2), asked("all", 1, anywhere), asked("web", 3))
    desk.decides("web")
    desk.decides("all")
    desk.given(cluster("m3"))
    name = "karmada_scheduler_queue_incoming_bindings_total"
    assert desk.value(name, event="BindingAdd") == 2
    assert desk.value(name, event="BindingUpdate") == 1
    assert desk.value(name, event="ClusterChanged") == 1
    assert desk.value(name, event="ScheduleAttemptFailure") is None


async def test_attempts_are_counted_by_result_and_type_whether_they_change_something_or_not() -> None:
    desk = await Desk().leads()
    name = "karmada_scheduler_schedule_attempts_total"
    desk.given(
        cluster("m1"), cluster("m2"), asked("web", 2), asked("nowhere", 1, {"clusterAffinity": {"clusterNames": ["x"]}})
    )
    desk.decides("web")
    desk.decides("nowhere")
    assert desk.value(name, result="scheduled", schedule_type="ReconcileSchedule") == 2, "no cluster fits is an answer"
    desk.given(asked("web", 4))
    desk.decides("web")
    assert desk.value(name, result="scheduled", schedule_type="ScaleSchedule") == 1
    desk.decides("web")
    assert desk.value(name, result="scheduled", schedule_type="ScaleSchedule") == 1, "nothing called for a schedule"
    desk.decides("nowhere")
    assert desk.value(name, result="scheduled", schedule_type="ReconcileSchedule") == 3
    spread = [{"spreadByField": "cluster", "minGroups": 5, "maxGroups": 9}]
    desk.given(asked("spread", 1, {"clusterAffinity": {}, "spreadConstraints": spread}))
    desk.decides("spread")
    assert desk.value(name, result="error", schedule_type="ReconcileSchedule") == 1
    assert desk.value("karmada_scheduler_queue_incoming_bindings_total", event="ScheduleAttemptFailure") == 1
    assert desk.value("scheduler_pending_bindings", queue="backoff") == 1
    assert desk.value("scheduler_pending_bindings", queue="unschedulable") == 2
    lasted = "karmada_scheduler_e2e_scheduling_duration_seconds"
    assert desk.value(f"{lasted}_bucket", result="scheduled", schedule_type="ScaleSchedule", le="0.004") == 1


async def test_every_step_of_the_algorithm_is_timed_once_per_run() -> None:
    desk = await Desk().leads()
    desk.given(cluster("m1"), cluster("m2"), asked("web", 2, STATIC))
    desk.decides("web")
    assert [desk.value(f"{NAME}_count", schedule_step=step) for step in STEPS] == [1, 1, 1, 1]
    desk.decides("web")
    assert desk.value(f"{NAME}_count", schedule_step="Filter") == 1, "the algorithm was not run again"


def test_a_step_lasts_from_the_end_of_the_one_before_and_buckets_are_powers_of_two() -> None:
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
