"""Applies ClusterTaintPolicies: which taints the conditions of a cluster add and remove.

Source: docs/sources.md#taint-policies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from schemas.manifest import Manifest
from services._rules.policies.cluster_affinity import ClusterFacts, affinity_of, compile_affinity, facts_of


def conditions_match(conditions: Sequence[Mapping[str, Any]], wanted: Sequence[Mapping[str, Any]]) -> bool:
    """Whether all of a policy's condition entries hold; none at all, and one of an absent condition, never do."""
    status = {condition.get("type"): condition.get("status") for condition in conditions}
    return bool(wanted) and all(_holds(status, entry) for entry in wanted)


def _holds(status: Mapping[Any, Any], entry: Mapping[str, Any]) -> bool:
    kind = entry.get("conditionType")
    if kind not in status:
        return False
    listed = status[kind] in (entry.get("statusValues") or ())
    match entry.get("operator"):
        case "In":
            return listed
        case "NotIn":
            return not listed
        case _:
            return False


def _same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return one.get("key") == other.get("key") and one.get("effect") == other.get("effect")


def add_taints(taints: Sequence[Manifest], added: Sequence[Manifest], now: str) -> list[Manifest]:
    """The taints with `added` ones that are not there yet by key and effect, stamped with `now` (RFC 3339)."""
    result = list(taints)
    for taint in added:
        if not any(_same(taint, present) for present in result):
            result.append({**taint, "timeAdded": now})
    return result


def remove_taints(taints: Sequence[Manifest], removed: Sequence[Manifest]) -> list[Manifest]:
    """The taints without those whose key and effect are named, regardless of their origin."""
    return [taint for taint in taints if not any(_same(taint, gone) for gone in removed)]


def apply_policies(cluster: Manifest, policies: Sequence[Manifest], now: str) -> list[Manifest]:
    """The taints of a Cluster object after all policies: the oldest first, in each of them adding before removing."""
    taints: list[Manifest] = list((cluster.get("spec") or {}).get("taints") or ())
    conditions = (cluster.get("status") or {}).get("conditions") or ()
    if not policies:
        return taints
    facts = facts_of(cluster)
    for policy in sorted(policies, key=_age):
        spec = policy.get("spec") or {}
        if not _targets(spec, facts):
            continue
        named = spec.get("taints") or ()
        if conditions_match(conditions, spec.get("addOnConditions") or ()):
            taints = add_taints(taints, named, now)
        if conditions_match(conditions, spec.get("removeOnConditions") or ()):
            taints = remove_taints(taints, named)
    return taints


def _age(policy: Manifest) -> tuple[str, str]:
    metadata = policy.get("metadata") or {}
    return str(metadata.get("creationTimestamp") or ""), str(metadata.get("name") or "")


def _targets(spec: Mapping[str, Any], facts: ClusterFacts) -> bool:
    affinity = spec.get("targetClusters")
    if affinity is None:
        return True
    try:
        return compile_affinity(affinity_of(affinity))(facts)
    except msgspec.ValidationError:
        # What admission should have refused targets nothing rather than everything.
        return False
