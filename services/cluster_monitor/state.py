"""What the cluster monitor knows of each member: its Cluster object, the latest probe and the threshold memory."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from schemas.agent import Sample
from schemas.events.cluster import ClusterChanged

Manifest = dict[str, Any]


Probe = Sample
"""One look at a member, by the prober of a push member or by the agent of a pull member."""


class ReadyMemory(Struct):
    """What the threshold filter remembers of one cluster between probes (reference 03 §6.5)."""

    observed: str = ""
    window_start: float = 0.0


class ClusterState(Struct, kw_only=True):
    """One member: the object of the control plane, the newest probe, and the fact on the log with its position."""

    name: str
    manifest: Manifest | None = None
    probe: Probe | None = None
    memory: ReadyMemory = field(default_factory=ReadyMemory)
    fact: ClusterChanged | None = None
    subject_seq: int = 0
    empty: bool = False
    heard_at: float = 0.0
    """When the agent of a pull member said anything; at first, when somebody began to listen."""


class MonitorState(Struct):
    """All members by name; `listed` is true once a complete list of Cluster objects was seen."""

    clusters: dict[str, ClusterState] = field(default_factory=dict)
    taint_policies: dict[str, Manifest] = field(default_factory=dict)
    """ClusterTaintPolicies by name; none where they do not count."""
    listed: bool = False

    def of(self, name: str) -> ClusterState:
        """The state of one member, made on first mention."""
        state = self.clusters.get(name)
        if state is None:
            state = self.clusters[name] = ClusterState(name=name)
        return state
