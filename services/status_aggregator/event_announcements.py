"""Builds Kubernetes Events about facts, on the template, its binding and its works (docs/sources.md#events)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from schemas.codec import Known
from schemas.events.binding import BindingRequested
from schemas.events.descheduling import ReplicasDescheduled
from schemas.events.eviction import EvictionEvent, EvictionFinished, EvictionRequested
from schemas.events.observed import WorkObserved
from schemas.events.placement import PlacementDecided, PlacementFailed
from schemas.events.rollup import StatusRolledUp
from schemas.events.work import WorkRendered
from schemas.keys import ObjectKey
from services._rules import involved_objects as involved
from services._rules.constants import MULTI_CLUSTER_SERVICE
from services._rules.kubernetes.event_objects import Involved, Note, note_about
from services._rules.names import namespaced_key
from services._rules.scheduling.descheduling import descheduled_words
from services._rules.scheduling.division.weights import TargetCluster as Share
from services._rules.scheduling.outcome import success_event
from services.status_aggregator.copy_announcements import about_observation, about_rendering
from services.status_aggregator.failure_events import REASON, uncounted_words
from services.status_aggregator.state import AggregatorState, Copy

_MOST_KEYS = 2000
_DETECTOR: Final = "resource-detector"


class Early:
    """Observations that came before the binding they belong to, by object: the streams have no common order.

    There is no Event about them yet; the oldest objects are dropped first when there are too many."""

    def __init__(self) -> None:
        self._kept: dict[ObjectKey, list[WorkObserved]] = {}

    def keep(self, event: WorkObserved) -> None:
        """Hold an observation until the binding of its object is known."""
        self._kept.setdefault(event.key, []).append(event)
        while len(self._kept) > _MOST_KEYS:
            del self._kept[next(iter(self._kept))]

    def take(self, key: ObjectKey, uid: str) -> list[WorkObserved]:
        """What was held for the object of this uid, oldest first; anything about an earlier one is dropped."""
        return [event for event in self._kept.pop(key, ()) if event.uid == uid]


class Before(Struct, frozen=True):
    """What was known of one copy before a fact was folded: its work and the last report, of whatever uid."""

    work: Copy | None = None
    observed: WorkObserved | None = None


NOTHING_BEFORE: Final = Before()


def before(state: AggregatorState, event: Known) -> Before:
    """What a fact is compared with to tell what is new about it; taken before the fact is folded."""
    if not isinstance(event, WorkRendered | WorkObserved):
        return NOTHING_BEFORE
    reported = state.objects.get(event.key)
    if reported is None:
        return NOTHING_BEFORE
    seen = reported.observed.get(event.cluster)
    return Before(reported.works.get(event.cluster), seen[0] if seen is not None else None)


def announce(state: AggregatorState, event: Known, known: Before = NOTHING_BEFORE) -> Sequence[Note]:
    """The Events that a fact is worth; `state` already holds the fact."""
    match event:
        case BindingRequested() if event.policy is not None and event.policy.key.kind != MULTI_CLUSTER_SERVICE:
            return _requested(event)
        case PlacementDecided() | PlacementFailed():
            binding = _binding(state, event.key, event.uid)
            return _placed(binding, event) if binding is not None else ()
        case EvictionRequested() | EvictionFinished():
            binding = _binding(state, event.key, event.uid)
            return _evicted(binding, event) if binding is not None else ()
        case ReplicasDescheduled():
            binding = _binding(state, event.key, event.uid)
            message = descheduled_words(event)
            if binding is None or not message:
                return ()
            return _both(binding, "DescheduleBindingSucceed", message, "karmada-descheduler")
        case WorkRendered():
            binding = _binding(state, event.key, event.uid)
            return about_rendering(binding, event, known.work) if binding is not None else ()
        case WorkObserved():
            binding = _binding(state, event.key, event.uid)
            if binding is None:
                return ()
            copy = state.objects[event.key].works.get(event.cluster)
            return about_observation(binding, event, known.observed, copy)
        case StatusRolledUp() if not event.closed:
            binding = _binding(state, event.key, event.uid)
            return _summed(binding, event) if binding is not None and not binding.everywhere else ()
        case _:
            return ()


def _requested(event: BindingRequested) -> list[Note]:
    assert event.policy is not None
    template = _template(event)
    policy = event.policy.key
    name = namespaced_key(policy.namespace, policy.name)
    notes = [note_about(template, "ApplyPolicySucceed", f"Apply policy({name}) succeed", _DETECTOR)]
    if event.workload:
        several = b'"components":[' in bytes(event.spec)
        reason, what = ("GetComponentsSucceed", "components") if several else ("GetReplicasSucceed", "replicas")
        message = f"Get {what} of {involved.title(template)} succeed"
        if not several:
            message = f"{message}: {event.replicas}"
        notes.append(note_about(template, reason, message, _DETECTOR))
    return notes


def _placed(binding: BindingRequested, event: PlacementDecided | PlacementFailed) -> list[Note]:
    if isinstance(event, PlacementFailed):
        return _both(binding, "ScheduleBindingFailed", event.message, event.scheduler, warning=True)
    targets = [Share(target.name, target.replicas or 0) for target in event.clusters]
    message = success_event(targets, cluster_scoped=not event.key.namespace)
    return _both(binding, "ScheduleBindingSucceed", message, event.scheduler)


def _evicted(binding: BindingRequested, event: EvictionEvent) -> list[Note]:
    component = f"{_prefix(binding)}-graceful-eviction-controller"
    notes: list[Note] = []
    for cluster in event.left:
        message = f"Evict from cluster {cluster} succeed."
        notes += _both(binding, "EvictWorkloadFromClusterSucceed", message, component)
    for waiting in event.postponed if isinstance(event, EvictionRequested) else ():
        message = f"Evict from cluster {waiting.cluster} failed, and is tried again: {waiting.reason}."
        notes += _both(binding, "EvictWorkloadFromClusterFailed", message, component, warning=True)
    return notes


def _summed(binding: BindingRequested, event: StatusRolledUp) -> list[Note]:
    component = f"{_prefix(binding)}-status-controller"
    uncounted = [item for item in event.items if item.problem]
    if uncounted:
        return _both(binding, REASON, uncounted_words(uncounted), component, warning=True)
    message = f"Update {involved.title(_shown(binding))} with AggregatedStatus successfully."
    return _both(binding, "AggregateStatusSucceed", message, component)


def _prefix(binding: BindingRequested) -> str:
    return "resource-binding" if binding.key.namespace else "cluster-resource-binding"


def bound(state: AggregatorState, event: WorkObserved) -> bool:
    """Whether the binding that an observation belongs to is known, or the quota."""
    return event.key in state.limited.quotas or _binding(state, event.key, event.uid) is not None


def _binding(state: AggregatorState, key: ObjectKey, uid: str) -> BindingRequested | None:
    reported = state.objects.get(key)
    binding = reported.binding if reported is not None else None
    return binding if isinstance(binding, BindingRequested) and binding.uid == uid else None


def _template(binding: BindingRequested) -> Involved:
    return involved.template_of(binding.key, binding.uid, binding.api_version, binding.kind)


def _shown(binding: BindingRequested) -> Involved:
    return involved.binding_of(binding.key, binding.uid, binding.kind)


def _both(binding: BindingRequested, reason: str, message: str, component: str, *, warning: bool = False) -> list[Note]:
    """The same Event on the binding and on the template."""
    return [
        note_about(about, reason, message, component, warning=warning)
        for about in (_shown(binding), _template(binding))
    ]
