"""What `just test` runs: the tests of a change, those of the local cluster only where its sources change."""

from __future__ import annotations

import subprocess
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests import behaviours, levels

ROOT = Path(__file__).parents[2]


def git(place: Path, *arguments: str) -> None:
    names = ("-c", "user.name=test", "-c", "user.email=test@example.com")
    subprocess.run(["git", *names, *arguments], cwd=place, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a server and a readme; origin's main branch is its only commit."""
    (tmp_path / "server").mkdir()
    (tmp_path / "server" / "app.py").write_text("first")
    (tmp_path / "README.md").write_text("first")
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "first")
    git(tmp_path, "update-ref", "refs/remotes/origin/main", "HEAD")
    return tmp_path


def test_sources_are_unchanged_beside_other_changes(repository: Path) -> None:
    (repository / "README.md").write_text("second")
    assert not levels.changed(repository, ["server"])


@pytest.mark.parametrize("file", ["app.py", "new.py"])
def test_edited_or_added_file_changes_the_sources(repository: Path, file: str) -> None:
    (repository / "server" / file).write_text("second")
    assert levels.changed(repository, ["server"])


def test_commit_that_origin_lacks_changes_the_sources(repository: Path) -> None:
    (repository / "server" / "app.py").write_text("second")
    git(repository, "commit", "-q", "-a", "-m", "second")
    assert levels.changed(repository, ["server"])
    git(repository, "update-ref", "-d", "refs/remotes/origin/main")
    assert not levels.changed(repository, ["server"])


def test_everything_is_changed_without_a_repository(tmp_path: Path) -> None:
    assert levels.changed(tmp_path, ["server"])


def test_sources_of_the_local_cluster_exist() -> None:
    assert [name for name in (*levels.SOURCES, *levels.GATES) if not (ROOT / name).exists()] == []


def test_every_pattern_of_a_behaviour_takes_a_file() -> None:
    files = [path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py")]
    taken = {file: behaviours.topic(file) for file in files}
    for name, about in behaviours.known().items():
        idle = [one for one in about.files if not any(fnmatch(topic, one) for topic in taken.values())]
        assert (name, idle) == (name, [])
