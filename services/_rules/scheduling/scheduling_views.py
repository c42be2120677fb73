"""What the scheduling algorithm reads and returns: views of clusters and bindings, options, candidates, decisions."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from services._rules.capacity.general_estimate import Capacity, Component, Demand
from services._rules.kubernetes.taints import Taint
from services._rules.scheduling.compiled_placement import CompiledPlacement
from services._rules.scheduling.division.weights import TargetCluster
from services._rules.scheduling.plugin_set import STANDARD_SET, PluginSet

__all__ = [
    "BindingView",
    "Candidate",
    "ClusterView",
    "Decision",
    "Failure",
    "Peers",
    "SchedulingOptions",
    "Status",
    "TargetCluster",
]

FailureKind: TypeAlias = Literal["FitError", "Unschedulable", "Error"]

MAX_REPLICAS: Final = 2**31 - 1


class ClusterView(Struct, frozen=True, eq=False):
    """One cluster as the algorithm sees it, decoded once per cluster fact."""

    name: str
    labels: dict[str, str]
    provider: str
    region: str
    zones: tuple[str, ...]
    # Only those that repel: NoSchedule and NoExecute.
    taints: tuple[Taint, ...]
    # (groupVersion, kind) of everything the cluster serves.
    apis: frozenset[tuple[str, str]]
    deleting: bool
    capacity: Capacity


class BindingView(Struct, frozen=True, eq=False):
    """The fields of a binding that the algorithm reads, decoded once per binding fact."""

    api: tuple[str, str]
    uid: str
    replicas: int
    # None where the binding has no replicaRequirements.
    demand: Demand | None
    components: tuple[Component, ...]
    placement: CompiledPlacement
    clusters: tuple[TargetCluster, ...]
    # Clusters that a graceful eviction task is leaving.
    evicting: frozenset[str]
    reschedule_triggered_at: datetime | None
    namespace: str = ""
    name: str = ""
    # Clusters with a taint that is tolerated for some seconds which are over.
    outstayed: Mapping[str, Taint] = {}

    @property
    def workload(self) -> bool:
        """Whether replicas, requirements or components make this more than a configuration object."""
        return self.replicas > 0 or self.demand is not None or bool(self.components)


class Status(Struct, frozen=True):
    """What the last attempts left behind: the affinity term in force and the time of the last success.

    `unanswered`: whether no success has answered the request for a fresh schedule yet; None where only times tell.
    """

    observed_affinity: str = ""
    last_scheduled_time: str | datetime | None = None
    unanswered: bool | None = None


class Peers(Struct, frozen=True):
    """Where workloads of the same affinity groups run (docs/sources.md#workload-affinity).

    `together` holds the targets of every scheduled peer of the affinity group, `apart` all targets of the
    anti-affinity group.
    """

    together: tuple[frozenset[str], ...] = ()
    apart: frozenset[str] = frozenset()


class SchedulingOptions(Struct, frozen=True):
    """Feature gates and flags that change a decision."""

    # Gate CustomizedClusterResourceModeling.
    resource_models: bool = True
    # Gate MultiplePodTemplatesScheduling.
    several_templates: bool = False
    # Flag --enable-empty-workload-propagation.
    empty_workload_propagation: bool = False
    # Flag --plugins.
    plugins: PluginSet = STANDARD_SET


class Candidate(Struct, frozen=True, eq=False):
    """A cluster that passed the filters, with the facts by which it is ranked (docs/sources.md#cluster-selection)."""

    name: str
    cluster: ClusterView
    # Overflow order: 0 for the primary affinity.
    tier: int
    score: int
    # Further replicas the cluster can take, and the same including those it already runs.
    alloc: int
    avail: int


class Decision(Struct, frozen=True):
    """Outcome of one run: target clusters in order, or what stood in the way."""

    clusters: tuple[TargetCluster, ...] = ()
    error: FailureKind | None = None
    message: str = ""


class Failure(Exception):
    """Why no decision could be made: no cluster fits, capacity is short, or the constraints cannot be met."""

    def __init__(self, kind: FailureKind, message: str) -> None:
        super().__init__(message)
        self.kind: FailureKind = kind
        self.message = message


Estimate: TypeAlias = Mapping[str, int]
"""Answers of one accurate estimator: further replicas by cluster, -1 for no opinion."""
