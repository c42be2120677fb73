"""What the pods and nodes of a member use at a moment, so that nodes are the sum of their pods and of themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Literal

from msgspec import Struct

from schemas.manifest import Manifest
from services._rules.kubernetes.pod_resources import quantity_of
from services.member_sim.faults import UnknownTarget
from services.member_sim.usage.load_model import Load, Usage, load_of, usage_of
from services.member_sim.world.world_model import NODES, PODS, RESOURCE_OF_KIND, controller_of
from services.member_sim.world.world_state import State

Kind = Literal["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "Pod"]
MOST_LOADS: Final = 10_000
SYSTEM: Final = Usage(100.0, 512 << 20)
"""What a node uses without pods."""
Target = tuple[str, Kind, str]
"""Namespace, kind and name of a workload or pod."""


class PodLoad(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the pods of a workload (or one pod) use: like `80%`, a quantity, empty without a load, None as before."""

    namespace: str
    name: str
    kind: Kind = "Deployment"
    cpu: str | None = None
    memory: str | None = None


class TooManyLoads(ValueError):
    """No further load is kept."""


class ClusterUsage:
    """The loads that were set, and what follows from them and from the pods that run."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.loads: dict[Target, Load] = {}

    def set(self, wanted: PodLoad) -> None:
        """Put a load in force; raises UnreadableLoad, TooManyLoads and UnknownTarget."""
        target = (wanted.namespace, wanted.kind, wanted.name)
        load = load_of(wanted.cpu, wanted.memory, self.loads.get(target, Load()))
        if load == Load():
            self.loads.pop(target, None)
            return
        if not self.knows(wanted.namespace, wanted.kind, wanted.name):
            raise UnknownTarget(f"there is no {wanted.kind} {wanted.namespace}/{wanted.name} in this member")
        if target not in self.loads and len(self.loads) >= MOST_LOADS:
            raise TooManyLoads(f"{MOST_LOADS} loads are set, as many as a member keeps; take some back")
        self.loads[target] = load

    def shown(self) -> list[PodLoad]:
        """The loads in force."""
        return [
            PodLoad(
                namespace=namespace,
                kind=kind,
                name=name,
                cpu=_shown(load.cpu, load.cpu_milli, "cpu"),
                memory=_shown(load.memory, load.memory_bytes, "memory"),
            )
            for (namespace, kind, name), load in sorted(self.loads.items())
        ]

    def at(self, now: float) -> UsageAt:
        """What is used at a moment."""
        return UsageAt(self._state, self.load, self.runs, now)

    def load(self, pod: Manifest) -> Load | None:
        """The load of a pod: its own, else that of the nearest workload above it."""
        if not self.loads:
            return None
        return next((load for target in self.targets(pod) if (load := self.loads.get(target)) is not None), None)

    def targets(self, pod: Manifest) -> Iterator[Target]:
        """What a load or value for a pod may be set for: the pod, and the workloads above it, the nearest first."""
        namespace = pod["metadata"].get("namespace", "")
        yield namespace, "Pod", pod["metadata"]["name"]
        manifest: Manifest | None = pod
        while manifest is not None:
            owner = controller_of(manifest)
            if owner is None:
                return
            yield namespace, owner["kind"], owner["name"]
            above = self._state.owner_key(manifest)
            manifest = self._state.find(above) if above is not None else None

    def knows(self, namespace: str, kind: Kind, name: str) -> bool:
        """Whether there is such a workload or pod."""
        return self._state.get(RESOURCE_OF_KIND[kind], namespace, name) is not None

    def runs(self, pod: Manifest) -> bool:
        """Whether a pod runs on a node whose kubelet answers."""
        node = (pod.get("spec") or {}).get("nodeName")
        return bool(node) and node not in self._state.down and (pod.get("status") or {}).get("phase") == "Running"

    def pods(self, namespace: str, name: str) -> list[Manifest]:
        """The pods of a namespace and name, of all where one is empty."""
        if namespace and name:
            found = self._state.get(PODS, namespace, name)
            return [found] if found is not None else []
        if namespace:
            return list(self._state.in_namespace(PODS, namespace).values())
        return list(self._state.all_of(PODS))

    def nodes(self, name: str) -> list[Manifest]:
        """The node of that name, all where it is empty."""
        return [node for node in self._state.all_of(NODES) if name in ("", node["metadata"]["name"])]


def _shown(share: float | None, units: int | None, resource: str) -> str:
    if share is not None:
        return f"{share * 100:g}%"
    return "" if units is None else str(quantity_of(resource, units))


class UsageAt:
    """The usage of one moment; what was computed for one object is not computed again for another."""

    def __init__(
        self, state: State, load: Callable[[Manifest], Load | None], runs: Callable[[Manifest], bool], now: float
    ) -> None:
        self._state = state
        self._load = load
        self._runs = runs
        self._now = now
        self._shares: dict[str, tuple[float, float]] = {}
        self._wished: dict[str, Usage] = {}
        self._used: dict[tuple[str, str], dict[str, Usage]] = {}

    def pod(self, pod: Manifest) -> dict[str, Usage]:
        """What each container of a pod uses; empty where nothing runs."""
        if not self._runs(pod):
            return {}
        cpu, memory = self._share(pod["spec"]["nodeName"])
        return {name: Usage(used.cpu_milli * cpu, used.memory_bytes * memory) for name, used in self._wish(pod).items()}

    def node(self, name: str) -> Usage | None:
        """What a node uses; None where its kubelet does not say."""
        if name in self._state.down:
            return None
        (cpu, memory), wished = self._share(name), self._wished[name]
        return SYSTEM.plus(Usage(wished.cpu_milli * cpu, wished.memory_bytes * memory))

    def _wish(self, pod: Manifest) -> dict[str, Usage]:
        """What each container of a pod would use on a node with room for all."""
        place = pod["metadata"].get("namespace", ""), pod["metadata"]["name"]
        found = self._used.get(place)
        if found is None:
            found = self._used[place] = usage_of(pod, self._load(pod), self._now)
        return found

    def _share(self, node: str) -> tuple[float, float]:
        """By how much the pods of a node get less than they would use, because it has no more."""
        if node not in self._shares:
            wished = Usage()
            for pod in self._state.pods_on(node).values():
                if self._runs(pod):
                    for used in self._wish(pod).values():
                        wished = wished.plus(used)
            capacity = self._state.capacity.get(node, {})
            cpu = max(capacity.get("cpu", 0) - SYSTEM.cpu_milli, 0)
            memory = max(capacity.get("memory", 0) - SYSTEM.memory_bytes, 0)
            self._wished[node] = wished
            self._shares[node] = (
                min(1.0, cpu / wished.cpu_milli) if wished.cpu_milli else 1.0,
                min(1.0, memory / wished.memory_bytes) if wished.memory_bytes else 1.0,
            )
        return self._shares[node]
