"""The failover service as it is configured and paced."""

from __future__ import annotations

import pytest

from schemas.codec import Known
from schemas.events.eviction import EvictionFinished, EvictionRequested
from services._kit.base.settings import SettingsError, load
from services._rules.decision import Decision
from services.failover.app import Failover
from services.failover.eviction_rate import SLOWEST, EvictionRate
from services.failover.settings import FailoverSettings
from services.webhook.settings import WebhookSettings
from tests.support.facts import KEY, binding, cluster, key, placement
from tests.support.harness import Harness, running

NOW = 1_700_000_000.0
TAINTED, ALSO_TAINTED = (
    cluster(name, taints=[{"key": "x", "effect": "NoExecute", "timeAdded": "2023-11-14T22:13:20Z"}])
    for name in ("m1", "m2")
)
PLACED = (cluster("m1"), cluster("m2"), binding(), placement(m1=1, m2=1))
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
def test_taint_eviction_needs_the_gate_and_both_flags(changed: dict[str, str], evicts: bool) -> None:
    assert load(FailoverSettings, {**ON, **changed}).rules().taint_eviction is evicts


@pytest.mark.parametrize(
    ("given", "allowed"),
    [
        ({}, False),
        ({"FLEETLOG_ENABLE_NO_EXECUTE_TAINT_EVICTION": "true"}, True),
        ({"FLEETLOG_ALLOW_NO_EXECUTE_TAINT_POLICY": "true"}, True),
    ],
)
def test_the_webhook_admits_policies_that_failover_obeys(given: dict[str, str], allowed: bool) -> None:
    files = {f"FLEETLOG_{name}": "x" for name in ("CONTROL_KUBECONFIG", "SERVING_CERT", "SERVING_KEY", "NATS_URL")}
    assert load(WebhookSettings, {**files, **given}).no_execute_policies is allowed


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
def test_invalid_setting_is_refused_with_its_name(name: str, value: str, told: str) -> None:
    with pytest.raises(SettingsError, match=told) as caught:
        load(FailoverSettings, {f"FLEETLOG_{name}": value})
    assert name in str(caught.value)


class Configured(Harness):
    """The service under these settings."""

    def __init__(self, *events: Known, **environment: str) -> None:
        self.service = Failover(load(FailoverSettings, {**ON, **environment}))
        super().__init__(running(self.service), *events, now=NOW)

    def decide(self, now: float = NOW) -> Decision:
        self.now = now
        found: Decision = self.decision()
        return found


def test_evictions_are_a_rate_apart() -> None:
    pace = EvictionRate(0.5)
    assert pace.turn(key("web-0"), NOW, 0.0) == NOW
    assert pace.turn(key("web-1"), NOW, NOW) == NOW + 2
    assert pace.turn(key("web-2"), NOW, NOW) == NOW + 4
    assert pace.turn(key("web-1"), NOW + 1, NOW) == NOW + 2
    assert pace.waiting == 2
    assert pace.turn(key("web-1"), NOW + 2, NOW) == NOW + 2
    pace.forget(key("web-2"))
    assert pace.waiting == 0


def test_eviction_rate_of_none_and_zero() -> None:
    free, nearly_stopped = EvictionRate(None), EvictionRate(0.0)
    assert [free.turn(key(f"web-{number}"), NOW, NOW) for number in range(3)] == [NOW] * 3
    assert nearly_stopped.turn(key("web-0"), NOW, 0.0) == NOW
    assert nearly_stopped.turn(key("web-1"), NOW, NOW) == NOW + SLOWEST


def test_restart_keeps_the_eviction_rate() -> None:
    assert EvictionRate(0.5).turn(key("web-0"), NOW, NOW - 0.5) == NOW + 1.5


def test_eviction_waits_for_its_turn() -> None:
    failover = Configured(*PLACED, TAINTED, FLEETLOG_RESOURCE_EVICTION_RATE="0.1")
    (event,) = failover.decide().events
    assert isinstance(event, EvictionRequested)
    failover.given(event)
    failover.state.last_eviction = NOW
    failover.given(ALSO_TAINTED)
    held = failover.decide(NOW + 1)
    assert held.events == ()
    assert held.wake_at == NOW + 10
    (event,) = failover.decide(NOW + 10).events
    assert isinstance(event, EvictionRequested)
    assert [task.from_cluster for task in event.tasks] == ["m1", "m2"]


def test_restart_evicts_nothing_twice() -> None:
    (event,) = Configured(*PLACED, TAINTED).decide().events
    after = Configured(*PLACED, TAINTED, event)
    assert list(after.service.recover(after.state)) == [KEY]
    decision = after.decide()
    assert decision.events == ()
    assert decision.wake_at == pytest.approx(NOW + 600, abs=0.01)


def test_next_leader_ends_the_eviction() -> None:
    (event,) = Configured(*PLACED, TAINTED, FLEETLOG_GRACEFUL_EVICTION_TIMEOUT="5").decide().events
    after = Configured(*PLACED, event, FLEETLOG_GRACEFUL_EVICTION_TIMEOUT="5")
    (ended,) = after.decide(NOW + 6).events
    assert isinstance(ended, EvictionFinished)
