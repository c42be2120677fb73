"""Copies of customized kinds: replicas are set by what users configured, one failing object concerns no other."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import msgspec
from msgspec import Raw, structs

from schemas.codec import Known, subject_of
from schemas.events.policy import PolicyChanged, PolicyDeleted
from schemas.events.work import WorkEvent, WorkRendered, WorkWithdrawn
from schemas.keys import PolicyKey
from services._kit.interpretation.async_interpretation import InterpretationRequest
from services._rules.interpreter import InterpretError, Operation
from services._rules.interpreter.configuration import CUSTOMIZATION, Configured
from services._rules.interpreter.result_cache import Answers, CachedInterpreter, InterpretationQuery
from services.override_renderer.app import OverrideRenderer
from services.override_renderer.decide import AtHand, RenderDecision, decide
from services.override_renderer.state import RendererState, fold
from tests.support.facts import KEY, binding, cluster, placement, template

NAME = PolicyKey(CUSTOMIZATION, "", "widgets")
WIDGET = {
    "apiVersion": "example.io/v1",
    "kind": "Widget",
    "metadata": {"name": "nginx", "namespace": "default", "uid": "u1"},
    "spec": {"size": 2},
}


def customization(script: str, kind: str = "Widget") -> PolicyChanged:
    spec = {
        "target": {"apiVersion": "example.io/v1", "kind": kind},
        "customizations": {"replicaRevision": {"luaScript": script}},
    }
    content = {"kind": CUSTOMIZATION, "metadata": {"name": "widgets"}, "spec": spec}
    return PolicyChanged(key=NAME, uid="o", manifest=Raw(msgspec.json.encode(content)))


def facts() -> list[Known]:
    of_kind = {"api_version": "example.io/v1", "kind": "Widget"}
    data = msgspec.json.encode(WIDGET)
    return [
        cluster("m1"),
        cluster("m2"),
        structs.replace(template(), manifest=Raw(data), digest="d", **of_kind),
        structs.replace(binding(3), **of_kind),
        placement(m1=1, m2=2),
    ]


class World:
    """A renderer at the end of a log; `answer` is what scripts would say of a question."""

    def __init__(self, answer: Callable[[InterpretationQuery], Any], *events: Known) -> None:
        self.state = RendererState()
        self.answer, self.answers, self.configured = answer, Answers(), Configured()
        interpreter = CachedInterpreter(
            lambda *wanted: self.configured.customizations.hook_enabled(*wanted), self.answers
        )
        self.at_hand = AtHand(interpreter=interpreter)
        self.seq = 0
        self.log: dict[int, Known] = {}
        self.given(*events)

    def _take(self, event: Any) -> Any:
        touched = self.configured.take(event)
        self.answers.changed(touched)
        return touched

    def given(self, *events: Known) -> list[object]:
        dirty: list[object] = []
        for event in events:
            self.seq += 1
            self.log[self.seq] = event
            if isinstance(event, PolicyChanged | PolicyDeleted):
                dirty = list(self.state.of_kinds(self._take(event)))
            else:
                dirty = list(fold(self.state, self.seq, subject_of(event), event))
        return dirty

    def once(self) -> RenderDecision:
        works = decide(self.state, KEY, self.at_hand)
        for digest, position in works.missing:
            work = self.log[position]
            assert isinstance(work, WorkRendered)
            assert isinstance(work.manifest, Raw)
            self.at_hand.blobs[digest] = bytes(work.manifest)
        works = decide(self.state, KEY, self.at_hand) if works.missing else works
        self.given(*works.events)
        return works

    def decides(self) -> dict[str, WorkEvent]:
        found: dict[str, WorkEvent] = {}
        while True:
            works = self.once()
            found |= {event.cluster: event for event in works.events}
            if not works.lacking:
                return found
            for question in works.lacking:
                try:
                    self.answers.put(question, self.answer(question))
                except InterpretError as error:
                    self.answers.put(question, error)


def revised(question: InterpretationQuery) -> Any:
    obj, replicas = question.arguments
    return {**obj, "spec": {"size": replicas}}


def size(work: WorkEvent) -> Any:
    assert isinstance(work, WorkRendered)
    assert isinstance(work.manifest, Raw)
    return msgspec.json.decode(work.manifest)["spec"]["size"]


def test_without_a_customization_copies_are_all_alike() -> None:
    works = World(revised, *facts()).decides()
    assert [size(works[name]) for name in ("m1", "m2")] == [2, 2]


def test_each_cluster_gets_its_replicas_as_the_script_sets_them() -> None:
    world = World(revised, customization("x"), *facts())
    works = world.decides()
    assert [size(works[name]) for name in ("m1", "m2")] == [1, 2]
    assert not world.decides(), "the same facts are no news"


def test_a_change_of_what_is_configured_concerns_the_objects_of_its_kind() -> None:
    world = World(revised, *facts())
    world.decides()
    assert not world.given(customization("x", "Gadget"))
    assert world.given(customization("x")) == [KEY]
    assert [size(work) for work in world.decides().values()] == [1], "the other copy is right already"
    assert world.given(PolicyDeleted(key=NAME, uid="o")) == [KEY]
    assert [size(work) for work in world.decides().values()] == [2]


def test_everything_a_decision_lacks_is_asked_for_at_once_and_holds_back_nothing_else() -> None:
    world = World(revised, *facts())
    world.decides()
    world.given(customization("x"), placement(m2=3))
    works = world.once()
    assert [type(event) for event in works.events] == [WorkWithdrawn], "m1 lets go while m2's copy is asked for"
    assert [(question.operation, question.arguments[1]) for question in works.lacking] == [(Operation.REVISE, 3)]


def test_a_script_that_fails_is_a_problem_of_the_copy_which_stays() -> None:
    world = World(revised, customization("x"), *facts())
    before = world.decides()

    def fails(question: InterpretationQuery) -> Any:
        raise InterpretError("ResourceInterpreterCustomization widgets: attempt to index a nil value")

    world.answer = fails
    world.given(customization("y"))
    works = world.decides()
    for name, work in works.items():
        earlier = before[name]
        assert isinstance(work, WorkRendered)
        assert isinstance(earlier, WorkRendered)
        assert "ResourceInterpreterCustomization widgets: attempt to index a nil value" in work.problem
        assert work.digest == earlier.digest
    assert len(works) == 2
    world.answer = revised
    world.given(customization("z"))
    assert [work.problem for work in world.decides().values() if isinstance(work, WorkRendered)] == ["", ""]


def test_an_answer_that_is_another_object_is_refused() -> None:
    def other(question: InterpretationQuery) -> Any:
        obj = question.arguments[0]
        return {**obj, "metadata": {**obj["metadata"], "name": "other"}}

    works = World(other, customization("x"), *facts()).decides()
    for work in works.values():
        assert isinstance(work, WorkRendered)
        assert "metadata.name: ReviseReplica answered with 'other'" in work.problem


def test_the_service_asks_for_what_works_lack() -> None:
    service = OverrideRenderer()
    state = service.new_state()
    for seq, event in enumerate([customization("x"), *facts()], 1):
        service.fold(state, SimpleNamespace(seq=seq, subject=subject_of(event)), event)  # type: ignore[arg-type]
    decision = service.decide(state, KEY, 0.0)
    (ask,) = decision.effects
    assert isinstance(ask, InterpretationRequest)
    assert ask.key == KEY
    assert sorted(question.arguments[1] for question in ask.questions) == [1, 2]
