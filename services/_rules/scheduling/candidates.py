"""Ranks the clusters that passed: overflow tier, score, available replicas, name.

Source: docs/sources.md#cluster-selection, #estimators.
"""

from bisect import insort
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter

from msgspec import Struct

from services._rules.capacity import general_estimate as estimation
from services._rules.capacity.general_estimate import Assumed
from services._rules.scheduling.filters import FilterTable, barred, filter_table, refused_by_peers
from services._rules.scheduling.index import ClusterIndex, find
from services._rules.scheduling.plugin_set import LOCALITY as LOCALITY_PLUGIN
from services._rules.scheduling.plugins.execution import outside_refusal, outside_scores
from services._rules.scheduling.scheduling_views import (
    MAX_REPLICAS,
    BindingView,
    Candidate,
    ClusterView,
    Estimate,
    Peers,
    SchedulingOptions,
    Status,
)

# Score of a cluster that already runs the binding.
LOCALITY = 100

_FEW = 24
_NAME, _AVAIL, _SCORE, _TIER = (attrgetter(name) for name in ("name", "avail", "score", "tier"))


class Estimator(Struct, frozen=True, eq=False):
    """Estimates how many further replicas (or sets) of one binding a cluster can take."""

    binding: BindingView
    options: SchedulingOptions
    accurate: Sequence[Estimate] = ()
    assumed: Mapping[str, Sequence[Assumed]] | None = None

    @property
    def counts_sets(self) -> bool:
        """Whether capacity is estimated in complete sets of components."""
        binding = self.binding
        return self.options.several_templates and bool(binding.components) and binding.placement.single_cluster

    @property
    def shareable(self) -> bool:
        """Whether the general estimate depends on nothing but the cluster and the demand."""
        return not self.assumed and not self.binding.components

    @property
    def limits(self) -> dict[str, int]:
        """What the accurate estimators allow by cluster, where one has an opinion."""
        if self.binding.replicas == 0 and not self.binding.components:
            return {}
        limits: dict[str, int] = {}
        for answers in self.accurate:
            if not limits:
                limits = {name: answer for name, answer in answers.items() if answer >= 0}
                continue
            for name, answer in answers.items():
                if 0 <= answer < limits.get(name, MAX_REPLICAS):
                    limits[name] = answer
        return limits

    def general(self, cluster: ClusterView) -> int:
        """What the status of a cluster has room for."""
        assumed = self.assumed.get(cluster.name, ()) if self.assumed else ()
        models = self.options.resource_models
        if self.counts_sets:
            return estimation.max_component_sets(cluster.capacity, self.binding.components, models, assumed)
        return estimation.max_replicas(cluster.capacity, self.binding.demand, models, assumed)

    def available(self, cluster: ClusterView) -> int:
        """Further replicas of a cluster, the minimum of all estimators; all replicas where none limits them."""
        binding = self.binding
        if binding.replicas == 0 and not binding.components:
            return MAX_REPLICAS
        found = self.general(cluster)
        for answers in self.accurate:
            answer = answers.get(cluster.name, -1)
            if 0 <= answer < found:
                found = answer
        return binding.replicas if found >= MAX_REPLICAS else found


def rank(
    index: ClusterIndex, estimator: Estimator, status: Status, peers: Peers | None = None
) -> tuple[FilterTable, Sequence[Candidate]]:
    """Clusters that pass every filter, in canonical order; raises Failure where a plugin of others does not answer."""
    binding, plugins = estimator.binding, estimator.options.plugins
    table = filter_table(index, binding, status.observed_affinity, plugins)
    if plugins.outside or not estimator.shareable:
        return table, _rank_alone(table, estimator, status, peers)
    base = _shared_ranking(index, table, estimator)
    if binding.clusters or binding.evicting or binding.outstayed or estimator.accurate or peers is not None:
        return table, _adapted(base, table, estimator, peers)
    return table, base


def _shared_ranking(index: ClusterIndex, table: FilterTable, estimator: Estimator) -> tuple[Candidate, ...]:
    """Ranking for bindings that run nowhere yet; one per filter outcome and demand."""
    binding = estimator.binding
    estimated = binding.replicas > 0

    def fresh(cluster: ClusterView) -> Candidate:
        alloc = estimator.general(cluster) if estimated else MAX_REPLICAS
        return Candidate(cluster.name, cluster, _tier(cluster, table), 0, alloc, alloc)

    def make() -> tuple[Candidate, ...]:
        return _sorted(map(fresh, table.passed))

    def carry_over(items: tuple[Candidate, ...], changed: list[str]) -> tuple[Candidate, ...]:
        names = set(changed)
        found = [item for item in items if item.name not in names]
        for name in changed:
            cluster = find(table.passed, name)
            if cluster is not None:
                insort(found, fresh(cluster), key=canonical)
        return tuple(found)

    key = ("ranking", table.key, binding.demand, estimated, estimator.options.resource_models)
    items = index.remember(key, make, carry_over)
    if estimated and items and _unlimited(items, table):
        # What nothing limits counts as the number of replicas, which differs between bindings.
        return _sorted(_candidate(item.cluster, table, estimator, {}) for item in items)
    return items


