"""A ground whose processes each have a wall clock of their own that can be set, by libfaketime.

The log's server is no part of it: a Go program reads the kernel's clock without asking the C library.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tests.e2e.fleet import Fleet
from tests.faults.ground import Ground, Unavailable

_CLOCKS: Final = "FLEETLOG_TEST_CLOCKS"
_FILE: Final = "FAKETIME_TIMESTAMP_FILE"
_PLACES: Final = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib")
_COMMAND: Final = "from tests.faults.ground_clock import up; up()"


def library() -> str:
    """Path of libfaketime; raises Unavailable."""
    for place in _PLACES:
        path = Path(place) / "faketime" / "libfaketimeMT.so.1"
        if path.exists():
            return str(path)
    raise Unavailable("clocks cannot be set without libfaketime (package faketime)")


def up() -> None:
    """`fleetlog up` whose children read the time from a file each."""
    from tests.faults import launching

    clocks = Path(os.environ.pop(_CLOCKS))
    time.sleep = _pause
    launching.up(lambda name: {_FILE: str(_clock(clocks, name))})


def _pause(seconds: float) -> None:
    """Wait as time.sleep does, which libfaketime breaks: it takes an absolute monotonic time for wall time."""
    select.select((), (), (), seconds)


def _clock(clocks: Path, name: str) -> Path:
    path = clocks / name
    if not path.exists():
        path.write_text("+0\n")
    return path


class Clocks(Ground):
    """The installation of three members; every process has a clock of its own."""

    @property
    def clocks(self) -> Path:
        """One file per process: how many seconds its clock is ahead."""
        return self.directory / "clocks"

    def environment(self) -> dict[str, str]:
        """Settings of every service, and those of libfaketime."""
        return {
            **super().environment(),
            _CLOCKS: str(self.clocks),
            _FILE: str(_clock(self.clocks, "up")),
            "LD_PRELOAD": library(),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }

    def make_fleet(self) -> Fleet:
        """The installation, not started."""
        self.clocks.mkdir(parents=True, exist_ok=True)
        return Fleet(self.directory / "installation", self.arguments(), self.environment(), _COMMAND)

    @property
    def names(self) -> list[str]:
        """Processes whose clock can be set."""
        return sorted(path.name for path in self.clocks.iterdir() if not path.name.startswith("."))

    def set_clocks(self, names: Iterable[str], ahead: int) -> None:
        """Let the clocks of these processes be that many seconds ahead of the machine's."""
        for name in names:
            new = self.clocks / f".{name}"
            new.write_text(f"{ahead:+d}\n")
            new.rename(self.clocks / name)

    def heal(self) -> None:
        """Take every fault back."""
        self.set_clocks(self.names, 0)
        super().heal()
