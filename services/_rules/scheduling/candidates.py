"""Ranks the clusters that passed: overflow tier, score, available replicas, name (reference 02 §3.1, §5.1)."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from services._rules import estimation
from services._rules.estimation import Assumed
from services._rules.scheduling.filters import FilterTable, filter_table, refused_by_peers
from services._rules.scheduling.index import ClusterIndex
from services._rules.scheduling.model import (
    MAX_REPLICAS,
    BindingView,
    Candidate,
    ClusterView,
    Estimate,
    Options,
    Peers,
)

# Score of a cluster that already runs the binding.
LOCALITY = 100


class Ranking(Struct, frozen=True, eq=False):
    """Candidates in canonical order."""

    items: Sequence[Candidate]
    # Whether this is the shared ranking of all bindings without history, so that work on it can be shared too.
    shared: bool


class Estimator(Struct, frozen=True, eq=False):
    """Says how many further replicas (or sets) of one binding a cluster can take."""

    binding: BindingView
    options: Options
    accurate: Sequence[Estimate] = ()
    assumed: Mapping[str, Sequence[Assumed]] | None = None

    @property
    def counts_sets(self) -> bool:
        """Whether capacity is estimated in complete sets of components."""
        binding = self.binding
        return self.options.several_templates and bool(binding.components) and binding.placement.single_cluster

    @property
    def shareable(self) -> bool:
        """Whether the answers depend on nothing but the cluster and the demand."""
        return not self.accurate and not self.assumed and not self.binding.components

    def available(self, cluster: ClusterView) -> int:
        """Further replicas of a cluster, the least of what all estimators say; MAX_REPLICAS where none limits them."""
        binding = self.binding
        if binding.replicas == 0 and not binding.components:
            return MAX_REPLICAS
        assumed = self.assumed.get(cluster.name, ()) if self.assumed else ()
        models = self.options.resource_models
        if self.counts_sets:
            found = estimation.max_component_sets(cluster.capacity, binding.components, models, assumed)
        else:
            found = estimation.max_replicas(cluster.capacity, binding.demand, models, assumed)
        for answers in self.accurate:
            answer = answers.get(cluster.name, -1)
            if answer >= 0:
                found = min(found, answer)
        return binding.replicas if found >= MAX_REPLICAS else found


def rank(
    index: ClusterIndex, estimator: Estimator, observed: str, peers: Peers | None = None
) -> tuple[FilterTable, Ranking]:
    """Clusters that pass every filter, in canonical order."""
    binding = estimator.binding
    table = filter_table(index, binding, observed)
    if not estimator.shareable or peers is not None:
        return table, Ranking(_rank_alone(table, estimator, peers), shared=False)
    base = _shared_ranking(index, table, estimator)
    if not binding.clusters and not binding.evicting:
        return table, Ranking(base, shared=True)
    return table, Ranking(_with_history(base, table, estimator), shared=False)


def _shared_ranking(index: ClusterIndex, table: FilterTable, estimator: Estimator) -> tuple[Candidate, ...]:
    """Ranking for bindings that run nowhere yet; one per filter outcome and demand."""
    binding = estimator.binding
    # With no replicas nothing is estimated; otherwise the number matters only where nothing limits a cluster.
    key = ("ranking", table, binding.demand, binding.replicas > 0, estimator.options.resource_models)
    found = index.memo.get(key)
    if isinstance(found, tuple):
        return found
    items = _sorted(_candidate(cluster, table, estimator, {}) for cluster in table.passed)
    if binding.replicas == 0 or all(item.alloc != binding.replicas for item in items):
        index.memo.keep(key, items)
    return items


def _with_history(base: Sequence[Candidate], table: FilterTable, estimator: Estimator) -> Sequence[Candidate]:
    """The shared ranking with current targets moved up and evicted clusters taken out."""
    binding = estimator.binding
    own = {item.name: item.replicas for item in binding.clusters}
    moved = [
        _candidate(item.cluster, table, estimator, own)
        for item in base
        if item.name in own and item.name not in binding.evicting
    ]
    moved += [
        _candidate(table.kept_if_target[name], table, estimator, own)
        for name in own
        if name in table.kept_if_target and name not in binding.evicting
    ]
    rest = [item for item in base if item.name not in own and item.name not in binding.evicting]
    if len(table.tiers.matchers) > 1:
        return _sorted([*moved, *rest])
    return [*_sorted(moved), *rest]


def _rank_alone(table: FilterTable, estimator: Estimator, peers: Peers | None) -> tuple[Candidate, ...]:
    binding = estimator.binding
    own = {item.name: item.replicas for item in binding.clusters}
    clusters = [
        cluster
        for cluster in table.passed
        if cluster.name not in binding.evicting
        and (peers is None or cluster.name in own or not refused_by_peers(cluster.name, peers))
    ]
    clusters += [
        table.kept_if_target[name] for name in own if name in table.kept_if_target and name not in binding.evicting
    ]
    return _sorted(_candidate(cluster, table, estimator, own) for cluster in clusters)


def _candidate(cluster: ClusterView, table: FilterTable, estimator: Estimator, own: Mapping[str, int]) -> Candidate:
    name = cluster.name
    alloc = estimator.available(cluster)
    tier = table.tiers.tier(cluster) if len(table.tiers.matchers) > 1 else 0
    return Candidate(name, cluster, tier, LOCALITY if name in own else 0, alloc, alloc + own.get(name, 0))


def canonical(item: Candidate) -> tuple[int, int, int, str]:
    """Sort key of the canonical order."""
    return item.tier, -item.score, -item.avail, item.name


def _sorted(items: Iterable[Candidate]) -> tuple[Candidate, ...]:
    return tuple(sorted(items, key=canonical))
