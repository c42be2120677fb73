"""Where modules lie: small rooms that say what belongs there, no prefixes in the place of rooms, one name one module."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from pathlib import Path

import pytest

SERVICES = Path(__file__).parents[2] / "services"
MOST_MODULES = 16
MOST_LINES = 460
SIBLINGS = 3
"""So many modules of one room with one first word are a room that was not made."""
ROOMS = sorted(path.parent for path in SERVICES.rglob("__init__.py"))
USUAL = frozenset(
    # What every service has.
    "__init__ __main__ app decide state settings metrics "
    # What rooms of the command line, API groups of kinds and their admission are called everywhere.
    "commands explain events admission autoscaling batch certificates config cluster endpoints networking plain policy "
    "pods quota rbac reviews service storage".split()
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
        if path.stem not in USUAL and "examples" not in path.parts:
            places[path.stem].append(str(path.relative_to(SERVICES)))
    assert not {name: found for name, found in places.items() if len(found) > 1}


def test_modules_are_short() -> None:
    lengths = {
        str(path.relative_to(SERVICES)): path.read_text(encoding="utf-8").count("\n") for path in SERVICES.rglob("*.py")
    }
    assert not {name: length for name, length in lengths.items() if length > MOST_LINES}
