"""What is missing from lists counts as deleted only where that is plausible; what is held stays until it is back."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from schemas.codec import Known, subject_of
from schemas.events.control_plane import AbsenceConfirmed, AbsenceHeld, AbsenceReleased, ControlPlaneIdentified
from schemas.events.policy import PolicyChanged, PolicyDeleted
from schemas.events.template import TemplateChanged, TemplateDeleted
from schemas.keys import ObjectKey, PolicyKey
from services._rules.absence import absence_guard as absence
from services._rules.absence.absence_guard import Limits
from services._rules.absence.endpoint_identity import Judgement, Reading, judge
from services._rules.interpreter.configuration import KINDS as INTERPRETERS
from services.detector import state as det
from services.detector.control_plane_scope import decide_scope
from services.detector.decide import decide_policy, decide_template
from services.detector.recorded_objects import refuse_list

NOW = 1_793_232_000.0
KIND = "configmaps"
OURS, OTHER = Reading("ours", 90), Reading("other", 5)


def key(number: int) -> ObjectKey:
    return ObjectKey("", KIND, "shop", f"c{number}")


def manifest(number: int, **metadata: Any) -> dict[str, Any]:
    named = {"name": f"c{number}", "namespace": "shop", "uid": f"u{number}", **metadata}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": named}


class World:
    """A detector with ten ConfigMaps on record, and a control plane that it knows."""

    def __init__(self, count: int = 10) -> None:
        self.state = det.DetectorState()
        self.seq = 0
        for kind in (*det.POLICY_KINDS, *INTERPRETERS):
            det.take_policy_list(self.state, kind, {})
        self.given(ControlPlaneIdentified(uid="ours", revision=90))
        for number in range(count):
            self.given(
                TemplateChanged(key=key(number), uid=f"u{number}", api_version="v1", kind="ConfigMap", digest="d")
            )
        self.reads(OURS)
        self.lists(range(count))

    def given(self, *events: Known) -> None:
        for event in events:
            self.seq += 1
            for touched in det.fold(self.state, self.seq, subject_of(event), event):
                assert touched is not None

    def reads(self, reading: Reading) -> Judgement:
        return absence.take_reading(self.state.guard, reading, absence.noted(self.state.guard))

    def lists(self, numbers: Any) -> None:
        det.take_list(self.state, KIND, {key(number): manifest(number) for number in numbers})

    def says(self) -> list[Any]:
        verdict = decide_scope(self.state, NOW)
        if verdict.settled:
            absence.settle(self.state.guard)
        events = list(verdict.events)
        self.given(*events)
        return events

    def gone(self) -> list[int]:
        """Numbers of the objects that are said to be deleted now."""
        found = []
        for number in range(20):
            events = decide_template(self.state, key(number), NOW).events
            if any(isinstance(event, TemplateDeleted) for event in events):
                found.append(number)
        return found

    def confirm(self, held: AbsenceHeld) -> None:
        position = self.state.guard.held_at
        self.given(AbsenceConfirmed(scope="templates", held_at=position, by="anna", at=NOW, identity=held.identity))


@pytest.mark.parametrize(
    ("uid", "revision", "reading", "judgement"),
    [
        ("", 0, Reading("a", 1), Judgement.FIRST),
        ("a", 5, Reading("a", 5), Judgement.SAME),
        ("a", 5, Reading("a", 0), Judgement.SAME),
        ("a", 5, Reading("a", 4), Judgement.WENT_BACK),
        ("a", 5, Reading("b", 9), Judgement.OTHER),
        ("a", 5, Reading("", problem="forbidden"), Judgement.UNREADABLE),
        ("", 0, Reading("", problem="forbidden"), Judgement.NAMELESS),
    ],
)
def test_who_answers_is_compared_with_who_is_known(
    uid: str, revision: int, reading: Reading, judgement: Judgement
) -> None:
    assert judge(uid, revision, reading) is judgement
    assert judgement.trusted is (judgement not in (Judgement.OTHER, Judgement.UNREADABLE))


@pytest.mark.parametrize(
    ("missing", "known", "vital", "sudden"),
    [(4, 4, False, False), (5, 5, False, True), (5, 25, False, True), (5, 26, False, False), (2, 2, True, True)],
)
def test_limits(missing: int, known: int, vital: bool, sudden: bool) -> None:
    assert Limits().sudden(missing, known, vital=vital) is sudden


def test_one_object_of_its_kind_may_go_by_a_list() -> None:
    assert not Limits().sudden(1, 1, vital=True)
    with pytest.raises(ValueError, match="no share"):
        Limits(share=0)


def test_few_that_a_list_lacks_are_gone() -> None:
    world = World()
    world.lists(range(2, 10))
    assert world.gone() == [0, 1]
    events = decide_template(world.state, key(0), NOW).events
    assert events[0] == TemplateDeleted(
        key=key(0), uid="u0", reason="missing from a complete list of the control plane"
    )


def test_many_are_held_and_stay_held_one_by_one_until_they_are_back() -> None:
    world = World()
    world.lists(range(6, 10))
    assert world.gone() == []
    held = world.says()
    assert [type(event) for event in held] == [AbsenceHeld]
    assert (held[0].reason, held[0].kinds) == ("MassDisappearance", {KIND: 6})
    assert world.says() == []
    for number in range(5):
        det.take_template(world.state, key(number), manifest(number))
    # The last one is no longer a large share, but it is part of what vanished.
    world.lists([*range(5), *range(6, 10)])
    assert world.gone() == []
    det.take_template(world.state, key(5), manifest(5))
    assert any(isinstance(event, AbsenceReleased) and event.reason == "ObjectsAreBack" for event in world.says())


def test_a_watch_that_tells_of_a_thousand_deletions_is_believed() -> None:
    world = World(1000)
    for number in range(1000):
        det.take_template(world.state, key(number), None)
    events = [decide_template(world.state, key(number), NOW).events for number in range(1000)]
    assert all(found and found[0].reason == "deleted from the control plane" for found in events)  # type: ignore[union-attr]
    assert world.says() == []


def test_what_was_being_deleted_is_not_missing_by_surprise() -> None:
    world = World()
    for number in range(6):
        det.take_template(world.state, key(number), manifest(number, deletionTimestamp="2026-01-01T00:00:00Z"))
    world.lists(range(6, 10))
    assert world.gone() == list(range(6))


def test_a_confirmation_holds_for_what_was_held_and_is_named_as_the_cause() -> None:
    world = World()
    world.lists(range(6, 10))
    (held,) = world.says()
    world.given(AbsenceConfirmed(scope="templates", held_at=world.state.guard.held_at - 1, by="x", at=NOW))
    assert world.gone() == []
    world.confirm(held)
    assert world.gone() == list(range(6))
    event = decide_template(world.state, key(0), NOW).events[0]
    assert isinstance(event, TemplateDeleted)
    assert event.reason.endswith(f"confirmed by anna at #{world.state.guard.confirmed_at}")
    (released,) = world.says()
    assert (released.reason, released.confirmation) == ("Confirmed", world.state.guard.confirmed_at)


def test_after_a_restore_every_absence_is_held() -> None:
    world = World()
    assert world.reads(Reading("ours", 50)) is Judgement.WENT_BACK
    world.lists(range(1, 10))
    assert world.gone() == []
    events = world.says()
    assert isinstance(events[0], ControlPlaneIdentified)
    assert events[0].revision == 50
    assert (events[1].reason, events[1].missing) == ("RevisionWentBack", (str(key(0)),))


def test_a_restore_that_lost_nothing_holds_nothing() -> None:
    world = World()
    world.reads(Reading("ours", 50))
    world.lists(range(10))
    assert not [event for event in world.says() if isinstance(event, AbsenceHeld)]
    world.lists(range(1, 10))
    assert world.gone() == [0]


def test_a_start_while_something_is_held_takes_no_absence_for_granted() -> None:
    world = World()
    world.lists(range(6, 10))
    (held,) = world.says()
    again = World.__new__(World)
    again.state, again.seq = det.DetectorState(), 0
    for kind in (*det.POLICY_KINDS, *INTERPRETERS):
        det.take_policy_list(again.state, kind, {})
    again.given(ControlPlaneIdentified(uid="ours", revision=90))
    for number in range(10):
        again.given(TemplateChanged(key=key(number), uid=f"u{number}", api_version="v1", kind="ConfigMap", digest="d"))
    again.given(held)
    again.reads(OURS)
    assert again.says() == [], "before anything is listed, a start says nothing"
    again.lists(range(6, 10))
    assert again.says() == [], "nor where everything is as it was"
    again.lists(range(1, 10))
    assert [event.kinds for event in again.says()] == [{KIND: 1}]
    assert again.gone() == []


def test_another_control_plane_is_not_listened_to_until_it_is_confirmed() -> None:
    world = World()
    assert world.reads(OTHER) is Judgement.OTHER
    refuse_list(world.state, KIND, {})
    (held,) = world.says()
    assert (held.reason, held.identity, held.expected, held.count) == ("IdentityChanged", "other", "ours", 10)
    assert world.gone() == []
    assert decide_scope(world.state, NOW).effects == ()
    world.confirm(held)
    assert world.gone() == []  # Its own list says what it lacks.
    assert world.reads(OTHER) is Judgement.SAME
    events = world.says()
    assert ControlPlaneIdentified(uid="other", revision=5, confirmation=world.state.guard.confirmed_at) in events
    world.lists([9])
    assert world.gone() == list(range(9))


def test_the_known_control_plane_that_answers_again_releases_at_once() -> None:
    world = World()
    world.reads(OTHER)
    refuse_list(world.state, KIND, {})
    world.says()
    assert world.reads(OURS) is Judgement.SAME
    assert any(isinstance(event, AbsenceReleased) for event in world.says())
    assert world.gone() == []


def test_an_answer_that_was_asked_for_earlier_is_no_restore() -> None:
    world = World()
    before = absence.noted(world.state.guard)
    world.given(ControlPlaneIdentified(uid="ours", revision=200))
    assert absence.take_reading(world.state.guard, Reading("ours", 150), before) is Judgement.SAME


def test_all_policies_missing_at_once_are_held_and_in_force() -> None:
    world = World()
    names = [PolicyKey("PropagationPolicy", "shop", name) for name in ("a", "b")]
    body = msgspec.Raw(b'{"metadata":{"name":"a","namespace":"shop","uid":"p"},"spec":{"resourceSelectors":[]}}')
    world.given(*(PolicyChanged(key=name, uid="p", manifest=body) for name in names))
    det.take_policy_list(world.state, "PropagationPolicy", {})
    assert [decide_policy(world.state, name).events for name in names] == [(), ()]
    assert set(world.state.policies) == set(names)
    (held,) = world.says()
    assert held.kinds == {"PropagationPolicy": 2}
    world.confirm(held)
    for name in names:
        (event,) = decide_policy(world.state, name).events
        assert isinstance(event, PolicyDeleted)
        assert "confirmed by anna" in event.reason
