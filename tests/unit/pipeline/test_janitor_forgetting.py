"""What services remember of objects that are gone from the log: nothing, unless something new was said of them."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from schemas.codec import Known
from schemas.events.cluster import ClusterRemoved
from schemas.events.policy import PolicyDeleted
from schemas.events.work import WorkWithdrawn
from schemas.hints import Gone, Purged
from schemas.keys import PolicyKey
from services.detector import state as detector
from services.executor import state as executor
from services.failover import state as failover
from services.gateway import state as gateway
from services.override_renderer import state as renderer
from services.scheduler import state as scheduler
from services.status_aggregator import state as aggregator
from tests.support.facts import KEY
from tests.support.lifetimes import World

SERVICES: list[Any] = [
    (detector, detector.DetectorState, ("template", "policy", "binding")),
    (scheduler, scheduler.SchedulerState, ("binding", "cluster", "estimate", "eviction", "placement")),
    (failover, failover.FailoverState, ("binding", "placement", "eviction", "rollup", "cluster")),
    (
        renderer,
        renderer.RendererState,
        ("template", "binding", "placement", "eviction", "policy", "cluster", "work"),
    ),
    (executor, executor.ExecutorState, ("work", "cluster", "observed")),
    (
        aggregator,
        aggregator.AggregatorState,
        ("template", "binding", "placement", "eviction", "work", "cluster", "rollup", "observed"),
    ),
    (gateway, gateway.GatewayState, ("binding", "placement", "eviction", "rollup", "work", "cluster", "observed")),
]


def folded(world: World, service: Any, kind: Any, aggregates: tuple[str, ...]) -> Any:
    state = kind()
    for stream in ("FACTS", "OBSERVED"):
        for seq, time, subject, event in world.latest(stream):
            if subject.partition(".")[0] in aggregates:
                take(service, state, seq, time, subject, event)
    return state


def take(service: Any, state: Any, seq: int, time: float, subject: str, event: Known) -> None:
    middle = time if service is gateway else subject
    arguments = (seq, middle, event)
    for _ in service.fold(state, *arguments):
        pass


def remembered(state: Any) -> str:
    """Where the object is still named."""
    names = []
    for field in state.__struct_fields__:
        held = getattr(state, field)
        # Names that many facts share outlive them; what is to be told is not memory.
        if field not in ("shared", "changed") and "nginx" in repr(held):
            names.append(field)
    return " ".join(names)


@pytest.fixture
def ended() -> World:
    world = World("m1", "m2")
    world.create()
    world.settle()
    world.delete()
    world.settle()
    return world


@pytest.mark.parametrize(("service", "kind", "aggregates"), SERVICES, ids=lambda value: getattr(value, "__name__", ""))
def test_purged_object_is_forgotten(ended: World, service: Any, kind: Any, aggregates: Any) -> None:
    state = folded(ended, service, kind, aggregates)
    assert remembered(state)
    state.forget(Purged(objects=(Gone(KEY, ended.ends["FACTS"]),)))
    assert remembered(state) == ""
    bare = folded(World("m1", "m2"), service, kind, aggregates)
    for name in ("objects", "subjects", "template_facts", "binding_facts"):
        assert getattr(state, name, None) == getattr(bare, name, None)
    state.forget(Purged(objects=(Gone(KEY, ended.ends["FACTS"]),)))


def alike(kept: Any, other: Any) -> bool:
    """Whether two parts of states are equal, or hold the same where equality is not defined for them."""
    return bool(kept == other) or (hasattr(kept, "__dict__") and vars(kept) == vars(other))


@pytest.mark.parametrize(("service", "kind", "aggregates"), SERVICES, ids=lambda value: getattr(value, "__name__", ""))
def test_live_objects_are_not_forgotten(service: Any, kind: Any, aggregates: Any) -> None:
    world = World("m1", "m2")
    world.create()
    world.settle()
    state, same = (folded(world, service, kind, aggregates) for _ in range(2))
    state.forget(Purged(objects=(Gone(KEY, 0),), clusters=("m1",)))
    for field in state.__struct_fields__:
        if field not in ("skip", "clusters", "rooms"):
            assert alike(getattr(state, field), getattr(same, field)), field


def test_withdrawal_after_the_purge_is_carried_out(ended: World) -> None:
    state = folded(ended, executor, executor.ExecutorState, ("work", "cluster", "observed"))
    position = ended.ends["FACTS"]
    again = WorkWithdrawn(cluster="m1", key=KEY, uid="u2", api_version="apps/v1", kind="Deployment")
    list(executor.fold(state, position + 5, "work.m1.x", again))
    state.forget(Purged(objects=(Gone(KEY, position),)))
    assert state.by_cluster["m1"].unfinished() == [KEY]
    assert KEY not in state.by_cluster["m2"].works


@pytest.mark.parametrize(
    ("service", "kind", "aggregates"),
    [item for item in SERVICES if item[0] in (renderer, executor, aggregator, gateway)],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_purged_cluster_is_forgotten_with_its_works(service: Any, kind: Any, aggregates: Any) -> None:
    world = World("m1", "m2")
    world.create()
    world.settle()
    world.say(ClusterRemoved(name="m2", uid="uid-m2"))
    world.settle()
    state = folded(world, service, kind, aggregates)
    state.forget(Purged(clusters=("m2",)))
    assert not [name for name in getattr(state, "subjects", ()) if ".m2." in name]
    held = getattr(state, "objects", {}).get(KEY)
    assert "m2" not in getattr(held, "works", {})
    assert "m2" not in getattr(state, "by_cluster", {})
    assert "m2" not in getattr(state, "copies", {})
    assert remembered(state)


def test_purged_policy_is_forgotten() -> None:
    key = PolicyKey("PropagationPolicy", "default", "nginx-propagation")
    state = detector.DetectorState()
    list(detector.fold(state, 4, "policy.PropagationPolicy.default.nginx-propagation", PolicyDeleted(key=key, uid="p")))
    state.forget(Purged(policies=(key,)))
    assert (state.policy_facts, state.subjects) == ({}, {})


def test_recreated_object_is_decided_after_the_purge(ended: World) -> None:
    ended.create(uid="u2")
    for service, kind, aggregates in SERVICES:
        state = folded(ended, service, kind, aggregates)
        state.forget(Purged(objects=(Gone(KEY, ended.ends["FACTS"] - 2),)))
        if "binding" in aggregates and service is not detector:
            assert state.objects[KEY].binding.uid == "u2"
        if service is detector:
            assert replace(state.template_facts[KEY], prev=0).uid == "u2"
