"""Where modules lie: small rooms that say what belongs there, no prefixes instead of rooms, one module per name.

And how tests are named: in short, and each by a name of its own.
"""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest

SERVICES = Path(__file__).parents[2] / "services"
TESTS = Path(__file__).parents[1]
MOST_MODULES = 16
MOST_LINES = 460
LONGEST_NAME = 60
"""Characters of the name of a test."""
NAMED = ("e2e", "faults", "golden", "integration", "log", "tools", "unit")
"""Folders of tests whose names are checked."""
DEFINED = re.compile(r"\bdef\s+(test_\w+)")
SIBLINGS = 3
"""So many modules of one room with one first word are a room that was not made."""
ROOMS = sorted(path.parent for path in SERVICES.rglob("__init__.py"))
IN_EVERY_SERVICE = frozenset(("__init__", "__main__", "app", "decide", "state", "settings", "metrics"))
# Rules, tables and views of one API group have its name, in each room.
API_GROUPS = frozenset(
    (
        *(
            "admission",
            "autoscaling",
            "batch",
            "certificates",
            "cluster",
            "config",
            "endpoints",
            "events",
            "networking",
        ),
        *("plain", "pods", "policy", "quota", "rbac", "reviews", "service", "storage"),
    )
)


def modules(room: Path) -> list[str]:
    """Names of the modules of a room."""
    return sorted(path.stem for path in room.glob("*.py") if path.stem != "__init__")


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: str(room.relative_to(SERVICES)))
def test_a_room_is_small_and_says_what_belongs_there(room: Path) -> None:
    assert len(modules(room)) <= MOST_MODULES
    text = ast.get_docstring(ast.parse((room / "__init__.py").read_text(encoding="utf-8")))
    assert text, "the first line of __init__.py says what belongs here"


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: str(room.relative_to(SERVICES)))
def test_no_prefix_stands_for_a_room(room: Path) -> None:
    prefixes = Counter(name.partition("_")[0] for name in modules(room) if "_" in name.strip("_"))
    assert not [prefix for prefix, count in prefixes.items() if count >= SIBLINGS]


def test_module_names_are_unique() -> None:
    places = defaultdict(list)
    for path in SERVICES.rglob("*.py"):
        if path.stem not in IN_EVERY_SERVICE | API_GROUPS and "examples" not in path.parts:
            places[path.stem].append(str(path.relative_to(SERVICES)))
    assert not {name: found for name, found in places.items() if len(found) > 1}


def test_modules_are_short() -> None:
    lengths = {
        str(path.relative_to(SERVICES)): path.read_text(encoding="utf-8").count("\n") for path in SERVICES.rglob("*.py")
    }
    assert not {name: length for name, length in lengths.items() if length > MOST_LINES}


@pytest.mark.parametrize("place", NAMED)
def test_names_of_tests_are_short_and_unique(place: str) -> None:
    paths = sorted((TESTS / place).rglob("*.py"))
    assert paths, f"{place} has no modules"
    for path in paths:
        source = path.read_text(encoding="utf-8")
        # Parsing takes long; strings may hold definitions that are none, code has none that this does not see.
        if misnamed(DEFINED.findall(source)):
            nodes = ast.walk(ast.parse(source))
            functions = [node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
            assert not misnamed(name for name in functions if name.startswith("test_")), path.name


def misnamed(tests: Iterable[str]) -> list[str]:
    """Names that are too long, or given more than once."""
    return [name for name, count in Counter(tests).items() if len(name) > LONGEST_NAME or count > 1]
