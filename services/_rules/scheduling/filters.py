"""Which clusters may run a binding at all, and what is said about the others (docs/sources.md#filters)."""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from services._rules.kubernetes.taints import Taint, first_untolerated, outstayed
from services._rules.scheduling.compiled_placement import Tiers
from services._rules.scheduling.index import ClusterIndex, replace_named
from services._rules.scheduling.plugin_set import (
    AFFINITY,
    APART,
    API,
    EVICTION,
    SPREAD,
    STANDARD_SET,
    TAINTS,
    TOGETHER,
    PluginSet,
)
from services._rules.scheduling.plugins.execution import outside_refusal
from services._rules.scheduling.scheduling_views import BindingView, ClusterView, Failure, Peers, Status

NO_MATCH = "cluster(s) did not match the placement cluster affinity constraint"
NO_API = "cluster(s) did not have the API resource"
EVICTING = "cluster(s) is in the process of eviction"
NO_PEER = "ResourceBinding with the same affinity group does not target this cluster"
REPELLED = "cluster already has workload with the same anti-affinity group"
_NONE: frozenset[str] = frozenset()
_MISSING = {
    "provider": "cluster(s) did not have provider property",
    "region": "cluster(s) did not have region property",
    "zone": "cluster(s) did not have zones property",
}


class FilterTable(Struct, frozen=True, eq=False):
    """Outcome of the filters that depend on the placement and the kind only, for one generation of clusters."""

    # What the outcome depends on besides the clusters.
    key: tuple[object, ...]
    # Clusters that pass, in name order.
    passed: tuple[ClusterView, ...]
    # Clusters that pass only for bindings that already run there.
    kept_if_target: Mapping[str, ClusterView]
    tiers: Tiers


def filter_table(
    index: ClusterIndex, binding: BindingView, observed: str, plugins: PluginSet = STANDARD_SET
) -> FilterTable:
    """Filter outcome for all bindings with this placement, kind and observed term; remembered by the index.

    What a binding's own state decides (evictions, peers, plugins of others) is not part of it.
    """
    workload = binding.workload
    names = plugins.names
    key = ("filters", binding.placement, binding.api, observed, workload, names)

    def make() -> FilterTable:
        tiers = binding.placement.tiers(observed, workload)
        verdicts = [(cluster, _verdict(cluster, binding, tiers, names)) for cluster in index.clusters]
        passed = tuple(cluster for cluster, verdict in verdicts if verdict == _PASSED)
        return FilterTable(
            key, passed, {cluster.name: cluster for cluster, verdict in verdicts if verdict == _KEPT}, tiers
        )

    def carry_over(table: FilterTable, changed: list[str]) -> FilterTable:
        passed, kept = table.passed, dict(table.kept_if_target)
        for name in changed:
            cluster = index.by_name.get(name)
            verdict = _REFUSED if cluster is None else _verdict(cluster, binding, table.tiers, names)
            passed = replace_named(passed, name, cluster if verdict == _PASSED else None)
            kept.pop(name, None)
            if cluster is not None and verdict == _KEPT:
                kept[name] = cluster
        return FilterTable(key, passed, kept, table.tiers)

    return index.remember(key, make, carry_over)


_REFUSED, _KEPT, _PASSED = range(3)


def _verdict(cluster: ClusterView, binding: BindingView, tiers: Tiers, names: frozenset[str]) -> int:
    """Whether a cluster passes, passes only where the binding runs already, or is refused."""
    if cluster.deleting or _firm_refusal(cluster, binding, tiers, names):
        return _REFUSED
    return _KEPT if _soft_refusal(cluster, binding, names) else _PASSED


def refusal(
    cluster: ClusterView,
    binding: BindingView,
    observed: str,
    peers: Peers | None = None,
    plugins: PluginSet = STANDARD_SET,
) -> tuple[str, str] | None:
    """Name of the first filter of the product that refuses a cluster and its reason, or None where all let it pass."""
    targets = {item.name for item in binding.clusters}
    tiers = binding.placement.tiers(observed, binding.workload)
    names = plugins.names
    found = _firm_refusal(cluster, binding, tiers, names)
    if found is None and cluster.name in binding.evicting and EVICTION in names:
        found = (EVICTION, EVICTING)
    if found is None and cluster.name not in targets:
        found = _soft_refusal(cluster, binding, names)
        if found is None and TAINTS in names and (taint := binding.outstayed.get(cluster.name)) is not None:
            found = _untolerated(taint)
        if found is None and peers is not None:
            found = _peer_refusal(cluster.name, peers)
    return found


