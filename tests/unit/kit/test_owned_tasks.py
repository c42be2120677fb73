"""Every task of a service has an owner: only supervision.py and tasks.py make them, on whatever object."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import services

ROOT = Path(services.__file__).parent
OWNERS = {"_kit/concurrency/supervision.py", "_kit/concurrency/tasks.py"}
MAKERS = {"create_task", "ensure_future", "run_coroutine_threadsafe"}


def made(source: str) -> list[int]:
    """Lines that make a task, on whatever object or below whatever name."""
    found: list[int] = []
    # Parsing takes long; hardly any file has one of these names anywhere.
    if not any(maker in source for maker in MAKERS):
        return found
    for node in ast.walk(ast.parse(source)):
        name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
        imported = [alias.name for alias in node.names] if isinstance(node, ast.ImportFrom) else []
        if name in MAKERS or MAKERS & set(imported):
            found.append(node.lineno)
    return found


@pytest.mark.parametrize(
    "source",
    [
        "asyncio.create_task(run())",
        "asyncio.get_running_loop().create_task(run())",
        "group.create_task(run())",
        "make = loop.create_task",
        "from asyncio import ensure_future",
    ],
)
def test_a_task_without_an_owner_is_found(source):
    assert made(source) == [1]


def test_only_the_owners_make_tasks():
    files = sorted(ROOT.rglob("*.py"))
    assert len(files) > 300
    found = {
        f"{path.relative_to(ROOT)}:{line}"
        for path in files
        if str(path.relative_to(ROOT)) not in OWNERS
        for line in made(path.read_text(encoding="utf-8"))
    }
    assert not found, f"use supervise, spawn or a piece of _kit/concurrency/tasks.py: {sorted(found)}"
