"""Which group owns a shard, who hands a group over, and how groups compare a restored log."""

from __future__ import annotations

from collections import Counter

import pytest

from schemas.events.restore import RestoreCompared, RestoreStarted
from schemas.shard_groups import MOST_GROUPS, SHARED, WHOLE, group_name, group_names, groups_of, service_of
from schemas.topology import SERVICES
from services._rules.identity.service_rights import rights_of
from services._rules.log.group_balance import next_handover
from services._rules.log.restore_order import Restoring

UNITS = [f"member{number}" for number in range(1000)]


@pytest.mark.parametrize("count", range(1, MOST_GROUPS + 1))
def test_every_unit_belongs_to_one_group(count: int) -> None:
    owners = Counter(group.index for unit in UNITS for group in groups_of(count) if group.owns(unit))
    assert sum(owners.values()) == len(UNITS)
    assert min(owners[index] for index in range(count)) > len(UNITS) / count / 2


def test_the_whole_owns_everything() -> None:
    assert all(WHOLE.owns(unit) for unit in UNITS)
    assert WHOLE.named("executor") == "executor"


def test_names_of_groups_lead_back_to_their_service() -> None:
    assert set(SHARED) <= set(SERVICES)
    for service in SERVICES:
        for name in group_names(service):
            assert service_of(name) == service
    assert group_names("scheduler") == ("scheduler",)
    assert service_of("scheduler-1") == "scheduler-1"
    assert service_of("executor-x") == "executor-x"


@pytest.mark.parametrize(
    ("leading", "handovers"),
    [
        ({"a": [0, 1], "b": []}, {"a": (1, "b")}),
        ({"a": [0], "b": [1]}, {}),
        ({"a": [0, 1], "b": [2]}, {}),
        ({"a": [0, 1, 2, 3], "b": [], "c": []}, {"a": (3, "b")}),
        ({"a": [0, 2], "b": [1, 3], "c": []}, {"a": (2, "c")}),
        ({"a": [], "b": [], "c": []}, {}),
        ({"a": [0, 1]}, {}),
    ],
)
def test_the_fullest_hands_a_group_to_the_emptiest(
    leading: dict[str, list[int]], handovers: dict[str, tuple[int, str]]
) -> None:
    made = {name: found for name in leading if (found := next_handover(leading, name)) is not None}
    assert made == handovers


@pytest.mark.parametrize("instances", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_handovers_end_with_shares_that_differ_by_one_at_most(instances: int, count: int) -> None:
    leading: dict[str, list[int]] = {f"i{number}": [] for number in range(instances)}
    leading["i0"] = list(range(count))
    for _ in range(count * instances):
        found = [(name, made) for name in leading if (made := next_handover(leading, name)) is not None]
        if not found:
            break
        ((giver, (group, heir)),) = found
        leading[giver].remove(group)
        leading[heir].append(group)
    sizes = [len(groups) for groups in leading.values()]
    assert max(sizes) - min(sizes) <= 1
    assert sorted(group for groups in leading.values() for group in groups) == list(range(count))


def test_who_is_not_heard_of_hands_nothing_over() -> None:
    assert next_handover({"a": [0, 1]}, "b") is None


def test_a_service_has_compared_once_all_its_groups_have() -> None:
    state = Restoring()
    state.take(1, RestoreStarted())
    for service in ("detector", "cluster_monitor", "scheduler"):
        state.take(2, RestoreCompared(service=service, restore=1))
    first, second = groups_of(2)
    renderer = "override_renderer"
    assert not state.is_due(renderer, first)
    assert state.is_due(renderer, second)
    state.take(3, RestoreCompared(service=group_name(renderer, 1), restore=1))
    assert state.holds
    assert not state.is_due(renderer, second)
    assert state.is_due(renderer, first)
    state.take(4, RestoreCompared(service=renderer, restore=1))
    assert not state.holds


def test_groups_write_under_their_own_names_and_others_do_not() -> None:
    for service in SHARED:
        rights = rights_of(service)
        for index in range(MOST_GROUPS):
            name = group_name(service, index)
            assert {f"{family}.{name}" for family in ("lease", "alive", "parked", "restore")} <= set(rights.publish)
            assert f"alive.{name}" in rights.subscribe
        assert f"present.{service}" in rights.publish
        assert f"present.{service}" in rights.subscribe
        others = [rights_of(other).publish for other in SERVICES if other != service]
        assert not any(f"lease.{group_name(service, 1)}" in publish for publish in others)
