"""When the janitor removes what ended, and that removing it step by step resurrects nothing."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from schemas.events.endpoints import EndpointsCollected, EndpointsReleased
from schemas.events.estimate import CapacityEstimated
from schemas.events.eviction import EvictionFinished
from schemas.events.observed import WorkObserved
from schemas.events.policy import PolicyChanged, PolicyDeleted
from services._kit.delivery.lane_parts import says_the_same
from services._rules.history.retention import Purge, trim_position
from services.janitor.decide import AskHistory, CleanupDecision, End, Trim, decide
from services.janitor.state import (
    TAIL_BYTES,
    JanitorState,
    SliceKey,
    Tail,
    fold,
    forget_object,
    trimmed,
    unreadable,
    weigh,
)
from tests.support.facts import KEY, POLICY, cluster, evicted, removed, template
from tests.support.lifetimes import World, named

RETENTION = 100.0
OVER = 2000.0


def ended(*members: str) -> World:
    """An object that was created, propagated, summed up and deleted again."""
    world = World(*(members or ("m1", "m2")))
    world.create()
    world.say(CapacityEstimated(key=KEY, uid="u1", requirements_digest="d"))
    world.settle()
    world.say(evicted("m1"), EvictionFinished(key=KEY, uid="u1"))
    world.settle()
    world.delete()
    world.settle()
    return world


def purges_of(found: CleanupDecision) -> tuple[Purge, ...]:
    (end,) = found.effects or (End(KEY, ()),)
    assert isinstance(end, End)
    return end.purges


def deleted_while_down() -> World:
    """An object that was deleted while m2 cannot be reached."""
    world = World("m1", "m2")
    world.create()
    world.settle()
    world.down = {"m2"}
    world.delete()
    world.settle()
    return world


def verdict(world: World, key: object = KEY, now: float = OVER) -> CleanupDecision:
    return decide(world.janitor(), key, now, RETENTION)  # type: ignore[arg-type]


def test_only_facts_of_an_ended_object_are_purged() -> None:
    world = ended()
    world.create(named("other"))
    world.settle()
    others = [name for name in world.present(">") if name.endswith(".other")]
    purges = purges_of(verdict(world))
    assert [purge.subject.partition(".")[0] for purge in purges] == [
        "work",
        "observed",
        "rollup",
        "eviction",
        "estimate",
        "placement",
        "binding",
        "template",
    ]
    world.purge(purges)
    assert world.present(">") == sorted(["cluster.m1", "cluster.m2", *others])
    assert len(others) == 8


def test_stop_after_any_purge_resurrects_nothing() -> None:
    world = ended()
    purges = purges_of(verdict(world))
    for done in range(len(purges) + 1):
        stopped = world.copy()
        stopped.purge(purges[:done])
        assert stopped.settle() == [], f"after {done} purges"
        stopped.purge(purges_of(verdict(stopped)))
        assert stopped.present(">") == ["cluster.m1", "cluster.m2"], f"after {done} purges"


def test_object_recreated_after_any_purge_is_unaffected() -> None:
    world = ended()
    purges = purges_of(verdict(world))

    def reborn(done: int) -> list[tuple[str, object]]:
        again = world.copy()
        again.purge(purges[:done])
        again.create(uid="u2")
        again.settle()
        # A purge decided before comes late: it reaches no further than its tombstones.
        again.purge(purges[done:])
        again.settle()
        assert verdict(again).waits == "its template is not closed"
        bare = [
            (subject, replace(event, prev=0))
            for stream in ("FACTS", "OBSERVED")
            for _, _, subject, event in again.latest(stream)
            if "nginx" in subject
        ]
        return [(subject, getattr(event, "uid", "")) for subject, event in bare]

    expected = {subject: "u2" for subject, _ in reborn(len(purges))}
    assert len(expected) == 8
    for done in range(len(purges)):
        assert dict(reborn(done)) == expected, f"after {done} purges"


def test_nothing_is_purged_before_the_retention_ends() -> None:
    found = verdict(ended(), now=1000.0 + RETENTION - 1)
    assert not found.effects
    assert found.wake_at == 1000.0 + RETENTION


def test_nothing_is_purged_before_history_holds_it() -> None:
    state = ended().janitor()
    last = max(item.seq for item in (*state.objects[KEY].facets.values(), *state.objects[KEY].works.values()))
    state.held = last - 1
    found = decide(state, KEY, OVER, RETENTION)
    assert found.effects == (AskHistory(KEY, last),)
    state.held = last
    assert purges_of(decide(state, KEY, OVER, RETENTION))


@pytest.mark.parametrize("aggregate", ["template", "binding", "placement", "eviction", "rollup"])
def test_an_open_facet_keeps_the_object(aggregate: str) -> None:
    state = ended().janitor()
    facets = state.objects[KEY].facets
    facets[aggregate] = replace(facets[aggregate], closed=False)
    assert decide(state, KEY, OVER, RETENTION) == CleanupDecision(waits=f"its {aggregate} is not closed")


def test_unreachable_member_keeps_the_object_until_it_is_back() -> None:
    world = deleted_while_down()
    assert purges_of(verdict(world)) == ()
    world.down = set()
    world.settle()
    assert purges_of(verdict(world))


def test_unreachable_member_keeps_the_object_until_removed() -> None:
    world = deleted_while_down()
    world.say(removed("m2"))
    world.settle()
    world.purge(purges_of(verdict(world)))
    world.purge(purges_of(verdict(world, "m2")))
    assert world.present(">") == ["cluster.m1"]


def test_report_on_an_earlier_withdrawal_does_not_count() -> None:
    state = ended().janitor()
    remains = state.objects[KEY]
    seen = remains.observed["m1"]
    remains.observed["m1"] = replace(seen, work_seq=remains.works["m1"].seq - 1)
    assert decide(state, KEY, OVER, RETENTION).waits == "cluster m1 has not confirmed that its copy is gone"


def test_copy_withdrawn_twice_is_confirmed_by_its_member() -> None:
    world = World("m1")
    world.create()
    world.settle()
    world.delete()
    world.settle()
    world.down = {"m1"}
    world.create(uid="u1")
    world.settle()
    world.delete(uid="u1")
    world.settle()
    assert verdict(world).waits == "cluster m1 has not confirmed that its copy is gone"
    world.down = set()
    world.settle()
    assert purges_of(verdict(world))


@pytest.mark.parametrize("later", [False, True])
def test_a_member_confirms_each_withdrawal_on_its_own(later: bool) -> None:
    seen = WorkObserved(cluster="m1", key=KEY, uid="u1", work_seq=4, absent=True)
    assert says_the_same(seen, replace(seen, work_seq=9 if later else 4, at=7.0)) is not later


def test_present_copy_keeps_the_object() -> None:
    state = ended().janitor()
    remains = state.objects[KEY]
    remains.observed["m1"] = replace(remains.observed["m1"], absent=False)
    assert decide(state, KEY, OVER, RETENTION).waits == "cluster m1 has not confirmed that its copy is gone"


def test_observation_before_its_work_is_kept() -> None:
    world = ended()
    state = world.janitor()
    remains = state.objects[KEY]
    del remains.works["m1"]
    remains.observed["m1"] = replace(remains.observed["m1"], work_seq=state.folded + 1)
    assert decide(state, KEY, OVER, RETENTION).waits == "the work that cluster m1 reports on is not known yet"


def test_cluster_with_an_unreadable_fact_counts_as_a_member() -> None:
    world = deleted_while_down()
    world.say(removed("m2"))
    world.settle()
    state = world.janitor()
    assert purges_of(decide(state, KEY, OVER, RETENTION))
    assert list(unreadable(state, "cluster.m2")) == ["m2"]
    assert decide(state, KEY, OVER, RETENTION).waits == "cluster m2 has not confirmed that its copy is gone"


def test_removed_cluster_is_purged_once_its_works_ended() -> None:
    world = World("m1", "m2")
    world.create()
    world.settle()
    assert verdict(world, "m2").waits == "it is a member"
    world.say(removed("m2"))
    assert verdict(world, "m2").waits.startswith("the work of ")
    world.settle()
    world.purge(purges_of(verdict(world, "m2")))
    assert [name for name in world.present(">") if ".m2" in name] == []
    assert len(world.present("work.m1.>")) == 1
    assert world.settle() == []
    world.say(cluster("m2"))
    assert verdict(world, "m2").waits == "it is a member"


def test_deleted_policy_is_purged() -> None:
    world = World()
    world.say(PolicyChanged(key=POLICY.key, uid="p", manifest=template().manifest))  # type: ignore[arg-type]
    assert verdict(world, POLICY.key).waits == "the policy is there"
    world.say(PolicyDeleted(key=POLICY.key, uid="p"))
    world.purge(purges_of(verdict(world, POLICY.key)))
    assert world.present(">") == []


def test_released_endpoints_are_purged_once_they_are_old() -> None:
    place = {"cluster": "m1", "namespace": "default", "name": "web-a", "service": "web"}
    key = SliceKey("endpoints.m1.default.web-a")
    world = World("m1")
    world.say(EndpointsCollected(**place, address_type="IPv4"))
    assert verdict(world, key).waits == "it counts"
    world.say(EndpointsReleased(**place))
    assert verdict(world, key, now=RETENTION).waits == "its retention is not over"
    world.purge(purges_of(verdict(world, key)))
    assert world.present("endpoints.>") == []
    state = world.janitor()
    assert state.slices == {}


def test_facts_after_the_purge_are_not_forgotten() -> None:
    world = ended()
    state = world.janitor()
    world.create(uid="u2")
    for seq, time, subject, event in world.streams["FACTS"][-2:]:
        list(fold(state, seq, time, subject, event))
    forget_object(state, KEY, world.ends["FACTS"] - 2, world.ends["OBSERVED"])
    assert sorted(state.objects[KEY].facets) == ["binding", "template"]
    assert state.objects[KEY].works == {}


def test_ended_objects_of_a_lost_member_are_kept() -> None:
    world = World("m1", "m2")
    for number in range(50):
        world.create(named(f"job-{number}"))
    world.settle()
    world.down = {"m2"}
    kept = {f"job-{number}" for number in range(10)}
    for number in range(50):
        world.delete(named(f"job-{number}"))
    world.settle()
    back = world.copy()
    state = world.janitor()
    assert not any(purges_of(decide(state, key, OVER, RETENTION)) for key in state.objects)
    back.down = set()
    for name in kept:
        back.create(named(name), uid="u2")
    back.settle()
    state = back.janitor()
    for key in list(state.objects):
        back.purge(purges_of(decide(state, key, OVER, RETENTION)))
    left = {name.rpartition(".")[2] for name in back.present("template.>")}
    assert left == kept
    assert {name.rpartition(".")[2] for name in back.present(">")} == kept | {"m1", "m2"}


@pytest.mark.parametrize(
    ("positions", "tail", "held", "expected"),
    [
        ([1, 2, 3, 4, 5], 2, 9, 3),
        ([1, 2, 3, 4, 5], 2, 2, 2),
        ([1, 2, 3, 4, 5], 2, 0, 0),
        ([4, 5], 2, 9, 0),
        ([], 2, 9, 0),
    ],
)
def test_tail_is_trimmed_up_to_what_history_holds(positions: list[int], tail: int, held: int, expected: int) -> None:
    assert trim_position(positions, tail, held) == expected


def test_busy_subject_is_trimmed_in_steps() -> None:
    state = World().janitor()
    state.tail = 4
    looks = []
    for seq in range(1, 30):
        event = replace(template(), prev=seq - 1)
        looks += [seq for key in fold(state, seq, 1.0, "template.1.a.b.c", event) if isinstance(key, Tail)]
    assert looks == [9, 13, 17, 21, 25, 29]


def test_what_arrives_during_a_check_stays_counted() -> None:
    state, subject, size = World().janitor(), "template.1.a.b.c", TAIL_BYTES // 4
    looks = [number for number in range(1, 10) if tuple(weigh(state, subject, size))]
    assert looks == [9]

    began = state.weights[subject]
    for _ in range(4):
        weigh(state, subject, size)
    trimmed(state, subject, [size] * 4, 0, began)
    assert verdict_of(state, subject) == (Trim(Tail(subject)),)

    began = state.weights[subject]
    trimmed(state, subject, [size] * 4, 0, began)
    assert verdict_of(state, subject) == ()


@pytest.mark.parametrize(("left", "again"), [([3, 3], True), ([5], False), ([2, 2], False)])
def test_a_subject_is_checked_until_history_holds_it(left: list[int], again: bool) -> None:
    state, subject = World().janitor(), "template.1.a.b.c"
    trimmed(state, subject, [TAIL_BYTES * part // 4 for part in left], 0, 0)
    assert bool(verdict_of(state, subject)) is again


def verdict_of(state: JanitorState, subject: str) -> tuple[object, ...]:
    return tuple(decide(state, Tail(subject), OVER, RETENTION).effects)
