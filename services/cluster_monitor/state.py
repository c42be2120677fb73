"""Projects each member: its Cluster object, the latest probe and the threshold memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from msgspec import Struct, field

from schemas.agent import Sample
from schemas.events.cluster import ClusterChanged
from schemas.events.control_plane import AbsenceHeld
from schemas.manifest import Manifest
from services._rules.absence import absence_guard as absence
from services._rules.absence.absence_guard import Guard
from services._rules.facets import ServiceState

SCOPE: Final = "clusters"
KIND: Final = "clusters.cluster.karmada.io"
ALL: Final = ""
"""The key under which is decided what concerns all clusters; none has this name."""

Probe = Sample
"""One sample of a member, taken by the prober of a push member or by the agent of a pull member."""


class ReadyMemory(Struct, frozen=True):
    """What the threshold filter remembers of one cluster between probes (docs/sources.md#clusters)."""

    observed: str = ""
    window_start: float = 0.0


class BindingsKept(Struct, frozen=True):
    """Namespaces by which the services were last given the right to read the Secrets that Clusters name there."""

    namespaces: frozenset[str]
    """Those that were asked for."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Those of them in which it was not possible, with the reason."""
    at: float = 0.0


class ClusterState(Struct, kw_only=True):
    """One member: the object of the control plane, the newest probe, and the fact on the log with its position."""

    name: str
    manifest: Manifest | None = None
    probe: Probe | None = None
    memory: ReadyMemory = ReadyMemory()
    fact: ClusterChanged | None = None
    subject_seq: int = 0
    empty: bool = False
    held: AbsenceHeld | None = None
    held_at: int = 0
    adopted: str = ""
    """The identity that an operator confirmed, until the Cluster object contains it."""
    refused: frozenset[tuple[str, str]] | None = None
    """Key and effect of each taint of a write that the control plane refused; None while it takes all."""
    told: bool = False
    """Whether a watch reported the deletion of its Cluster object."""
    unprobed: bool = False
    """Whether no probe of a push member has ended for so long that the last one is outdated."""
    heard_at: float = 0.0
    """Time of the last heartbeat of a pull member's agent; at first, when this instance subscribed."""


class MonitorState(ServiceState):
    """All members by name; `listed` is true once a complete list of Cluster objects was seen."""

    clusters: dict[str, ClusterState] = field(default_factory=dict)
    taint_policies: dict[str, Manifest] = field(default_factory=dict)
    """ClusterTaintPolicies by name; none where they do not count."""
    remedies: dict[str, Manifest] = field(default_factory=dict)
    """Remedies by name, once `remedies_listed`."""
    remedies_listed: bool = False
    listed: bool = False
    guard: Guard[str] = field(default_factory=lambda: Guard(scope=SCOPE))
    """Whether a Cluster object that is missing counts as deleted."""
    bindings: BindingsKept | None = None
    """The last round of bindings for services; None before the first."""
    unused: Mapping[str, float] = field(default_factory=dict)
    """Namespaces with bindings that no Cluster names any more, and since when (seconds since 1970)."""

    def last_seq(self, subject: str) -> int:
        """Position of the last fact of a cluster, or about what is held."""
        if not subject.startswith("cluster."):
            return self.subjects.get(subject, 0)
        cluster = self.clusters.get(subject.partition(".")[2])
        return cluster.subject_seq if cluster is not None else 0

    def recorded(self) -> set[str]:
        """Names of the clusters that are on record as members."""
        return {name for name, cluster in self.clusters.items() if cluster.fact is not None}

    def lost(self, listed: Collection[str]) -> set[str]:
        """The clusters that a complete list lacks and that are held; the others count as removed."""
        recorded = self.recorded()
        return absence.lost(self.guard, KIND, recorded.difference(listed), len(recorded), vital=True)

    def refuse(self, listed: Collection[str]) -> None:
        """Take in what a list lacks that does not count."""
        absence.refused(self.guard, KIND, self.recorded().difference(listed))

    def told(self, name: str, *, there: bool) -> bool:
        """Take in that a Cluster object is there, or that it was deleted; whether it was held."""
        self.of(name).told = not there
        return (absence.found if there else absence.gone)(self.guard, KIND, name)

    def of(self, name: str) -> ClusterState:
        """The state of one member, made on first mention."""
        state = self.clusters.get(name)
        if state is None:
            state = self.clusters[name] = ClusterState(name=name)
        return state
