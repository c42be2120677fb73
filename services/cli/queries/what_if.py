"""Turns suppositions (a lost cluster, another capacity, more replicas) into facts that happen in memory only."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Raw, Struct, field
from msgspec.structs import replace

from schemas.codec import Known, subject_of
from schemas.envelope import Provenance
from schemas.events.binding import BindingRequested
from schemas.events.cluster import ClusterChanged, ClusterRemoved
from schemas.events.eviction import EvictionRequested, EvictionTask
from schemas.keys import ObjectKey
from schemas.manifest import Manifest
from services._rules.kubernetes.quantity import QuantityError, parse
from services._rules.kubernetes.taints import Taint, first_untolerated
from services._rules.scheduling.compiled_placement import compile_placement
from services.autoscaler.state import AutoscalerState
from services.cli.common.running import Failed
from services.cli.objects.apply_manifests import read_manifests
from services.cli.queries.query_options import Suppositions
from services.cli.queries.supposed_metrics import supposed_metric
from services.scheduler.state import SchedulerState, fold

EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
DRAINED: Final = "fleetlog.io/drained"
_CAPACITY: Final = "CLUSTER:cpu=64,memory=256Gi"
_LABEL: Final = "CLUSTER:key=value, or CLUSTER:key- to remove it"
_TAINT: Final = "CLUSTER:key=value:NoSchedule"
_PAIR: Final = re.compile(r"([^=:]+)(?:=([^:]*))?")


class SimulatedState(Struct):
    """A scheduler's state in memory, the clusters' facts, and the position of the last fact.

    `scaling` is the state of the autoscaler; suppositions about clusters do not change it.
    """

    state: SchedulerState = field(default_factory=SchedulerState)
    scaling: AutoscalerState = field(default_factory=AutoscalerState)
    clusters: dict[str, ClusterChanged] = field(default_factory=dict)
    position: int = 0
    changed_capacity: set[str] = field(default_factory=set)

    def happens(self, event: Known, at: float = 0.0) -> None:
        """Fold a fact that exists nowhere else."""
        seen = self.position
        self.position += 1
        event = replace(event, provenance=Provenance(as_of=seen))
        list(fold(self.state, self.position, subject_of(event), event, at))
        if isinstance(event, ClusterChanged):
            self.clusters[event.name] = event

    def cluster(self, name: str) -> ClusterChanged:
        """The fact about a cluster; raises Failed where there is none."""
        found = self.clusters.get(name)
        if found is None or name not in self.state.clusters.by_name:
            known = ", ".join(sorted(self.state.clusters.by_name)) or "none"
            raise Failed(f"no cluster {name!r} has joined; known are: {known}")
        return found

    def alter(self, name: str, change: Callable[[Manifest], None]) -> None:
        """Let a cluster's manifest be another one."""
        event = self.cluster(name)
        manifest: Manifest = msgspec.json.decode(event.manifest)
        change(manifest)
        self.happens(replace(event, manifest=Raw(msgspec.json.encode(manifest))))


def check_suppositions(supposed: Suppositions) -> None:
    """Raises Failed, naming the option, for what no world could make sense of."""
    for text in supposed.capacity:
        _capacity(_split(text, "--set-capacity", _CAPACITY)[1], text)
    for text in supposed.label:
        _split(text, "--label", _LABEL)
    for text in supposed.taint:
        for part in _split(text, "--taint", _TAINT)[1]:
            _taint(part, text)
    for text in supposed.metric:
        supposed_metric(text)
    if supposed.policy is not None:
        read_manifests(supposed.policy)


def suppose(world: SimulatedState, supposed: Suppositions, scale: Mapping[ObjectKey, int]) -> None:
    """Let everything happen that is supposed; raises Failed, naming the option, for what cannot be understood."""
    for text in supposed.capacity:
        name, parts = _split(text, "--set-capacity", _CAPACITY)
        world.changed_capacity.add(name)
        world.alter(name, _capacity(parts, text))
    for text in supposed.label:
        name, parts = _split(text, "--label", _LABEL)
        world.alter(name, _labels(parts))
    for text in supposed.taint:
        name, parts = _split(text, "--taint", _TAINT)
        world.alter(name, _tainting([_taint(part, text) for part in parts]))
        _evict(world, name)
    for name in supposed.drain:
        world.alter(name, _tainting([{"key": DRAINED, "effect": "NoExecute"}]))
        _evict(world, name)
    for name in supposed.lose:
        uid = world.cluster(name).uid
        world.happens(ClusterRemoved(name=name, uid=uid))
    for key, replicas in scale.items():
        _scale(world, key, replicas)
    if supposed.policy is not None:
        _apply(world, supposed.policy)


def _split(text: str, option: str, example: str) -> tuple[str, list[str]]:
    name, colon, rest = text.partition(":")
    parts = [part for part in rest.split(",") if part]
    if not name or not colon or not parts:
        raise Failed(f"{option} {text!r}: write {example}")
    return name, parts


