"""Plays rounds on several installations at once: a lane takes a fault, stands up its ground, and plays its rounds."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tests.faults.catalog import Fault
from tests.faults.ground import Ground, Unavailable
from tests.faults.scene import Outcome, Scene


def play(ground: Ground, fault: Fault, number: int, seed: int, deployments: int = 0) -> Outcome:
    """One round; all that is random in it comes from the seed, the fault's name and the number."""
    return asyncio.run(Scene(ground, fault.name, number, seed, deployments or fault.deployments).play(fault.play))


@contextmanager
def standing(kind: type[Ground], directory: Path) -> Iterator[Ground]:
    """A started ground; raises Unavailable."""
    ground = kind(directory)
    try:
        ground.start()
        yield ground
    finally:
        ground.stop()


class Lanes:
    """One run; `show` is called with every round that ended, by one lane at a time."""

    def __init__(self, directory: Path, seed: int, deployments: int, show: Callable[[Outcome], None]) -> None:
        self._directory = directory
        self._seed = seed
        self._deployments = deployments
        self._show = show
        self._lock = threading.Lock()
        self._waiting: list[Fault] = []
        self._outcomes: list[Outcome] = []
        self._skipped: dict[str, str] = {}
        self._grounds = 0
        self._ended = threading.Event()

    def play(
        self, faults: Iterable[Fault], numbers: Sequence[int], at_once: int
    ) -> tuple[list[Outcome], dict[str, str]]:
        """All rounds in the order of the faults; the outcomes, and why which faults were skipped."""
        faults = list(faults)
        order = {fault.name: place for place, fault in enumerate(faults)}
        # What lasts longest begins first, so that no lane is left with it at the end.
        self._waiting = sorted(faults, key=lambda fault: -fault.lasts * min(len(numbers), fault.at_most))
        with ThreadPoolExecutor(at_once, thread_name_prefix="lane") as pool:
            lanes = [pool.submit(self._lane, numbers) for _ in range(min(at_once, len(self._waiting)))]
            try:
                for lane in lanes:
                    lane.result()
            finally:
                # Told to end, the lanes still stop what they have started, after the round they are in.
                self._ended.set()
        self._outcomes.sort(key=lambda outcome: (order[outcome.fault], outcome.number))
        return self._outcomes, self._skipped

    def _lane(self, numbers: Sequence[int]) -> None:
        while (fault := self._next(None)) is not None:
            kind = fault.ground
            try:
                with standing(kind, self._place(kind)) as ground:
                    while fault is not None:
                        self._rounds(ground, fault, numbers)
                        fault = self._next(kind)
            except Unavailable as why:
                if fault is not None:
                    self._skipped[fault.name] = str(why)

    def _rounds(self, ground: Ground, fault: Fault, numbers: Sequence[int]) -> None:
        for number in numbers[: fault.at_most]:
            if self._ended.is_set():
                return
            outcome = play(ground, fault, number, self._seed, self._deployments)
            with self._lock:
                self._outcomes.append(outcome)
                self._show(outcome)

    def _next(self, kind: type[Ground] | None) -> Fault | None:
        """The next fault; with a kind of ground, the next on such a one."""
        with self._lock:
            fitting = (fault for fault in self._waiting if kind is None or fault.ground is kind)
            fault = None if self._ended.is_set() else next(fitting, None)
            if fault is not None:
                self._waiting.remove(fault)
            return fault

    def _place(self, kind: type[Ground]) -> Path:
        with self._lock:
            self._grounds += 1
            return self._directory / f"{self._grounds}-{kind.__name__.lower()}"