def barred(binding: BindingView, plugins: PluginSet) -> frozenset[str]:
    """Clusters that pass for other bindings of this placement, and that this one must not come to.

    Those that it is leaving, and those where it would not be tolerated any more.
    """
    found = binding.evicting if EVICTION in plugins.names else _NONE
    if binding.outstayed and TAINTS in plugins.names:
        found |= binding.outstayed.keys() - {item.name for item in binding.clusters}
    return found


def at_moment(index: ClusterIndex, binding: BindingView, now: datetime) -> BindingView:
    """The binding with the clusters where its tolerations have run out.

    Raises ValueError for a taint whose `timeAdded` is no time. Source: docs/sources.md#failover.
    """
    tolerations = binding.placement.tolerations
    if all(item.toleration_seconds is None for item in tolerations):
        return binding
    over = ((cluster.name, outstayed(cluster.taints, tolerations, now)) for cluster in index.clusters if cluster.taints)
    return replace(binding, outstayed={name: taint for name, taint in over if taint is not None})


def _firm_refusal(
    cluster: ClusterView, binding: BindingView, tiers: Tiers, names: frozenset[str]
) -> tuple[str, str] | None:
    """Filters that hold for current targets too."""
    if tiers.matchers and AFFINITY in names and not any(matcher(cluster) for matcher in tiers.matchers):
        return AFFINITY, NO_MATCH
    for name in binding.placement.needs_property if SPREAD in names else ():
        if not (cluster.zones if name == "zone" else cluster.region if name == "region" else cluster.provider):
            return SPREAD, _MISSING[name]
    return None


def _soft_refusal(cluster: ClusterView, binding: BindingView, names: frozenset[str]) -> tuple[str, str] | None:
    """Filters that clusters already in the target list bypass."""
    if binding.api not in cluster.apis and API in names:
        return API, NO_API
    if cluster.taints and TAINTS in names:
        taint = first_untolerated(cluster.taints, binding.placement.tolerations)
        if taint is not None:
            return _untolerated(taint)
    return None


def _untolerated(taint: Taint) -> tuple[str, str]:
    return TAINTS, f"cluster(s) had untolerated taint {{{taint}}}"


def _peer_refusal(name: str, peers: Peers) -> tuple[str, str] | None:
    if any(name not in targets for targets in peers.together):
        return TOGETHER, NO_PEER
    if name in peers.apart:
        return APART, REPELLED
    return None


def refused_by_peers(name: str, peers: Peers) -> bool:
    """Whether workloads of the same groups keep a binding off a cluster where it does not run yet."""
    return _peer_refusal(name, peers) is not None


def diagnosis(
    index: ClusterIndex,
    binding: BindingView,
    status: Status,
    peers: Peers | None = None,
    plugins: PluginSet = STANDARD_SET,
) -> dict[str, tuple[str, tuple[str, ...]]]:
    """For every live cluster that is refused: the filter and its reasons.

    Plugins of others are asked last; raises Failure where one does not answer.
    """
    found: dict[str, tuple[str, tuple[str, ...]]] = {}
    admitted: frozenset[str] = _NONE
    if peers is None and not plugins.outside and not barred(binding, plugins):
        # Nothing of the binding's own keeps it off a cluster: what the remembered table lets pass need not be asked.
        table = filter_table(index, binding, status.observed_affinity, plugins)
        admitted = frozenset(cluster.name for cluster in table.passed)
    for cluster in index.clusters:
        if cluster.deleting or cluster.name in admitted:
            continue
        if refused := refusal(cluster, binding, status.observed_affinity, peers, plugins):
            found[cluster.name] = refused[0], (refused[1],)
        elif plugins.outside and (turned_down := outside_refusal(plugins, binding, status, cluster, peers)):
            found[cluster.name] = turned_down
    return found


def fit_error(
    index: ClusterIndex,
    binding: BindingView,
    status: Status,
    peers: Peers | None = None,
    plugins: PluginSet = STANDARD_SET,
) -> Failure:
    """The failure that names how many clusters were refused for which reason."""
    refused = diagnosis(index, binding, status, peers, plugins)
    counts = Counter(reason for _, reasons in refused.values() for reason in reasons)
    total = len(index.clusters)
    if not counts:
        reasons = "no cluster exists"
    else:
        reasons = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
    return Failure("FitError", f"0/{total} clusters are available: {reasons}.")
