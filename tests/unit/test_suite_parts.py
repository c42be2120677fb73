"""The second part of the suite looks for its tests where they are."""

from __future__ import annotations

from pathlib import Path

from tests.run import PLACES, WHOLE_INSTALLATIONS

ROOT = Path(__file__).parents[2]


def test_no_test_of_the_second_part_is_where_nobody_looks_for_it() -> None:
    files = [(path.relative_to(ROOT).as_posix(), path.read_text()) for path in (ROOT / "tests").rglob("*.py")]
    marked = [name for name, text in files if any(f"mark.{mark}" in text for mark in WHOLE_INSTALLATIONS)]
    assert len(marked) > len(PLACES)
    assert [name for name in marked if not name.startswith(PLACES)] == []
