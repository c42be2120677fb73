"""Who may act while a log is restored, and when that is over."""

from __future__ import annotations

from collections import Counter

from msgspec.structs import replace

from schemas.events.control_plane import AbsenceHeld
from schemas.events.restore import RestoreCompared, RestoreReleased, RestoreStarted
from schemas.events.template import TemplateDeleted
from schemas.keys import ObjectKey
from services._rules.absence.endpoint_identity import Judgement
from services._rules.interpreter.configuration import KINDS as INTERPRETERS
from services._rules.log.restore_order import AT_THE_END, BEFORE, Restoring, absence_in_doubt
from services.detector.control_plane_scope import unlisted, unsettled
from services.detector.state import POLICY_KINDS, DetectorState, fold
from tests.support.facts import KEY, binding, template


def restored(*compared: str) -> Restoring:
    state = Restoring()
    state.take(7, RestoreStarted(reason="imported"))
    for seq, service in enumerate(compared, 8):
        state.take(seq, RestoreCompared(service=service, restore=7))
    return state


def may(state: Restoring) -> set[str]:
    return {name for name in (*BEFORE, *AT_THE_END) if state.may_decide(name)}


def due(state: Restoring) -> set[str]:
    return {name for name in BEFORE if state.is_due(name)}


def test_without_a_restore_all_services_decide() -> None:
    state = Restoring()
    assert not state.holds
    assert not state.words
    assert may(state) == {*BEFORE, *AT_THE_END}
    assert due(state) == set()


def test_restore_is_compared_in_order_before_delivery() -> None:
    assert may(restored()) == due(restored()) == {"detector", "cluster_monitor"}
    assert due(restored("detector")) == {"cluster_monitor"}
    both = ("detector", "cluster_monitor")
    assert due(restored(*both)) == {"scheduler"}
    assert may(restored(*both)) == {*both, "scheduler"}
    assert due(restored(*both, "scheduler")) == {"override_renderer"}
    assert restored(*both, "scheduler").holds
    over = restored(*both, "scheduler", "override_renderer")
    assert not over.holds
    assert may(over) == {*BEFORE, *AT_THE_END}


def test_events_of_another_restore_are_ignored() -> None:
    state = restored(*BEFORE)
    state.take(20, RestoreStarted())
    assert state.holds
    for service in BEFORE:
        state.take(21, RestoreCompared(service=service, restore=7))
    state.take(22, RestoreReleased(restore=7))
    assert state.missing == tuple(BEFORE)
    state.take(23, RestoreReleased(restore=20))
    assert not state.holds


def test_nothing_is_compared_while_the_control_plane_is_written() -> None:
    state = Restoring()
    state.take(7, RestoreStarted(reason="written", writing=True))
    assert state.holds
    assert due(state) == set()
    assert "before the command is done" in state.words
    state.take(9, RestoreStarted(reason="written"))
    assert due(state) == {"detector", "cluster_monitor"}


def test_held_restore_names_the_missing_services() -> None:
    words = restored("detector").words
    assert "imported" in words
    assert "missing: cluster_monitor, scheduler, override_renderer" in words


def listed(*kinds: str) -> DetectorState:
    state = DetectorState()
    state.guard.judgement = Judgement.FIRST
    state.listed.update((*POLICY_KINDS, *INTERPRETERS, *kinds))
    return state


def test_a_kind_with_facts_has_to_be_listed() -> None:
    state = listed()
    fold(state, 1, "template.x", template())
    other = ObjectKey("example.io", "widgets", "default", "w")
    fold(state, 2, "binding.x", replace(binding(), key=other))
    assert unlisted(state) == Counter({KEY.group_resource: 1, "widgets.example.io": 1})
    assert "widgets.example.io (1 on the log)" in unsettled(state, (), 0)
    state.listed.update((KEY.group_resource, "widgets.example.io"))
    assert unsettled(state, (), 0) == ""


def test_closed_facts_and_kinds_without_facts_need_no_list() -> None:
    state = listed()
    fold(state, 1, "template.x", template())
    fold(state, 2, "template.x", TemplateDeleted(key=KEY, uid="u1"))
    assert unsettled(state, (), 0) == ""


def test_policies_and_pending_keys_are_settled_first() -> None:
    blind = listed()
    blind.listed.clear()
    assert "policies" in unsettled(blind, (), 0)
    assert str(KEY) in unsettled(listed(), (KEY,), 0)
    assert "2 objects wait for interpreters" in unsettled(listed(), (), 2)


def test_missing_objects_delay_the_comparison() -> None:
    state = listed()
    assert absence_in_doubt(state.guard) == ""
    state.guard.missing["deployments.apps"] = {KEY}
    assert "1 objects are missing" in unsettled(state, (), 0)
    state.guard.held = AbsenceHeld(scope="templates", reason="MassDisappearance", message="6 are gone", since=1.0)
    assert unsettled(state, (), 0) == "6 are gone"
    assert "identity" in unsettled(DetectorState(), (), 0)
