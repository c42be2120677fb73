"""Runs the processes of a laptop installation: forks them from one preloaded parent and restarts what dies or hangs.

A child is forked, not started: the modules every service needs are loaded once and shared between all processes. The
parent runs no event loop, because a child could not start its own inside of it.
"""

from __future__ import annotations

import faulthandler
import importlib
import os
import select
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import structs

from services._kit.runtime.service_wiring import BAD_SETTINGS
from services.cli.common.failure_reasons import Reasons
from services.cli.common.layout import Layout
from services.cli.common.running import say
from services.cli.supervision.child import Leash, be_patient, name_process
from services.cli.supervision.child_watch import ChildWatch
from services.cli.supervision.liveness import Limits
from services.cli.supervision.liveness_probe import Address
from services.cli.supervision.process_identity import Entry, Roll, Running, start_of
from services.cli.supervision.supervised_process import Process, Rank, ended

PATIENT: Final[Mapping[str, int]] = {"gateway": 5, "search": 5}
"""Niceness of services that nothing on its way to a member waits for: where cores are few, others run first."""

SPARING: Final[Mapping[str, Mapping[str, str]]] = {"nats": {"GOGC": "25"}}
"""Environment of programs that would take more memory than they need; a value that is set already stays.

Most of what the log's server holds are buffers for blocks of streams, which go with the next garbage collection. A
limit in bytes would not do: near it the server collects without end.
"""

