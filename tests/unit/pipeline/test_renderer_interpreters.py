"""Copies of customized kinds: replicas are set by what users configured, one failing object concerns no other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from schemas.codec import Known
from schemas.events.policy import PolicyChanged, PolicyDeleted
from schemas.events.work import WorkEvent, WorkRendered, WorkWithdrawn
from services._kit.interpretation.async_interpretation import InterpretationRequest
from services._kit.log.stream_port import Message
from services._rules.interpreter import InterpretError, Operation
from services._rules.interpreter.result_cache import InterpretationQuery
from services.override_renderer.app import OverrideRenderer
from services.override_renderer.decide import AtHand, RenderDecision
from tests.support.facts import KEY, binding, cluster, placement, raw, template
from tests.support.harness import RENDERER, Harness, RendererHarness, content, running
from tests.support.interpreted import Interpretation
from tests.support.widgets import customization

WIDGET = {
    "apiVersion": "example.io/v1",
    "kind": "Widget",
    "metadata": {"name": "nginx", "namespace": "default", "uid": "u1"},
    "spec": {"size": 2},
}


def revising(script: str, kind: str = "Widget") -> PolicyChanged:
    return replace(customization(kind=kind, replicaRevision=script), key=NAME)


NAME = customization().key


def facts() -> list[Known]:
    of_kind = {"api_version": "example.io/v1", "kind": "Widget"}
    return [
        cluster("m1"),
        cluster("m2"),
        replace(template(), manifest=raw(WIDGET), digest="d", **of_kind),
        replace(binding(3), **of_kind),
        placement(m1=1, m2=2),
    ]


class Interpreted(RendererHarness):
    """A renderer whose questions to scripts are answered by a function."""

    def __init__(self, answer: Callable[[InterpretationQuery], Any], *events: Known) -> None:
        super().__init__()
        self.interpretation = Interpretation(answer)
        self.at_hand = AtHand(interpreter=self.interpretation.interpreter)
        self.logic = self.logic._replace(fold=self._fold)
        self.given(*events)

    def _fold(self, state: Any, message: Message, event: Known) -> Any:
        if isinstance(event, PolicyChanged | PolicyDeleted):
            return state.of_kinds(self.interpretation.take(event))
        return RENDERER.fold(state, message, event)

    def once(self) -> RenderDecision:
        works: RenderDecision = self.decision()
        self.given(*works.events)
        return works

    def works(self) -> dict[str, WorkEvent]:
        """Decide, asking as often as the decisions want."""
        found: dict[str, WorkEvent] = {}
        while True:
            works = self.once()
            found |= {event.cluster: event for event in works.events}
            if not works.lacking:
                return found
            self.interpretation.ask(works.lacking)


def size(work: WorkEvent) -> Any:
    return content(work)["spec"]["size"]


def revised(question: InterpretationQuery) -> Any:
    obj, replicas = question.arguments
    return {**obj, "spec": {"size": replicas}}


def test_copies_are_alike_without_a_customization() -> None:
    works = Interpreted(revised, *facts()).works()
    assert [size(works[name]) for name in ("m1", "m2")] == [2, 2]


def test_script_sets_the_replicas_of_each_cluster() -> None:
    renderer = Interpreted(revised, revising("x"), *facts())
    works = renderer.works()
    assert [size(works[name]) for name in ("m1", "m2")] == [1, 2]
    assert not renderer.works(), "the same facts are no news"


def test_customization_change_renders_objects_of_its_kind() -> None:
    renderer = Interpreted(revised, *facts())
    renderer.works()
    assert not renderer.given(revising("x", "Gadget"))
    assert renderer.given(revising("x")) == {KEY}
    assert [size(work) for work in renderer.works().values()] == [1], "the other copy is right already"
    assert renderer.given(PolicyDeleted(key=NAME, uid="uid-widgets")) == {KEY}
    assert [size(work) for work in renderer.works().values()] == [2]


def test_missing_answers_hold_back_no_other_cluster() -> None:
    renderer = Interpreted(revised, *facts())
    renderer.works()
    renderer.given(revising("x"), placement(m2=3))
    works = renderer.once()
    assert [type(event) for event in works.events] == [WorkWithdrawn], "m1 lets go while m2's copy is asked for"
    assert [(question.operation, question.arguments[1]) for question in works.lacking] == [(Operation.REVISE, 3)]


def test_failed_script_keeps_the_copy_and_is_reported() -> None:
    renderer = Interpreted(revised, revising("x"), *facts())
    before = renderer.works()

    def fails(question: InterpretationQuery) -> Any:
        raise InterpretError("ResourceInterpreterCustomization widgets: attempt to index a nil value")

    renderer.interpretation.answer = fails
    renderer.given(revising("y"))
    works = renderer.works()
    for name, work in works.items():
        earlier = before[name]
        assert isinstance(work, WorkRendered)
        assert isinstance(earlier, WorkRendered)
        assert "ResourceInterpreterCustomization widgets: attempt to index a nil value" in work.problem
        assert work.digest == earlier.digest
    assert len(works) == 2
    renderer.interpretation.answer = revised
    renderer.given(revising("z"))
    assert [work.problem for work in renderer.works().values() if isinstance(work, WorkRendered)] == ["", ""]


def test_renderer_asks_for_what_works_lack() -> None:
    (ask,) = Harness(running(OverrideRenderer()), revising("x"), *facts()).decision().effects
    assert isinstance(ask, InterpretationRequest)
    assert ask.key == KEY
    assert sorted(question.arguments[1] for question in ask.questions) == [1, 2]
