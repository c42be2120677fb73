"""Where an object shall be, folded from binding, placement and eviction."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from schemas.events.eviction import EvictionEvent, EvictionFinished
from schemas.events.placement import TargetCluster
from services._rules.effective import NOWHERE, current_targets, effective
from tests.support.facts import KEY, binding, evicted, placement, released

MEMBERS = ("m1", "m2", "m3")


def test_no_targets_without_a_live_binding() -> None:
    assert effective(None, placement(m1=1), clusters=MEMBERS) == NOWHERE
    assert effective(released(), placement(m1=1), clusters=MEMBERS) == NOWHERE


def test_placement_counts_for_its_uid_and_known_members() -> None:
    assert effective(binding(), placement(m1=1, m9=1), clusters=MEMBERS).targets == (TargetCluster("m1", 1),)
    assert effective(binding(uid="u2"), placement(m1=1), clusters=MEMBERS).targets == ()


def test_binding_everywhere_needs_no_placement() -> None:
    everywhere = replace(binding(), everywhere=True)
    assert [target.name for target in effective(everywhere, None, clusters=MEMBERS).targets] == ["m1", "m2", "m3"]


@pytest.mark.parametrize(
    ("mode", "kept"), [("Gracefully", ("m1",)), ("", ("m1",)), ("Directly", ()), ("Immediately", ())]
)
def test_evicted_cluster_keeps_its_copy_unless_purged_at_once(mode: str, kept: tuple[str, ...]) -> None:
    where = effective(binding(), placement(as_of=5, m1=1, m2=1), evicted("m1", mode), eviction_seq=6, clusters=MEMBERS)
    assert where.targets == (TargetCluster("m2", 1),)
    assert where.kept == kept


@pytest.mark.parametrize("eviction", [evicted("m1"), EvictionFinished(key=KEY, uid="u1", left=("m1",))])
def test_eviction_applies_until_a_placement_has_seen_it(eviction: EvictionEvent) -> None:
    before = effective(binding(), placement(as_of=5, m1=1, m2=1), eviction, eviction_seq=6, clusters=MEMBERS)
    assert [target.name for target in before.targets] == ["m2"]
    after = effective(binding(), placement(as_of=6, m1=1, m2=1), eviction, eviction_seq=6, clusters=MEMBERS)
    assert [target.name for target in after.targets] == ["m1", "m2"]


def test_eviction_of_another_uid_does_not_apply() -> None:
    old = replace(evicted("m1"), uid="old")
    where = effective(binding(), placement(as_of=1, m1=1), old, eviction_seq=9, clusters=MEMBERS)
    assert [target.name for target in where.targets] == ["m1"]


def test_clusters_of_dependents_are_added() -> None:
    where = effective(
        binding(), placement(m1=1), clusters=MEMBERS, required_by=(TargetCluster("m1"), TargetCluster("m3"))
    )
    assert where.targets == (TargetCluster("m1", 1), TargetCluster("m3"))


def test_left_clusters_stay_left_without_a_placement() -> None:
    later = replace(evicted("m2"), left=("m1",), unseen=("m3",))
    where = effective(binding(), placement(as_of=5, m1=1, m2=1, m3=1), later, eviction_seq=9, clusters=MEMBERS)
    assert where.targets == ()
    assert where.kept == ("m2",)
    seen = effective(binding(), placement(as_of=9, m3=1), later, eviction_seq=9, clusters=MEMBERS)
    assert seen.targets == (TargetCluster("m3", 1),)


def test_current_targets_exclude_later_evictions() -> None:
    assert current_targets(None, evicted("m1"), 9) == ()
    assert current_targets(placement(as_of=5, m1=1, m2=1), evicted("m1"), 9) == (TargetCluster("m2", 1),)
    assert current_targets(placement(as_of=9, m1=1), evicted("m1"), 9) == (TargetCluster("m1", 1),)
    gone = EvictionFinished(key=KEY, uid="u1", left=("m1",))
    assert current_targets(placement(as_of=5, m1=1, m2=1), gone, 9) == (TargetCluster("m2", 1),)
