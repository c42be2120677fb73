"""When an object leaves a cluster and when it has left: decisions from facts, one after the other."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from schemas.codec import Known
from schemas.envelope import Provenance
from schemas.events.cluster import ClusterChanged
from schemas.events.eviction import EvictionEvent, EvictionFinished, EvictionRequested
from schemas.events.placement import PlacementFailed, TargetCluster
from schemas.events.rollup import Cleared, ClusterStatusItem, StatusRolledUp
from services._rules.failover.application_failover import Gates
from services.failover.decide import FailoverDecision, Rules
from tests.support.facts import KEY, STATIC, binding, cluster, placement, raw, released, removed, rollup
from tests.support.harness import Harness, failover_with

NOW_TEXT = "2023-11-14T22:13:20Z"
NOW = 1_700_000_000.0
ON = Rules(taint_eviction=True, timeout=600.0)


class Failover(Harness):
    """A failover service; `step` appends what it decides."""

    def __init__(self, rules: Rules = ON, *events: Known) -> None:
        super().__init__(failover_with(rules), *events, now=NOW)

    def add(self, *events: Known) -> Failover:
        self.given(*events)
        return self

    def decide(self, now: float = NOW) -> FailoverDecision:
        self.now = now
        found: FailoverDecision = self.decision()
        return found

    def step(self, now: float = NOW) -> EvictionEvent | None:
        """Decide and append the event."""
        self.now = now
        event: EvictionEvent | None = self.decides()
        return event

    def placed(self, **counts: int) -> Failover:
        """The scheduler answers to everything so far."""
        return self.add(placement(as_of=self.seq, **counts))

    def healthy(self, **ready: int) -> Failover:
        """Members report so many ready replicas, and health accordingly."""
        return self.add(ready_in(**ready))


def tainted(name: str, *taints: tuple[str, str], added: str = NOW_TEXT) -> ClusterChanged:
    entries = [{"key": key, "effect": effect, "timeAdded": added} for key, effect in taints]
    return cluster(name, taints=entries)


def ready_in(**ready: int) -> StatusRolledUp:
    statuses = {name: {"replicas": count, "readyReplicas": count} for name, count in ready.items()}
    return rollup(at=NOW, **statuses)


def report(failover: Failover, at: float, **health: str) -> Failover:
    items = tuple(
        ClusterStatusItem(
            cluster=name, applied=True, health=value, status=raw({"availableReplicas": 1, "stage": "two"})
        )
        for name, value in sorted(health.items())
    )
    return failover.add(StatusRolledUp(key=KEY, uid="u1", items=items, provenance=Provenance(decided_at=at)))


def tolerating(*tolerations: dict[str, Any], **spec: Any) -> Any:
    """Facts of a binding and its placement on m1 and m2, with tolerations."""
    wanted = {**STATIC, "clusterTolerations": list(tolerations)}
    placed = replace(placement(as_of=0, m1=1, m2=1), placement=raw(wanted))
    return binding(placement=wanted, **spec), placed


def start(rules: Rules = ON) -> Failover:
    """Two replicas on m1 and m2; m3 is free."""
    return Failover(rules, cluster("m1"), cluster("m2"), cluster("m3"), binding(), placement(m1=1, m2=1))


def leaving(*facts: Known) -> Failover:
    """As above, and m1 has a taint that nothing tolerates."""
    return start().add(*facts, tainted("m1", ("x", "NoExecute")))


@pytest.mark.parametrize("effect", ["NoSchedule", "PreferNoSchedule"])
def test_only_no_execute_taints_evict(effect: str) -> None:
    assert start().add(tainted("m1", ("x", effect))).decide() == FailoverDecision()


def test_untolerated_taint_evicts_at_once() -> None:
    failover = leaving()
    event = failover.step()
    assert isinstance(event, EvictionRequested)
    (task,) = event.tasks
    assert (task.from_cluster, task.reason, task.producer) == ("m1", "TaintUntolerated", "TaintManager")
    assert (task.purge_mode, task.replicas, task.created_at) == ("Gracefully", 1, NOW)
    assert event.provenance.own == {"binding": 4, "placement": 5}
    again = failover.decide()
    assert not again.events
    assert again.wake_at == pytest.approx(NOW + 600, abs=0.01)


def test_no_eviction_with_taint_eviction_off() -> None:
    failover = start(Rules()).add(tainted("m1", ("x", "NoExecute")))
    assert failover.decide() == FailoverDecision()


def test_toleration_seconds_count_from_the_taint() -> None:
    requested, placed = tolerating(
        {"key": "x", "operator": "Exists", "tolerationSeconds": 60},
        {"key": "y", "operator": "Exists", "tolerationSeconds": 30},
    )
    failover = Failover().add(tainted("m1", ("x", "NoExecute"), ("y", "NoExecute")), cluster("m2"), requested, placed)
    assert failover.decide(NOW + 10) == FailoverDecision(wake_at=NOW + 30)
    assert failover.decide(NOW + 30).events


def test_endless_toleration_keeps_the_object() -> None:
    requested, placed = tolerating({"operator": "Exists"})
    failover = Failover().add(tainted("m1", ("x", "NoExecute")), cluster("m2"), requested, placed)
    assert failover.decide(NOW + 1e6) == FailoverDecision()


def test_unreadable_placement_postpones_the_eviction() -> None:
    failed = PlacementFailed(
        key=KEY, uid="u1", reason="NoClusterFit", message="", clusters=placement(m1=1).clusters, replicas=2
    )
    failover = Failover().add(tainted("m1", ("x", "NoExecute")), binding(), failed)
    event = failover.step()
    assert isinstance(event, EvictionRequested)
    ((waiting,), tasks) = event.postponed, event.tasks
    assert (waiting.cluster, tasks, event.changes) == ("m1", (), 0)
    assert "applied placement" in waiting.reason
    assert failover.step() is None, "that is on record"


def test_old_copy_leaves_once_its_replacement_is_ready() -> None:
    failover = start().healthy(m1=1, m2=1).add(tainted("m1", ("x", "NoExecute")))
    failover.step()
    assert failover.step() is None, "the scheduler has not answered"
    failover.placed(m2=2)
    assert failover.step() is None, "m2 was healthy with one replica, and it shall have two"
    failover.healthy(m1=1, m2=2)
    event = failover.step(NOW + 5)
    assert isinstance(event, EvictionFinished)
    assert event.left == ("m1",)
    assert failover.decide() == FailoverDecision()


def test_old_copy_leaves_at_the_end_of_its_grace() -> None:
    failover = leaving()
    failover.step()
    wake_at = failover.decide().wake_at
    assert wake_at is not None
    assert failover.step(wake_at - 1) is None
    event = failover.step(wake_at)
    assert isinstance(event, EvictionFinished)
    assert event.left == ("m1",)


def test_left_clusters_stay_recorded_until_a_placement() -> None:
    failover = leaving()
    failover.step()
    failover.step(NOW + 700)
    failover.add(tainted("m2", ("x", "NoExecute")))
    event = failover.step(NOW + 701)
    assert isinstance(event, EvictionRequested)
    assert ([task.from_cluster for task in event.tasks], event.left, event.unseen) == (["m2"], (), ("m1",))
    failover.placed(m3=2)
    event = failover.step(NOW + 1400)
    assert isinstance(event, EvictionFinished)
    assert (event.left, event.unseen) == (("m2",), ())


def test_two_clusters_leave_one_after_the_other() -> None:
    failover = leaving()
    failover.step()
    failover.add(tainted("m2", ("x", "NoExecute")))
    event = failover.step(NOW + 300)
    assert isinstance(event, EvictionRequested)
    assert [task.from_cluster for task in event.tasks] == ["m1", "m2"]
    event = failover.step(NOW + 601)
    assert isinstance(event, EvictionRequested)
    assert ([task.from_cluster for task in event.tasks], event.left) == (["m2"], ("m1",))


def test_a_failed_placement_is_no_answer() -> None:
    failover = leaving()
    failover.step()
    failed = PlacementFailed(
        key=KEY,
        uid="u1",
        reason="NoClusterFit",
        message="",
        replicas=2,
        placement=raw(STATIC),
        provenance=Provenance(as_of=failover.seq),
    )
    failover.add(failed)
    assert not failover.decide(NOW + 1).events


def test_a_toleration_that_ran_out_ends_like_a_taint() -> None:
    requested, placed = tolerating({"operator": "Exists", "tolerationSeconds": 60})
    failover = Failover().add(tainted("m1", ("x", "NoExecute")), cluster("m2"), cluster("m3"), requested, placed)
    failover.step(NOW + 60)
    failover.add(replace(placed, clusters=placement(m2=2).clusters, provenance=Provenance(as_of=failover.seq)))
    failover.healthy(m2=2)
    event = failover.step(NOW + 61)
    assert isinstance(event, EvictionFinished)
    assert event.left == ("m1",)
    assert failover.decide(NOW + 10_000) == FailoverDecision()


def test_a_cluster_that_is_back_keeps_what_was_not_replaced() -> None:
    failover = leaving()
    failover.step()
    failover.placed(m2=2)
    failover.healthy(m1=1, m2=1)
    failover.add(cluster("m1"))
    event = failover.step(NOW + 3)
    assert isinstance(event, EvictionFinished)
    assert (event.left, event.returned) == ((), (TargetCluster("m1", 1),))
    assert failover.decide(NOW + 3) == FailoverDecision()


def test_a_cluster_that_is_back_too_late_is_left() -> None:
    failover = leaving()
    failover.step()
    failover.placed(m2=2)
    failover.healthy(m1=1, m2=2)
    failover.add(cluster("m1"))
    event = failover.step(NOW + 3)
    assert isinstance(event, EvictionFinished)
    assert (event.left, event.returned) == (("m1",), ())


def test_a_cluster_that_is_back_keeps_its_copy_beyond_the_grace() -> None:
    failover = leaving()
    failover.step()
    failover.add(cluster("m1"))
    event = failover.step(NOW + 700)
    assert isinstance(event, EvictionFinished)
    assert (event.left, event.returned) == ((), (TargetCluster("m1", 1),))


def test_what_is_given_back_is_remembered_until_a_placement() -> None:
    failover = leaving()
    failover.step()
    failover.add(cluster("m1"))
    failover.step(NOW + 3)
    failover.add(tainted("m2", ("x", "NoExecute")))
    event = failover.step(NOW + 4)
    assert isinstance(event, EvictionRequested)
    assert ([task.from_cluster for task in event.tasks], event.returned) == (["m2"], (TargetCluster("m1", 1),))
    failover.add(tainted("m1", ("x", "NoExecute")))
    event = failover.step(NOW + 5)
    assert isinstance(event, EvictionRequested)
    assert ([task.from_cluster for task in event.tasks], event.returned) == (["m2", "m1"], ())


def test_a_copy_that_goes_directly_is_lost_in_any_case() -> None:
    failover = leaving(binding(failover={"cluster": {"purgeMode": "Directly"}}))
    failover.step()
    failover.add(cluster("m1"))
    assert failover.step(NOW + 3) is None, "its copy is still there"
    failover.add(replace(ready_in(m2=1), cleared=(Cleared("m1", NOW),)))
    event = failover.step(NOW + 4)
    assert isinstance(event, EvictionFinished)
    assert (event.left, event.returned) == (("m1",), ())


def test_a_member_that_is_gone_is_left_at_once() -> None:
    failover = leaving()
    failover.step()
    failover.add(removed("m1"))
    event = failover.step(NOW + 3)
    assert isinstance(event, EvictionFinished)
    assert (event.left, event.returned) == (("m1",), ())


def test_an_eviction_waits_for_the_state_that_it_takes_along() -> None:
    keep = {"rules": [{"aliasLabelName": "count", "jsonPath": "{.readyReplicas}"}]}
    cared = binding(failover={"cluster": {"purgeMode": "Directly", "statePreservation": keep}})
    rules = Rules(taint_eviction=True, gates=Gates(stateful_failover_injection=True))
    failover = Failover(rules, cluster("m1"), cluster("m2"), cared, placement(m1=1, m2=1))
    failover.add(tainted("m1", ("x", "NoExecute")))
    event = failover.step()
    assert isinstance(event, EvictionRequested)
    assert [waiting.cluster for waiting in event.postponed] == ["m1"]
    assert failover.given(ready_in(m1=1, m2=1)) == {KEY}, "what it lacked may have come"
    event = failover.step(NOW + 1)
    assert isinstance(event, EvictionRequested)
    assert (event.tasks[0].preserved_state, event.postponed, event.changes) == ({"count": "1"}, (), 1)


def test_what_waits_no_longer_is_taken_back() -> None:
    keep = {"rules": [{"aliasLabelName": "count", "jsonPath": "{.readyReplicas}"}]}
    cared = binding(failover={"cluster": {"purgeMode": "Directly", "statePreservation": keep}})
    rules = Rules(taint_eviction=True, gates=Gates(stateful_failover_injection=True))
    failover = Failover(rules, tainted("m1", ("x", "NoExecute")), cluster("m2"), cared, placement(m1=1, m2=1))
    failover.step()
    assert failover.state.postponed == {KEY}
    failover.add(cluster("m1"))
    assert isinstance(failover.step(NOW + 1), EvictionFinished)
    assert not failover.state.postponed


def test_cleared_copy_is_marked_as_removed() -> None:
    failover = leaving(binding(failover={"cluster": {"purgeMode": "Directly"}}))
    failover.step()
    failover.add(replace(ready_in(m2=1), cleared=(Cleared("m1", NOW - 1),)))
    assert failover.step() is None, "that was another eviction"
    failover.add(replace(ready_in(m2=1), cleared=(Cleared("m1", NOW),)))
    event = failover.step()
    assert isinstance(event, EvictionRequested)
    assert event.tasks[0].removed
    assert failover.step() is None


def test_an_eviction_ends_with_its_object() -> None:
    failover = leaving()
    failover.step()
    failover.add(released())
    assert isinstance(failover.step(), EvictionFinished)
    assert failover.decide() == FailoverDecision()


def test_eviction_of_replaced_object_is_closed() -> None:
    failover = leaving()
    failover.step()
    failover.add(binding(uid="u2"), placement(as_of=failover.seq, uid="u2", m1=1, m2=1))
    closed = failover.step()
    assert isinstance(closed, EvictionFinished)
    assert (closed.uid, closed.left) == ("u1", ())
    event = failover.step()
    assert isinstance(event, EvictionRequested)
    assert (event.uid, event.unseen) == ("u2", ())


def test_taint_change_marks_objects_that_run_there() -> None:
    failover = start()
    assert failover.given(tainted("m1", ("x", "NoExecute"))) == {KEY}
    assert failover.given(tainted("m1", ("x", "NoExecute"), ("y", "NoSchedule"))) == set()
    assert failover.given(tainted("m3", ("x", "NoExecute"))) == set()
    assert failover.given(removed("m1")) == {KEY}


def unhealthy(purge: str = "Gracefully", rules: Rules = ON, **behaviour: Any) -> Failover:
    wanted = {"decisionConditions": {"tolerationSeconds": 60}, "purgeMode": purge, **behaviour}
    requested = binding(failover={"application": wanted}, propagateDeps=True)
    return Failover(rules, cluster("m1"), cluster("m2"), cluster("m3"), requested, placement(m1=1, m2=1))


def test_application_leaves_where_it_stays_unhealthy() -> None:
    failover = report(unhealthy(gracePeriodSeconds=120), NOW, m1="Unhealthy", m2="Healthy")
    waiting = failover.decide(NOW + 1)
    assert not waiting.events
    assert waiting.wake_at == pytest.approx(NOW + 60, abs=0.01)
    report(failover, NOW + 30, m1="Unhealthy", m2="Healthy")
    (event,) = failover.decide(NOW + 60.5).events
    assert isinstance(event, EvictionRequested)
    (task,) = event.tasks
    assert (task.from_cluster, task.reason, task.grace_period_seconds) == ("m1", "ApplicationFailure", 120)
    assert task.producer == "resource-binding-application-failover-controller"
    assert task.created_at == NOW + 60.5


def test_one_good_report_restarts_the_toleration() -> None:
    failover = report(unhealthy(), NOW, m1="Unhealthy", m2="Healthy")
    report(failover, NOW + 50, m1="Unknown", m2="Healthy")
    report(failover, NOW + 55, m1="Unhealthy", m2="Healthy")
    verdict = failover.decide(NOW + 61)
    assert not verdict.events
    assert verdict.wake_at == pytest.approx(NOW + 115, abs=0.01)


def test_purge_mode_never_keeps_the_copy() -> None:
    failover = report(unhealthy("Never"), NOW, m1="Unhealthy", m2="Healthy")
    event = failover.step(NOW + 61)
    assert isinstance(event, EvictionRequested)
    assert event.tasks[0].suppress_deletion is True
    failover.placed(m2=2)
    report(failover, NOW + 70, m2="Healthy")
    assert failover.decide(NOW + 1e6) == FailoverDecision()


def test_state_is_preserved_with_the_gate() -> None:
    rules = Rules(gates=Gates(stateful_failover_injection=True))
    keep = {"rules": [{"aliasLabelName": "stage", "jsonPath": "{.stage}"}]}
    failover = unhealthy("Directly", rules, statePreservation=keep)
    (event,) = report(failover, NOW, m1="Unhealthy", m2="Healthy").decide(NOW + 61).events
    assert isinstance(event, EvictionRequested)
    assert event.tasks[0].preserved_state == {"stage": "two"}
    assert event.tasks[0].clusters_before == ("m1", "m2")


def test_disabled_gate_is_reported_as_the_problem() -> None:
    rules = Rules(gates=Gates(graceful_eviction=False))
    event = report(unhealthy(rules=rules), NOW, m1="Unhealthy", m2="Healthy").step(NOW + 61)
    assert isinstance(event, EvictionRequested)
    assert not event.tasks
    assert "GracefulEviction" in event.postponed[0].reason