def _capacity(parts: list[str], text: str) -> Callable[[Manifest], None]:
    amounts = {}
    for part in parts:
        resource, equals, amount = part.partition("=")
        try:
            if not equals or not resource or parse(amount).nano < 0:
                raise Failed(f"--set-capacity {text!r}: write CLUSTER:cpu=64,memory=256Gi, amounts not below zero")
        except QuantityError as error:
            raise Failed(f"--set-capacity {text!r}: {resource}: {error}") from None
        amounts[resource] = amount

    def change(manifest: Manifest) -> None:
        summary = manifest.setdefault("status", {}).setdefault("resourceSummary", {})
        summary["allocatable"] = {**(summary.get("allocatable") or {}), **amounts}
        # Models count nodes of the size they had; a supposed capacity has none.
        summary.pop("allocatableModelings", None)

    return change


def _labels(parts: list[str]) -> Callable[[Manifest], None]:
    def change(manifest: Manifest) -> None:
        labels = dict(manifest["metadata"].get("labels") or {})
        for part in parts:
            key, equals, value = part.partition("=")
            if not equals and key.endswith("-"):
                labels.pop(key[:-1], None)
            else:
                labels[key] = value
        manifest["metadata"]["labels"] = labels

    return change


def _taint(part: str, text: str) -> Manifest:
    pair, _, effect = part.rpartition(":")
    found = _PAIR.fullmatch(pair)
    if found is None or effect not in EFFECTS:
        raise Failed(f"--taint {text!r}: write CLUSTER:key=value:EFFECT with one of {', '.join(EFFECTS)}")
    taint = {"key": found[1], "effect": effect}
    return {**taint, "value": found[2]} if found[2] else taint


def _tainting(taints: list[Manifest]) -> Callable[[Manifest], None]:
    def change(manifest: Manifest) -> None:
        spec = manifest.setdefault("spec", {})
        spec["taints"] = [*(spec.get("taints") or ()), *taints]

    return change


def _evict(world: SimulatedState, name: str) -> None:
    """Let every object leave a cluster whose NoExecute taints it does not tolerate."""
    manifest: Manifest = msgspec.json.decode(world.cluster(name).manifest)
    taints = msgspec.convert(manifest["spec"].get("taints") or [], list[Taint])
    for key, scheduled in list(world.state.objects.items()):
        spec = scheduled.spec
        if spec is None or not scheduled.runs_in(name):
            continue
        tolerations = compile_placement(spec.get("placement")).tolerations
        if first_untolerated(taints, tolerations, frozenset({"NoExecute"})) is None:
            continue
        under_way = [task for task in scheduled.tasks if task.from_cluster != name]
        task = EvictionTask(from_cluster=name, reason="TaintUntolerated", producer="simulate")
        world.happens(EvictionRequested(key=key, uid=scheduled.uid, tasks=(*under_way, task)))


def _scale(world: SimulatedState, key: ObjectKey, replicas: int) -> None:
    binding = _binding(world, key)
    if binding is None:
        raise Failed(f"--scale: no policy has claimed {key}; the log holds no binding of it")
    spec: Manifest = {**msgspec.json.decode(binding.spec), "replicas": replicas}
    world.happens(replace(binding, spec=Raw(msgspec.json.encode(spec)), replicas=replicas, workload=True))


def _apply(world: SimulatedState, path: Path) -> None:
    """Give the objects of a policy its placement in the file."""
    for manifest in read_manifests(path):
        if manifest["kind"] not in ("PropagationPolicy", "ClusterPropagationPolicy"):
            raise Failed(f"--policy {path}: {manifest['kind']} {manifest['metadata']['name']} is no propagation policy")
        name = manifest["metadata"]["name"]
        space = manifest["metadata"].get("namespace") or ("" if manifest["kind"].startswith("Cluster") else "default")
        placement = (manifest.get("spec") or {}).get("placement") or {}
        try:
            compile_placement(placement)
        except (msgspec.ValidationError, ValueError) as error:
            raise Failed(f"--policy {path}: {manifest['kind']} {name}: placement: {error}") from None
        claimed = [
            key for key in world.state.objects if _claimed_by(_binding(world, key), manifest["kind"], space, name)
        ]
        if not claimed:
            raise Failed(
                f"--policy {path}: no object is claimed by {manifest['kind']} {space + '/' if space else ''}{name}; "
                "only a policy that is in force can be simulated with another placement"
            )
        for key in claimed:
            binding = _binding(world, key)
            assert binding is not None
            spec = {**msgspec.json.decode(binding.spec), "placement": placement}
            world.happens(replace(binding, spec=Raw(msgspec.json.encode(spec))))


def _binding(world: SimulatedState, key: ObjectKey) -> BindingRequested | None:
    scheduled = world.state.objects.get(key)
    binding = scheduled.binding if scheduled is not None else None
    return binding if isinstance(binding, BindingRequested) else None


def _claimed_by(binding: BindingRequested | None, kind: str, namespace: str, name: str) -> bool:
    if binding is None or binding.policy is None:
        return False
    key = binding.policy.key
    return (key.kind, key.name) == (kind, name) and (key.namespace or "") == namespace
