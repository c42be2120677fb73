"""The facets of an object: which placement counts, what was read, and when an object may be forgotten."""

from __future__ import annotations

import pytest

from schemas.codec import subject_of
from schemas.events.binding import BindingReleased
from schemas.events.descheduling import LoweredCluster, ReplicasDescheduled
from schemas.events.placement import PlacementEvent, PlacementFailed, PlacementReleased
from schemas.hints import Gone, Purged
from services._rules.facets import FacetEvent, ObjectFacets, ObjectStates
from tests.support.facts import KEY, binding, placement

FAILED = PlacementFailed(key=KEY, uid="u1", reason="Unschedulable", message="no room")
RELEASED = PlacementReleased(key=KEY, uid="u1")


class States(ObjectStates[ObjectFacets]):
    writes = "placement"


def states(*events: FacetEvent) -> States:
    made = States()
    for seq, event in enumerate(events, 1):
        made.take(seq, subject_of(event), event)
    return made


@pytest.mark.parametrize("released", [False, True], ids=["requested", "released"])
@pytest.mark.parametrize("placed", [placement(m1=2), FAILED], ids=["placed", "failed"])
def test_placement_of_present_uid_is_in_force(placed: PlacementEvent, released: bool) -> None:
    asked = BindingReleased(key=KEY, uid="u1") if released else binding(2)
    facets = states(asked, placed).objects[KEY]
    assert facets.placed == facets.unreleased == placed


def test_placement_of_another_uid_is_unreleased_and_not_in_force() -> None:
    facets = states(placement(m1=2), binding(2, uid="u2")).objects[KEY]
    assert (facets.placed, facets.unreleased) == (None, placement(m1=2))
    assert not facets.runs_in("m1")


@pytest.mark.parametrize("events", [(binding(2), RELEASED), (placement(m1=2),)], ids=["released", "no binding"])
def test_nothing_is_in_force(events: tuple[FacetEvent, ...]) -> None:
    assert states(*events).objects[KEY].placed is None


def test_descheduling_counts_for_the_placement_it_names() -> None:
    lowered = ReplicasDescheduled(key=KEY, uid="u1", placement=2, clusters=(LoweredCluster("m1", 1, 4),))
    made = states(binding(4), placement(m1=4), lowered)
    facets = made.objects[KEY]
    assert (facets.lowered_seq, [target.replicas for target in facets.targets]) == (3, [1])
    made.take(4, subject_of(placement(m1=3)), placement(m1=3))
    assert (facets.lowered_seq, [target.replicas for target in facets.targets]) == (0, [3])


def test_facets_that_were_not_read_are_not_named() -> None:
    facets = states(placement(m1=2), binding(2)).objects[KEY]
    assert facets.seen("binding", "eviction", "placement").own == {"binding": 2, "placement": 1}


def test_object_is_forgotten_once_all_its_facets_are_closed() -> None:
    purged = Purged(objects=(Gone(KEY, 9),))
    made = states(binding(2), placement(m1=2))
    subject = subject_of(RELEASED)
    assert (made.running_in("m1"), made.last_seq(subject)) == ([KEY], 2)
    made.forget(purged)
    assert KEY in made.objects
    for seq, event in enumerate((RELEASED, BindingReleased(key=KEY, uid="u1")), 3):
        made.take(seq, subject_of(event), event)
    made.forget(purged)
    assert (made.objects, made.last_seq(subject)) == ({}, 0)
