"""How much a container uses: a share of what it requests, or what was set; the same at the same time."""

from __future__ import annotations

import re
from typing import Final
from zlib import crc32

from msgspec import Struct

from schemas.manifest import Manifest
from services._rules.kubernetes.quantity import QuantityError, parse
from services.member_sim.world.pod_requests import amounts

WINDOW_SECONDS: Final = 15
"""Usage is measured once in so many seconds, over so many seconds."""
_PERCENT: Final = re.compile(r"([0-9]{1,7}(?:\.[0-9]{1,3})?)%")
_MOST_CPU: Final = 1_000_000
_MOST_MEMORY: Final = 1 << 50
_CPU_SHARE, _MEMORY_SHARE = 0.3, 0.6
_CPU_WITHOUT_REQUEST: Final = 100
_MEMORY_WITHOUT_REQUEST: Final = 64 << 20
_LITTLE_CPU, _LITTLE_MEMORY = 5, 16 << 20
"""What a container uses that requests nothing and for which nothing was set."""


class UnreadableLoad(ValueError):
    """A load that is neither a share nor a quantity; the text says why."""


class Load(Struct, frozen=True):
    """What was set for a workload, for each of its pods: a share of the requests or an amount; None: as without it."""

    cpu: float | None = None
    """Share of the requested cpu."""
    cpu_milli: int | None = None
    memory: float | None = None
    """Share of the requested memory."""
    memory_bytes: int | None = None


class Usage(Struct, frozen=True):
    """An amount of both resources."""

    cpu_milli: float = 0.0
    memory_bytes: float = 0.0

    def plus(self, other: Usage) -> Usage:
        """The sum."""
        return Usage(self.cpu_milli + other.cpu_milli, self.memory_bytes + other.memory_bytes)

    def quantities(self) -> dict[str, str]:
        """As metrics.k8s.io writes it."""
        return {"cpu": f"{round(self.cpu_milli * 1_000_000)}n", "memory": f"{round(self.memory_bytes) >> 10}Ki"}


def load_of(cpu: str | None, memory: str | None, before: Load) -> Load:
    """The load that two texts stand for, each like `80%` or a quantity; raises UnreadableLoad.

    Empty stands for what is used without a load, None for what it was before.
    """
    cpu_share, cpu_milli = (before.cpu, before.cpu_milli) if cpu is None else _read("cpu", cpu)
    kept = (before.memory, before.memory_bytes)
    memory_share, memory_bytes = kept if memory is None else _read("memory", memory)
    return Load(cpu_share, cpu_milli, memory_share, memory_bytes)


def _read(name: str, text: str) -> tuple[float | None, int | None]:
    if not text:
        return None, None
    percent = _PERCENT.fullmatch(text)
    if percent is not None:
        return float(percent[1]) / 100, None
    try:
        quantity = parse(text)
    except QuantityError as e:
        raise UnreadableLoad(
            f"{name} {text[:50]!r}: use a share of the requests such as 80%, or a quantity: {e}"
        ) from e
    amount = quantity.milli_value() if name == "cpu" else quantity.value()
    if not 0 <= amount <= (_MOST_CPU if name == "cpu" else _MOST_MEMORY):
        raise UnreadableLoad(f"{name} {text[:50]!r} is out of range: use at most 1000 cores and 1Pi")
    return None, amount


def usage_of(pod: Manifest, load: Load | None, now: float) -> dict[str, Usage]:
    """What each running container of a pod uses, by name."""
    spec, status = pod["spec"], pod.get("status") or {}
    running = {
        each["name"]
        for place in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
        for each in status.get(place) or ()
        if "running" in (each.get("state") or {})
    }
    containers = [
        container
        for place in ("containers", "initContainers", "ephemeralContainers")
        for container in spec.get(place) or ()
        if container["name"] in running
    ]
    load = load or Load()
    requests = {each["name"]: _requests(each) for each in containers}
    cpu = _split(load.cpu_milli, {name: found.get("cpu", 0) for name, found in requests.items()})
    memory = _split(load.memory_bytes, {name: found.get("memory", 0) for name, found in requests.items()})
    found = {}
    for container in containers:
        name = container["name"]
        wobble = _wobble(f"{pod['metadata'].get('uid')}/{name}", now)
        limits = amounts((container.get("resources") or {}).get("limits"))
        taken = Usage(
            _amount(cpu.get(name), load.cpu, requests[name].get("cpu", 0), _CPU_DEFAULTS, wobble),
            _amount(memory.get(name), load.memory, requests[name].get("memory", 0), _MEMORY_DEFAULTS, 1.0),
        )
        found[name] = Usage(
            min(taken.cpu_milli, limits.get("cpu") or _MOST_CPU),
            min(taken.memory_bytes, limits.get("memory") or _MOST_MEMORY),
        )
    return found


_CPU_DEFAULTS: Final = (_CPU_SHARE, _CPU_WITHOUT_REQUEST, _LITTLE_CPU)
_MEMORY_DEFAULTS: Final = (_MEMORY_SHARE, _MEMORY_WITHOUT_REQUEST, _LITTLE_MEMORY)


def _requests(container: Manifest) -> dict[str, int]:
    resources = container.get("resources") or {}
    return amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def _amount(
    fixed: float | None, share: float | None, request: int, defaults: tuple[float, int, int], wobble: float
) -> float:
    usual, without, little = defaults
    if fixed is not None:
        return fixed
    if share is not None:
        return share * (request or without)
    return (usual * request if request else little) * wobble


def _split(total: int | None, requests: dict[str, int]) -> dict[str, float]:
    """An amount of a whole pod, shared by its containers as they share the requests."""
    if total is None or not requests:
        return {}
    wanted = sum(requests.values())
    if not wanted:
        return {name: total / len(requests) for name in requests}
    return {name: total * request / wanted for name, request in requests.items()}


def _wobble(who: str, now: float) -> float:
    """A factor around 1 that changes with every window."""
    return 0.9 + crc32(f"{who}/{int(now // WINDOW_SECONDS)}".encode()) / 2**32 * 0.2
