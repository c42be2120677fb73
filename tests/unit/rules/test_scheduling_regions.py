"""The choice of regions equals the exhaustive walk it stands for, and stays affordable however many there are."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services._rules.scheduling.regions.scoring import Group, choose_groups
from services._rules.scheduling.regions.search import Limits, Search


def walk(ordered: list[Group], fewest: int, most: int, target: int) -> Iterator[list[Group]]:
    """Every set in the order in which adding groups one after the other meets it."""
    if len(ordered) == fewest:
        if sum(group.value for group in ordered) >= target:
            yield ordered
        return

    def extend(path: list[Group], start: int) -> Iterator[list[Group]]:
        if sum(group.value for group in path) >= target and fewest <= len(path) <= most:
            yield path
        elif len(path) < most:
            for position in range(start, len(ordered)):
                yield from extend([*path, ordered[position]], position + 1)

    yield from extend([], 0)


def choose_all(groups: list[Group], fewest: int, most: int, target: int) -> list[Group]:
    """The choice worked out over all sets."""
    ordered = sorted(groups, key=lambda group: (group.value, -group.weight, group.name))
    paths = [
        sorted(path, key=lambda group: (-group.weight, group.name)) for path in walk(ordered, fewest, most, target)
    ]
    if not paths:
        return []
    # sorted() keeps the order of discovery among equals.
    paths.sort(key=lambda path: (-sum(g.weight for g in path), -sum(g.value for g in path)))
    best = paths[0]
    for path in paths[1:]:
        if len(path) < len(best) and best[: len(path)] == path:
            best = path
    return best


@st.composite
def regions(draw: st.DrawFn) -> list[Group]:
    sizes = draw(st.lists(st.tuples(st.integers(1, 6), st.sampled_from([0, 1, 7, 1000, 2000, 5001])), max_size=8))
    return [Group(f"r{number}", value, weight) for number, (value, weight) in enumerate(sizes)]


@settings(max_examples=400, deadline=None)
@given(regions(), st.integers(0, 5), st.integers(0, 9), st.integers(0, 25))
def test_choice_equals_exhaustive_search(groups: list[Group], fewest: int, most: int, target: int) -> None:
    assert choose_groups(groups, fewest, most, target) == choose_all(groups, fewest, most, target)


@pytest.mark.parametrize(("fewest", "most", "target"), [(1, 5000, 12000), (2, 3, 5), (10, 4000, 9000), (20, 40, 150)])
def test_thousands_of_regions_take_bounded_steps(fewest: int, most: int, target: int) -> None:
    groups = [Group(f"r{number:04}", 1 + number * 7 % 5, 1000 * (number * 13 % 11) + number) for number in range(5000)]
    chosen = choose_groups(groups, fewest, most, target)
    assert fewest <= len(chosen) <= most
    assert sum(group.value for group in chosen) >= target
    assert chosen == choose_groups(groups[::-1], fewest, most, target)


def test_search_cut_short_still_meets_limits() -> None:
    groups = [Group(f"r{number:02}", 1 + number % 9, 997 * number % 4000) for number in range(80)]
    ordered = sorted(groups, key=lambda group: (group.value, -group.weight, group.name))
    limits = Limits(20, 40, 150)
    search = Search(ordered, limits)
    chosen = search.run()
    assert search.steps <= 0
    assert limits.met(len(chosen), sum(group.value for group in chosen))


def test_no_choice_where_regions_are_too_small() -> None:
    groups = [Group(f"r{number:03}", 1, 10) for number in range(500)]
    assert choose_groups(groups, 2, 30, 31) == []
    assert len(choose_groups(groups, 2, 30, 30)) == 30


@pytest.mark.parametrize(
    ("groups", "fewest", "most", "target", "chosen"),
    [
        ("R1:1:80 R3:1:80 R2:1:60 R5:2:60 R4:5:50 R6:3:50", 1, 3, 10, "R5 R4 R6"),
        ("R1:1:60 R2:1:50 R3:1:40 R4:3:30 R5:3:20 R6:3:10", 1, 3, 6, "R1 R4 R5"),
        ("R1:1:60 R2:2:50 R3:3:40 R4:4:30", 1, 2, 5, "R1 R4"),
        ("R4:1:60 R3:3:50 R1:3:40 R2:4:30", 1, 2, 5, "R3 R1"),
        ("A:1:5 B:1:5 C:1:5", 2, 2, 2, "A B"),
        ("A:1:5 B:1:5 C:1:5", 1, 3, 1, "A"),
        ("A:1:5 B:1:5", 2, 3, 3, ""),
        ("", 1, 1, 1, ""),
    ],
)
def test_worked_choices_of_regions(groups: str, fewest: int, most: int, target: int, chosen: str) -> None:
    parsed = [
        Group(name, int(value), int(weight)) for name, value, weight in (item.split(":") for item in groups.split())
    ]
    assert [item.name for item in choose_groups(parsed, fewest, most, target)] == chosen.split()
