"""Override policies: what a manifest becomes for one cluster (docs/sources.md#overrides).

`compile_policy` once per policy and change, `apply` once per object and cluster. Nothing that is passed in is changed;
the result shares what no overrider touched.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from schemas.manifest import Manifest
from services._rules.overrides.compile import OverridePolicy, compile_policy
from services._rules.overrides.override_errors import OverrideError, StepError
from services._rules.policies import matching as policy_match
from services._rules.policies.cluster_affinity import ClusterFacts

__all__ = ["Applied", "Overridden", "OverrideError", "OverridePolicy", "apply", "compile_policy"]


class Applied(Struct, frozen=True):
    """One rule that took part: the policy's name and the overriders as written in it."""

    policy_name: str
    overriders: Mapping[str, Any]


class Overridden(Struct, frozen=True):
    """The manifest for a cluster and the rules that made it, in order of application."""

    manifest: Manifest
    applied_cluster_overrides: tuple[Applied, ...]
    applied_overrides: tuple[Applied, ...]


def apply(
    manifest: Manifest,
    cluster: ClusterFacts,
    cluster_policies: Iterable[OverridePolicy],
    namespaced_policies: Iterable[OverridePolicy],
) -> Overridden:
    """Apply all policies that concern an object and a cluster; the first failing one ends it.

    Cluster-wide policies come first, in each group those that match less exactly, then by name. Policies of other
    namespaces are ignored. Raises OverrideError.
    """
    manifest, for_cluster = _apply_group(manifest, cluster, cluster_policies)
    namespace = (manifest.get("metadata") or {}).get("namespace")
    if not namespace:
        return Overridden(manifest, for_cluster, ())
    own = (policy for policy in namespaced_policies if policy.namespace == namespace)
    manifest, for_namespace = _apply_group(manifest, cluster, own)
    return Overridden(manifest, for_cluster, for_namespace)


def _apply_group(
    manifest: Manifest, cluster: ClusterFacts, policies: Iterable[OverridePolicy]
) -> tuple[Manifest, tuple[Applied, ...]]:
    """Apply the policies of one scope; which of them match is settled before the first one changes anything."""
    template = policy_match.template_of(manifest)
    ranked = [(rank, policy.name, policy) for policy in policies if (rank := policy.rank(template))]
    ranked.sort(key=lambda item: item[:2])
    applied: list[Applied] = []
    for _, name, policy in ranked:
        for number, rule in enumerate(policy.rules):
            if rule.clusters is not None and not rule.clusters(cluster):
                continue
            try:
                for step in rule.steps:
                    manifest = step(manifest)
            except StepError as problem:
                raise OverrideError(policy.title, number, problem.where, problem.reason) from None
            applied.append(Applied(name, rule.overriders))
    return manifest, tuple(applied)
