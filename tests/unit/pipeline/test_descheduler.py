"""When the descheduler asks and what it takes back: turns, answers that came too late, what was lowered before."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from schemas.agent import RoomAnswers
from schemas.codec import Known, subject_of
from schemas.events.binding import BindingReleased, BindingRequested
from schemas.events.descheduling import LoweredCluster, ReplicasDescheduled
from schemas.events.eviction import EvictionRequested, EvictionTask
from schemas.events.placement import PlacementDecided, PlacementReleased
from schemas.events.rollup import ClusterStatusItem, StatusRolledUp
from schemas.hints import Gone, Purged
from schemas.keys import ObjectKey
from services._kit.base.log_errors import Unavailable
from services._kit.base.settings import SettingsError, load
from services._rules.decision import Decision
from services.descheduler.app import Estimators, NoAnswer
from services.descheduler.decide import Question, decide, next_turn
from services.descheduler.settings import DeschedulerSettings
from services.descheduler.state import Answers, DeschedulerState, fold
from tests.support.facts import KEY, binding, placement

NOW = 1_793_232_000.0 + 7
INTERVAL = 120.0
TURN = next_turn(NOW, INTERVAL)
AGGREGATED: dict[str, Any] = {
    "replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}
}


def placed(**counts: int) -> PlacementDecided:
    return msgspec.structs.replace(placement(**counts), placement=msgspec.Raw(msgspec.json.encode(AGGREGATED)))


def ready(uid: str = "u1", **counts: int) -> StatusRolledUp:
    items = tuple(
        ClusterStatusItem(
            cluster=name, applied=True, status=msgspec.Raw(msgspec.json.encode({"readyReplicas": number}))
        )
        for name, number in counts.items()
    )
    return StatusRolledUp(key=KEY, uid=uid, items=items)


class World:
    """A descheduler's state at the end of a log."""

    def __init__(self, *events: Known) -> None:
        self.state = DeschedulerState()
        self.seq = 0
        self.given(*events)

    def given(self, *events: Known) -> None:
        for event in events:
            self.seq += 1
            assert list(fold(self.state, self.seq, subject_of(event), event)) == [event.key]  # type: ignore[union-attr]

    def decides(self, now: float = NOW, turn: float | None = None, **unschedulable: int) -> Decision:
        answers = Answers(self.state.objects[KEY].asked_from, unschedulable) if unschedulable else None
        verdict = decide(self.state, KEY, now, INTERVAL, turn, answers)
        self.given(*verdict.events)
        return verdict


def short() -> World:
    """Five in m1 of which two are ready, three in m2 that all are."""
    return World(binding(8, AGGREGATED), placed(m1=5, m2=3), ready(m1=2, m2=3))


def fact(verdict: Decision) -> ReplicasDescheduled:
    (event,) = verdict.events
    assert isinstance(event, ReplicasDescheduled)
    return event


def lowered(verdict: Decision) -> dict[str, int]:
    return {item.name: item.replicas for item in fact(verdict).clusters}


def test_whoever_lacks_ready_replicas_has_its_turn_first_and_is_asked_about_then() -> None:
    world = short()
    assert world.decides() == Decision(wake_at=TURN)
    (question,) = world.decides(TURN, TURN).effects
    assert question == Question(KEY, ("m1",), (2, 0, 0)), "m2 lacks nothing"


def test_the_same_turn_comes_for_all_and_after_a_restart() -> None:
    assert TURN == 1_793_232_120.0
    assert next_turn(TURN, INTERVAL) == TURN + INTERVAL
    assert next_turn(NOW, 0.0) - NOW <= 1.0


def test_a_turn_from_before_the_clock_was_set_back_is_not_waited_for() -> None:
    assert short().decides(NOW, NOW + 3600) == Decision(wake_at=TURN)


