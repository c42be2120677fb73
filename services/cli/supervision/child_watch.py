"""Watches whether one process answers at all its addresses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from services.cli.supervision.liveness import Life, Limits, begun, given_up, heard, judged, limit, passed
from services.cli.supervision.liveness_probe import LIVING_SECONDS, Address, Probe

LOOK_SECONDS: Final = 1.0
"""Between two looks at one that owes an answer."""


class ChildWatch:
    """One process: `counts` says whether it can be expected to answer now."""

    def __init__(self, addresses: Sequence[Address], limits: Limits, counts: Callable[[], bool]) -> None:
        self._limits = limits
        self._counts = counts
        self._addresses = tuple(addresses)
        pause = min(LIVING_SECONDS, limits.silence / 3) if limits.silence else LIVING_SECONDS
        self._probes = [Probe(address, pause) for address in self._addresses]
        self._lives = [Life() for _ in self._addresses]

    @property
    def answers(self) -> bool:
        """Whether it has answered at every address since its start."""
        return all(life.answered for life in self._lives)

    def begin(self, now: float) -> None:
        """The process was started."""
        for place, probe in enumerate(self._probes):
            probe.reset(now)
            self._lives[place] = begun(self._lives[place], now)

    def wait_for(self, now: float, reading: list[int], writing: list[int], due: list[float]) -> None:
        """Add what the next look waits for: files, and seconds."""
        for probe, life in zip(self._probes, self._lives, strict=True):
            if probe.descriptor >= 0:
                (writing if probe.writing else reading).append(probe.descriptor)
            due.append(min(probe.due_in(now), LOOK_SECONDS) if _asking(probe, life) else probe.due_in(now))

    def look(self, now: float) -> str:
        """Ask and listen without waiting; why the process is of no use, empty while it may be."""
        if not self._probes:
            return ""
        counts = self._counts()
        for place, probe in enumerate(self._probes):
            life = self._lives[place]
            asking = _asking(probe, life)
            if probe.advance(now, living=life.answered):
                self._lives[place] = heard(life, now)
                continue
            self._lives[place] = life = passed(life, now, counts=counts and asking)
            if verdict := judged(life, self._limits):
                allowed = limit(life, self._limits)
                self._lives = [given_up(each) for each in self._lives]
                return f"it {verdict} at port {self._addresses[place].port} for {allowed:g} s; it is started again"
        return ""


def _asking(probe: Probe, life: Life) -> bool:
    """Whether it owes an answer: it was asked, or has given none since its start or to the last question."""
    return probe.descriptor >= 0 or not life.answered or life.waited > 0
