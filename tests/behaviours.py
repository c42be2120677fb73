"""Which behaviour of the product a file of tests is about, and the table of behaviours and levels that CI prints.

`pytest --behaviours` prints how many tests each behaviour has at each level, and how many of all of
them run in `just test`; it fails where a behaviour has no test at a level that tests/behaviours.toml names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Final

import msgspec
import pytest
from msgspec import Struct

LEVELS: Final = ("rules", "recorded", "log", "in process", "installation", "faults", "containers")
_TESTED: Final = "just test"
_MARKS: Final = {"containers": "containers", "faults": "faults", "e2e": "installation"}
_FOLDERS: Final = {
    "unit": "rules",
    "golden": "recorded",
    "log": "log",
    "integration": "in process",
    "e2e": "installation",
    "faults": "faults",
    "containers": "containers",
}


class Behaviour(Struct, frozen=True):
    """Levels at which it has tests, patterns of the files that are about it, and whether `just test` may lack it."""

    levels: tuple[str, ...]
    files: tuple[str, ...]
    on_change: bool = False


@cache
def known() -> dict[str, Behaviour]:
    """The behaviours of tests/behaviours.toml by their names, in their order."""
    table = msgspec.toml.decode(Path(__file__).with_suffix(".toml").read_bytes(), type=dict[str, Behaviour])
    assert all(set(behaviour.levels) <= set(LEVELS) for behaviour in table.values())
    return table


def topic(nodeid: str) -> str:
    """`unit/rules/division_webster` for a test of tests/unit/rules/test_division_webster.py."""
    folder, _, file = nodeid.partition("::")[0].removeprefix("tests/").rpartition("/")
    return f"{folder}/{file.removeprefix('test_').removesuffix('.py')}"


def behaviour_of(nodeid: str) -> str:
    """The behaviour that a file of tests is about, empty where the table has none."""
    file = topic(nodeid)
    return next((name for name, about in known().items() if any(fnmatch(file, one) for one in about.files)), "")


def level_of(item: pytest.Item) -> str:
    """The level of a test: its mark, else its folder."""
    marked = (level for mark, level in _MARKS.items() if item.get_closest_marker(mark))
    return next(marked, _FOLDERS[item.nodeid.split("/")[1]])


def mark(items: Iterable[pytest.Item]) -> None:
    """Mark each test with the behaviour of its file, unless it says its own."""
    found: dict[str, str] = {}
    for item in items:
        file = item.nodeid.partition("::")[0]
        if file not in found:
            found[file] = behaviour_of(file)
        if found[file] and not item.get_closest_marker("behaviour"):
            item.add_marker(pytest.mark.behaviour(found[file]))


def table(items: Sequence[pytest.Item], tested: Collection[pytest.Item]) -> tuple[list[str], list[str]]:
    """Lines of the table, and what is wrong: behaviours without a test at a level, and tests without a behaviour."""
    counts: Counter[tuple[str, str]] = Counter()
    wrong = []
    for item in items:
        named = item.get_closest_marker("behaviour")
        name = named.args[0] if named else ""
        counts[name, level_of(item)] += 1
        counts[name, _TESTED] += item in tested
        if not name:
            wrong.append(f"{item.nodeid} is about no behaviour of tests/behaviours.toml")
    columns = (*LEVELS, _TESTED)
    lines = [_row("behaviour", columns)]
    for name, about in known().items():
        lines.append(_row(name, [str(counts[name, column] or "-") for column in columns]))
        levels = about.levels if about.on_change else (*about.levels, _TESTED)
        wrong += [f"{name}: no test at the level {level}" for level in levels if not counts[name, level]]
    lines.append(_row("sum", [str(sum(n for (_, at), n in counts.items() if at == column)) for column in columns]))
    return lines, wrong


def _row(name: str, cells: Sequence[str]) -> str:
    return f"{name:<36}" + "".join(f"{cell:>14}" for cell in cells)
