"""Which clusters may run a binding at all, and what is said about the others (reference 02 §2.4)."""

from collections import Counter
from collections.abc import Mapping

from msgspec import Struct

from services._rules.scheduling.index import ClusterIndex, replace_named
from services._rules.scheduling.model import BindingView, ClusterView, Failure, Peers
from services._rules.scheduling.placement import Tiers
from services._rules.taints import first_untolerated

NO_MATCH = "cluster(s) did not match the placement cluster affinity constraint"
NO_API = "cluster(s) did not have the API resource"
EVICTING = "cluster(s) is in the process of eviction"
NO_PEER = "ResourceBinding with the same affinity group does not target this cluster"
REPELLED = "cluster already has workload with the same anti-affinity group"
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


def filter_table(index: ClusterIndex, binding: BindingView, observed: str) -> FilterTable:
    """Filter outcome for all bindings with this placement, kind and observed term; remembered by the index."""
    workload = binding.workload
    key = ("filters", binding.placement, binding.api, observed, workload)

    def make() -> FilterTable:
        tiers = binding.placement.tiers(observed, workload)
        verdicts = [(cluster, _verdict(cluster, binding, tiers)) for cluster in index.clusters]
        passed = tuple(cluster for cluster, verdict in verdicts if verdict == _PASSED)
        return FilterTable(
            key, passed, {cluster.name: cluster for cluster, verdict in verdicts if verdict == _KEPT}, tiers
        )

    def carry_over(table: FilterTable, changed: list[str]) -> FilterTable:
        passed, kept = table.passed, dict(table.kept_if_target)
        for name in changed:
            cluster = index.by_name.get(name)
            verdict = _REFUSED if cluster is None else _verdict(cluster, binding, table.tiers)
            passed = replace_named(passed, name, cluster if verdict == _PASSED else None)
            kept.pop(name, None)
            if cluster is not None and verdict == _KEPT:
                kept[name] = cluster
        return FilterTable(key, passed, kept, table.tiers)

    return index.remember(key, make, carry_over)


_REFUSED, _KEPT, _PASSED = range(3)


def _verdict(cluster: ClusterView, binding: BindingView, tiers: Tiers) -> int:
    """Whether a cluster passes, passes only where the binding runs already, or is refused."""
    if cluster.deleting or _firm_refusal(cluster, binding, tiers):
        return _REFUSED
    return _KEPT if _soft_refusal(cluster, binding) else _PASSED


def refusal(
    cluster: ClusterView, binding: BindingView, observed: str, peers: Peers | None = None
) -> tuple[str, str] | None:
    """Name of the first filter that refuses a cluster and its reason, or None where all let it pass."""
    targets = {item.name for item in binding.clusters}
    found = _firm_refusal(cluster, binding, binding.placement.tiers(observed, binding.workload))
    if found is None and cluster.name in binding.evicting:
        found = ("ClusterEviction", EVICTING)
    if found is None and cluster.name not in targets:
        found = _soft_refusal(cluster, binding) or (_peer_refusal(cluster.name, peers) if peers else None)
    return found


def _firm_refusal(cluster: ClusterView, binding: BindingView, tiers: Tiers) -> tuple[str, str] | None:
    """Filters that hold for current targets too."""
    if tiers.matchers and not any(matcher(cluster) for matcher in tiers.matchers):
        return "ClusterAffinity", NO_MATCH
    for name in binding.placement.needs_property:
        if not (cluster.zones if name == "zone" else cluster.region if name == "region" else cluster.provider):
            return "SpreadConstraint", _MISSING[name]
    return None


def _soft_refusal(cluster: ClusterView, binding: BindingView) -> tuple[str, str] | None:
    """Filters that clusters already in the target list bypass."""
    if binding.api not in cluster.apis:
        return "APIEnablement", NO_API
    if cluster.taints:
        taint = first_untolerated(cluster.taints, binding.placement.tolerations)
        if taint is not None:
            return "TaintToleration", f"cluster(s) had untolerated taint {{{taint}}}"
    return None


def _peer_refusal(name: str, peers: Peers) -> tuple[str, str] | None:
    if any(name not in targets for targets in peers.together):
        return "WorkloadAffinity", NO_PEER
    if name in peers.apart:
        return "WorkloadAntiAffinity", REPELLED
    return None


def refused_by_peers(name: str, peers: Peers) -> bool:
    """Whether workloads of the same groups keep a binding off a cluster where it does not run yet."""
    return _peer_refusal(name, peers) is not None


def diagnosis(
    index: ClusterIndex, binding: BindingView, observed: str, peers: Peers | None = None
) -> dict[str, tuple[str, str]]:
    """For every live cluster that is refused: the filter and its reason."""
    found = {}
    for cluster in index.clusters:
        if not cluster.deleting and (reason := refusal(cluster, binding, observed, peers)):
            found[cluster.name] = reason
    return found


def fit_error(index: ClusterIndex, binding: BindingView, observed: str, peers: Peers | None = None) -> Failure:
    """The failure that names how many clusters were refused for which reason."""
    counts = Counter(reason for _, reason in diagnosis(index, binding, observed, peers).values())
    total = len(index.clusters)
    if not counts:
        reasons = "no cluster exists"
    else:
        reasons = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
    return Failure("FitError", f"0/{total} clusters are available: {reasons}.")
