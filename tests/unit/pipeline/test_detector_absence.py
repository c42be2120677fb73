"""What is missing from lists counts as deleted only where that is plausible; what is held stays until it is back."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from schemas.codec import Known
from schemas.events.control_plane import AbsenceConfirmed, AbsenceHeld, AbsenceReleased, ControlPlaneIdentified
from schemas.events.policy import PolicyChanged, PolicyDeleted
from schemas.events.template import TemplateChanged, TemplateDeleted
from schemas.keys import ObjectKey, PolicyKey
from services._rules.absence import absence_guard as absence
from services._rules.absence.absence_guard import Limits
from services._rules.absence.endpoint_identity import Judgement, Reading, judge
from services.detector import state as det
from services.detector.claims.policy_decision import decide_policy
from services.detector.control_plane_scope import decide_scope
from services.detector.objects.recorded_objects import refuse_list
from tests.support.detector_harness import DetectorHarness, list_policies
from tests.support.facts import NOW

KIND = "configmaps"
OURS, OTHER = Reading("ours", 90), Reading("other", 5)


def key(number: int) -> ObjectKey:
    return ObjectKey("", KIND, "shop", f"c{number}")


def manifest(number: int, **metadata: Any) -> dict[str, Any]:
    named = {"name": f"c{number}", "namespace": "shop", "uid": f"u{number}", **metadata}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": named}


def recorded(count: int) -> list[Known]:
    """The known control plane, and facts about its ConfigMaps."""
    named = {"api_version": "v1", "kind": "ConfigMap", "digest": "d"}
    templates = [TemplateChanged(key=key(number), uid=f"u{number}", **named) for number in range(count)]
    return [ControlPlaneIdentified(uid="ours", revision=90), *templates]


class Absences(DetectorHarness):
    """A detector with ten ConfigMaps on record, and a control plane that it knows."""

    def __init__(self, count: int = 10, *, listed: bool = True) -> None:
        super().__init__(listed=False)
        list_policies(self.state)
        if listed:
            self.given(*recorded(count))
            self.reads(OURS)
            self.lists(range(count))

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
            events = self.decided(key(number)).events
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
def test_control_plane_is_compared_with_the_known_one(
    uid: str, revision: int, reading: Reading, judgement: Judgement
) -> None:
    assert judge(uid, revision, reading) is judgement
    assert judgement.trusted is (judgement not in (Judgement.OTHER, Judgement.UNREADABLE))


@pytest.mark.parametrize(
    ("missing", "known", "vital", "sudden"),
    [(4, 4, False, False), (5, 5, False, True), (5, 25, False, True), (5, 26, False, False), (2, 2, True, True)],
)
def test_limits_of_sudden_absence(missing: int, known: int, vital: bool, sudden: bool) -> None:
    assert Limits().sudden(missing, known, vital=vital) is sudden


def test_one_object_of_its_kind_may_go_by_a_list() -> None:
    assert not Limits().sudden(1, 1, vital=True)
    with pytest.raises(ValueError, match="no share"):
        Limits(share=0)


def test_few_missing_objects_are_deleted() -> None:
    detector = Absences()
    detector.lists(range(2, 10))
    assert detector.gone() == [0, 1]
    events = detector.decided(key(0)).events
    assert events[0] == TemplateDeleted(
        key=key(0), uid="u0", reason="missing from a complete list of the control plane"
    )


def test_many_missing_objects_are_held_until_they_are_back() -> None:
    detector = Absences()
    detector.lists(range(6, 10))
    assert detector.gone() == []
    held = detector.says()
    assert [type(event) for event in held] == [AbsenceHeld]
    assert (held[0].reason, held[0].kinds) == ("MassDisappearance", {KIND: 6})
    assert detector.says() == []
    for number in range(5):
        det.take_template(detector.state, key(number), manifest(number))
    # The last one is no longer a large share, but it is part of what vanished.
    detector.lists([*range(5), *range(6, 10)])
    assert detector.gone() == []
    det.take_template(detector.state, key(5), manifest(5))
    assert any(isinstance(event, AbsenceReleased) and event.reason == "ObjectsAreBack" for event in detector.says())


def test_deletions_seen_by_the_watch_are_not_held() -> None:
    detector = Absences(1000)
    for number in range(1000):
        det.take_template(detector.state, key(number), None)
    events = [detector.decided(key(number)).events for number in range(1000)]
    assert all(found and found[0].reason == "deleted from the control plane" for found in events)  # type: ignore[union-attr]
    assert detector.says() == []


def test_objects_being_deleted_are_not_held() -> None:
    detector = Absences()
    for number in range(6):
        det.take_template(detector.state, key(number), manifest(number, deletionTimestamp="2026-01-01T00:00:00Z"))
    detector.lists(range(6, 10))
    assert detector.gone() == list(range(6))


def test_confirmation_ends_the_hold_and_is_the_cause() -> None:
    detector = Absences()
    detector.lists(range(6, 10))
    (held,) = detector.says()
    detector.given(AbsenceConfirmed(scope="templates", held_at=detector.state.guard.held_at - 1, by="x", at=NOW))
    assert detector.gone() == []
    detector.confirm(held)
    assert detector.gone() == list(range(6))
    event = detector.decided(key(0)).events[0]
    assert isinstance(event, TemplateDeleted)
    assert event.reason.endswith(f"confirmed by anna at #{detector.state.guard.confirmed_at}")
    (released,) = detector.says()
    assert (released.reason, released.confirmation) == ("Confirmed", detector.state.guard.confirmed_at)


def test_after_a_restore_every_absence_is_held() -> None:
    detector = Absences()
    assert detector.reads(Reading("ours", 50)) is Judgement.WENT_BACK
    detector.lists(range(1, 10))
    assert detector.gone() == []
    events = detector.says()
    assert isinstance(events[0], ControlPlaneIdentified)
    assert events[0].revision == 50
    assert (events[1].reason, events[1].missing) == ("RevisionWentBack", (str(key(0)),))


def test_a_restore_that_lost_nothing_holds_nothing() -> None:
    detector = Absences()
    detector.reads(Reading("ours", 50))
    detector.lists(range(10))
    assert not [event for event in detector.says() if isinstance(event, AbsenceHeld)]
    detector.lists(range(1, 10))
    assert detector.gone() == [0]


def test_start_during_a_hold_believes_no_absence() -> None:
    detector = Absences()
    detector.lists(range(6, 10))
    (held,) = detector.says()
    again = Absences(listed=False)
    again.given(*recorded(10), held)
    again.reads(OURS)
    assert again.says() == [], "before anything is listed, a start says nothing"
    again.lists(range(6, 10))
    assert again.says() == [], "nor where everything is as it was"
    again.lists(range(1, 10))
    assert [event.kinds for event in again.says()] == [{KIND: 1}]
    assert again.gone() == []


def test_other_control_plane_is_ignored_until_confirmed() -> None:
    detector = Absences()
    assert detector.reads(OTHER) is Judgement.OTHER
    refuse_list(detector.state, KIND, {})
    (held,) = detector.says()
    assert (held.reason, held.identity, held.expected, held.count) == ("IdentityChanged", "other", "ours", 10)
    assert detector.gone() == []
    assert decide_scope(detector.state, NOW).effects == ()
    detector.confirm(held)
    assert detector.gone() == []  # Its own list says what it lacks.
    assert detector.reads(OTHER) is Judgement.SAME
    events = detector.says()
    assert ControlPlaneIdentified(uid="other", revision=5, confirmation=detector.state.guard.confirmed_at) in events
    detector.lists([9])
    assert detector.gone() == list(range(9))


def test_known_control_plane_releases_the_hold() -> None:
    detector = Absences()
    detector.reads(OTHER)
    refuse_list(detector.state, KIND, {})
    detector.says()
    assert detector.reads(OURS) is Judgement.SAME
    assert any(isinstance(event, AbsenceReleased) for event in detector.says())
    assert detector.gone() == []


def test_late_answer_is_no_restore() -> None:
    detector = Absences()
    before = absence.noted(detector.state.guard)
    detector.given(ControlPlaneIdentified(uid="ours", revision=200))
    assert absence.take_reading(detector.state.guard, Reading("ours", 150), before) is Judgement.SAME


def test_all_missing_policies_are_held_and_apply() -> None:
    detector = Absences()
    names = [PolicyKey("PropagationPolicy", "shop", name) for name in ("a", "b")]
    body = msgspec.Raw(b'{"metadata":{"name":"a","namespace":"shop","uid":"p"},"spec":{"resourceSelectors":[]}}')
    detector.given(*(PolicyChanged(key=name, uid="p", manifest=body) for name in names))
    det.take_policy_list(detector.state, "PropagationPolicy", {})
    assert [decide_policy(detector.state, name).events for name in names] == [(), ()]
    assert set(detector.state.policies) == set(names)
    (held,) = detector.says()
    assert held.kinds == {"PropagationPolicy": 2}
    detector.confirm(held)
    for name in names:
        (event,) = decide_policy(detector.state, name).events
        assert isinstance(event, PolicyDeleted)
        assert "confirmed by anna" in event.reason
