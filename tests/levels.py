"""Levels of tests: which of them `just test` runs, and which only `just test-all` runs beside them.

`just test` runs what needs no installation of its own, and the main path of each feature in one installation and in
one composition. Tests of the embedded API server and of simulated members are among them where their sources change.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]
LOCAL_CLUSTER: Final = tuple(
    f"tests/{place}/"
    for place in (
        *("unit/apiserver", "unit/member_sim"),
        *("integration/apiserver", "integration/member_sim", "integration/clients"),
    )
)
"""Where the tests of the embedded API server and of simulated members are."""
SOURCES: Final = (
    "services/apiserver",
    "services/member_sim",
    "services/_rules/kubernetes",
    *LOCAL_CLUSTER,
)
"""What they test, and they themselves."""
GATES: Final = (
    *(f"tests/unit/test_{name}.py" for name in ("documents", "layout")),
    "tests/unit/pipeline/test_decisions_are_pure.py",
)
"""Tests that read the source, and what holds for every decision: `just lint` runs them, and no level does."""
HEAVY: Final = ("e2e", "faults", "containers", "long")
"""Marks of tests that start whole installations, or take long; `main_path` takes one of them into `just test`."""
INSTALLATIONS: Final = ("tests/e2e/", "tests/integration/stock/")
"""Where every test needs a whole installation; tests/integration/cli has another one in its fixture `commands`."""


def mark(items: Iterable[pytest.Item]) -> None:
    """Give each test the marks that follow from its folder, and its file as the group that stays in one process."""
    for item in items:
        file = item.nodeid.partition("::")[0]
        if file.startswith(LOCAL_CLUSTER):
            item.add_marker(pytest.mark.localkube)
        if file.startswith(INSTALLATIONS) or "commands" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.e2e)
        if item.get_closest_marker("faults") and not item.get_closest_marker("timeout"):
            # Tests that kill processes wait for new ones.
            item.add_marker(pytest.mark.timeout(300))
        if not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(file))


def left_out() -> tuple[str, ...]:
    """Marks of the tests that `just test` leaves out, unless they are main paths."""
    return HEAVY if changed(ROOT, SOURCES) else (*HEAVY, "localkube")


def is_tested(item: pytest.Item, left: Iterable[str]) -> bool:
    """Whether `just test` runs a test, where it leaves out these marks."""
    return bool(item.get_closest_marker("main_path")) or not any(item.get_closest_marker(mark) for mark in left)


def changed(root: Path, sources: Iterable[str]) -> bool:
    """Whether sources differ from the main branch of `origin`, or from the last commit where it is not known."""
    for base in ("origin/main", "HEAD"):
        if _git(root, "rev-parse", "--verify", "--quiet", base) is not None:
            edited = _git(root, "diff", "--name-only", base, "--", *sources)
            added = _git(root, "ls-files", "--others", "--exclude-standard", "--", *sources)
            return bool(edited or added)
    # Without a repository nothing tells.
    return True


def _git(root: Path, *arguments: str) -> str | None:
    """What git prints; None where it fails, or is not there."""
    try:
        done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout if done.returncode == 0 else None
