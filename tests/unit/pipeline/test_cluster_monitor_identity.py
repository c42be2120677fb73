"""Clusters are removed when their objects are; who answers at a member's address is compared with who joined."""

from __future__ import annotations

from typing import Any

from msgspec import Raw
from msgspec.structs import replace

from schemas.codec import subject_of
from schemas.events.cluster import ClusterChanged, ClusterRemoved
from schemas.events.control_plane import AbsenceConfirmed, AbsenceHeld, AbsenceReleased
from services._rules.absence import absence_guard as absence
from services._rules.absence.endpoint_identity import Reading
from services.cluster_monitor.decide import (
    FINALIZER,
    Announce,
    ClusterDecision,
    WriteIdentity,
    WriteSpec,
    decide,
    decide_all,
)
from services.cluster_monitor.member_identity import fold_absence, is_another
from services.cluster_monitor.state import MonitorState, Probe

T0 = 1_793_232_000.0
HEALTHY = Probe(at=T0, online=True, healthy=True, summary={"kubernetesVersion": "v1.31"}, identity="k1")


def manifest(name: str, identity: str = "k1") -> dict[str, Any]:
    spec = {"syncMode": "Push", "id": identity}
    return {"metadata": {"name": name, "uid": f"uid-{name}", "finalizers": [FINALIZER]}, "spec": spec}


class World:
    """A monitor that knows some clusters."""

    def __init__(self, *names: str) -> None:
        self.state = MonitorState(listed=True)
        self.seq = 0
        absence.take_reading(self.state.guard, Reading("ours", 1), absence.noted(self.state.guard))
        for name in names:
            cluster = self.state.of(name)
            cluster.manifest = manifest(name)
            cluster.fact = ClusterChanged(name=name, uid=f"uid-{name}", manifest=Raw(b"{}"), identity="k1")

    def lists(self, *names: str) -> None:
        for name in {*self.state.clusters} - self.state.lost(names) - {*names}:
            self.state.of(name).manifest = None

    def decides(self, name: str = "") -> ClusterDecision:
        verdict = decide(self.state, name, T0) if name else decide_all(self.state, T0)
        if verdict.settled:
            absence.settle(self.state.guard)
        if verdict.memory is not None:
            self.state.of(name).memory = verdict.memory
        for event in verdict.events:
            self.seq += 1
            if isinstance(event, AbsenceHeld | AbsenceReleased):
                fold_absence(self.state, self.seq, subject_of(event), event)
            elif isinstance(event, ClusterChanged):
                self.state.of(name).fact = event
        return verdict

    def confirm(self, scope: str, position: int, identity: str) -> None:
        event = AbsenceConfirmed(scope=scope, held_at=position, by="anna", at=T0, identity=identity)
        self.seq += 1
        fold_absence(self.state, self.seq, subject_of(event), event)


def test_all_clusters_missing_at_once_are_held_until_that_is_confirmed() -> None:
    world = World("m1", "m2")
    world.lists()
    assert not any(isinstance(event, ClusterRemoved) for event in world.decides("m1").events)
    held = world.decides().events[0]
    assert isinstance(held, AbsenceHeld)
    assert held.missing == ("m1", "m2")
    world.confirm("clusters", world.seq, "ours")
    (removed,) = world.decides("m1").events
    assert isinstance(removed, ClusterRemoved)
    assert removed.reason.startswith("missing from the control plane, confirmed by anna")


def test_one_of_two_that_a_list_lacks_is_removed() -> None:
    world = World("m1", "m2")
    world.lists("m2")
    (removed,) = world.decides("m1").events
    assert removed == ClusterRemoved(
        name="m1", uid="uid-m1", reason="missing from a complete list of the control plane"
    )


def test_a_watch_that_tells_of_a_removal_is_believed() -> None:
    world = World("m1")
    world.state.told("m1", there=False)
    world.state.of("m1").manifest = None
    (removed,) = world.decides("m1").events
    assert isinstance(removed, ClusterRemoved)
    assert removed.reason == "deleted from the control plane"


def test_another_cluster_at_the_address_makes_the_member_not_ready_at_once() -> None:
    world = World("m1")
    world.state.of("m1").probe = replace(HEALTHY, identity="k2")
    verdict = world.decides("m1")
    fact = next(event for event in verdict.events if isinstance(event, ClusterChanged))
    assert (fact.identity, fact.stranger) == ("k1", "k2")
    assert is_another(world.state.of("m1"))
    held = next(event for event in verdict.events if isinstance(event, AbsenceHeld))
    assert (held.scope, held.identity, held.expected) == ("member/m1", "k2", "k1")
    assert any(isinstance(effect, Announce) for effect in verdict.effects)
    assert any(isinstance(effect, WriteSpec) for effect in verdict.effects)
    assert b'"ClusterIdentityChanged"' in bytes(fact.manifest)
    # Out of reach is no proof that it is the member again.
    world.state.of("m1").probe = Probe(at=T0)
    again = [event for event in world.decides("m1").events if isinstance(event, ClusterChanged)]
    assert all(event.stranger == "k2" for event in again)
    assert is_another(world.state.of("m1"))
    world.state.of("m1").probe = HEALTHY
    assert not is_another(world.state.of("m1"))
    verdict = world.decides("m1")
    fact = next(event for event in verdict.events if isinstance(event, ClusterChanged))
    assert fact.stranger == ""
    assert any(isinstance(event, AbsenceReleased) for event in verdict.events)


def test_another_cluster_that_is_confirmed_becomes_the_member() -> None:
    world = World("m1")
    world.state.of("m1").probe = replace(HEALTHY, identity="k2")
    world.decides("m1")
    world.confirm("member/m1", world.state.of("m1").held_at, "k2")
    verdict = world.decides("m1")
    assert WriteIdentity("m1", "", "k2") in verdict.effects
    fact = next(event for event in verdict.events if isinstance(event, ClusterChanged))
    assert (fact.identity, fact.stranger) == ("k2", "")


def test_the_first_identity_that_is_seen_counts_where_the_cluster_names_none() -> None:
    world = World("m1")
    cluster = world.state.of("m1")
    cluster.manifest = manifest("m1", "")
    cluster.fact = None
    cluster.probe = HEALTHY
    fact = next(event for event in world.decides("m1").events if isinstance(event, ClusterChanged))
    assert fact.identity == "k1"
    cluster.probe = replace(HEALTHY, identity="k2")
    fact = next(event for event in world.decides("m1").events if isinstance(event, ClusterChanged))
    assert (fact.identity, fact.stranger) == ("k1", "k2")
