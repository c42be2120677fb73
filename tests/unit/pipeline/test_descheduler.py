"""When the descheduler asks and what it takes back: turns, answers that came too late, what was lowered before."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from schemas.agent import RoomAnswers
from schemas.codec import Known, subject_of
from schemas.events.binding import BindingRequested
from schemas.events.descheduling import LoweredCluster, ReplicasDescheduled
from schemas.events.placement import PlacementDecided, PlacementReleased
from schemas.events.rollup import StatusRolledUp
from schemas.hints import Gone, Purged
from schemas.keys import ObjectKey
from services._kit.base.log_errors import Unavailable
from services._kit.base.settings import SettingsError, load
from services._kit.log.stream_port import match
from services._rules.decision import Decision
from services.descheduler.app import Descheduler, Estimators, NoAnswer
from services.descheduler.decide import Question, decide, next_turn
from services.descheduler.settings import DeschedulerSettings
from services.descheduler.state import Answers
from tests.support import facts
from tests.support.facts import DIVIDED, KEY, binding, evicted, placement, raw, ready_in, released
from tests.support.harness import DESCHEDULER, Harness

NOW = facts.NOW + 7
INTERVAL = 120.0
TURN = next_turn(NOW, INTERVAL)


PLACED = {"placement": raw(DIVIDED)}


def placed(**counts: int) -> PlacementDecided:
    return replace(placement(**counts), **PLACED)


class Descheduling(Harness):
    """A descheduler and its answers from estimators."""

    def __init__(self, *events: Known) -> None:
        super().__init__(DESCHEDULER, *events, now=NOW)

    def decides(self, now: float = NOW, turn: float | None = None, **unschedulable: int) -> Decision:
        answers = Answers(self.state.objects[KEY].asked_from, unschedulable) if unschedulable else None
        decision = decide(self.state, KEY, now, INTERVAL, turn, answers)
        self.given(*decision.events)
        return decision


def short() -> Descheduling:
    """Five in m1 of which two are ready, three in m2 that all are."""
    return Descheduling(binding(8, DIVIDED), placed(m1=5, m2=3), ready_in(m1=2, m2=3))


def fact(decision: Decision) -> ReplicasDescheduled:
    (event,) = decision.events
    assert isinstance(event, ReplicasDescheduled)
    return event


def lowered(verdict: Decision) -> dict[str, int]:
    return {item.name: item.replicas for item in fact(verdict).clusters}


def test_object_lacking_ready_replicas_is_asked_about_in_turn() -> None:
    descheduler = short()
    assert descheduler.decides() == Decision(wake_at=TURN)
    (question,) = descheduler.decides(TURN, TURN).effects
    assert question == Question(KEY, ("m1",), (2, 0, 0)), "m2 lacks nothing"


def test_turns_are_the_same_for_all_and_after_a_restart() -> None:
    assert TURN == 1_793_232_120.0
    assert next_turn(TURN, INTERVAL) == TURN + INTERVAL
    assert next_turn(NOW, 0.0) - NOW <= 1.0


def test_turn_from_before_a_clock_step_is_not_waited_for() -> None:
    assert short().decides(NOW, NOW + 3600) == Decision(wake_at=TURN)


def test_unschedulable_replicas_are_lowered_to_ready_ones() -> None:
    descheduler = short()
    verdict = descheduler.decides(TURN, TURN + INTERVAL, m1=3)
    assert lowered(verdict) == {"m1": 2}
    assert (fact(verdict).placement, fact(verdict).provenance.own) == (2, {"binding": 1, "placement": 2, "rollup": 3})
    assert descheduler.decides(TURN, TURN + INTERVAL) == Decision(), "now m1 has what it was given"


def test_answer_without_effect_leaves_the_next_turn() -> None:
    assert short().decides(TURN, TURN + INTERVAL, m1=6) == Decision(wake_at=TURN + INTERVAL)


@pytest.mark.parametrize(
    "news",
    [
        placed(m1=5, m2=3),
        evicted("m2"),
        ReplicasDescheduled(key=KEY, uid="u1", placement=2, clusters=(LoweredCluster("m1", 4, 5),)),
    ],
    ids=["placed anew", "evicted", "lowered"],
)
def test_outdated_answer_is_not_used(news: Known) -> None:
    descheduler = short()
    answers = Answers(descheduler.state.objects[KEY].asked_from, {"m1": 3})
    descheduler.given(news)
    assert not decide(descheduler.state, KEY, TURN, INTERVAL, TURN + INTERVAL, answers).events


def test_lowered_replicas_stay_until_the_next_placement() -> None:
    descheduler = Descheduling(binding(10, DIVIDED), placed(m1=5, m2=5), ready_in(m1=3, m2=5))
    descheduler.decides(TURN, TURN, m1=1)
    descheduler.given(ready_in(m1=3, m2=0))
    verdict = descheduler.decides(TURN + INTERVAL, TURN, m2=2)
    assert lowered(verdict) == {"m1": 4, "m2": 3}
    assert [item.before for item in fact(verdict).clusters] == [4, 5]


def test_later_placement_replaces_lowered_replicas() -> None:
    descheduler = short()
    descheduler.decides(TURN, TURN, m1=3)
    descheduler.given(placed(m1=2, m2=6), ready_in(m1=2, m2=3))
    assert lowered(descheduler.decides(TURN, TURN, m2=3)) == {"m2": 3}


def test_an_evicted_cluster_is_not_asked_about() -> None:
    descheduler = Descheduling(binding(8, DIVIDED), placed(m1=5, m2=3), ready_in(m1=2, m2=1))
    descheduler.given(evicted("m1"))
    (question,) = descheduler.decides(TURN, TURN).effects
    assert isinstance(question, Question)
    assert question.clusters == ("m2",)


@pytest.mark.parametrize(
    "descheduler",
    [
        Descheduling(binding(8, DIVIDED), placed(m1=5, m2=3), ready_in(m1=5, m2=3)),
        Descheduling(binding(8, DIVIDED), placement(m1=5, m2=3), ready_in(m1=2, m2=3)),
        Descheduling(binding(8, DIVIDED, uid="u2"), placed(m1=5, m2=3), ready_in(m1=2, m2=3)),
        Descheduling(binding(8, DIVIDED), ready_in(m1=2)),
        Descheduling(placed(m1=5), ready_in(m1=2), released()),
        Descheduling(binding(8, DIVIDED), PlacementReleased(key=KEY, uid="u1"), ready_in(m1=2)),
    ],
    ids=["all ready", "static weights", "another uid", "not placed", "released", "placement released"],
)
def test_no_descheduling_without_a_reason(descheduler: Descheduling) -> None:
    assert descheduler.decides(TURN, TURN, m1=3) == Decision()


def test_status_of_another_uid_does_not_count() -> None:
    descheduler = Descheduling(binding(5, DIVIDED), placed(m1=5), ready_in(uid="u0", m1=5))
    assert lowered(descheduler.decides(TURN, TURN, m1=2)) == {"m1": 3}


def test_suspension_and_scheduler_name_do_not_matter() -> None:
    asked: BindingRequested = binding(5, DIVIDED, suspension={"scheduling": True}, schedulerName="other")
    descheduler = Descheduling(asked, placed(m1=5), ready_in(m1=1))
    assert lowered(descheduler.decides(TURN, TURN, m1=2)) == {"m1": 3}


def test_ended_objects_are_forgotten() -> None:
    descheduler = short()
    descheduler.decides(TURN, TURN, m1=3)
    purged = Purged(objects=(Gone(KEY, 100),))
    descheduler.state.forget(purged)
    assert KEY in descheduler.state.objects
    descheduler.given(
        released(),
        PlacementReleased(key=KEY, uid="u1"),
        StatusRolledUp(key=KEY, uid="u1", closed=True),
    )
    descheduler.state.forget(purged)
    assert not descheduler.state.objects
    assert not descheduler.state.subjects


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


async def test_every_cluster_is_asked_and_no_opinion_left_out() -> None:
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
    def read(key: ObjectKey) -> bool:
        subject = subject_of(replace(placed(m1=1), key=key))
        return any(match(pattern, subject) for pattern in Descheduler.filters)

    assert read(KEY)
    assert not read(ObjectKey("apps", "statefulsets", "default", "nginx"))
    assert not read(ObjectKey("", "configmaps", "default", "nginx"))
