"""Installations that faults are played on: started once, healed after every round, stopped at the end."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from urllib.request import Request, urlopen

import msgspec

from services._kit.base.fault_points import Point
from services.cli.installation.up import SERVICES
from tests.e2e.fleet import Fleet
from tests.faults.standbys import Standbys

TAKEOVER_AFTER = 1.0


def each_once(lines: Sequence[str]) -> list[str]:
    """Failures of the same service, event and error in one line, with their number and the first of them."""
    found: dict[str, list[str]] = {}
    for line in lines:
        service, _, rest = line.partition(": ")
        try:
            entry = msgspec.json.decode(rest, type=dict[str, object])
        except msgspec.MsgspecError:
            entry = {"event": rest}
        last = str(entry.get("exception", "")).strip().splitlines()[-1:]
        found.setdefault(f"{service}: {entry.get('event')}: {''.join(last)}", []).append(line)
    return [f"{len(same)} times {what}, first {same[0]}" for what, same in found.items()]


class Unavailable(Exception):
    """This machine cannot be made to show the fault; the message says why."""


class Ground:
    """One installation on this machine with its own log."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.points = directory / "fault-points"
        self.fleet = self.make_fleet()
        self.standbys = Standbys(self.fleet, TAKEOVER_AFTER)
        self._seen_failures = 0

    def environment(self) -> dict[str, str]:
        """Settings of every service."""
        return {
            "FLEETLOG_FAULT_POINTS": str(self.points),
            "FLEETLOG_TAKEOVER_AFTER": str(TAKEOVER_AFTER),
            # The load deletes many objects at once, also while services are down: that is meant.
            "FLEETLOG_HELD_COUNT": "1000000",
        }

    def arguments(self) -> Sequence[str]:
        """Arguments of `fleetlog up`."""
        return ()

    def make_fleet(self) -> Fleet:
        """The installation, not started."""
        return Fleet(self.directory / "installation", self.arguments(), self.environment())

    def start(self) -> None:
        """Start it; raises Unavailable where the machine does not allow for it."""
        self.points.mkdir(parents=True, exist_ok=True)
        self.fleet.start()

    def heal(self) -> None:
        """Take every fault back."""
        for file in self.points.iterdir():
            file.unlink()
        for name in SERVICES:
            self.signal(name, signal.SIGCONT)
        self.standbys.thaw()
        for member in self.fleet.members:
            self.member_fault(member, mode="none")

    def stop(self) -> None:
        """Stop it."""
        self.standbys.stop()
        self.fleet.stop()

    def kubeconfig(self, name: str) -> Path:
        """How the checker reaches the control plane or a member: past everything that stands before it."""
        return self.fleet.layout.kubeconfig(name)

    def failures(self) -> list[str]:
        """Bugs that the services' logs tell of since the last look."""
        found = self.fleet.failures()
        new, self._seen_failures = found[self._seen_failures :], len(found)
        return each_once([line for line in new if not self.expected(line)])

    def expected(self, line: str) -> bool:
        """Whether a failure is what the faults of this ground ask for."""
        return False

    def order(self, service: str, point: Point, count: int, what: str = "") -> None:
        """Let a service die when it comes to a point for the n-th time, with a request that contains a text."""
        file = self.points / f".{service}"
        file.write_text(f"{point} {count} {what}".rstrip())
        file.rename(self.points / service)

    def ordered(self) -> list[str]:
        """Services that have not come to their point yet."""
        return sorted(file.name for file in self.points.iterdir())

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send a signal to a process of the installation."""
        pid = self.fleet.pid(name)
        if pid:
            # One that died by itself a moment ago is started again without us.
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def member_fault(self, member: str, **fault: object) -> None:
        """Set a fault of a simulated member's API: mode, delayMs, status."""
        self.ask_member(member, "/faults", **fault)

    def ask_member(self, member: str, path: str, **body: object) -> None:
        """Have a simulated member play something."""
        url = (self.fleet.layout.data(member) / "admin.url").read_text().strip()
        headers = {"Authorization": f"Bearer {self.fleet.installation.token}", "Content-Type": "application/json"}
        with urlopen(Request(f"{url}{path}", msgspec.json.encode(body), headers), timeout=60):
            return
