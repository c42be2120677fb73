"""Cases of a test in a YAML file beside it: each says what is given and what is expected of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

Case = dict[str, Any]


def cases_of(path: Path, part: str = "cases") -> list[Any]:
    """Parameters for one test: the cases in this part of the file, each under its `name`."""
    found = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)[part]
    return [pytest.param(case, id=case["name"].replace(" ", "_")) for case in found]
