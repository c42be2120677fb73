"""When an object leaves a cluster and when it has left: decisions from facts, one after the other."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import Raw
from msgspec.structs import replace

from schemas.codec import Known
from schemas.envelope import Provenance
from schemas.events.binding import BindingReleased
from schemas.events.cluster import ClusterChanged, ClusterRemoved
from schemas.events.eviction import EvictionEvent, EvictionFinished, EvictionRequested
from schemas.events.placement import PlacementFailed
from schemas.events.rollup import Cleared, ClusterStatusItem, StatusRolledUp
from services._rules.failover.application_failover import Gates
from services.failover.decide import FailoverDecision, Rules, decide
from services.failover.state import FailoverState, fold
from tests.support.facts import KEY, STATIC, Log, binding, cluster, placement

NOW = 1_700_000_000.0
NOW_TEXT = "2023-11-14T22:13:20Z"
ON = Rules(taint_eviction=True, timeout=600.0)


class World:
    """A projection that is fed facts and appends what it decides."""

    def __init__(self, rules: Rules = ON) -> None:
        self.state = FailoverState()
        self.rules = rules
        self._log = Log()
        self.position = 0

    def add(self, *events: Known) -> World:
        for event in events:
            self.position, subject, event = self._log.place(event)
            fold(self.state, self.position, subject, event)
        return self

    def decide(self, now: float = NOW) -> FailoverDecision:
        return decide(self.state, KEY, now, self.rules)

    def step(self, now: float = NOW) -> EvictionEvent | None:
        """Decide and take the event in."""
        event = next(iter(self.decide(now).events), None)
        if event is not None:
            self.add(replace(event, provenance=replace(event.provenance, decided_at=now)))
        return event

    def placed(self, **counts: int) -> World:
        """The scheduler answers to everything so far."""
        return self.add(placement(as_of=self.position, **counts))

    def healthy(self, **ready: int) -> World:
        """Members report so many ready replicas, and health accordingly."""
        return self.add(rollup(**ready))


def tainted(name: str, *taints: tuple[str, str], added: str = NOW_TEXT) -> ClusterChanged:
    entries = [{"key": key, "effect": effect, "timeAdded": added} for key, effect in taints]
    return cluster(name, taints=entries)


def rollup(health: str = "Healthy", at: float = NOW, **ready: int) -> StatusRolledUp:
    items = tuple(
        ClusterStatusItem(
            cluster=name,
            applied=True,
            health=health,
            status=Raw(msgspec.json.encode({"replicas": count, "readyReplicas": count})),
        )
        for name, count in sorted(ready.items())
    )
    return StatusRolledUp(key=KEY, uid="u1", items=items, provenance=Provenance(decided_at=at))


def tolerating(*tolerations: dict[str, Any], **spec: Any) -> Any:
    """Facts of a binding and its placement on m1 and m2, with tolerations."""
    wanted = {**STATIC, "clusterTolerations": list(tolerations)}
    placed = replace(placement(as_of=0, m1=1, m2=1), placement=Raw(msgspec.json.encode(wanted)))
    return binding(placement=wanted, **spec), placed


def start(rules: Rules = ON) -> World:
    """Two replicas on m1 and m2; m3 is free."""
    return World(rules).add(cluster("m1"), cluster("m2"), cluster("m3"), binding(), placement(m1=1, m2=1))


def test_nothing_is_said_while_nothing_is_wrong() -> None:
    world = start().healthy(m1=1, m2=1)
    assert world.decide() == FailoverDecision()


@pytest.mark.parametrize("effect", ["NoSchedule", "PreferNoSchedule"])
def test_only_no_execute_drives_out(effect: str) -> None:
    assert start().add(tainted("m1", ("x", effect))).decide() == FailoverDecision()


def test_an_untolerated_taint_evicts_at_once_and_the_scheduler_is_told_what_ran_there() -> None:
    world = start().add(tainted("m1", ("x", "NoExecute")))
    event = world.step()
    assert isinstance(event, EvictionRequested)
    (task,) = event.tasks
    assert (task.from_cluster, task.reason, task.producer) == ("m1", "TaintUntolerated", "TaintManager")
    assert (task.purge_mode, task.replicas, task.created_at) == ("Gracefully", 1, NOW)
    assert event.provenance.own == {"binding": 4, "placement": 5}
    again = world.decide()
    assert not again.events
    assert again.wake_at == pytest.approx(NOW + 600, abs=0.01)


def test_nothing_is_evicted_while_the_settings_forbid_it() -> None:
    world = start(Rules()).add(tainted("m1", ("x", "NoExecute")))
    assert world.decide() == FailoverDecision()


def test_tolerations_count_from_the_moment_of_the_taint() -> None:
    requested, placed = tolerating(
        {"key": "x", "operator": "Exists", "tolerationSeconds": 60},
        {"key": "y", "operator": "Exists", "tolerationSeconds": 30},
    )
    world = World().add(tainted("m1", ("x", "NoExecute"), ("y", "NoExecute")), cluster("m2"), requested, placed)
    assert world.decide(NOW + 10) == FailoverDecision(wake_at=NOW + 30)
    assert world.decide(NOW + 30).events


def test_a_toleration_without_end_keeps_the_object() -> None:
    requested, placed = tolerating({"operator": "Exists"})
    world = World().add(tainted("m1", ("x", "NoExecute")), cluster("m2"), requested, placed)
    assert world.decide(NOW + 1e6) == FailoverDecision()


def test_without_a_readable_placement_nothing_moves_and_the_reason_is_told() -> None:
    failed = PlacementFailed(
        key=KEY, uid="u1", reason="NoClusterFit", message="", clusters=placement(m1=1).clusters, replicas=2
    )
    world = World().add(tainted("m1", ("x", "NoExecute")), binding(), failed)
    verdict = world.decide()
    assert not verdict.events
    assert "applied placement" in verdict.problem


def test_the_old_copy_goes_once_the_scheduler_answered_and_the_new_one_is_ready() -> None:
    world = start().healthy(m1=1, m2=1).add(tainted("m1", ("x", "NoExecute")))
    world.step()
    assert world.step() is None, "the scheduler has not answered"
    world.placed(m2=2)
    assert world.step() is None, "m2 was healthy with one replica, and it shall have two"
    world.healthy(m1=1, m2=2)
    event = world.step(NOW + 5)
    assert isinstance(event, EvictionFinished)
    assert event.left == ("m1",)
    assert world.decide() == FailoverDecision()


def test_a_copy_goes_at_the_end_of_its_grace_though_nothing_replaces_it() -> None:
    world = start().add(tainted("m1", ("x", "NoExecute")))
    world.step()
    wake_at = world.decide().wake_at
    assert wake_at is not None
    assert world.step(wake_at - 1) is None
    event = world.step(wake_at)
    assert isinstance(event, EvictionFinished)
    assert event.left == ("m1",)


def test_what_was_left_unseen_stays_on_record_until_a_placement_has_seen_it() -> None:
    world = start().add(tainted("m1", ("x", "NoExecute")))
    world.step()
    world.step(NOW + 700)
    world.add(tainted("m2", ("x", "NoExecute")))
    event = world.step(NOW + 701)
    assert isinstance(event, EvictionRequested)
    assert ([task.from_cluster for task in event.tasks], event.left, event.unseen) == (["m2"], (), ("m1",))
    world.placed(m3=2)
    event = world.step(NOW + 1400)
    assert isinstance(event, EvictionFinished)
    assert (event.left, event.unseen) == (("m2",), ())


def test_two_clusters_leave_one_after_the_other() -> None:
    world = start().add(tainted("m1", ("x", "NoExecute")))
    world.step()
    world.add(tainted("m2", ("x", "NoExecute")))
    event = world.step(NOW + 300)
    assert isinstance(event, EvictionRequested)
    assert [task.from_cluster for task in event.tasks] == ["m1", "m2"]
    event = world.step(NOW + 601)
    assert isinstance(event, EvictionRequested)
    assert ([task.from_cluster for task in event.tasks], event.left) == (["m2"], ("m1",))


def test_a_failed_placement_is_no_answer() -> None:
    world = start().add(tainted("m1", ("x", "NoExecute")))
    world.step()
    failed = PlacementFailed(
        key=KEY,
        uid="u1",
        reason="NoClusterFit",
        message="",
        replicas=2,
        placement=Raw(msgspec.json.encode(STATIC)),
        provenance=Provenance(as_of=world.position),
    )
    world.add(failed)
    assert not world.decide(NOW + 1).events


def test_a_cluster_whose_toleration_ran_out_is_not_chosen_again_while_the_taint_lasts() -> None:
    requested, placed = tolerating({"operator": "Exists", "tolerationSeconds": 60})
    world = World().add(tainted("m1", ("x", "NoExecute")), cluster("m2"), cluster("m3"), requested, placed)
    world.step(NOW + 60)
    world.add(replace(placed, clusters=placement(m2=2).clusters, provenance=Provenance(as_of=world.position)))
    world.healthy(m2=2)
    event = world.step(NOW + 61)
    assert isinstance(event, EvictionRequested), "without a task the scheduler would take the toleration for endless"
    assert ([task.purge_mode for task in event.tasks], event.left) == (["Directly"], ("m1",))
    assert world.decide(NOW + 10_000) == FailoverDecision()
    world.add(cluster("m1"))
    event = world.step(NOW + 10_001)
    assert isinstance(event, EvictionFinished)
    assert world.decide(NOW + 10_002) == FailoverDecision()


def test_the_policy_says_how_the_copy_goes() -> None:
    cluster_failover = {"cluster": {"purgeMode": "Directly"}}
    world = start().add(binding(failover=cluster_failover), tainted("m1", ("x", "NoExecute")))
    (event,) = world.decide().events
    assert isinstance(event, EvictionRequested)
    assert event.tasks[0].purge_mode == "Directly"


def test_a_copy_that_is_gone_is_noted_so_that_others_may_come() -> None:
    world = start().add(binding(failover={"cluster": {"purgeMode": "Directly"}}), tainted("m1", ("x", "NoExecute")))
    world.step()
    world.add(replace(rollup(m2=1), cleared=(Cleared("m1", NOW - 1),)))
    assert world.step() is None, "that was another eviction"
    world.add(replace(rollup(m2=1), cleared=(Cleared("m1", NOW),)))
    event = world.step()
    assert isinstance(event, EvictionRequested)
    assert event.tasks[0].removed
    assert world.step() is None


def test_an_eviction_ends_with_its_object() -> None:
    world = start().add(tainted("m1", ("x", "NoExecute")))
    world.step()
    world.add(BindingReleased(key=KEY, uid="u1"))
    assert isinstance(world.step(), EvictionFinished)
    assert world.decide() == FailoverDecision()


def test_an_eviction_of_a_predecessor_is_closed_and_does_not_concern_the_new_object() -> None:
    world = start().add(tainted("m1", ("x", "NoExecute")))
    world.step()
    world.add(binding(uid="u2"), placement(as_of=world.position, uid="u2", m1=1, m2=1))
    closed = world.step()
    assert isinstance(closed, EvictionFinished)
    assert (closed.uid, closed.left) == ("u1", ())
    event = world.step()
    assert isinstance(event, EvictionRequested)
    assert (event.uid, event.unseen) == ("u2", ())


def test_a_change_of_taints_concerns_what_runs_there_and_nothing_else() -> None:
    world = start()
    assert fold(world.state, 50, "cluster.m1", tainted("m1", ("x", "NoExecute"))) == [KEY]
    assert fold(world.state, 51, "cluster.m1", tainted("m1", ("x", "NoExecute"), ("y", "NoSchedule"))) == ()
    assert fold(world.state, 52, "cluster.m3", tainted("m3", ("x", "NoExecute"))) == []
    assert fold(world.state, 53, "cluster.m1", ClusterRemoved(name="m1", uid="uid-m1")) == [KEY]


def unhealthy_world(purge: str = "Gracefully", rules: Rules = ON, **behaviour: Any) -> World:
    wanted = {"decisionConditions": {"tolerationSeconds": 60}, "purgeMode": purge, **behaviour}
    requested = binding(failover={"application": wanted}, propagateDeps=True)
    return World(rules).add(cluster("m1"), cluster("m2"), cluster("m3"), requested, placement(m1=1, m2=1))


def report(world: World, at: float, **health: str) -> World:
    status = Raw(b'{"availableReplicas":1,"stage":"two"}')
    items = tuple(
        ClusterStatusItem(cluster=name, applied=True, health=value, status=status)
        for name, value in sorted(health.items())
    )
    return world.add(StatusRolledUp(key=KEY, uid="u1", items=items, provenance=Provenance(decided_at=at)))


def test_an_application_leaves_where_it_stays_unhealthy() -> None:
    world = report(unhealthy_world(gracePeriodSeconds=120), NOW, m1="Unhealthy", m2="Healthy")
    waiting = world.decide(NOW + 1)
    assert not waiting.events
    assert waiting.wake_at == pytest.approx(NOW + 60, abs=0.01)
    report(world, NOW + 30, m1="Unhealthy", m2="Healthy")
    (event,) = world.decide(NOW + 60.5).events
    assert isinstance(event, EvictionRequested)
    (task,) = event.tasks
    assert (task.from_cluster, task.reason, task.grace_period_seconds) == ("m1", "ApplicationFailure", 120)
    assert task.producer == "resource-binding-application-failover-controller"
    assert task.created_at == NOW + 60.5


def test_one_good_report_starts_the_patience_anew() -> None:
    world = report(unhealthy_world(), NOW, m1="Unhealthy", m2="Healthy")
    report(world, NOW + 50, m1="Unknown", m2="Healthy")
    report(world, NOW + 55, m1="Unhealthy", m2="Healthy")
    verdict = world.decide(NOW + 61)
    assert not verdict.events
    assert verdict.wake_at == pytest.approx(NOW + 115, abs=0.01)


def test_an_application_that_must_never_be_purged_keeps_its_copy() -> None:
    world = report(unhealthy_world("Never"), NOW, m1="Unhealthy", m2="Healthy")
    event = world.step(NOW + 61)
    assert isinstance(event, EvictionRequested)
    assert event.tasks[0].suppress_deletion is True
    world.placed(m2=2)
    report(world, NOW + 70, m2="Healthy")
    assert world.decide(NOW + 1e6) == FailoverDecision()


def test_state_is_taken_along_where_the_gate_is_on() -> None:
    rules = Rules(gates=Gates(stateful_failover_injection=True))
    keep = {"rules": [{"aliasLabelName": "stage", "jsonPath": "{.stage}"}]}
    world = unhealthy_world("Directly", rules, statePreservation=keep)
    (event,) = report(world, NOW, m1="Unhealthy", m2="Healthy").decide(NOW + 61).events
    assert isinstance(event, EvictionRequested)
    assert event.tasks[0].preserved_state == {"stage": "two"}
    assert event.tasks[0].clusters_before == ("m1", "m2")


def test_what_forbids_an_eviction_is_told() -> None:
    rules = Rules(gates=Gates(graceful_eviction=False))
    verdict = report(unhealthy_world(rules=rules), NOW, m1="Unhealthy", m2="Healthy").decide(NOW + 61)
    assert not verdict.events
    assert "GracefulEviction" in verdict.problem
