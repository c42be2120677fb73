"""Selects the propagation policy of a template: selectors, ranks, the winner.

Policies are compiled once, when they change; templates are matched many times. Sources: docs/sources.md#policies,
#binding-requests.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from typing import Any

from msgspec import Struct

from services._rules.kubernetes import selectors as label_selectors
from services._rules.kubernetes.selectors import LabelSelectorError, Matcher, Selector


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
    one_of: tuple[tuple[str, str], ...] = ()
    """Labels of which every match bears one; empty when that cannot be said."""

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


class SelectorSet(Struct, frozen=True):
    """All selectors of one policy, by what they require: with thousands a template is still matched at once.

    `named` holds apiVersion, kind, namespace (empty: any) and name, `whole` the same without a name.
    """

    named: frozenset[tuple[str, str, str, str]]
    whole: frozenset[tuple[str, str, str]]
    labelled: Mapping[tuple[str, str, str, str], tuple[ResourceSelector, ...]]
    """By apiVersion, kind and one label with its value."""
    others: Mapping[tuple[str, str], tuple[ResourceSelector, ...]]

    def names(self, template: Template, namespace: str) -> bool:
        """Whether a selector names the template and its namespace; one without a namespace means the given one."""
        found = (template.api_version, template.kind)
        if (*found, template.namespace, template.name) in self.named:
            return True
        return template.namespace == namespace and (*found, "", template.name) in self.named

    def rank(self, template: Template) -> Rank:
        """How exactly the best selector matches a template."""
        api_version, kind, namespace = template.api_version, template.kind, template.namespace
        named = self.named
        if (api_version, kind, namespace, template.name) in named or (api_version, kind, "", template.name) in named:
            return Rank.NAME
        if any(selector.rank(template) for selector in self._by_labels(template)):
            return Rank.LABELS
        whole = (api_version, kind, namespace) in self.whole or (api_version, kind, "") in self.whole
        return Rank.ALL if whole else Rank.NO_MATCH

    @property
    def reads_labels(self) -> bool:
        """Whether anything is selected by labels."""
        return bool(self.labelled or self.others)

    def kinds(self) -> set[tuple[str, str]]:
        """apiVersion and kind of everything that is selected."""
        found = {key[:2] for key in self.named} | {key[:2] for key in self.whole} | {key[:2] for key in self.labelled}
        return found | set(self.others)

    def _by_labels(self, template: Template) -> Iterator[ResourceSelector]:
        yield from self.others.get((template.api_version, template.kind), ())
        if self.labelled:
            for name, value in template.labels.items():
                yield from self.labelled.get((template.api_version, template.kind, name, value), ())


class Policy(Struct, frozen=True):
    """A propagation policy as matching sees it; the namespace is empty for a cluster-wide one."""

    name: str
    namespace: str
    priority: int
    preempts: bool
    terminating: bool
    selectors: SelectorSet

    def rank(self, template: Template) -> Rank:
        """How exactly the best selector matches a template."""
        return self.selectors.rank(template)


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
    compiled = None if labels is None or name else _label_selector(labels)
    return ResourceSelector(
        selector.get("apiVersion") or "",
        selector.get("kind") or "",
        selector.get("namespace") or "",
        name,
        None if compiled is None else compiled.matches,
        () if compiled is None else _one_of(compiled),
    )


def compile_selectors(selectors: Iterable[Mapping[str, Any]]) -> SelectorSet:
    """Compile all selectors of a policy."""
    named, whole = set(), set()
    labelled: dict[tuple[str, str, str, str], list[ResourceSelector]] = {}
    others: dict[tuple[str, str], list[ResourceSelector]] = {}
    for selector in map(compile_selector, selectors):
        kind = (selector.api_version, selector.kind)
        if selector.name:
            named.add((*kind, selector.namespace, selector.name))
        elif selector.labels is None:
            whole.add((*kind, selector.namespace))
        elif selector.one_of:
            for label in selector.one_of:
                labelled.setdefault((*kind, *label), []).append(selector)
        else:
            others.setdefault(kind, []).append(selector)
    return SelectorSet(
        frozenset(named),
        frozenset(whole),
        {key: tuple(found) for key, found in labelled.items()},
        {key: tuple(found) for key, found in others.items()},
    )


def compile_policy(manifest: Mapping[str, Any], selectors: SelectorSet | None = None) -> Policy:
    """Compile a PropagationPolicy or ClusterPropagationPolicy; its `selectors` may be compiled already."""
    metadata, spec = manifest.get("metadata") or {}, manifest.get("spec") or {}
    return Policy(
        name=metadata.get("name") or "",
        namespace=metadata.get("namespace") or "",
        priority=spec.get("priority") or 0,
        preempts=spec.get("preemption") == "Always",
        terminating=metadata.get("deletionTimestamp") is not None,
        selectors=compile_selectors(spec.get("resourceSelectors") or ()) if selectors is None else selectors,
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


def _precedes(order: tuple[int, int], policy: Policy, other_order: tuple[int, int], other: Policy) -> bool:
    """Whether one policy comes before another; equal priorities and ranks are settled by name, byte by byte."""
    return (*order, policy.name.encode()) < (*other_order, other.name.encode())


def _label_selector(selector: Mapping[str, Any]) -> Selector:
    try:
        return label_selectors.compile_selector(selector)
    except LabelSelectorError:
        return label_selectors.NOTHING


def _one_of(selector: Selector) -> tuple[tuple[str, str], ...]:
    """The values of the first label that has to have one of some."""
    first = next((item for item in selector.requirements if item.operator == "In"), None)
    return () if first is None else tuple((first.key, value) for value in first.values)
