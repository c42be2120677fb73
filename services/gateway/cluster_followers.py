"""Finds the bindings that are placed again whenever certain clusters change, though nothing may come of it.

Objects without replicas and Duplicated workloads follow the clusters that their placement names; the scheduler writes
nothing where its decision stays the same, so the time of such a run follows from the fact about the cluster
(docs/scheduling.md).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Raw, Struct, field

from schemas.keys import ObjectKey
from schemas.manifest import Manifest
from services._rules.policies.cluster_affinity import facts_of
from services._rules.scheduling.compiled_placement import CompiledPlacement, compile_placement
from services._rules.scheduling.shared_values import spec_of


class Followed(Struct, frozen=True):
    """The placement of objects that follow clusters; objects of one policy share it."""

    placement: CompiledPlacement
    workload: bool


_Group = tuple[CompiledPlacement, bool, str]


def followed_by(spec: Raw) -> Followed | None:
    """What an object with this binding's spec follows; None where clusters do not move it, or it is not scheduled."""
    try:
        found = spec_of(spec)
        placement = compile_placement(found.get("placement"))
    except (msgspec.MsgspecError, ValueError, TypeError):
        # The scheduler reports what is wrong with it.
        return None
    workload = bool(found.get("replicas") or found.get("replicaRequirements") or found.get("components"))
    suspended = (found.get("suspension") or {}).get("scheduling")
    if suspended or found.get("placement") is None or (workload and not placement.duplicated):
        return None
    return Followed(placement, workload)


class Followers(Struct):
    """Objects by what they follow: a cluster is compared once for all objects that share a placement."""

    groups: dict[_Group, dict[ObjectKey, None]] = field(default_factory=dict)
    filed: dict[ObjectKey, _Group] = field(default_factory=dict)

    def file(self, key: ObjectKey, followed: Followed | None, observed: str) -> None:
        """Take in what an object follows now; `observed` names the affinity term in force."""
        group = (followed.placement, followed.workload, _in_force(followed.placement, observed)) if followed else None
        before = self.filed.get(key)
        if before == group:
            return
        if before is not None:
            members = self.groups[before]
            del members[key], self.filed[key]
            if not members:
                del self.groups[before]
        if group is not None:
            self.filed[key] = group
            self.groups.setdefault(group, {})[key] = None

    def of(self, cluster: Manifest) -> Iterable[ObjectKey]:
        """The objects whose placement names a cluster as it is now."""
        facts = facts_of(cluster)
        for (placement, workload, term), members in self.groups.items():
            matchers = placement.tiers(term, workload).matchers[:1]
            if not matchers or matchers[0](facts):
                yield from members


def _in_force(placement: CompiledPlacement, observed: str) -> str:
    """The affinity term in force; the first where none or an unknown one was noted (docs/sources.md#scheduling)."""
    names = placement.affinity_names
    return observed if observed in names else next(iter(names), "")
