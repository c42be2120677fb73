"""An installation whose log lies on a small disk of its own: memory that is mounted, so that it can be full."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from pathlib import Path

from tests.faults.ground import Ground, Unavailable

SIZE = 160 << 20
_CHUNK = 1 << 16


class SmallDisk(Ground):
    """Needs the right to mount."""

    @property
    def disk(self) -> Path:
        """Where the log's server stores."""
        return self.fleet.layout.data("nats")

    def start(self) -> None:
        """Mount the disk, then start everything; raises Unavailable where nothing may be mounted."""
        self.disk.mkdir(parents=True, exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(self.disk)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            raise Unavailable("there is no mount here") from None
        if done.returncode:
            raise Unavailable(f"no disk can be mounted here: {done.stderr.strip()}")
        super().start()

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

    def stop(self) -> None:
        """Stop everything and let go of the disk."""
        super().stop()
        if os.path.ismount(self.disk):
            subprocess.run(["umount", str(self.disk)], capture_output=True, check=False)

    @property
    def _filler(self) -> Path:
        return self.disk / "filler"
