"""Runs tests in several processes, forked from the one that collected them: none of them imports or collects again.

A process takes one unit after the other (tests/distribution.py) and ends all fixtures behind each. Processes of a part
are over before the next part begins.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import pytest_sessionfinish as end_fixtures

from tests.distribution import part_of, unit_of


def pytest_addoption(parser: pytest.Parser) -> None:
    """Number of processes; none is the usual run in one."""
    # Plugins may take no short lower-case option by the public call.
    parser.getgroup("workers")._addoption("-n", "--processes", type=int, default=0, help="run tests in N processes")


def pytest_configure(config: pytest.Config) -> None:
    """Distribute where several processes are asked for."""
    processes = config.getoption("processes")
    if processes and not config.getoption("collectonly"):
        config.pluginmanager.register(Distribution(processes))


@dataclass
class Worker:
    """One process, as the one that hands out units sees it."""

    number: int
    pid: int
    connection: Connection
    waiting: deque[int] = field(default_factory=deque)
    """Tests of its unit that have not begun."""
    current: int | None = None
    idle: bool = True
    leaving: bool = False


class Distribution:
    """Hands out units of tests and reports what becomes of them."""

    def __init__(self, processes: int) -> None:
        """`processes`: how many run side by side."""
        self._processes = processes
        self._started = 0
        self._workers: list[Worker] = []
        self._session: pytest.Session

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Run everything; None where the collection failed, which pytest itself tells."""
        if session.testsfailed and not session.config.option.continue_on_collection_errors:
            return None
        self._session = session
        try:
            for units in parts(session.items):
                self._run(units)
        finally:
            self._end()
        return True

    def _run(self, units: deque[list[int]]) -> None:
        """Run the units of one part."""
        self._workers += [self._fork() for _ in range(min(self._processes, len(units)))]
        while self._workers:
            for worker in self._workers:
                if worker.idle and not worker.leaving:
                    self._hand_out(worker, units)
            for ready in wait([worker.connection for worker in self._workers]):
                self._listen(next(worker for worker in self._workers if worker.connection is ready), units)

    def _hand_out(self, worker: Worker, units: deque[list[int]]) -> None:
        """Give a process its next unit, or let it end; one that died is noticed as it is listened to."""
        unit = units.popleft() if units else []
        worker.waiting, worker.idle, worker.leaving = deque(unit), False, not unit
        with suppress(OSError):
            worker.connection.send(unit)

    def _listen(self, worker: Worker, units: deque[list[int]]) -> None:
        """Take in one message of a process, or its end."""
        try:
            kind, content = worker.connection.recv()
        except (EOFError, OSError):
            self._lost(worker, units)
            return
        match kind:
            case "begun":
                self._over(worker)
                worker.current = worker.waiting.popleft()
                item = self._session.items[worker.current]
                item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
            case "report":
                config = self._session.config
                self._report(config.hook.pytest_report_from_serializable(config=config, data=content))
            case "done":
                self._over(worker)
                worker.idle = True
            case "ended":
                self._left(worker)
                if content:
                    self._report(failure(f"the end of process {worker.number}", ("tests", None, "end"), content))
            case _:
                raise RuntimeError(f"process {worker.number} sent {kind!r}")

    def _over(self, worker: Worker) -> None:
        """What a process ran last is over."""
        if worker.current is not None:
            item = self._session.items[worker.current]
            item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
            worker.current = None

    def _report(self, report: Any) -> None:
        """Tell what became of a test; raises what ends the run after too many failures."""
        session = self._session
        session.config.hook.pytest_runtest_logreport(report=report)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)

    def _lost(self, worker: Worker, units: deque[list[int]]) -> None:
        """A process died: its test failed, and another one goes on behind it."""
        status = self._left(worker)
        said = f"process {worker.number} ended in between (status {status})"
        if worker.current is None:
            raise RuntimeError(f"{said}, running no test")
        item = self._session.items[worker.current]
        self._over(worker)
        if worker.waiting:
            units.appendleft(list(worker.waiting))
        if units:
            self._workers.append(self._fork())
        self._report(failure(item.nodeid, item.location, said))

    def _left(self, worker: Worker) -> int:
        """Forget a process that ends; its exit status, negative for the signal that killed it."""
        worker.connection.close()
        self._workers.remove(worker)
        return os.waitstatus_to_exitcode(os.waitpid(worker.pid, 0)[1])

    def _end(self) -> None:
        """Let every process end: what reports to nobody ends its fixtures and leaves."""
        for worker in self._workers:
            worker.connection.close()
        for worker in self._workers:
            os.waitpid(worker.pid, 0)
        self._workers.clear()

    def _fork(self) -> Worker:
        """A further process."""
        self._started += 1
        # It inherits the place of temporary files, and what is not written yet.
        directory: Path = self._session.config._tmp_path_factory.getbasetemp() / f"w{self._started}"  # type: ignore[attr-defined]
        directory.mkdir(mode=0o700)
        sys.stdout.flush()
        sys.stderr.flush()
        ours, theirs = Pipe()
        pid = os.fork()
        if pid:
            theirs.close()
            return Worker(self._started, pid, ours)
        # Were it to come back from here, there would be two of the process that hands out.
        try:
            ours.close()
            for other in self._workers:
                other.connection.close()
            become_worker(self._session.config, directory)
            work(self._session, theirs)
        finally:
            os._exit(0)


