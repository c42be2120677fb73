"""Division of replicas: exact order of seats, ties, history, and what a binding takes up."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services._rules.quota.binding_usage import resource_usage
from services._rules.scheduling.division.usage import replicas_changed, reschedule_requested
from services._rules.scheduling.division.weights import (
    DivisionError,
    TargetCluster,
    allocate_by_weight,
    divide,
    divide_job_completions,
    merge_targets,
    spread_by_targets,
    ties_descend,
    webster,
)

weights = st.dictionaries(st.sampled_from("abcdefghij"), st.integers(0, 60), max_size=10)


def one_by_one(seats: int, votes: dict[str, int], held: dict[str, int], descending: bool) -> dict[str, int]:
    """The definition: deal out every seat on its own."""
    result = dict.fromkeys(votes, 0) | held
    order = sorted(result, reverse=descending)
    for _ in range(seats if result else 0):
        best = min(order, key=lambda name: (-votes.get(name, 0) / (2 * result[name] + 1), result[name]))
        result[best] += 1
    return result


def test_seats_go_to_the_highest_quotients() -> None:
    votes = {"A": 100000, "B": 80000, "C": 30000, "D": 20000}
    assert webster(6, votes) == {"A": 2, "B": 2, "C": 1, "D": 1}
    assert webster(8, votes) == {"A": 3, "B": 3, "C": 1, "D": 1}


@given(st.integers(0, 120), weights, st.booleans())
def test_shortcuts_deal_out_the_same_seats(seats: int, votes: dict[str, int], descending: bool) -> None:
    assert webster(seats, votes, None, descending) == one_by_one(seats, votes, {}, descending)


@given(st.integers(0, 40), weights, weights, st.booleans())
def test_seats_held_before_count(seats: int, votes: dict[str, int], held: dict[str, int], descending: bool) -> None:
    assert webster(seats, votes, held, descending) == one_by_one(seats, votes, held, descending)


@given(st.integers(0, 120), weights, st.booleans())
def test_a_fresh_division_leaves_out_empty_shares(replicas: int, votes: dict[str, int], descending: bool) -> None:
    shares = divide(replicas, list(votes.items()), descending)
    assert [name for name, _ in shares] == sorted(name for name, _ in shares)
    if sum(votes.values()):
        whole = one_by_one(replicas, votes, {}, descending)
        assert dict(shares) == {name: count for name, count in whole.items() if count}
    else:
        assert shares == []


@given(st.integers(1, 100), weights)
def test_no_cluster_exceeds_a_weight_that_is_its_capacity(replicas: int, votes: dict[str, int]) -> None:
    if replicas <= sum(votes.values()):
        assert all(count <= votes[name] for name, count in divide(replicas, list(votes.items()), False))


def test_weights_beyond_double_precision_tie() -> None:
    heavy = [("b", 2**53 + 1), ("a", 2**53)]
    assert divide(1, heavy, False) == [("a", 1)]
    assert divide(1, heavy, True) == [("b", 1)]


@pytest.mark.parametrize(("uid", "descending"), [("", False), ("a", False), ("b", True), ("foo", True)])
def test_the_uid_decides_the_direction_of_ties(uid: str, descending: bool) -> None:
    assert ties_descend(uid) is descending


def test_ties_follow_the_hash_of_the_uid() -> None:
    def fnv1a(text: str) -> int:
        value = 2166136261
        for byte in text.encode():
            value = (value ^ byte) * 16777619 % 2**32
        return value

    for uid in ("d94907ba-2f50-4b0f-97f3-0d4e3ed9e5d4", "x" * 36, "ünï", "0", "uid-2"):
        assert ties_descend(uid) is bool(fnv1a(uid) & 1)


def targets(**replicas: int) -> list[TargetCluster]:
    return [TargetCluster(name, count) for name, count in replicas.items()]


def test_without_weight_nothing_is_placed() -> None:
    assert allocate_by_weight(3, [("a", 0)], targets(m=2), "") == (targets(m=2), 3)
    assert spread_by_targets(5, [], targets(b=1, a=2), "") == targets(b=1, a=2)


def test_merged_targets_keep_the_order_of_the_new_ones() -> None:
    assert merge_targets(targets(a=1, c=2), targets(b=3, a=4)) == targets(b=3, a=5, c=2)
    assert merge_targets([], targets(a=1)) == targets(a=1)
    assert merge_targets(targets(a=1), []) == targets(a=1)


def test_completions_follow_the_replicas_of_a_job() -> None:
    job = {"metadata": {"namespace": "ns", "name": "j", "uid": "a"}, "spec": {"completions": 33}}
    assert divide_job_completions(job, targets(m1=8, m2=8, m5=9)) == targets(m1=11, m2=10, m5=12)
    assert divide_job_completions({"spec": {}}, targets(m1=1)) is None
    with pytest.raises(DivisionError, match="Job ns/j"):
        divide_job_completions({**job, "spec": {"completions": 2.5}}, targets(m1=1))


@pytest.mark.parametrize(
    ("kind", "clusters", "changed"),
    [
        (None, [1], False),
        ("Duplicated", [3, 3], False),
        ("Duplicated", [3, 2], True),
        ("Divided", [1, 2], False),
        ("Divided", [], True),
        ("", [9], False),
    ],
)
def test_change_of_replicas(kind: str | None, clusters: Sequence[int], changed: bool) -> None:
    assert replicas_changed(3, kind, clusters) is changed


def test_reschedule_must_be_later_than_the_last_success() -> None:
    assert reschedule_requested("2026-03-01T00:00:01Z", "2026-03-01T01:00:00+01:00")
    assert not reschedule_requested("2026-03-01T00:00:00Z", "2026-03-01T01:00:00+01:00")
    assert not reschedule_requested(None, "2026-03-01T00:00:00Z")
    assert not reschedule_requested("2026-03-01T00:00:00Z", None)
    with pytest.raises(ValueError, match="'soon' is not a time"):
        reschedule_requested("soon", "2026-03-01T00:00:00Z")


def test_usage_counts_replicas_or_whole_sets() -> None:
    single = {
        "clusters": [{"name": "a", "replicas": 2}, {"name": "b", "replicas": 1}],
        "replicaRequirements": {"resourceRequest": {"cpu": "500m", "memory": "0"}},
    }
    assert {name: str(amount) for name, amount in resource_usage(single).items()} == {"cpu": "1500m"}
    component = {"replicas": 3, "replicaRequirements": {"resourceRequest": {"cpu": "1"}}}
    several = {**single, "components": [component, {"replicas": 9}]}
    assert {name: str(amount) for name, amount in resource_usage(several).items()} == {"cpu": "6"}
