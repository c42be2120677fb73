"""The failover service as it is configured and paced."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.codec import subject_of
from schemas.events.eviction import EvictionFinished, EvictionRequested
from schemas.keys import ObjectKey
from services._kit.base.settings import SettingsError, load
from services._kit.log.stream_port import Message
from services._rules.decision import Decision
from services._rules.feature_gates import DEFAULTS, FeatureGateError, feature_gates
from services.failover.app import Failover
from services.failover.eviction_rate import SLOWEST, EvictionRate
from services.failover.settings import FailoverSettings
from services.failover.state import FailoverState
from tests.support.facts import KEY, binding, cluster, placement
from tests.unit.pipeline.test_failover_decide import tainted

NOW = 1_700_000_000.0
ON = {"FLEETLOG_FEATURE_GATES": "Failover=true", "FLEETLOG_ENABLE_NO_EXECUTE_TAINT_EVICTION": "true"}


def test_nothing_is_evicted_by_default() -> None:
    rules = load(FailoverSettings, {}).rules()
    assert not rules.taint_eviction
    assert (rules.purge_mode, rules.timeout, rules.gates.graceful_eviction) == ("Gracefully", 600.0, True)


@pytest.mark.parametrize(
    ("changed", "evicts"),
    [
        ({}, True),
        ({"FLEETLOG_FEATURE_GATES": ""}, False),
        ({"FLEETLOG_ENABLE_TAINT_MANAGER": "false"}, False),
        ({"FLEETLOG_ENABLE_NO_EXECUTE_TAINT_EVICTION": "false"}, False),
    ],
)
def test_the_gate_and_both_flags_have_to_be_on(changed: dict[str, str], evicts: bool) -> None:
    assert load(FailoverSettings, {**ON, **changed}).rules().taint_eviction is evicts


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("FEATURE_GATES", "Failovr=true", "did you mean Failover"),
        ("FEATURE_GATES", "Failover=perhaps", "Failover=true or Failover=false"),
        ("NO_EXECUTE_TAINT_EVICTION_PURGE_MODE", "Never", "use Gracefully or Directly"),
        ("RESOURCE_EVICTION_RATE", "-1", "0 or more"),
        ("GRACEFUL_EVICTION_TIMEOUT", "-1", "0 or more"),
    ],
)
def test_a_wrong_setting_is_refused_with_its_name(name: str, value: str, told: str) -> None:
    with pytest.raises(SettingsError, match=told) as caught:
        load(FailoverSettings, {f"FLEETLOG_{name}": value})
    assert name in str(caught.value)


def test_gates_not_named_keep_their_defaults() -> None:
    gates = feature_gates(["Failover=True", "GracefulEviction=false"])
    assert gates == {**DEFAULTS, "Failover": True, "GracefulEviction": False}
    with pytest.raises(FeatureGateError):
        feature_gates(["Failover"])


def key(number: int) -> ObjectKey:
    return ObjectKey("apps", "deployments", "default", f"web-{number}")


def test_turns_are_a_rate_apart_and_used_up() -> None:
    pace = EvictionRate(0.5)
    assert pace.turn(key(0), NOW, 0.0) == NOW
    assert pace.turn(key(1), NOW, NOW) == NOW + 2
    assert pace.turn(key(2), NOW, NOW) == NOW + 4
    assert pace.turn(key(1), NOW + 1, NOW) == NOW + 2
    assert pace.waiting == 2
    assert pace.turn(key(1), NOW + 2, NOW) == NOW + 2
    pace.forget(key(2))
    assert pace.waiting == 0


def test_without_a_rate_everything_leaves_at_once_and_at_rate_zero_hardly_anything() -> None:
    free, nearly_stopped = EvictionRate(None), EvictionRate(0.0)
    assert [free.turn(key(number), NOW, NOW) for number in range(3)] == [NOW] * 3
    assert nearly_stopped.turn(key(0), NOW, 0.0) == NOW
    assert nearly_stopped.turn(key(1), NOW, NOW) == NOW + SLOWEST


def test_a_restart_does_not_hurry() -> None:
    assert EvictionRate(0.5).turn(key(0), NOW, NOW - 0.5) == NOW + 1.5


class Running:
    """The service and its projection, fed with facts."""

    def __init__(self, **environment: str) -> None:
        self.service = Failover(load(FailoverSettings, {**ON, **environment}))
        self.state: FailoverState = self.service.new_state()
        self.position = 0

    def add(self, *events: Any) -> list[ObjectKey]:
        dirty: list[ObjectKey] = []
        for event in events:
            self.position += 1
            message = Message(subject=subject_of(event), seq=self.position, time=NOW, data=b"", headers={})
            dirty.extend(self.service.fold(self.state, message, event))
        return dirty

    def decide(self, now: float = NOW) -> Decision:
        return self.service.decide(self.state, KEY, now)


def test_an_object_waits_for_its_turn_while_what_is_under_way_goes_on() -> None:
    running = Running(FLEETLOG_RESOURCE_EVICTION_RATE="0.1")
    running.add(cluster("m1"), cluster("m2"), binding(), placement(m1=1, m2=1), tainted("m1", ("x", "NoExecute")))
    (event,) = running.decide().events
    assert isinstance(event, EvictionRequested)
    running.add(event)
    running.state.last_eviction = NOW
    running.add(tainted("m2", ("x", "NoExecute")))
    held = running.decide(NOW + 1)
    assert held.events == ()
    assert held.wake_at == NOW + 10
    (event,) = running.decide(NOW + 10).events
    assert isinstance(event, EvictionRequested)
    assert [task.from_cluster for task in event.tasks] == ["m1", "m2"]


def test_a_restart_says_nothing_twice() -> None:
    running = Running()
    facts = [cluster("m1"), cluster("m2"), binding(), placement(m1=1, m2=1), tainted("m1", ("x", "NoExecute"))]
    running.add(*facts)
    (event,) = running.decide().events
    after = Running()
    after.add(*facts, event)
    assert list(after.service.recover(after.state)) == [KEY]
    decision = after.decide()
    assert decision.events == ()
    assert decision.wake_at == pytest.approx(NOW + 600, abs=0.01)


def test_the_end_of_an_eviction_is_decided_by_whoever_leads_then() -> None:
    running = Running(FLEETLOG_GRACEFUL_EVICTION_TIMEOUT="5")
    running.add(cluster("m1"), cluster("m2"), binding(), placement(m1=1, m2=1), tainted("m1", ("x", "NoExecute")))
    (event,) = running.decide().events
    after = Running(FLEETLOG_GRACEFUL_EVICTION_TIMEOUT="5")
    after.add(cluster("m1"), cluster("m2"), binding(), placement(m1=1, m2=1), event)
    (ended,) = after.decide(NOW + 6).events
    assert isinstance(ended, EvictionFinished)
