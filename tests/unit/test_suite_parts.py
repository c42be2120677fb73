"""The suite starts first what is there, and keeps together what shares an installation."""

from __future__ import annotations

from pathlib import Path

from tests.distribution import LONGEST_FIRST, TOGETHER

ROOT = Path(__file__).parents[2]


def test_files_that_begin_first_or_share_something_exist() -> None:
    units = set(TOGETHER.values())
    assert [name for name in (*TOGETHER, *LONGEST_FIRST) if name not in units and not (ROOT / name).is_file()] == []
    assert units >= {name for name in LONGEST_FIRST if ": " in name}
