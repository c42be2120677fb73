"""Selects the propagation policy of a template: selectors, ranks, the winner, preemption, affinity groups.

Policies are compiled once, when they change; templates are matched many times. Sources: docs/sources.md#policies,
#binding-requests.
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any

from msgspec import Struct

from services._rules.kubernetes import selectors
from services._rules.kubernetes.selectors import LabelSelectorError, Matcher


class Rank(IntEnum):
    """How exactly a selector matches."""

    NO_MATCH = 0
    ALL = 1
    LABELS = 2
    NAME = 3


class Template(Struct, frozen=True):
    """What selectors match; the namespace is empty for a cluster-scoped object."""

    api_version: str
    kind: str
    namespace: str
    name: str
    labels: Mapping[str, str]


class ResourceSelector(Struct, frozen=True):
    """One compiled selector of a policy."""

    api_version: str
    kind: str
    namespace: str
    name: str
    labels: Matcher | None

    def rank(self, template: Template) -> Rank:
        """How exactly a template is matched."""
        if self.api_version != template.api_version or self.kind != template.kind:
            return Rank.NO_MATCH
        if self.namespace and self.namespace != template.namespace:
            return Rank.NO_MATCH
        if self.name:
            return Rank.NAME if self.name == template.name else Rank.NO_MATCH
        if self.labels is None:
            return Rank.ALL
        return Rank.LABELS if self.labels(template.labels) else Rank.NO_MATCH


class Policy(Struct, frozen=True):
    """A propagation policy as matching sees it; the namespace is empty for a cluster-wide one."""

    name: str
    namespace: str
    priority: int
    preempts: bool
    terminating: bool
    selectors: tuple[ResourceSelector, ...]

    def rank(self, template: Template) -> Rank:
        """How exactly the best selector matches a template."""
        return best_rank(self.selectors, template)


def template_of(manifest: Mapping[str, Any]) -> Template:
    """The part of a manifest that selectors match."""
    metadata = manifest.get("metadata") or {}
    return Template(
        manifest.get("apiVersion") or "",
        manifest.get("kind") or "",
        metadata.get("namespace") or "",
        metadata.get("name") or "",
        metadata.get("labels") or {},
    )


def compile_selector(selector: Mapping[str, Any]) -> ResourceSelector:
    """Compile one resource selector; a broken label selector matches nothing."""
    labels = selector.get("labelSelector")
    name = selector.get("name") or ""
    return ResourceSelector(
        selector.get("apiVersion") or "",
        selector.get("kind") or "",
        selector.get("namespace") or "",
        name,
        None if labels is None or name else _label_matcher(labels),
    )


def compile_policy(manifest: Mapping[str, Any]) -> Policy:
    """Compile a PropagationPolicy or ClusterPropagationPolicy."""
    metadata, spec = manifest.get("metadata") or {}, manifest.get("spec") or {}
    return Policy(
        name=metadata.get("name") or "",
        namespace=metadata.get("namespace") or "",
        priority=spec.get("priority") or 0,
        preempts=spec.get("preemption") == "Always",
        terminating=metadata.get("deletionTimestamp") is not None,
        selectors=tuple(compile_selector(item) for item in spec.get("resourceSelectors") or ()),
    )


def best_rank(candidates: Iterable[ResourceSelector], template: Template) -> Rank:
    """The highest rank that any selector gives a template."""
    best = Rank.NO_MATCH
    for selector in candidates:
        rank = selector.rank(template)
        if rank is Rank.NAME:
            return rank
        best = max(best, rank)
    return best


def best_policy(policies: Iterable[Policy], template: Template) -> Policy | None:
    """The policy that wins among those of one scope: explicit priority, then rank, then the smaller name."""
    winner: Policy | None = None
    winning = Rank.NO_MATCH
    for policy in policies:
        if policy.terminating or (winner is not None and policy.priority < winner.priority):
            continue
        rank = policy.rank(template)
        if rank is Rank.NO_MATCH:
            continue
        if winner is None or _precedes((-policy.priority, -rank), policy, (-winner.priority, -winning), winner):
            winner, winning = policy, rank
    return winner


def match_policy(template: Template, namespaced: Iterable[Policy], cluster_wide: Iterable[Policy]) -> Policy | None:
    """The policy that gets an unclaimed template; any namespaced match beats every cluster-wide one."""
    if template.namespace:
        own = (policy for policy in namespaced if policy.namespace == template.namespace)
        winner = best_policy(own, template)
        if winner is not None:
            return winner
    return best_policy(cluster_wide, template)


def may_preempt(policy: Policy, holder: Policy) -> bool:
    """Whether a policy may take a template that another policy has claimed.

    A namespaced policy always takes from a cluster-wide one and never the reverse; otherwise priority must be higher.
    """
    if not policy.preempts:
        return False
    if bool(policy.namespace) != bool(holder.namespace):
        return bool(policy.namespace)
    return policy.priority > holder.priority


def requeued_after_priority_drop(policies: Iterable[Policy], old: int, new: int) -> list[Policy]:
    """Policies of the same scope that may now preempt one whose priority fell from old to new, highest first."""
    between = [policy for policy in policies if policy.preempts and new < policy.priority < old]
    return sorted(between, key=lambda policy: -policy.priority)


def _precedes(order: tuple[int, int], policy: Policy, other_order: tuple[int, int], other: Policy) -> bool:
    """Whether one policy comes before another; equal priorities and ranks are settled by name, byte by byte."""
    return (*order, policy.name.encode()) < (*other_order, other.name.encode())


def _label_matcher(selector: Mapping[str, Any]) -> Matcher:
    try:
        return selectors.compile_selector(selector).matches
    except LabelSelectorError:
        return selectors.NOTHING.matches
