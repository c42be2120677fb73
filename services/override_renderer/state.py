"""Projects the input of rendering (templates, bindings, placements, evictions, policies, clusters) and the works."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Struct, field

from schemas.codec import Known
from schemas.events.binding import BindingReleased, BindingRequested
from schemas.events.cluster import ClusterChanged, ClusterRemoved
from schemas.events.endpoints import EndpointsCollected, EndpointsReleased
from schemas.events.policy import PolicyChanged, PolicyDeleted
from schemas.events.template import TemplateChanged
from schemas.events.work import WorkEvent, WorkRendered, WorkWithdrawn
from schemas.hints import Purged
from schemas.keys import ObjectKey, PolicyKey
from schemas.manifest import Manifest
from schemas.subjects import work
from services._rules.constants import MULTI_CLUSTER_SERVICE
from services._rules.delivery.cluster_works import remembered
from services._rules.facets import ObjectFacets, ObjectStates, is_of_facet
from services._rules.history.retention import all_closed
from services._rules.overrides import OverridePolicy, compile_policy
from services._rules.policies.cluster_affinity import ClusterFacts, facts_of
from services._rules.quota.specification import KIND as QUOTA_KIND
from services._rules.quota.specification import QUOTAS, FederatedQuota, read_quota
from services.override_renderer.service_input import ServiceInput

OVERRIDE_KINDS = frozenset({"OverridePolicy", "ClusterOverridePolicy"})


class Bound(ObjectFacets):
    """Every facet of one object with the position of its last event, and its works by cluster."""

    works: dict[str, tuple[WorkEvent, int]] = field(default_factory=dict)

    @property
    def live(self) -> bool:
        """Whether some facet still asks for something or some cluster still holds something."""
        return isinstance(self.binding, BindingRequested) or any(
            isinstance(work, WorkRendered) for work, _ in self.works.values()
        )

    @property
    def ended(self) -> bool:
        """Whether every facet and every work is closed."""
        return super().ended and all_closed(*(work for work, _ in self.works.values()))


class Member(Struct, frozen=True):
    """One cluster as overrides see it."""

    manifest: Manifest
    facts: ClusterFacts
    deleting: bool

    def same(self, other: Member | None) -> bool:
        """Whether no override can distinguish this cluster from the other."""
        return other is not None and self.manifest == other.manifest and self.deleting == other.deleting


class RendererState(ObjectStates[Bound]):
    """The projection of the override renderer."""

    kind = Bound
    clusters: dict[str, Member] = field(default_factory=dict)
    policies: dict[PolicyKey, tuple[OverridePolicy, int]] = field(default_factory=dict)
    problems: dict[PolicyKey, str] = field(default_factory=dict)
    everywhere: set[ObjectKey] = field(default_factory=set)
    quotas: dict[ObjectKey, FederatedQuota] = field(default_factory=dict)
    """FederatedResourceQuotas with shares of clusters, by the object that those clusters get."""
    services: ServiceInput = field(default_factory=ServiceInput)

    def forget(self, purged: Purged) -> None:
        """Drop what is gone from the log, unless newer facts of it exist."""
        for key, bound in self.drop(purged):
            self.everywhere.discard(key)
            for cluster in bound.works:
                self.subjects.pop(work(cluster, key), None)
            if key in self.quotas:
                # It is asked for again once a cluster with a share joins.
                self.of(key)
        for key in self.services.wanted_keys():
            self.of(key)
        for name in purged.clusters:
            if name not in self.clusters:
                for key, bound in self.objects.items():
                    if name in bound.works and all_closed(bound.works[name][0]):
                        del bound.works[name]
                        self.subjects.pop(work(name, key), None)


def fold(state: RendererState, seq: int, subject: str, event: Known) -> Iterable[ObjectKey]:
    """Apply one fact and name the objects whose works may change by it."""
    if is_of_facet(event):
        state.take(seq, subject, event)
        if isinstance(event, BindingRequested) and event.everywhere:
            state.everywhere.add(event.key)
        elif isinstance(event, BindingRequested | BindingReleased):
            state.everywhere.discard(event.key)
        return (event.key, *state.follow(event.key))
    match event:
        case WorkRendered() | WorkWithdrawn():
            state.subjects[subject] = seq
            state.of(event.key).works[event.cluster] = (remembered(event, manifest=False), seq)
            return ()
        case ClusterChanged():
            return [*_cluster_changed(state, event), *_mentioned(state, state.services.met(event))]
        case ClusterRemoved():
            state.clusters.pop(event.name, None)
            touched = _mentioned(state, state.services.met(event))
            return [*state.everywhere, *_holding(state, event.name), *touched]
        case EndpointsCollected() | EndpointsReleased():
            touched = state.services.collected(event)
            return _mentioned(state, [key for key in touched if key in state.objects or state.services.wants(key)])
        case PolicyChanged() | PolicyDeleted():
            return _policy_changed(state, seq, event)
        case _:
            return ()


def _mentioned(state: RendererState, keys: Iterable[ObjectKey]) -> Iterable[ObjectKey]:
    """Keys of works that no facet names, made known."""
    for key in keys:
        state.of(key)
    return keys


def _holding(state: RendererState, cluster: str) -> list[ObjectKey]:
    return [key for key, bound in state.objects.items() if cluster in bound.works or bound.runs_in(cluster)]


def _assigned(state: RendererState, cluster: str) -> list[ObjectKey]:
    return [key for key, quota in state.quotas.items() if any(item.cluster == cluster for item in quota.assignments)]


def _quota_changed(state: RendererState, event: PolicyChanged | PolicyDeleted) -> Iterable[ObjectKey]:
    key = ObjectKey("", QUOTAS, event.key.namespace, event.key.name)
    before = state.quotas.pop(key, None)
    if isinstance(event, PolicyChanged):
        quota = read_quota(event.key.namespace, event.key.name, event.uid, event.manifest)
        if quota.assignments:
            state.quotas[key] = quota
    if before is None and key not in state.quotas:
        return ()
    state.of(key)
    return (key,)


def _cluster_changed(state: RendererState, event: ClusterChanged) -> Iterable[ObjectKey]:
    before = state.clusters.get(event.name)
    manifest: Manifest = msgspec.json.decode(event.manifest)
    # Capacity moves often and no override can see it.
    manifest.pop("status", None)
    member = Member(manifest, facts_of(manifest), event.deleting)
    if member.same(before):
        return ()
    state.clusters[event.name] = member
    if before is None or before.deleting != member.deleting:
        return [*state.everywhere, *_holding(state, event.name), *_assigned(state, event.name)]
    return _holding(state, event.name) if state.policies else ()


def _policy_changed(state: RendererState, seq: int, event: PolicyChanged | PolicyDeleted) -> Iterable[ObjectKey]:
    key = event.key
    if key.kind == QUOTA_KIND:
        return _quota_changed(state, event)
    if key.kind == MULTI_CLUSTER_SERVICE:
        return _mentioned(state, state.services.changed(event))
    if key.kind not in OVERRIDE_KINDS:
        return ()
    affected: set[ObjectKey] = set()
    before = state.policies.pop(key, None)
    if before is not None:
        affected.update(_selected(state, key, before[0]))
    if isinstance(event, PolicyChanged):
        compiled = compile_policy(msgspec.json.decode(event.manifest))
        state.policies[key] = (compiled, seq)
        affected.update(_selected(state, key, compiled))
    return affected


def _selected(state: RendererState, key: PolicyKey, policy: OverridePolicy) -> Iterable[ObjectKey]:
    """Objects a policy may concern: those of its namespace (all for a cluster-wide one) whose kind it names."""
    for object_key, bound in state.objects.items():
        if key.namespace and object_key.namespace != key.namespace:
            continue
        template = bound.template
        if isinstance(template, TemplateChanged) and concerns(policy, template.api_version, template.kind):
            yield object_key


def concerns(policy: OverridePolicy, api_version: str, kind: str) -> bool:
    """Whether a policy may match objects of a kind at all."""
    return not policy.selectors or any(
        selector.api_version == api_version and selector.kind == kind for selector in policy.selectors
    )
