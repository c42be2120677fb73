"""Runs many simulated members in one process: `python -m tests.bench.crowd DIR COUNT`, until its input ends.

Each keeps its objects in memory, so that figures tell of the control plane and not of a hundred stores on one disk.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from types import TracebackType
from typing import Self

from schemas.manifest import Manifest
from services.apiserver.kinds.registry import Registry
from services.member_sim import app
from services.member_sim.app import Running, run_member
from services.member_sim.settings import MemberSettings
from services.member_sim.usage.cluster_usage import ClusterUsage
from services.member_sim.usage.metrics_kinds import NodeMetrics, PodMetrics

_NODES = 4
_PODS = 2000
_SERVED = "served"
_HOME: ContextVar[Path] = ContextVar("home")


def names(count: int) -> list[str]:
    """Names of so many members."""
    return [f"c{number:03}" for number in range(count)]


class Crowd:
    """The process as its user sees it."""

    def __init__(self, directory: Path, count: int) -> None:
        self._directory = directory
        self._count = count
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "tests.bench.crowd", str(self._directory), str(self._count)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        if self._process.stdout.readline() != b"ready\n":
            raise RuntimeError("the simulated members did not start")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)

    @property
    def pid(self) -> int:
        """Id of the process."""
        assert self._process is not None
        return self._process.pid

    def kubeconfig(self, name: str) -> Path:
        """Access to one member."""
        return self._directory / name / "kubeconfig"

    def slow_down(self, name: str, milliseconds: int) -> None:
        """Let every answer of a member wait; 0 takes that back."""
        self._instruct(name, "/faults", {"mode": "slow", "delayMs": milliseconds} if milliseconds else {"mode": "none"})

    def set_metric(self, name: str, value: dict[str, object]) -> None:
        """Set a value of a metric in a member."""
        self._instruct(name, "/metric", value)

    def set_load(self, name: str, load: dict[str, object]) -> None:
        """Set what the pods of a workload use in a member."""
        self._instruct(name, "/load", load)

    def served(self, name: str) -> list[float]:
        """When a member was asked for what pods use, in seconds since 1970."""
        path = self._directory / name / _SERVED
        return [float(line) for line in path.read_text().split()] if path.exists() else []

    def _instruct(self, name: str, path: str, body: dict[str, object]) -> None:
        home = self._directory / name
        request = urllib.request.Request(
            f"{(home / 'admin.url').read_text().strip()}{path}",
            data=json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {(home / 'token').read_text()}", "Content-Type": "application/json"},
            method="POST",
        )
        with urllib.request.urlopen(request, timeout=10):
            pass


class _NotedMetrics(PodMetrics):
    """What pods use, with a note of when that was asked."""

    def __init__(self, usage: ClusterUsage, now: Callable[[], float], path: Path) -> None:
        super().__init__(usage, now)
        self._notes = path.open("a", buffering=1)

    def computed(self, namespace: str, name: str) -> list[Manifest] | None:
        found = super().computed(namespace, name)
        self._notes.write(f"{time.time()}\n")
        return found


def _add_noted(registry: Registry, usage: ClusterUsage, now: Callable[[], float]) -> None:
    noted = _NotedMetrics(usage, now, _HOME.get() / _SERVED)
    for kind in (NodeMetrics(usage, now), noted):
        registry.add_kind(kind, group_priority=100, version_priority=100)


async def _member(settings: MemberSettings, told: Callable[[Running], None], stop: asyncio.Event) -> None:
    _HOME.set(settings.data_dir)
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    await run_member(settings, told, stop)


async def _run(directory: Path, count: int) -> None:
    vars(app)["add_metrics"] = _add_noted
    stop = asyncio.Event()
    ready: set[str] = set()

    def told(running: Running) -> None:
        ready.add(running.name)
        if len(ready) == count:
            print("ready", flush=True)

    async def read() -> None:
        await asyncio.to_thread(sys.stdin.read)
        stop.set()

    async with asyncio.TaskGroup() as group:
        group.create_task(read())
        for name in names(count):
            settings = MemberSettings(name=name, data_dir=directory / name, nodes=_NODES, pods=_PODS)
            group.create_task(_member(settings, told, stop))


def main() -> None:
    """Entry point."""
    import uvloop

    from services._kit.base.logs import configure

    configure("member_sim", "crowd", "warning")
    uvloop.run(_run(Path(sys.argv[1]), int(sys.argv[2])))


if __name__ == "__main__":
    main()
