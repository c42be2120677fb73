"""In which order objects are decided, how errors are tried again, and what flags and gates change."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from schemas.codec import Known, decode, encode, subject_of
from schemas.events.binding import BindingRequested
from schemas.events.placement import PlacementDecided
from schemas.keys import ObjectKey
from schemas.topology import STREAMS
from services._kit.base.settings import SettingsError
from services._kit.log.stream_port import NewMessage
from services._kit.runtime.decision_loop import LoopOptions
from services._kit.runtime.runner import Runner
from services.scheduler.app import Scheduler
from services.scheduler.queue.retry_backoff import Limits, Retries
from services.scheduler.settings import SchedulerSettings
from services.scheduler.state import SchedulerState, fold
from tests.support.facts import binding, cluster
from tests.support.memory_bus import MemoryBus
from tests.support.memory_log import MemoryLog

NOW = 1_793_232_000.0
ANYWHERE: dict[str, Any] = {"clusterAffinity": {}}
BY_PRIORITY = ("PriorityBasedScheduling=true",)
IN_TURN = ("PriorityBasedScheduling=false",)


def key(name: str) -> ObjectKey:
    return ObjectKey("apps", "deployments", "default", name)


def asked(name: str, priority: int | None = None) -> BindingRequested:
    more: dict[str, Any] = {} if priority is None else {"schedulePriority": {"priority": priority}}
    return msgspec.structs.replace(binding(1, ANYWHERE, **more), key=key(name))


async def placed_in_order(gates: tuple[str, ...], *requests: Known) -> list[str]:
    """Names of objects in the order in which a scheduler places them that finds all requests on the log."""
    logs = {stream.name: MemoryLog(stream) for stream in STREAMS}
    facts = logs["FACTS"]
    for event in (cluster("m1"), *requests):
        await facts.append([NewMessage(subject_of(event), encode(event), {})])
    service = Scheduler(SchedulerSettings(feature_gates=gates))
    runner: Runner[SchedulerState, ObjectKey] = Runner(
        service, logs, MemoryBus(), "a", options=LoopOptions(heartbeat=0.02, takeover_after=0.2)
    )
    service._context = runner  # type: ignore[assignment]
    runner.clock = runner.clock  # type: ignore[attr-defined]
    task = asyncio.create_task(runner.run())
    try:
        async with asyncio.timeout(60):
            while len(found := facts.since(0, ["placement.>"], 1000)) < len(requests):
                await facts.grown((await facts.identity()).last_seq)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    events = [decode(message.subject, message.data) for message in found]
    return [event.key.name for event in events if isinstance(event, PlacementDecided)]


REQUESTS = (asked("plain"), asked("low", -1), asked("high", 100), asked("also-high", 100), asked("some", 1))


async def test_with_the_gate_the_greatest_priority_comes_first_and_among_equals_who_came_first() -> None:
    assert await placed_in_order(BY_PRIORITY, *REQUESTS) == ["high", "also-high", "some", "plain", "low"]


async def test_without_the_gate_who_came_first_comes_first() -> None:
    assert await placed_in_order(IN_TURN, *REQUESTS) == ["plain", "low", "high", "also-high", "some"]


def delays(retries: Retries, count: int) -> list[float]:
    """Seconds until each retry, where every retry fails again at once."""
    now, found = NOW, []
    for _ in range(count):
        then = retries.failed(key("web"), now)
        found.append(round(then - now, 3))
        now = then
    return found


def test_with_priorities_errors_are_tried_again_after_one_two_four_eight_and_ten_seconds() -> None:
    assert delays(Retries(by_priority=True), 6) == [1, 2, 4, 8, 10, 10]


def test_in_turn_errors_wait_twice_as_long_each_time_up_to_the_longest() -> None:
    retries = Retries(Limits(base_delay=0.005, max_delay=0.03))
    assert delays(retries, 5) == [0.005, 0.01, 0.02, 0.03, 0.03]
    assert delays(Retries(), 60)[-1] == 1000


def test_a_success_makes_the_next_failure_a_first_one() -> None:
    retries = Retries(by_priority=True)
    delays(retries, 4)
    assert len(retries) == 1
    retries.over(key("web"))
    assert len(retries) == 0
    assert delays(retries, 1) == [1]


@pytest.mark.parametrize("by_priority", [False, True])
def test_all_objects_together_are_tried_again_only_so_many_times_per_second(by_priority: bool) -> None:
    retries = Retries(Limits(qps=10, bucket_size=100), by_priority=by_priority)
    due = [retries.failed(key(f"web-{number}"), NOW) for number in range(1100)]
    assert sum(at <= NOW + 1 for at in due) <= 111
    assert max(due) == pytest.approx(NOW + 100)


def test_a_bucket_fills_again_but_holds_no_more_than_it_can() -> None:
    retries = Retries(Limits(base_delay=0.001, qps=1, bucket_size=2))
    keys = [key(f"web-{number}") for number in range(9)]
    assert [round(retries.failed(name, NOW) - NOW) for name in keys[:4]] == [0, 0, 1, 2]
    later = NOW + 1000
    assert [round(retries.failed(name, later) - later) for name in keys[4:8]] == [0, 0, 1, 2]


def test_limits_that_are_not_positive_fall_back() -> None:
    settings = SchedulerSettings(
        rate_limiter_base_delay=0, rate_limiter_max_delay=-1, rate_limiter_qps=0, rate_limiter_bucket_size=-5
    )
    assert settings.limits() == Limits(0.005, 1000.0, 10.0, 100)


def test_an_unknown_gate_and_a_negative_time_are_refused_by_name() -> None:
    with pytest.raises(SettingsError, match=r"FLEETLOG_FEATURE_GATES.*PriorityBasedSheduling"):
        SchedulerSettings(feature_gates=("PriorityBasedSheduling=true",))
    with pytest.raises(SettingsError, match="FLEETLOG_SCHEDULER_ESTIMATOR_TIMEOUT"):
        SchedulerSettings(scheduler_estimator_timeout=-1)


def test_gates_reach_the_algorithm() -> None:
    gates = ("MultiplePodTemplatesScheduling=true", "CustomizedClusterResourceModeling=false")
    rules = SchedulerSettings(feature_gates=gates, enable_empty_workload_propagation=True).rules()
    assert rules.options.several_templates
    assert not rules.options.resource_models
    assert rules.options.empty_workload_propagation
    unset = SchedulerSettings().rules().options
    assert not unset.several_templates
    assert unset.resource_models
    assert not unset.empty_workload_propagation


def test_an_error_is_tried_again_and_a_lack_of_room_is_not() -> None:
    service = Scheduler(SchedulerSettings(feature_gates=BY_PRIORITY))
    state = service.new_state()
    impossible = {**ANYWHERE, "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 5, "maxGroups": 9}]}
    for seq, event in enumerate(
        [
            cluster("m1"),
            msgspec.structs.replace(binding(1, impossible), key=key("spread")),
            msgspec.structs.replace(binding(1, {"clusterAffinity": {"clusterNames": ["m9"]}}), key=key("nowhere")),
            msgspec.structs.replace(binding(1, {"clusterAffinity": {"clusterNames": 7}}), key=key("odd")),
        ],
        1,
    ):
        list(fold(state, seq, subject_of(event), event))
    spread = service.decide(state, key("spread"), NOW)
    assert spread.events[0].reason == "SchedulerError"  # type: ignore[union-attr]
    assert spread.wake_at == NOW + 1
    nowhere = service.decide(state, key("nowhere"), NOW)
    assert nowhere.events[0].reason == "NoClusterFit"  # type: ignore[union-attr]
    assert nowhere.wake_at is None
    odd = service.decide(state, key("odd"), NOW)
    assert odd.events[0].reason == "SchedulerError"  # type: ignore[union-attr]
    assert odd.wake_at is None, "only another binding mends it"