_LOOK_SECONDS: Final = 0.2
_STOP_PROGRESS: Final = 2.0
_STACK_SECONDS: Final = 1.0
"""How long a process that hangs has to write where it hangs."""
_PROGRAM_START: Final = 10.0
"""How much longer a program may take to its first answer: the log's server has all of its store checked before."""
_OURS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Supervisor:
    """Starts processes, notices deaths and silence, restarts with a growing pause, stops all by their ranks."""

    def __init__(self, layout: Layout, limits: Limits | None = None) -> None:
        self._layout = layout
        self._limits = limits or Limits()
        self._processes: dict[str, Process] = {}
        self._steps: dict[int, int | None] = {}
        self._leash = Leash()
        self._roll = Roll(layout.roll)
        self.asked_to_stop = False
        self.refusal = ""
        """Which process cannot start because of its settings, and why; empty: none, or not while steps ran."""
        self._stopping = False
        self._news, self._wake = os.pipe()
        os.set_blocking(self._news, False)
        os.set_blocking(self._wake, False)

    def listen(self) -> None:
        """Take over the signals of this process: asked to stop, and children that died."""
        signal.set_wakeup_fd(self._wake)
        for number in _OURS:
            # What nohup has turned off stays so.
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._asked)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def _asked(self, *_: object) -> None:
        self.asked_to_stop = True

    @property
    def names(self) -> list[str]:
        """Names of all processes in the order of their start."""
        return list(self._processes)

    def add_service(
        self,
        name: str,
        rank: Rank,
        module: str,
        environment: Mapping[str, str],
        *,
        needs: Sequence[Path] = (),
        services: Mapping[str, Mapping[str, str]] | None = None,
        answers: Sequence[Address] = (),
    ) -> None:
        """Run `module.main()` in a forked child with these settings, once the files that it needs are there.

        With `services` (settings by name) the child runs all of these, by `module.run(layout, services)`. One that
        does not answer at every address of `answers` is started again.
        """

        def there() -> bool:
            return all(path.exists() for path in needs)

        def body() -> int:
            while not there():
                time.sleep(_LOOK_SECONDS)
            os.environ.update(environment)
            program = importlib.import_module(module)
            return int((program.main() if services is None else program.run(self._layout, services)) or 0)

        watch = ChildWatch(answers, self._limits, lambda: there() and self._log_runs())
        self._add(Process(name, rank, lambda: self._fork(name, body), parts=list(services or ()), watch=watch))

    def add_command(self, name: str, rank: Rank, command: Sequence[str], answers: Sequence[Address] = ()) -> None:
        """Run an external program."""

        def start() -> int:
            with self._layout.log(name).open("ab") as output:
                # A session of its own: a Ctrl-C in the terminal must not stop the log before its writers.
                process = subprocess.Popen(
                    list(command),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                    preexec_fn=self._leash.hold_program,  # noqa: PLW1509  # this process has one thread
                    env={**SPARING.get(name, {}), **os.environ},
                )
            process.returncode = 0  # reaped by this supervisor, not by subprocess
            return process.pid

        limits = structs.replace(self._limits, start=self._limits.start * _PROGRAM_START)
        watch = ChildWatch(answers, limits, lambda: True)
        self._add(Process(name, rank, start, watch=watch, stack=signal.SIGQUIT))

    def add_task(self, name: str, body: Callable[[], int]) -> None:
        """Run a function in a child with this terminal until it returns 0."""
        self._add(Process(name, Rank.SERVICE, lambda: self._fork("", body), once=True))

    def run_step(self, body: Callable[[], int]) -> int:
        """Run a function in a child with this terminal, keeping everything else alive; its exit code.

        Returns 1 at once when this process is asked to stop, and when a service refuses its settings: it would refuse
        them after every restart.
        """
        pid = self._fork("", body)
        self._steps[pid] = None
        while self._steps[pid] is None:
            if self.asked_to_stop:
                _signal(pid, signal.SIGKILL)
                return 1
            self.tick()
            if self.refusal:
                _signal(pid, signal.SIGKILL)
                say(f"{'' if self._steps.pop(pid) is not None else 'failed'}\n    {self.refusal}\n")
                return 1
            if self._steps[pid] is None:
                self.wait()
        return self._steps.pop(pid) or 0

    def _add(self, process: Process) -> None:
        self._processes[process.name] = process
        self._start(process)

    def _start(self, process: Process) -> None:
        process.said = tuple(Reasons(self._layout.log(name)) for name in (process.name, *process.parts))
        process.pid = process.start()
        process.running = Running(process.pid, start_of(process.pid))
        process.kill_at = 0.0
        now = time.monotonic()
        process.deaths.begin(now)
        if process.watch is not None:
            process.watch.begin(now)
        for name in (process.name, *process.parts):
            # A reader finds meanwhile the former id, and never an empty file.
            file = self._layout.pid(name)
            fresh = file.with_name(f"{file.name}.new")
            fresh.write_text(f"{process.pid}\n")
            fresh.replace(file)
        self._enroll()

    def _enroll(self) -> None:
        """Record who runs, for `fleetlog stop` and the next start, should this process end without stopping them."""
        self._roll.write(
            Entry(name=process.name, rank=process.rank, running=process.running)
            for process in self._processes.values()
            if process.pid
        )

    def _log_runs(self) -> bool:
        """Whether the log's server, where it is ours, runs: without it no process can be expected to answer."""
        logs = [process for process in self._processes.values() if process.rank is Rank.LOG]
        return all(process.pid and (process.watch is None or process.watch.answers) for process in logs)

    def _fork(self, name: str, body: Callable[[], int]) -> int:
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid:
            return pid
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            for number in (*_OURS, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            self._leash.hold()
            if name:
                self._detach(name)
                be_patient(PATIENT.get(name, 0))
            code = body()
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 1
        except BaseException:  # noqa: BLE001  # the last frame of a child: report and die
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def _detach(self, name: str) -> None:
        os.setsid()
        output = os.open(self._layout.log(name), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        faulthandler.register(signal.SIGUSR2, file=2, all_threads=True)
        name_process(f"fl-{name}")

    def wait(self, longest: float | None = None) -> None:
        """Sleep until a child dies, a signal comes, something is due, or so many seconds have passed."""
        now = time.monotonic()
        reading: list[int] = [self._news]
        writing: list[int] = []
        due = [] if longest is None else [longest]
        for process in self._processes.values():
            if self._stopping:
                continue
            if process.pid == 0:
                due.append(process.due_at - now)
            elif process.kill_at:
                due.append(process.kill_at - now)
            elif process.watch is not None:
                process.watch.wait_for(now, reading, writing, due)
        select.select(reading, writing, [], max(0.0, min(due)) if due else None)
        self._swallow()

    def _swallow(self) -> None:
        """Read away what signals have written to wake this process."""
        with suppress(BlockingIOError):
            while os.read(self._news, 4096):
                continue

    def tick(self) -> None:
        """Collect the dead, give up those that hang, and start what is due again; says what happened."""
        self._collect()
        if self._stopping or self.asked_to_stop:
            return
        now = time.monotonic()
        for process in self._processes.values():
            if process.pid == 0:
                if now >= process.due_at:
                    self._start(process)
                continue
            if process.kill_at and now >= process.kill_at:
                _signal(process.pid, signal.SIGKILL)
                process.kill_at = now + _STACK_SECONDS
            elif not process.kill_at and process.watch is not None and (why := process.watch.look(now)):
                self.report(f"{process.name} is given up: {why}; {self._log_of(process)}")
                _signal(process.pid, process.stack)
                process.kill_at = now + _STACK_SECONDS
            if news := process.deaths.settled(now):
                self.report(f"{process.name} {news}")

    def _collect(self) -> None:
        by_pid = {process.pid: process for process in self._processes.values() if process.pid}
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            code = os.waitstatus_to_exitcode(status)
            if pid in self._steps:
                self._steps[pid] = code
            process = by_pid.get(pid)
            if process is None:
                continue
            process.pid = 0
            if process.once and code == 0:
                self._remove(process)
                continue
            if code == BAD_SETTINGS and self._steps and not process.once and process.rank is not Rank.LOG:
                self.refusal = self.refusal or self._refusal_of(process)
            now = time.monotonic()
            news = process.deaths.died(now, ended(code))
            process.due_at = now + process.deaths.pause
            # One that was given up was reported when it was.
            quiet = process.kill_at or self._stopping or self.asked_to_stop or self.refusal
            if news and not quiet:
                self.report(f"{process.name} {news}; {self._log_of(process)}")

    def _remove(self, process: Process) -> None:
        del self._processes[process.name]
        self._layout.pid(process.name).unlink(missing_ok=True)
        self._enroll()

    def _refusal_of(self, process: Process) -> str:
        why = next((line for said in process.said if (line := said.last())), "it refuses its settings")
        return f"{process.name} cannot start: {why}; {self._log_of(process)}"

    def report(self, text: str) -> None:
        """Say one line, below that of a step that is under way."""
        say(f"\n    {text}\n" if self._steps else f"{text}\n")

    def _log_of(self, process: Process) -> str:
        logs = [self._layout.log(name) for name in (process.name, *process.parts)]
        logs = [path for path in logs if path.exists()]
        return "its logs: " + ", ".join(map(str, logs)) if len(logs) > 1 else f"its log: {logs[0] if logs else 'none'}"

    def stop(self, grace_seconds: float = 15.0) -> None:
        """Stop every process, rank by rank; kill those that do not end in time."""
        self._stopping = True
        for rank in sorted(Rank, reverse=True):
            self._stop_rank([process for process in self._processes.values() if process.rank == rank], grace_seconds)
        self._roll.clear()

    def _stop_rank(self, processes: list[Process], grace_seconds: float) -> None:
        for process in processes:
            if process.pid:
                _signal(process.pid, signal.SIGTERM)
        began = reported = time.monotonic()
        deadline = began + grace_seconds
        while left := [process for process in processes if process.pid]:
            self._collect()
            left = [process for process in left if process.pid]
            now = time.monotonic()
            if not left:
                break
            names = ", ".join(process.name for process in left)
            if now >= deadline:
                say(f"  killing what did not end within {grace_seconds:g} s: {names}\n")
                for process in left:
                    _signal(process.pid, signal.SIGKILL)
                deadline = now + grace_seconds
            elif now - reported >= _STOP_PROGRESS:
                reported = now
                say(f"  waiting for {names} … ({now - began:.0f} s)\n")
            select.select([self._news], [], [], min(deadline - now, _LOOK_SECONDS))
            self._swallow()
        for process in processes:
            for name in (process.name, *process.parts):
                self._layout.pid(name).unlink(missing_ok=True)


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
