"""The installation that the chaos run breaks: its processes can be killed one by one, together, or orphaned."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from tests.e2e.fleet import Failed, Fleet
from tests.faults.ground import Unavailable
from tests.faults.ground_disk import run
from tests.faults.hostile.ground import Fronted
from tests.faults.hostile.launch import COMMAND
from tests.faults.hostile.measuring import processes

DISK: Final = 1 << 30
"""Bytes of the log's disk."""
_CHUNK: Final = 1 << 16
_GONE_SECONDS: Final = 15.0


def _alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


class Mortal(Fleet):
    """An installation whose parent process may die of kill -9."""

    def kill_parent(self) -> None:
        """kill -9 of `fleetlog up` alone."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()

    def kill_everything(self) -> None:
        """kill -9 of all processes at once, as a machine that loses its power."""
        pids = list(processes(self.layout.directory / "run").values())
        self.kill_parent()
        self._end(pids)

    def end_all(self) -> None:
        """kill -9 of whatever is left."""
        self._end(list(processes(self.layout.directory / "run").values()))

    def _end(self, pids: list[int]) -> None:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        until = time.monotonic() + _GONE_SECONDS
        while any(_alive(pid) for pid in pids) and time.monotonic() < until:
            time.sleep(0.05)

    @property
    def runs(self) -> bool:
        """Whether the parent is alive."""
        return self._process is not None and self._process.poll() is None

    def again(self) -> str:
        """Start after the parent died; why that was not possible at first, where everything had to be killed for it."""
        if self.runs:
            return ""
        try:
            self.start()
        except Failed as error:
            self.kill_everything()
            self.start()
            return str(error)
        return ""


class Breakable(Fronted):
    """Control plane and member1 behind fronts, everything else mortal; the log has a disk of its own."""

    disk_of_its_own = False
    """Whether the log lies on a disk that nothing else uses."""

    def start(self) -> None:
        """Mount the log's disk, if that is allowed, and start everything."""
        self._disk.mkdir(parents=True, exist_ok=True)
        try:
            run("mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(self._disk))
            self.disk_of_its_own = True
        except Unavailable:
            # Everything else can still be played.
            self.disk_of_its_own = False
        super().start()

    @property
    def _disk(self) -> Path:
        return self.fleet.layout.data("nats")

    def fill_disk(self) -> None:
        """Leave no room for the log."""
        with (self._disk / "filler").open("ab", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(_CHUNK))

    def free_disk(self) -> None:
        """Give the room back."""
        (self._disk / "filler").unlink(missing_ok=True)

    def heal(self) -> None:
        """Take every fault back."""
        self.free_disk()
        super().heal()

    def stop(self) -> None:
        """Stop everything and let go of the disk."""
        try:
            super().stop()
        finally:
            self.mortal.end_all()
            self._keep_disk()
            while os.path.ismount(self._disk):
                subprocess.run(["umount", "--lazy", str(self._disk)], capture_output=True, check=True)
            if self._copy.exists():
                shutil.copytree(self._copy, self._disk, dirs_exist_ok=True)
                shutil.rmtree(self._copy)

    @property
    def _copy(self) -> Path:
        return self.directory / "log-copy"

    def _keep_disk(self) -> None:
        """What lies on a disk in memory would go with it, and with it all evidence."""
        if os.path.ismount(self._disk):
            self.free_disk()
            shutil.copytree(self._disk, self._copy)

    def make_fleet(self) -> Fleet:
        """The installation, not started."""
        return Mortal(self.directory / "installation", self.arguments(), self.environment(), COMMAND)

    @property
    def mortal(self) -> Mortal:
        """The installation."""
        assert isinstance(self.fleet, Mortal)
        return self.fleet


@contextmanager
def standing(directory: Path) -> Iterator[Breakable]:
    """A started installation; nothing of it is left at the end."""
    ground = Breakable(directory)
    try:
        ground.start()
        yield ground
    finally:
        ground.stop()
