"""The suite looks for its tests where they are: those of its second part, and those with a place in its order."""

from __future__ import annotations

from pathlib import Path

from tests.distribution import LONGEST_FIRST, TOGETHER
from tests.run import GATES, PLACES, WHOLE_INSTALLATIONS

ROOT = Path(__file__).parents[2]


def files_with(*marks: str) -> list[str]:
    """Files of tests in which a mark stands."""
    files = [(path.relative_to(ROOT).as_posix(), path.read_text()) for path in (ROOT / "tests").rglob("*.py")]
    return [name for name, text in files if any(f"mark.{mark}" in text for mark in marks)]


def test_no_test_of_the_second_part_is_where_nobody_looks_for_it() -> None:
    marked = files_with(*WHOLE_INSTALLATIONS)
    assert len(marked) > len(PLACES)
    assert [name for name in marked if not name.startswith(PLACES)] == []


def test_gates_are_files() -> None:
    assert [name for name in GATES if not (ROOT / name).is_file()] == []


def test_files_that_begin_first_or_share_something_exist() -> None:
    units = set(TOGETHER.values())
    assert [name for name in (*TOGETHER, *LONGEST_FIRST) if name not in units and not (ROOT / name).is_file()] == []
    assert units >= {name for name in LONGEST_FIRST if ": " in name}
