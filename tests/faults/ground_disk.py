"""Installations whose log lies on a disk of its own: memory that can be full, a file that can break and hang."""

from __future__ import annotations

import os
import subprocess
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path

from tests.faults.ground import Ground, Unavailable

SIZE = 160 << 20
_CHUNK = 1 << 16
_MEND_SECONDS = 30.0
_FSCK_FINE = (0, 1)


def run(*command: str) -> str:
    """Output of a command; raises Unavailable where it is missing or refuses."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise Unavailable(f"there is no {command[0]} here") from None
    if done.returncode:
        raise Unavailable(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()}")
    return done.stdout.strip()


class OwnDisk(Ground, ABC):
    """An installation whose log lies on a disk that nothing else uses."""

    @property
    def disk(self) -> Path:
        """Where the log's server stores."""
        return self.fleet.layout.data("nats")

    def start(self) -> None:
        """Mount the disk, then start everything; raises Unavailable where nothing may be mounted."""
        self.disk.mkdir(parents=True, exist_ok=True)
        self.attach()
        super().start()

    @abstractmethod
    def attach(self) -> None:
        """Mount the disk; raises Unavailable."""

    def stop(self) -> None:
        """Stop everything and let go of the disk."""
        super().stop()
        while os.path.ismount(self.disk):
            subprocess.run(["umount", str(self.disk)], capture_output=True, check=True)


class SmallDisk(OwnDisk):
    """A disk that can be full. Needs the right to mount."""

    def attach(self) -> None:
        """Mount memory; raises Unavailable."""
        run("mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(self.disk))

    def fill(self) -> None:
        """Leave no room at all."""
        block = bytes(_CHUNK)
        with self._filler.open("ab", buffering=0) as file, suppress(OSError):
            while True:
                file.write(block)

    def free(self) -> None:
        """Give the room back."""
        self._filler.unlink(missing_ok=True)

    def heal(self) -> None:
        """Take every fault back."""
        self.free()
        super().heal()

    @property
    def _filler(self) -> Path:
        return self.disk / "filler"


class FragileDisk(OwnDisk):
    """A disk whose filesystem finds an error and turns read-only, or hangs. Needs loop devices and the right to mount.

    Below it lies an empty one that takes no writes: a server that starts while the disk is away, to be mended, must not
    begin another log there.
    """

    device = ""
    frozen = False
    broken = False

    def attach(self) -> None:
        """Make a filesystem in a file and mount it; raises Unavailable."""
        with self._image.open("wb") as file:
            file.truncate(SIZE)
        run("mkfs.ext4", "-q", "-F", str(self._image))
        run("mount", "-t", "tmpfs", "-o", "ro,size=4k", "tmpfs", str(self.disk))
        self.device = run("losetup", "--find", "--show", str(self._image))
        # One whose last user only read stays so.
        run("blockdev", "--setrw", self.device)
        self._mount()
        if os.statvfs(self.disk).f_flag & os.ST_RDONLY:
            raise Unavailable(f"{self.device} cannot be written")
        if not os.access(self._trigger, os.W_OK):
            raise Unavailable(f"{self._trigger} cannot be written: no error can be made here")

    def break_(self) -> None:
        """Let the filesystem find an error: from one instant on it takes no more writes, whoever has files open.

        It is frozen for that instant. Otherwise ext4 says of some writes of the last milliseconds that they are safe,
        and loses them (docs/status.md): nobody who trusts a disk can pass that.
        """
        self.freeze()
        self._trigger.write_text("found by a test")
        self.broken = True
        self.thaw()

    def mend(self) -> None:
        """Unmount, check and mount, as an operator does; the log's server is in the way, and dies for it."""
        deadline = time.monotonic() + _MEND_SECONDS
        while subprocess.run(["umount", str(self.disk)], capture_output=True, check=False).returncode:
            # Started again by its supervisor, it ends by itself; the first one has its files open.
            with suppress(ProcessLookupError):
                self.fleet.kill("nats")
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.disk} is in use for longer than {_MEND_SECONDS:g} s")
            time.sleep(0.02)
        checked = subprocess.run(["fsck.ext4", "-p", self.device], capture_output=True, text=True, check=False)
        if checked.returncode not in _FSCK_FINE:
            raise OSError(f"the disk of the log cannot be mended: {checked.stdout}{checked.stderr}")
        self._mount()
        self.broken = False

    def freeze(self) -> None:
        """Let every write wait."""
        run("fsfreeze", "--freeze", str(self.disk))
        self.frozen = True

    def thaw(self) -> None:
        """Let the writes go on."""
        if self.frozen:
            run("fsfreeze", "--unfreeze", str(self.disk))
            self.frozen = False

    def heal(self) -> None:
        """Take every fault back."""
        self.thaw()
        if self.broken:
            self.mend()
        super().heal()

    def stop(self) -> None:
        """Stop everything and let go of the disk and its device."""
        self.thaw()
        super().stop()
        if self.device:
            run("losetup", "--detach", self.device)
            self._image.unlink()

    def _mount(self) -> None:
        run("mount", "-t", "ext4", "-o", "errors=remount-ro", self.device, str(self.disk))

    @property
    def _image(self) -> Path:
        return self.directory / "disk.img"

    @property
    def _trigger(self) -> Path:
        return Path("/sys/fs/ext4") / Path(self.device).name / "trigger_fs_error"