def test_replicas_without_a_node_are_taken_back_down_to_what_is_ready() -> None:
    world = short()
    verdict = world.decides(TURN, TURN + INTERVAL, m1=3)
    assert lowered(verdict) == {"m1": 2}
    assert (fact(verdict).placement, fact(verdict).provenance.own) == (2, {"binding": 1, "placement": 2, "rollup": 3})
    assert world.decides(TURN, TURN + INTERVAL) == Decision(), "now m1 has what it was given"


def test_an_answer_that_takes_nothing_back_leaves_the_next_turn() -> None:
    assert short().decides(TURN, TURN + INTERVAL, m1=6) == Decision(wake_at=TURN + INTERVAL)


@pytest.mark.parametrize(
    "news",
    [
        placed(m1=5, m2=3),
        EvictionRequested(
            key=KEY, uid="u1", tasks=(EvictionTask(from_cluster="m2", reason="TaintUntolerated", producer="p"),)
        ),
        ReplicasDescheduled(key=KEY, uid="u1", placement=2, clusters=(LoweredCluster("m1", 4, 5),)),
    ],
    ids=["placed anew", "evicted", "lowered"],
)
def test_an_answer_to_what_is_outdated_is_not_used(news: Known) -> None:
    world = short()
    answers = Answers(world.state.objects[KEY].asked_from, {"m1": 3})
    world.given(news)
    assert not decide(world.state, KEY, TURN, INTERVAL, TURN + INTERVAL, answers).events


def test_what_was_lowered_before_stays_so_while_nobody_places_it_anew() -> None:
    world = World(binding(10, AGGREGATED), placed(m1=5, m2=5), ready(m1=3, m2=5))
    world.decides(TURN, TURN, m1=1)
    world.given(ready(m1=3, m2=0))
    verdict = world.decides(TURN + INTERVAL, TURN, m2=2)
    assert lowered(verdict) == {"m1": 4, "m2": 3}
    assert [item.before for item in fact(verdict).clusters] == [4, 5]


def test_a_later_placement_begins_from_its_own_numbers() -> None:
    world = short()
    world.decides(TURN, TURN, m1=3)
    world.given(placed(m1=2, m2=6), ready(m1=2, m2=3))
    assert lowered(world.decides(TURN, TURN, m2=3)) == {"m2": 3}


def test_an_evicted_cluster_is_not_asked_about() -> None:
    world = World(binding(8, AGGREGATED), placed(m1=5, m2=3), ready(m1=2, m2=1))
    task = EvictionTask(from_cluster="m1", reason="TaintUntolerated", producer="p")
    world.given(EvictionRequested(key=KEY, uid="u1", tasks=(task,)))
    (question,) = world.decides(TURN, TURN).effects
    assert isinstance(question, Question)
    assert question.clusters == ("m2",)


@pytest.mark.parametrize(
    "world",
    [
        World(binding(8, AGGREGATED), placed(m1=5, m2=3), ready(m1=5, m2=3)),
        World(binding(8, AGGREGATED), placement(m1=5, m2=3), ready(m1=2, m2=3)),
        World(binding(8, AGGREGATED, uid="u2"), placed(m1=5, m2=3), ready(m1=2, m2=3)),
        World(binding(8, AGGREGATED), ready(m1=2)),
        World(placed(m1=5), ready(m1=2), BindingReleased(key=KEY, uid="u1")),
        World(binding(8, AGGREGATED), PlacementReleased(key=KEY, uid="u1"), ready(m1=2)),
    ],
    ids=["all ready", "static weights", "another uid", "not placed", "released", "placement released"],
)
def test_nothing_to_do(world: World) -> None:
    assert world.decides(TURN, TURN, m1=3) == Decision()


def test_a_status_of_another_uid_says_nothing_of_what_is_ready() -> None:
    world = World(binding(5, AGGREGATED), placed(m1=5), ready(uid="u0", m1=5))
    assert lowered(world.decides(TURN, TURN, m1=2)) == {"m1": 3}


