"""What owners require is inverted: clusters and wishes of a dependency follow from all of its owners."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from schemas.events.placement import TargetCluster
from schemas.keys import ObjectKey
from services._rules.dependencies.dependency_index import (
    CONFLICT_RESOLUTION,
    PRESERVE,
    UNWANTED,
    DependencyIndex,
    Requirement,
    Wanted,
)
from tests.support.dependency_plane import config
from tests.support.facts import key

APP, TLS = config("app"), config("tls")
A, B = key("a"), key("b")


def index(**owners: Requirement) -> DependencyIndex:
    made = DependencyIndex()
    for name, requirement in owners.items():
        made.update(key(name), requirement)
    return made


def names(found: tuple[TargetCluster, ...]) -> list[str]:
    assert all(target.replicas is None for target in found)
    return [target.name for target in found]


def test_a_dependency_goes_where_its_owners_run() -> None:
    made = index(a=Requirement((APP,), ("m2", "m1")), b=Requirement((APP, TLS), ("m3", "m1")))
    assert names(made.targets(APP)) == ["m1", "m2", "m3"]
    assert names(made.targets(TLS)) == ["m1", "m3"]
    assert list(made.owners(APP)) == [A, B]
    assert made.targets(config("other")) == ()


def test_only_dependencies_with_another_outcome_are_named() -> None:
    made = index(a=Requirement((APP,), ("m1",)))
    assert made.update(B, Requirement((APP, TLS), ("m1",))) == [TLS]
    assert made.update(B, Requirement((APP, TLS), ("m1", "m2"))) == [APP, TLS]
    assert made.update(A, Requirement((APP,), ("m2",))) == []
    assert made.update(A, None) == []
    assert made.update(B, None) == [APP, TLS]
    assert made.update(B, None) == []


def test_any_wish_wins_and_disagreement_is_named() -> None:
    made = index(a=Requirement((APP,), overwrite=True), b=Requirement((APP,), preserve=True))
    assert made.wanted(APP) == Wanted(True, True, True, (CONFLICT_RESOLUTION, PRESERVE))
    assert made.update(A, Requirement((APP,), overwrite=True, preserve=True)) == [APP]
    assert made.wanted(APP) == Wanted(True, True, True, (CONFLICT_RESOLUTION,))
    assert made.update(B, Requirement((APP,), overwrite=True, preserve=True)) == [APP]
    assert made.wanted(APP) == Wanted(True, True, True)


def test_the_last_owner_leaves_nothing_behind() -> None:
    made = index(a=Requirement((APP,), ("m1",), overwrite=True))
    assert made.update(A, Requirement(())) == [APP]
    assert made == DependencyIndex()
    assert made.wanted(APP) == UNWANTED


def test_an_object_does_not_depend_on_itself() -> None:
    made = index(a=Requirement((A, B), ("m1",)), b=Requirement((A,), ("m2",)))
    assert names(made.targets(A)) == ["m2"]
    assert names(made.targets(B)) == ["m1"]


OWNERS = [key(f"o{number}") for number in range(5)]
DEPENDENCIES = [config(f"c{number}") for number in range(3)]
REQUIREMENTS = st.builds(
    Requirement,
    st.lists(st.sampled_from([*DEPENDENCIES, OWNERS[0]]), max_size=4).map(tuple),
    st.lists(st.sampled_from(["m1", "m2", "m3"]), unique=True).map(tuple),
    st.booleans(),
    st.booleans(),
)


@given(st.lists(st.tuples(st.sampled_from(OWNERS), st.none() | REQUIREMENTS), max_size=30))
def test_counting_equals_looking_at_all_owners(changes: list[tuple[ObjectKey, Requirement | None]]) -> None:
    made, standing = DependencyIndex(), dict[ObjectKey, Requirement]()
    for owner, requirement in changes:
        places = {item: (made.targets(item), made.wanted(item)) for item in (*DEPENDENCIES, OWNERS[0])}
        moved = made.update(owner, requirement)
        standing.pop(owner, None)
        if requirement is not None and requirement.requires:
            standing[owner] = requirement
        for item, before in places.items():
            owners = sorted(one for one, held in standing.items() if item in held.requires and one != item)
            held = [standing[one] for one in owners]
            assert list(made.owners(item)) == owners
            assert names(made.targets(item)) == sorted({name for one in held for name in one.clusters})
            wanted = made.wanted(item)
            assert wanted.required == bool(held)
            assert wanted.overwrite == any(one.overwrite for one in held)
            assert wanted.preserve == any(one.preserve for one in held)
            assert (CONFLICT_RESOLUTION in wanted.contradictions) == (len({one.overwrite for one in held}) > 1)
            assert (PRESERVE in wanted.contradictions) == (len({one.preserve for one in held}) > 1)
            assert (item in moved) == (before != (made.targets(item), wanted))
