"""What an agent writes to its disk: what changed, now and then everything, and what a crash leaves of it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from pathlib import Path

import pytest
from msgspec import Raw

from schemas.events.policy import PolicyChanged
from schemas.keys import ObjectKey, PolicyKey
from services._rules.interpreter.configuration import CUSTOMIZATION
from services.agent import state_storage as storing
from services.agent.state import AgentState
from services.agent.state_file import load, save, save_changes
from services.agent.state_storage import StateStorage
from tests.support.agent_works import A, B, rendered, seen, withdrawn


class Disk:
    """A storage that saves when told to."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.saved: list[Collection[ObjectKey]] = []
        self.storage = StateStorage(directory, "m1", self.saved.append)
        self.state = self.storage.state

    async def save(self) -> None:
        await self.storage._save()

    @property
    def whole(self) -> bytes:
        return (self.directory / "works.json").read_bytes()

    @property
    def changes(self) -> bytes:
        return (self.directory / "works.changes").read_bytes()

    def again(self) -> AgentState:
        """What another start finds."""
        state = StateStorage(self.directory, "m1", lambda _: None).state
        state.changes.taken()
        return state


def full(*_: object) -> None:
    raise OSError(28, "No space left on device")


@pytest.fixture
async def disk(tmp_path: Path) -> Disk:
    """A storage with everything saved: A as it was applied, changed since, and B withdrawn."""
    disk = Disk(tmp_path)
    disk.state.uid, disk.state.log = "c1", "l1"
    disk.state.fold(rendered(A), 5)
    disk.state.observe(seen(A, applied=True))
    disk.state.fold(rendered(A, "d2"), 7)
    disk.state.fold(withdrawn(B), 8)
    await disk.save()
    return disk


async def test_change_is_appended_behind_the_state(disk: Disk) -> None:
    whole = disk.whole
    assert disk.changes == b""
    disk.state.observe(seen(A, "d2", applied=True))
    disk.state.fold(rendered(B, "d3"), 9)
    await disk.save()
    assert disk.whole == whole
    assert disk.changes.count(b"\n") == 1
    assert disk.again() == disk.state
    assert (disk.state.position, disk.state.works.applied) == (9, {})
    assert set(disk.saved[-1]) == {A, B}


async def test_forgotten_work_does_not_come_back(disk: Disk) -> None:
    disk.state.observe(seen(B, "", absent=True))
    disk.state.forget_ended([B])
    await disk.save()
    assert disk.again() == disk.state
    assert set(disk.again().works.works) == {A}


async def test_work_is_saved_with_its_position(disk: Disk) -> None:
    disk.state.fold(rendered(B, "d3"), 12)
    disk.state.observe(seen(A, "d2", applied=True))
    await disk.save()
    assert disk.again().position == 12
    assert disk.again().works.works[B][1] == 12


async def test_customization_change_rewrites_the_state(disk: Disk) -> None:
    disk.state.fold(rendered(B, "d3"), 9)
    await disk.save()
    key = PolicyKey(CUSTOMIZATION, "", "widgets")
    disk.state.configure(PolicyChanged(key=key, uid="p", manifest=Raw(b'{"spec":{}}')), 10)
    await disk.save()
    assert disk.changes == b""
    assert disk.again() == disk.state


async def test_changes_are_bounded_by_the_state(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storing, "LEAST_CHANGES", 1)
    sizes = []
    for position in range(10, 40):
        disk.state.fold(rendered(A, f"d{position}"), position)
        await disk.save()
        sizes.append(len(disk.changes))
        assert disk.again() == disk.state
    assert max(sizes) <= 2 * len(disk.whole)
    assert sizes.count(0) >= 2, "everything was written anew now and then"


@pytest.mark.parametrize("left", [1, 30, -1])
async def test_torn_change_and_all_behind_it_are_dropped(disk: Disk, left: int) -> None:
    before = disk.again()
    disk.state.fold(rendered(B, "d3"), 9)
    await disk.save()
    changes = disk.directory / "works.changes"
    changes.write_bytes(disk.changes[:left])
    assert disk.again() == before
    other = Disk(disk.directory)
    other.state.fold(rendered(B, "d4"), 10)
    await other.save()
    assert disk.again() == other.state


async def test_changes_of_another_state_are_ignored(disk: Disk) -> None:
    before = disk.again()
    changes = disk.directory / "works.changes"
    changes.write_bytes(save_changes(AgentState(cluster="m1", position=99), "another", [A, B]))
    assert disk.again() == before


def test_changes_behind_a_nameless_state_are_ignored() -> None:
    state = AgentState(cluster="m1", position=3)
    assert load("m1", save(state), save_changes(AgentState(cluster="m1", position=99), "some", [])) == state


async def test_failed_write_is_followed_by_a_whole_one(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    disk.state.fold(rendered(B, "d3"), 9)
    with monkeypatch.context() as broken:
        broken.setattr(storing, "_write", full)
        await disk.save()
    assert "No space left" in disk.storage.trouble
    await disk.save()
    assert disk.storage.trouble == ""
    assert disk.changes == b""
    assert disk.again() == disk.state


async def test_unreadable_file_is_set_aside(tmp_path: Path) -> None:
    (tmp_path / "works.json").write_bytes(save(AgentState(cluster="m1"))[:-1])
    disk = Disk(tmp_path)
    assert disk.again() == AgentState(cluster="m1")
    assert (tmp_path / "works.unusable").exists()


async def test_stopped_agent_has_saved_and_files_are_private(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    running = asyncio.create_task(disk.storage.run())
    await asyncio.sleep(0)
    disk.state.fold(rendered(A), 3)
    disk.storage.changed()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    found = disk.again()
    assert (found.works, found.position) == (disk.state.works, 3)
    for name in ("works.json", "works.changes"):
        assert (tmp_path / name).stat().st_mode & 0o077 == 0


async def test_object_waited_for_is_saved_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storing, "PAUSE", 3600.0)
    disk = Disk(tmp_path)
    running = asyncio.create_task(disk.storage.run())
    disk.state.fold(rendered(A), 3)
    disk.state.fold(withdrawn(A), 4)
    async with asyncio.timeout(60):
        await disk.storage.kept(A)
        assert disk.again().works.works[A][1] == 4
        await disk.storage.kept(A)
        await disk.storage.kept(B)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_full_disk_keeps_nothing_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(tmp_path)
    running = asyncio.create_task(disk.storage.run())
    disk.state.fold(withdrawn(A), 4)
    monkeypatch.setattr(storing, "_write", full)
    async with asyncio.timeout(60):
        await disk.storage.kept(A)
    assert "No space left" in disk.storage.trouble
    running.cancel()
    with pytest.raises(OSError, match="No space"):
        await running
