"""Cases of a test in a YAML file beside it: each says what is given and what is expected of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

Case = dict[str, Any]


def cases_of(path: Path, part: str = "cases") -> list[Any]:
    """Parameters for one test: the cases of a part of the file, each under its name, kind or the fields it gives."""
    found = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)[part]
    return [pytest.param(case, id=_title(case).replace(" ", "_")) for case in found]


def _title(case: Case) -> str:
    return str(case.get("name") or case.get("kind") or "-".join(case["given"]))


def assert_within(expected: Any, found: Any, place: str = "") -> None:
    """Check that an object has the expected members; null stands for a member that is absent or null."""
    match expected:
        case dict():
            assert isinstance(found, dict), f"{place} is {found!r}"
            for name, value in expected.items():
                assert_within(value, found.get(name), f"{place}.{name}")
        case list():
            assert isinstance(found, list), f"{place} is {found!r}"
            assert len(found) == len(expected), f"{place} is {found!r}"
            for number, (value, item) in enumerate(zip(expected, found, strict=True)):
                assert_within(value, item, f"{place}[{number}]")
        case _:
            assert found == expected, f"{place} is {found!r}, expected {expected!r}"
