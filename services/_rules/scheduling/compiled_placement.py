"""A placement, compiled once: matchers of its affinities, its strategy and its spread constraints."""

from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Struct

from services._rules.kubernetes.taints import Toleration
from services._rules.policies.cluster_affinity import ClusterAffinity, ClusterFacts, ClusterMatcher, compile_affinity

Strategy: TypeAlias = Literal["Duplicated", "StaticWeight", "DynamicWeight", "Aggregated", "Unsupported"]

# Tier of a cluster that no affinity of the term matches; only a cluster kept for other reasons can have it.
UNMATCHED_TIER: Final = 1000


class OverflowAffinity(ClusterAffinity, frozen=True, rename="camel"):
    """A further tier of clusters, opened when the tiers before it are full."""

    affinity_name: str = ""


class AffinityTerm(ClusterAffinity, frozen=True, rename="camel"):
    """One of several candidate groups, with its overflow tiers."""

    affinity_name: str = ""
    overflow_affinities: tuple[OverflowAffinity, ...] | None = None


class SpreadConstraint(Struct, frozen=True, rename="camel"):
    """Limits on the number of clusters or regions."""

    spread_by_field: str = ""
    spread_by_label: str = ""
    max_groups: int = 0
    min_groups: int = 0


class StaticWeight(Struct, frozen=True, rename="camel"):
    """Weight of the clusters that an affinity matches."""

    target_cluster: ClusterAffinity = ClusterAffinity()
    weight: int = 0


class WeightPreference(Struct, frozen=True, rename="camel"):
    """Static weights, or the name of the measure that weights are taken from."""

    static_weight_list: tuple[StaticWeight, ...] | None = None
    dynamic_weight: str = ""


class ReplicaScheduling(Struct, frozen=True, rename="camel"):
    """How replicas are divided."""

    replica_scheduling_type: str = ""
    replica_division_preference: str = ""
    weight_preference: WeightPreference | None = None


class Placement(Struct, frozen=True, rename="camel"):
    """The placement of a policy as a binding carries it."""

    cluster_affinity: ClusterAffinity | None = None
    cluster_affinities: tuple[AffinityTerm, ...] | None = None
    cluster_tolerations: tuple[Toleration, ...] | None = None
    spread_constraints: tuple[SpreadConstraint, ...] | None = None
    replica_scheduling: ReplicaScheduling | None = None


class Tiers:
    """The affinities in force for one observed term: the primary one, then the overflow tiers."""

    __slots__ = ("matchers", "overflow")

    def __init__(self, matchers: tuple[ClusterMatcher, ...], overflow: bool) -> None:
        self.matchers = matchers
        # Whether replicas are assigned tier by tier.
        self.overflow = overflow

    def tier(self, cluster: ClusterFacts) -> int:
        """Index of the first affinity that matches; UNMATCHED_TIER where none does."""
        for index, matcher in enumerate(self.matchers):
            if matcher(cluster):
                return index
        return UNMATCHED_TIER


_ANY_CLUSTER: Final = Tiers((), overflow=False)


class CompiledPlacement:
    """A placement ready for use; equal placements are one object, so it serves as a cache key."""

    __slots__ = (
        "_tiers",
        "affinity_names",
        "constraints",
        "encoded",
        "needs_property",
        "raw",
        "static_weighting",
        "strategy",
        "tolerations",
        "weights",
    )

    def __init__(self, raw: Placement, encoded: bytes) -> None:
        self.raw = raw
        # The manifest as JSON with sorted keys.
        self.encoded = encoded
        self.strategy, self.static_weighting = _strategy(raw.replica_scheduling)
        self.tolerations = raw.cluster_tolerations or ()
        # Of several constraints on one field the last counts.
        self.constraints = {item.spread_by_field: item for item in raw.spread_constraints or ()}
        self.needs_property = tuple(name for name in ("provider", "region", "zone") if name in self.constraints)
        self.affinity_names = tuple(item.affinity_name for item in raw.cluster_affinities or ())
        self.weights = _weights(raw.replica_scheduling)
        self._tiers: dict[tuple[str, bool], Tiers] = {}

    def tiers(self, observed: str, workload: bool) -> Tiers:
        """Affinities in force; overflow tiers are open to workloads only."""
        key = (observed, workload)
        found = self._tiers.get(key)
        if found is None:
            found = self._tiers[key] = self._compile_tiers(observed, workload)
        return found

    def _compile_tiers(self, observed: str, workload: bool) -> Tiers:
        if self.raw.cluster_affinity is not None:
            return Tiers((compile_affinity(self.raw.cluster_affinity),), overflow=False)
        term = next((item for item in self.raw.cluster_affinities or () if item.affinity_name == observed), None)
        if term is None:
            return _ANY_CLUSTER
        overflow = term.overflow_affinities or ()
        affinities: tuple[ClusterAffinity, ...] = (term, *(overflow if workload else ()))
        return Tiers(tuple(compile_affinity(item) for item in affinities), overflow=bool(overflow) and observed != "")

    @property
    def single_cluster(self) -> bool:
        """Whether some constraint asks for exactly one cluster."""
        return any(
            item.spread_by_field == "cluster" and item.min_groups == 1 and item.max_groups == 1
            for item in self.raw.spread_constraints or ()
        )

    @property
    def duplicated(self) -> bool:
        """Whether every selected cluster runs all replicas."""
        return self.strategy == "Duplicated"


def _strategy(scheduling: ReplicaScheduling | None) -> tuple[Strategy, bool]:
    """Strategy, and whether static weighting overrides spread constraints.

    Source: docs/sources.md#cluster-selection, #replica-division.
    """
    if scheduling is None or scheduling.replica_scheduling_type == "Duplicated":
        return "Duplicated", False
    if scheduling.replica_scheduling_type != "Divided":
        return "Unsupported", False
    if scheduling.replica_division_preference == "Aggregated":
        return "Aggregated", False
    if scheduling.replica_division_preference != "Weighted":
        return "Unsupported", False
    preference = scheduling.weight_preference
    if preference is None:
        return "StaticWeight", True
    if preference.dynamic_weight:
        return "DynamicWeight", False
    return "StaticWeight", bool(preference.static_weight_list)


def _weights(scheduling: ReplicaScheduling | None) -> tuple[tuple[ClusterMatcher, int], ...]:
    preference = scheduling.weight_preference if scheduling else None
    if preference is None or preference.dynamic_weight:
        return ()
    return tuple((compile_affinity(item.target_cluster), item.weight) for item in preference.static_weight_list or ())


def compile_placement(manifest: dict[str, Any] | None) -> CompiledPlacement:
    """Compile a placement manifest, reusing the compiled form of an equal one.

    Raises msgspec.ValidationError naming the field.
    """
    return _compile(msgspec.json.encode(manifest or {}, order="sorted"))


@lru_cache(maxsize=4096)
def _compile(encoded: bytes) -> CompiledPlacement:
    return CompiledPlacement(msgspec.json.decode(encoded, type=Placement), encoded)
