"""In which order objects are decided, how errors are tried again, and what flags and gates change."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.codec import Known
from schemas.events.binding import BindingRequested
from schemas.events.placement import PlacementDecided
from services._kit.base.settings import SettingsError
from services.scheduler.app import Scheduler
from services.scheduler.queue.retry_backoff import Limits, Retries
from services.scheduler.settings import SchedulerSettings
from tests.support.facts import ANYWHERE, NOW, binding, cluster, key, only
from tests.support.harness import Harness, running
from tests.support.memory_installation import MemoryInstallation

BY_PRIORITY = ("PriorityBasedScheduling=true",)
IN_TURN = ("PriorityBasedScheduling=false",)


def asked(name: str, priority: int | None = None) -> BindingRequested:
    more: dict[str, Any] = {} if priority is None else {"schedulePriority": {"priority": priority}}
    return binding(1, ANYWHERE, name=name, **more)


async def placed_in_order(gates: tuple[str, ...], *requests: Known) -> list[str]:
    """Names of objects in the order in which a scheduler places them that finds all requests on the log."""
    installation = MemoryInstallation()
    await installation.given(cluster("m1"), *requests)
    async with installation.running(Scheduler(SchedulerSettings(feature_gates=gates))):
        await installation.until(lambda: len(installation.read("placement.>")) == len(requests))
    return [event.key.name for event in installation.read("placement.>") if isinstance(event, PlacementDecided)]


REQUESTS = (asked("plain"), asked("low", -1), asked("high", 100), asked("also-high", 100), asked("some", 1))


async def test_higher_priority_is_scheduled_first_with_the_gate() -> None:
    assert await placed_in_order(BY_PRIORITY, *REQUESTS) == ["high", "also-high", "some", "plain", "low"]


async def test_bindings_are_scheduled_in_turn_without_the_gate() -> None:
    assert await placed_in_order(IN_TURN, *REQUESTS) == ["plain", "low", "high", "also-high", "some"]


def delays(retries: Retries, count: int) -> list[float]:
    """Seconds until each retry, where every retry fails again at once."""
    now, found = NOW, []
    for _ in range(count):
        then = retries.failed(key("web"), now)
        found.append(round(then - now, 3))
        now = then
    return found


def test_backoff_by_priority_doubles_up_to_ten_seconds() -> None:
    assert delays(Retries(by_priority=True), 6) == [1, 2, 4, 8, 10, 10]


def test_backoff_in_turn_doubles_up_to_the_bound() -> None:
    retries = Retries(Limits(base_delay=0.005, max_delay=0.03))
    assert delays(retries, 5) == [0.005, 0.01, 0.02, 0.03, 0.03]
    assert delays(Retries(), 60)[-1] == 1000


def test_success_resets_the_backoff() -> None:
    retries = Retries(by_priority=True)
    delays(retries, 4)
    assert len(retries) == 1
    retries.over(key("web"))
    assert len(retries) == 0
    assert delays(retries, 1) == [1]


@pytest.mark.parametrize("by_priority", [False, True])
def test_retries_of_all_objects_are_rate_limited(by_priority: bool) -> None:
    retries = Retries(Limits(qps=10, bucket_size=100), by_priority=by_priority)
    due = [retries.failed(key(f"web-{number}"), NOW) for number in range(1100)]
    assert sum(at <= NOW + 1 for at in due) <= 111
    assert max(due) == pytest.approx(NOW + 100)


def test_retry_bucket_refills_up_to_its_size() -> None:
    retries = Retries(Limits(base_delay=0.001, qps=1, bucket_size=2))
    keys = [key(f"web-{number}") for number in range(9)]
    assert [round(retries.failed(name, NOW) - NOW) for name in keys[:4]] == [0, 0, 1, 2]
    later = NOW + 1000
    assert [round(retries.failed(name, later) - later) for name in keys[4:8]] == [0, 0, 1, 2]


def test_limits_not_positive_take_their_defaults() -> None:
    settings = SchedulerSettings(
        rate_limiter_base_delay=0, rate_limiter_max_delay=-1, rate_limiter_qps=0, rate_limiter_bucket_size=-5
    )
    assert settings.limits() == Limits(0.005, 1000.0, 10.0, 100)


def test_unknown_gate_and_negative_time_are_refused_by_name() -> None:
    with pytest.raises(SettingsError, match=r"FLEETLOG_FEATURE_GATES.*PriorityBasedSheduling"):
        SchedulerSettings(feature_gates=("PriorityBasedSheduling=true",))
    with pytest.raises(SettingsError, match="FLEETLOG_SCHEDULER_ESTIMATOR_TIMEOUT"):
        SchedulerSettings(scheduler_estimator_timeout=-1)


def test_gates_reach_the_scheduling_algorithm() -> None:
    gates = ("MultiplePodTemplatesScheduling=true", "CustomizedClusterResourceModeling=false")
    rules = SchedulerSettings(feature_gates=gates, enable_empty_workload_propagation=True).rules()
    assert rules.options.several_templates
    assert not rules.options.resource_models
    assert rules.options.empty_workload_propagation
    unset = SchedulerSettings().rules().options
    assert not unset.several_templates
    assert unset.resource_models
    assert not unset.empty_workload_propagation


def test_errors_are_retried_and_unschedulable_is_not() -> None:
    impossible = {**ANYWHERE, "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 5, "maxGroups": 9}]}
    scheduler = Harness(
        running(Scheduler(SchedulerSettings(feature_gates=BY_PRIORITY))),
        cluster("m1"),
        binding(1, impossible, name="spread"),
        binding(1, only("m9"), name="nowhere"),
        binding(1, {"clusterAffinity": {"clusterNames": 7}}, name="odd"),
    )
    spread = scheduler.decision("spread")
    assert spread.events[0].reason == "SchedulerError"
    assert spread.wake_at == NOW + 1
    nowhere = scheduler.decision("nowhere")
    assert nowhere.events[0].reason == "NoClusterFit"
    assert nowhere.wake_at is None
    odd = scheduler.decision("odd")
    assert odd.events[0].reason == "SchedulerError"
    assert odd.wake_at is None, "only another binding mends it"
