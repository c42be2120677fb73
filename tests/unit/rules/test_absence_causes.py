"""Everything that is taken away has a cause on the log, and what has none is named."""

from __future__ import annotations

from msgspec.structs import replace

from schemas.codec import Known
from schemas.envelope import Provenance
from schemas.events.binding import BindingReleased
from schemas.events.cluster import ClusterRemoved
from schemas.events.control_plane import AbsenceConfirmed, AbsenceHeld
from schemas.events.observed import WorkObserved
from schemas.events.placement import PlacementDecided, TargetCluster
from schemas.events.template import TemplateChanged, TemplateDeleted
from schemas.events.work import WorkRendered, WorkWithdrawn
from schemas.keys import ObjectKey
from tests.support.withdrawal_causes import losses

KEY = ObjectKey("", "configmaps", "shop", "c")
OTHER = ObjectKey("", "configmaps", "shop", "d")
DELETED = TemplateDeleted(key=KEY, uid="u", reason="deleted from the control plane")
RELEASED = BindingReleased(key=KEY, uid="u", reason="template deleted")
HELD = AbsenceHeld(scope="templates", reason="x", message="", since=1.0, kinds={"configmaps": 1}, missing=(str(KEY),))


def withdrawn(*causes: int) -> WorkWithdrawn:
    why = Provenance(causes=causes)
    return WorkWithdrawn(cluster="m1", key=KEY, uid="u", api_version="v1", kind="ConfigMap", provenance=why)


def uncaused(*events: Known) -> list[str]:
    return losses(enumerate(events, start=1)).uncaused


def test_a_chain_of_causes_is_counted_and_complete() -> None:
    found = losses(enumerate([DELETED, RELEASED, withdrawn(2)], start=1))
    assert found.counts == {"TemplateDeleted": 1, "WorkWithdrawn": 1}
    assert found.uncaused == []


def test_event_without_a_cause_is_named() -> None:
    assert "without a cause" in uncaused(withdrawn())[0]
    assert "what does not concern it: TemplateDeleted" in uncaused(replace(DELETED, key=OTHER), withdrawn(1))[0]
    assert "not on the log" in uncaused(DELETED, withdrawn(7))[0]
    assert "without a reason" in uncaused(replace(DELETED, reason=""))[0]
    assert "without a reason" in uncaused(ClusterRemoved(name="m1", uid="c"))[0]


def test_a_cause_among_many_is_found_where_the_decision_rests() -> None:
    changed = TemplateChanged(key=KEY, uid="u", digest="d", api_version="v1", kind="ConfigMap")
    elsewhere = PlacementDecided(key=KEY, uid="u", clusters=(TargetCluster("m2"),))
    rests = Provenance(causes=(1, 3, 4), own={"template": 4, "placement": 2})
    gone = replace(withdrawn(1), provenance=rests)
    assert uncaused(changed, elsewhere, changed, changed, gone) == []
    there = replace(elsewhere, clusters=(TargetCluster("m1"),))
    assert "what does not concern it" in uncaused(changed, there, changed, changed, gone)[0]
    assert "what does not concern it" in uncaused(changed, replace(elsewhere, key=OTHER), changed, changed, gone)[0]


def test_held_object_ends_only_when_confirmed() -> None:
    assert "while it is held" in uncaused(HELD, DELETED)[0]
    confirmed = AbsenceConfirmed(scope="templates", held_at=1, by="anna", at=2.0)
    passed = replace(DELETED, reason="missing from the control plane, confirmed by anna at #2")
    assert uncaused(HELD, confirmed, passed) == []
    assert "no confirmation stands" in uncaused(HELD, passed)[0]


def test_a_copy_that_is_asked_for_is_not_reported_gone() -> None:
    asked = WorkRendered(cluster="m1", key=KEY, uid="u", api_version="v1", kind="ConfigMap", digest="d")
    gone = WorkObserved(cluster="m1", key=KEY, uid="u", work_seq=1, absent=True)
    assert "which asks for it" in losses([(1, asked)], [gone]).uncaused[0]
    assert losses([(1, RELEASED), (2, withdrawn(1))], [replace(gone, work_seq=2)]).uncaused == []