def test_suspension_and_the_schedulers_name_do_not_matter() -> None:
    asked: BindingRequested = binding(5, AGGREGATED, suspension={"scheduling": True}, schedulerName="other")
    world = World(asked, placed(m1=5), ready(m1=1))
    assert lowered(world.decides(TURN, TURN, m1=2)) == {"m1": 3}


def test_what_ended_is_forgotten_and_what_goes_on_is_not() -> None:
    world = short()
    world.decides(TURN, TURN, m1=3)
    purged = Purged(objects=(Gone(KEY, 100),))
    world.state.forget(purged)
    assert KEY in world.state.objects
    world.given(
        BindingReleased(key=KEY, uid="u1"),
        PlacementReleased(key=KEY, uid="u1"),
        StatusRolledUp(key=KEY, uid="u1", closed=True),
    )
    world.state.forget(purged)
    assert not world.state.objects
    assert not world.state.subjects


@pytest.mark.parametrize("name", ["DESCHEDULING_INTERVAL", "UNSCHEDULABLE_THRESHOLD", "SCHEDULER_ESTIMATOR_TIMEOUT"])
def test_negative_times_are_refused_by_name(name: str) -> None:
    with pytest.raises(SettingsError, match=name):
        load(DeschedulerSettings, {f"FLEETLOG_{name}": "-1"})


def test_defaults_are_karmadas() -> None:
    settings = load(DeschedulerSettings, {})
    times = (settings.descheduling_interval, settings.unschedulable_threshold, settings.scheduler_estimator_timeout)
    assert times == (120.0, 300.0, 3.0)


class Line:
    """A connection to estimators that answer as they are told, or not at all."""

    def __init__(self, **answers: RoomAnswers | bytes) -> None:
        self.answers = answers
        self.asked: list[tuple[str, Any, float]] = []

    async def request(self, subject: str, data: bytes, timeout: float) -> Any:
        self.asked.append((subject, msgspec.json.decode(data), timeout))
        answer = self.answers.get(subject.partition(".")[2])
        if answer is None:
            raise Unavailable("nobody answers")
        return Answered(answer if isinstance(answer, bytes) else msgspec.json.encode(answer))


class Answered:
    def __init__(self, data: bytes) -> None:
        self.data = data


def count(number: int) -> RoomAnswers:
    return RoomAnswers(id="1", replicas=(number,))


async def test_every_cluster_is_asked_for_the_deployment_and_no_opinion_is_left_out() -> None:
    line = Line(m1=count(2), m2=count(-1), m3=count(0))
    found = await Estimators(line, 3.0).unschedulable(KEY, ["m1", "m2", "m3"], 300.0)  # type: ignore[arg-type]
    assert found == {"m1": 2, "m3": 0}
    workload = {"kind": "Deployment", "namespace": "default", "name": "nginx"}
    assert line.asked[0] == ("unschedulable.m1", {"workload": workload, "threshold": 300.0}, 3.0)


@pytest.mark.parametrize("answer", [RoomAnswers(id="1", problem="away"), RoomAnswers(id="1"), b"[torn", None], ids=str)
async def test_one_cluster_without_answer_makes_all_unknown(answer: RoomAnswers | bytes | None) -> None:
    line = Line(m1=count(2), **({} if answer is None else {"m2": answer}))
    with pytest.raises(NoAnswer, match="m2"):
        await Estimators(line, 3.0).unschedulable(KEY, ["m1", "m2"], 300.0)  # type: ignore[arg-type]


def test_only_deployments_are_read() -> None:
    from services._kit.log.stream_port import match
    from services.descheduler.app import Descheduler

    def read(key: ObjectKey) -> bool:
        subject = subject_of(msgspec.structs.replace(placed(m1=1), key=key))
        return any(match(pattern, subject) for pattern in Descheduler.filters)

    assert read(KEY)
    assert not read(ObjectKey("apps", "statefulsets", "default", "nginx"))
    assert not read(ObjectKey("", "configmaps", "default", "nginx"))