def parts(items: Sequence[pytest.Item]) -> Iterator[deque[list[int]]]:
    """The units of each part in the order of the items, as places of their items."""
    numbers = sorted(range(len(items)), key=lambda number: part_of(items[number]))
    for _, members in groupby(numbers, key=lambda number: part_of(items[number])):
        units: dict[str, list[int]] = {}
        for number in members:
            units.setdefault(unit_of(items[number].nodeid), []).append(number)
        yield deque(units.values())


def failure(nodeid: str, location: tuple[str, int | None, str], said: str) -> pytest.TestReport:
    """The report of something that failed outside a test."""
    return pytest.TestReport(nodeid, location, {}, "failed", said, "teardown")


def become_worker(config: pytest.Config, directory: Path) -> None:
    """Part with what belongs to the process that hands out: its terminal, its captured output, its directory."""
    capture: Any = config.pluginmanager.getplugin("capturemanager")
    capture.stop_global_capturing()
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, sys.__stdout__.fileno())  # type: ignore[union-attr]
    os.close(nothing)
    capture.start_global_capturing()
    capture.suspend_global_capture(in_=False)
    config._tmp_path_factory._basetemp = directory  # type: ignore[attr-defined]


class Reports:
    """Sends what becomes of tests to the process that hands out."""

    def __init__(self, config: pytest.Config, connection: Connection) -> None:
        self._config = config
        self._connection = connection

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Send one report; raises OSError where nobody listens any more, so that the test ends."""
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._connection.send(("report", data))


def work(session: pytest.Session, connection: Connection) -> None:
    """Run units until there is none left."""
    config, said = session.config, ""
    config.pluginmanager.register(Reports(config, connection))
    try:
        while unit := connection.recv():
            for number, following in in_turn(unit):
                connection.send(("begun", None))
                item = session.items[number]
                config.hook.pytest_runtest_protocol(
                    item=item, nextitem=None if following is None else session.items[following]
                )
            connection.send(("done", None))
        # The garbage collector may find what tests left behind, such as sockets that nobody closed.
        config.hook.pytest_unconfigure(config=config)
    except BaseException:  # noqa: BLE001 - it ends here, and an interrupt of the terminal reaches every process
        said = traceback.format_exc()
        end_fixtures(session)
    with suppress(OSError):
        connection.send(("ended", said))


def in_turn(unit: Iterable[int]) -> Iterator[tuple[int, int | None]]:
    """Each test of a unit with the one that follows it."""
    numbers = list(unit)
    yield from zip(numbers, [*numbers[1:], None], strict=True)