def _unlimited(items: Sequence[Candidate], table: FilterTable) -> bool:
    """Whether some cluster has more room than can be counted; within a tier the roomiest comes first."""
    if len(table.tiers.matchers) > 1:
        return any(item.alloc >= MAX_REPLICAS for item in items)
    return items[0].alloc >= MAX_REPLICAS


def _adapted(
    base: Sequence[Candidate], table: FilterTable, estimator: Estimator, peers: Peers | None
) -> Sequence[Candidate]:
    """The shared ranking with what is special about one binding: its targets, evictions, peers, accurate estimates."""
    binding = estimator.binding
    own = {item.name: item.replicas for item in binding.clusters}
    plugins = estimator.options.plugins
    left_out = barred(binding, plugins)
    if peers is not None:
        left_out = left_out | {
            item.name for item in base if item.name not in own and refused_by_peers(item.name, peers)
        }
    special = own.keys() | left_out
    moved = [
        _candidate(cluster, table, estimator, own)
        for name in own
        if name not in left_out and (cluster := _admitted(table, name)) is not None
    ]
    rest = [item for item in base if item.name not in special]
    limits = estimator.limits
    if limits:
        rest = [_limited(item, limits) for item in rest]
        return _sorted([*moved, *rest])
    if len(table.tiers.matchers) > 1 or LOCALITY_PLUGIN not in plugins.names:
        return _sorted([*moved, *rest])
    # Only clusters that run the binding were moved, and their score puts them before all others.
    return [*_sorted(moved), *rest]


def _admitted(table: FilterTable, name: str) -> ClusterView | None:
    """A current target, if it passes the filters that hold for current targets."""
    return table.kept_if_target.get(name) or find(table.passed, name)


def _limited(item: Candidate, limits: Mapping[str, int]) -> Candidate:
    limit = limits.get(item.name, MAX_REPLICAS)
    if limit >= item.alloc:
        return item
    return Candidate(item.name, item.cluster, item.tier, item.score, limit, limit)


def _rank_alone(table: FilterTable, estimator: Estimator, status: Status, peers: Peers | None) -> tuple[Candidate, ...]:
    """Ranking for bindings whose estimates, or whose answers of plugins, no other binding shares."""
    binding, plugins = estimator.binding, estimator.options.plugins
    own = {item.name: item.replicas for item in binding.clusters}
    kept = [table.kept_if_target[name] for name in own if name in table.kept_if_target]
    left_out = barred(binding, plugins)
    passed = [
        cluster
        for cluster in [*table.passed, *kept]
        if cluster.name not in left_out
        and (peers is None or cluster.name in own or not refused_by_peers(cluster.name, peers))
    ]
    if not plugins.outside:
        return _sorted(_candidate(cluster, table, estimator, own) for cluster in passed)
    passed.sort(key=_NAME)
    passed = [item for item in passed if outside_refusal(plugins, binding, status, item, peers) is None]
    scores = outside_scores(plugins, binding, passed)
    added = {item.name: sum(found[item.name] for found in scores.values()) for item in passed}
    return _sorted(_candidate(cluster, table, estimator, own, added[cluster.name]) for cluster in passed)


def _candidate(
    cluster: ClusterView, table: FilterTable, estimator: Estimator, own: Mapping[str, int], score: int = 0
) -> Candidate:
    name = cluster.name
    alloc = estimator.available(cluster)
    if name in own and LOCALITY_PLUGIN in estimator.options.plugins.names:
        score += LOCALITY
    return Candidate(name, cluster, _tier(cluster, table), score, alloc, alloc + own.get(name, 0))


def _tier(cluster: ClusterView, table: FilterTable) -> int:
    return table.tiers.tier(cluster) if len(table.tiers.matchers) > 1 else 0


def canonical(item: Candidate) -> tuple[int, int, int, str]:
    """Sort key of the canonical order."""
    return item.tier, -item.score, -item.avail, item.name


def _sorted(items: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """Canonical order; many items are ordered by one fact after the other, which is quicker than by all at once."""
    found = list(items)
    if len(found) <= _FEW:
        return tuple(sorted(found, key=canonical))
    found.sort(key=_NAME)
    found.sort(key=_AVAIL, reverse=True)
    found.sort(key=_SCORE, reverse=True)
    found.sort(key=_TIER)
    return tuple(found)
