"""Plays rounds on several installations at once: a lane takes a fault, stands up its ground, and plays its rounds.

Every lane has a process of its own: clients keep files and limits per process, and rounds must not meet in them.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.faults.catalog import BY_NAME, Fault
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


class _Stage:
    """What the process of a lane holds: one standing ground at most."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._ground: Ground | None = None

    def stand(self, name: str, directory: Path) -> None:
        """Stand up the ground of a fault; raises Unavailable."""
        self._ground = self._stack.enter_context(standing(BY_NAME[name].ground, directory))

    def play(self, name: str, number: int, seed: int, deployments: int) -> Outcome:
        """One round on it."""
        assert self._ground is not None
        return play(self._ground, BY_NAME[name], number, seed, deployments)

    def fall(self) -> None:
        """Stop what stands."""
        self._stack.close()


_stage = _Stage()


def _stand(name: str, directory: Path) -> None:
    _stage.stand(name, directory)


def _play(name: str, number: int, seed: int, deployments: int) -> Outcome:
    return _stage.play(name, number, seed, deployments)


def _fall() -> None:
    _stage.fall()


def _leave_to_the_parent() -> None:
    """Whoever ends the run lets each lane finish its round and stop what it started."""
    for number in (signal.SIGINT, signal.SIGTERM):
        # Not SIG_IGN: what is started here would inherit that, and not stop when it is asked to.
        signal.signal(number, lambda *_: None)


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
        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(1, mp_context=spawn, initializer=_leave_to_the_parent) as process:
            while (fault := self._next(None)) is not None:
                kind = fault.ground
                try:
                    process.submit(_stand, fault.name, self._place(kind)).result()
                except Unavailable as why:
                    self._skip(kind, fault, str(why))
                    continue
                try:
                    while fault is not None:
                        self._rounds(process, fault, numbers)
                        fault = self._next(kind)
                finally:
                    process.submit(_fall).result()

    def _rounds(self, process: ProcessPoolExecutor, fault: Fault, numbers: Sequence[int]) -> None:
        for number in numbers[: fault.at_most]:
            if self._ended.is_set():
                return
            outcome = process.submit(_play, fault.name, number, self._seed, self._deployments).result()
            with self._lock:
                self._outcomes.append(outcome)
                self._show(outcome)

    def _skip(self, kind: type[Ground], fault: Fault, why: str) -> None:
        """Nothing on a ground that cannot stand here is played."""
        with self._lock:
            same = [fault, *(other for other in self._waiting if other.ground is kind)]
            self._skipped |= {other.name: why for other in same}
            self._waiting = [other for other in self._waiting if other.ground is not kind]

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
