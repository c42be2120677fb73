"""Clusters as the monitor sees them; writes come back as the control plane would return them."""

from __future__ import annotations

from typing import Any

from msgspec import Raw

from schemas.codec import subject_of
from schemas.events.cluster import ClusterChanged, ClusterRemoved
from schemas.events.control_plane import AbsenceConfirmed
from schemas.manifest import Manifest
from services._rules.absence import absence_guard as absence
from services._rules.absence.endpoint_identity import Reading
from services._rules.kubernetes.patch.json_patch import merge_patch
from services.cluster_monitor.decide import (
    FINALIZER,
    AddFinalizer,
    ClusterDecision,
    DropFinalizer,
    WriteSpec,
    WriteStatus,
    decide,
    decide_all,
)
from services.cluster_monitor.member_identity import fold_absence
from services.cluster_monitor.state import BindingsKept, MonitorState, Probe
from tests.support.facts import NOW

READY: Manifest = {"kubernetesVersion": "v1.31.4", "apiEnablements": [{"groupVersion": "v1", "resources": []}]}


def cluster_object(name: str, identity: str = "", finalizer: str = FINALIZER) -> Manifest:
    """A Cluster in the care of the monitor."""
    metadata = {"name": name, "uid": f"uid-{name}", "generation": 1, "finalizers": [finalizer]}
    return {"metadata": metadata, "spec": {"syncMode": "Push", **({"id": identity} if identity else {})}}


class MonitorHarness:
    """The monitor's state; of clusters with an identity there are facts already."""

    def __init__(self, *names: str, identity: str = "") -> None:
        self.state = MonitorState(listed=True, bindings=BindingsKept(frozenset()))
        self.seq = 0
        absence.take_reading(self.state.guard, Reading("ours", 1), absence.noted(self.state.guard))
        for name in names:
            cluster = self.state.of(name)
            cluster.manifest = cluster_object(name, identity)
            if identity:
                cluster.fact = ClusterChanged(name=name, uid=f"uid-{name}", manifest=Raw(b"{}"), identity=identity)
        self.cluster = self.state.of(names[0])

    @property
    def manifest(self) -> Manifest:
        """The first cluster's object."""
        assert self.cluster.manifest is not None
        return self.cluster.manifest

    @property
    def ready(self) -> str:
        """The status of its condition Ready."""
        conditions = self.manifest.get("status", {}).get("conditions", [])
        return next((entry["status"] for entry in conditions if entry["type"] == "Ready"), "")

    @property
    def taints(self) -> list[str]:
        """Keys of its taints."""
        return [taint["key"] for taint in self.manifest["spec"].get("taints", [])]

    def probes(
        self, at: float, *, online: bool = True, summary: Manifest | None = None, **fields: Any
    ) -> ClusterDecision:
        """Decide with another probe of it."""
        found = summary or (READY if online else None)
        self.cluster.probe = Probe(at=NOW + at, online=online, healthy=online, summary=found, **fields)
        return self.decides(at=at)

    def lists(self, *names: str) -> None:
        """Let the control plane have these clusters and no others."""
        for name in {*self.state.clusters} - self.state.lost(names) - {*names}:
            self.state.of(name).manifest = None

    def confirms(self, scope: str, position: int, identity: str) -> None:
        """Confirm an absence that is held."""
        self._fold(AbsenceConfirmed(scope=scope, held_at=position, by="anna", at=NOW, identity=identity))

    def decides(self, name: str = "", *, at: float = 0.0) -> ClusterDecision:
        """Decide a cluster, the first unless it is named, and take in what comes out."""
        name = name or self.cluster.name
        return self._taken(decide(self.state, name, NOW + at), name)

    def decides_all(self, *, at: float = 0.0) -> ClusterDecision:
        """Decide what concerns no single cluster."""
        return self._taken(decide_all(self.state, NOW + at), "")

    def _taken(self, decision: ClusterDecision, name: str) -> ClusterDecision:
        if decision.settled:
            absence.settle(self.state.guard)
        if decision.memory is not None:
            self.state.of(name).memory = decision.memory
        if decision.unused is not None:
            self.state.unused = decision.unused
        for event in decision.events:
            self._fold(event)
        for effect in decision.effects:
            self._written(name, effect)
        return decision

    def _fold(self, event: Any) -> None:
        self.seq += 1
        match event:
            case ClusterChanged():
                self.state.of(event.name).fact = event
            case ClusterRemoved():
                self.state.of(event.name).fact = None
            case _:
                fold_absence(self.state, self.seq, subject_of(event), event)

    def _written(self, name: str, effect: object) -> None:
        manifest = self.state.of(name).manifest if name else None
        if manifest is None:
            return
        match effect:
            case WriteStatus():
                manifest["status"] = merge_patch(manifest.get("status") or {}, effect.patch)
            case WriteSpec():
                manifest["spec"]["taints"] = effect.taints
            case AddFinalizer():
                manifest["metadata"]["finalizers"] = [FINALIZER]
            case DropFinalizer():
                manifest["metadata"]["finalizers"] = []
            case _:
                pass
