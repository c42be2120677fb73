"""Figures of a disturbance: how long deliveries to another member take, and what memory every process has."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Final, Self

from msgspec import Struct

from schemas.manifest import Manifest
from services._kit.kube.client import ApiError, KubeClient, Unreachable, resource_path
from tests.e2e.space import clusters, propagation

BOUND: Final = 1.5
"""How much slower deliveries, and how much larger processes may get beside a hostile neighbour."""
SLACK_SECONDS: Final = 0.15
"""On a busy machine a median of tens of milliseconds moves by more than its half; the ratio is reported as well."""
LONGEST_SECONDS: Final = 10.0
"""No delivery to another member takes longer, whatever its neighbour does."""
SLACK_MIB: Final = 16.0
LOG_SLACK_MIB: Final = 120.0
"""Of the log's server, which is small when it has just begun: it holds whole blocks of the streams that are written."""
LOG: Final = "nats"
_PAUSE: Final = 0.1
_POLL: Final = 0.01
_CAP: Final = 40.0
_LOOK: Final = 0.2
_OBJECTS: Final = 12


class Figures(Struct, frozen=True):
    """What was measured in one phase: medians in seconds, memory in MiB."""

    deliveries: int
    median: float
    longest: float
    memory: dict[str, float]
    """The most that each process had."""


def processes(run: Path) -> dict[str, int]:
    """Process ids by name, from the directory with the pid files; services of one process are one."""
    found: dict[int, str] = {}
    for path in sorted(run.glob("*.pid")):
        try:
            pid = int(path.read_text())
            name = Path(f"/proc/{pid}/comm").read_text().strip().removeprefix("fl-")
        except (OSError, ValueError):
            continue
        # The process has the name of the group; its services have pid files as well.
        if pid not in found or path.stem == name:
            found[pid] = path.stem
    return {name: pid for pid, name in found.items()}


def resident(pid: int) -> float:
    """Resident memory in MiB, 0 when the process is gone."""
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
    except OSError:
        return 0.0
    return 0.0


class Memory:
    """Watches the resident memory of every process of an installation while the block lasts."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self.most: dict[str, float] = {}

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._watch())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _watch(self) -> None:
        while True:
            for name, pid in processes(self._run).items():
                self.most[name] = max(self.most.get(name, 0.0), resident(pid))
            await asyncio.sleep(_LOOK)


class Probe:
    """ConfigMaps that are changed in the control plane and awaited in one member, one after the other.

    Several, because the log keeps a bounded tail of each, and the checker reads all of a round.
    """

    def __init__(self, control: KubeClient, member: KubeClient, namespace: str, cluster: str) -> None:
        self._control = control
        self._member = member
        self._cluster = cluster
        self._path = resource_path("", "v1", "configmaps", namespace)
        self._policies = resource_path("policy.karmada.io", "v1alpha1", "propagationpolicies", namespace)
        self._names = [f"probe-{cluster}-{number}" for number in range(_OBJECTS)]
        self._number = 0

    @property
    def name(self) -> str:
        """The object that was changed last."""
        return self._names[self._number % _OBJECTS]

    @property
    def _object(self) -> str:
        return f"{self._path}/{self.name}"

    async def make(self) -> None:
        """Create the objects and their policy."""
        selectors = [{"apiVersion": "v1", "kind": "ConfigMap", "name": name} for name in self._names]
        policy = propagation(f"probe-{self._cluster}", selectors, clusters(self._cluster))
        await self._control.create(self._policies, policy)
        for name in self._names:
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"number": "0"}}
            await self._control.create(self._path, body)

    async def once(self, cap: float = _CAP) -> float:
        """Seconds from a change until the member holds it; the cap when it does not."""
        self._number += 1
        wanted = str(self._number)
        began = time.monotonic()
        while time.monotonic() < began + cap:
            try:
                await self._control.patch(self._object, {"data": {"number": wanted}})
                break
            except (ApiError, Unreachable):
                await asyncio.sleep(_POLL)
        while time.monotonic() < began + cap:
            if await self.held() == wanted:
                return time.monotonic() - began
            await asyncio.sleep(_POLL)
        return cap

    async def held(self) -> str:
        """What the member holds."""
        try:
            found: Manifest = await self._member.get(self._object)
        except (ApiError, Unreachable):
            return ""
        return str((found.get("data") or {}).get("number", ""))

    async def drift(self) -> None:
        """Somebody changes the object in the member."""
        await self._member.patch(self._object, {"data": {"number": "by-hand"}})

    async def repaired(self) -> bool:
        """Whether the member holds what was delivered last."""
        return await self.held() == str(self._number)


async def measured(run: Path, probe: Probe, seconds: float, least: int = 8) -> Figures:
    """Deliver again and again for some seconds, at least so many times; what was measured."""
    times: list[float] = []
    ends = time.monotonic() + seconds
    async with Memory(run) as memory:
        while time.monotonic() < ends or (len(times) < least and time.monotonic() < ends + _CAP):
            times.append(await probe.once())
            await asyncio.sleep(_PAUSE)
    return Figures(len(times), median(times), max(times), memory.most)


def worse(before: Figures, during: Figures) -> list[str]:
    """What of another member's deliveries and of any process went beyond its bound."""
    complaints = []
    if during.median > max(BOUND * before.median, before.median + SLACK_SECONDS):
        complaints.append(
            f"another member's deliveries took {during.median:.3f} s in the median beside a hostile neighbour, "
            f"{before.median:.3f} s before it"
        )
    if during.longest > LONGEST_SECONDS:
        complaints.append(f"a delivery to another member took {during.longest:.1f} s beside a hostile neighbour")
    return complaints + larger(before.memory, during.memory)


def larger(before: Mapping[str, float], during: Mapping[str, float]) -> list[str]:
    """What of any process's memory went beyond its bound."""
    complaints = []
    for name, least in _common(before, during).items():
        most, slack = during[name], LOG_SLACK_MIB if name == LOG else SLACK_MIB
        if most > max(BOUND * least, least + slack):
            complaints.append(f"{name} took {most:.0f} MiB beside a hostile neighbour, {least:.0f} MiB before it")
    return complaints


def figures(before: Figures, during: Figures) -> str:
    """Both in one line."""
    return (
        f"other member {before.median * 1000:.0f} -> {during.median * 1000:.0f} ms "
        f"({during.median / before.median:.2f}x, {before.deliveries}+{during.deliveries} deliveries), "
        + sizes(before.memory, during.memory)
    )


def sizes(before: Mapping[str, float], during: Mapping[str, float]) -> str:
    """The memory of every process in one line."""
    common = _common(before, during)
    name, ratio = max(
        ((name, during[name] / least) for name, least in common.items()), key=lambda one: one[1], default=("", 0)
    )
    return f"memory at most {ratio:.2f}x ({name}), MiB: " + ", ".join(
        f"{one} {least:.0f}-{during[one]:.0f}" for one, least in sorted(common.items())
    )


def _common(before: Mapping[str, float], during: Mapping[str, float]) -> dict[str, float]:
    return {name: most for name, most in before.items() if most and name in during}
