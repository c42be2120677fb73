"""Builds Kubernetes Events about facts, on the template they concern (docs/sources.md#events)."""

from __future__ import annotations

import re
from typing import Final

from schemas.codec import Known
from schemas.events.binding import BindingRequested
from schemas.events.descheduling import ReplicasDescheduled
from schemas.events.eviction import EvictionFinished, EvictionRequested
from schemas.events.observed import WorkObserved
from schemas.events.placement import PlacementDecided, PlacementFailed
from schemas.events.rollup import StatusRolledUp
from schemas.events.work import WorkRendered
from schemas.keys import ObjectKey
from services._kit.delivery.reports import LEAVING
from services._rules.delivery.drift import drift_words
from services._rules.kubernetes.event_objects import Note
from services._rules.names import binding_name, namespaced_key
from services._rules.scheduling.descheduling import descheduled_words
from services._rules.scheduling.division.weights import TargetCluster as Share
from services._rules.scheduling.outcome import success_event
from services.status_aggregator.failure_events import COMPONENT, REASON, uncounted_words
from services.status_aggregator.state import AggregatorState

# As services/_rules/overrides/override_errors.py writes them.
_FAILED_OVERRIDE: Final = re.compile(r"(?P<cluster>Cluster)?OverridePolicy (?P<name>[^\s:]+): overrideRules\[")
_MOST_KEYS = 2000
_EVICTION_CONTROLLER: Final = "resource-binding-graceful-eviction-controller"


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


def announce(state: AggregatorState, event: Known) -> Note | None:
    """The Event that a fact is worth, if any; `state` already holds the fact."""
    match event:
        case BindingRequested() if event.policy is not None:
            policy = event.policy.key
            name = namespaced_key(policy.namespace, policy.name)
            return _note(event, "ApplyPolicySucceed", f"Apply policy({name}) succeed", "resource-detector")
        case PlacementDecided():
            binding = _binding(state, event.key, event.uid)
            if binding is None:
                return None
            targets = [Share(target.name, target.replicas or 0) for target in event.clusters]
            message = success_event(targets, cluster_scoped=not event.key.namespace)
            return _note(binding, "ScheduleBindingSucceed", message, event.scheduler)
        case PlacementFailed():
            binding = _binding(state, event.key, event.uid)
            if binding is None:
                return None
            return _note(binding, "ScheduleBindingFailed", event.message, event.scheduler, warning=True)
        case EvictionRequested() | EvictionFinished() if event.left:
            binding = _binding(state, event.key, event.uid)
            if binding is None:
                return None
            message = f"Evict from cluster {', '.join(event.left)} succeed."
            return _note(binding, "EvictWorkloadFromClusterSucceed", message, _EVICTION_CONTROLLER)
        case ReplicasDescheduled():
            binding = _binding(state, event.key, event.uid)
            message = descheduled_words(event)
            if binding is None or not message:
                return None
            return _note(binding, "DescheduleBindingSucceed", message, "karmada-descheduler")
        case WorkRendered():
            return _rendered(state, event)
        case WorkObserved():
            return _observed(state, event)
        case StatusRolledUp() if not event.closed:
            binding = _binding(state, event.key, event.uid)
            if binding is None or binding.everywhere:
                return None
            uncounted = [item for item in event.items if item.problem]
            if uncounted:
                return _note(binding, REASON, uncounted_words(uncounted), COMPONENT, warning=True)
            message = f"Update {_binding_title(binding)} with AggregatedStatus successfully."
            return _note(binding, "AggregateStatusSucceed", message, COMPONENT)
        case _:
            return None


def _rendered(state: AggregatorState, event: WorkRendered) -> Note | None:
    binding = _binding(state, event.key, event.uid)
    if binding is None or binding.everywhere:
        return None
    if event.problem:
        message = f"cluster {event.cluster}: {event.problem}"
        return _note(binding, "SyncWorkFailed", message, "binding-controller", warning=True)
    message = f"Sync work of {_binding_title(binding)} successful."
    return _note(binding, "SyncWorkSucceed", message, "binding-controller")


def overridden(state: AggregatorState, event: WorkRendered) -> list[Note]:
    """The Events about the override policies of a copy: those that took part, or the one that could not be applied."""
    if not (event.cluster_overrides or event.overrides or event.problem):
        return []
    binding = _binding(state, event.key, event.uid)
    if binding is None:
        return []
    failed = _FAILED_OVERRIDE.match(event.problem)
    if failed is not None:
        what = f"{'cluster override' if failed['cluster'] else 'override'} policy({failed['name']})"
        return [_applied(binding, what, event.cluster, failed=True)]
    if event.problem:
        return []
    # A policy of several rules has one Event.
    names = [f"cluster override policy({item.policy})" for item in event.cluster_overrides]
    names += [f"override policy({event.key.namespace}/{item.policy})" for item in event.overrides]
    return [_applied(binding, what, event.cluster) for what in dict.fromkeys(names)]


def _applied(binding: BindingRequested, what: str, cluster: str, *, failed: bool = False) -> Note:
    reason = "ApplyOverridePolicyFailed" if failed else "ApplyOverridePolicySucceed"
    message = f"Apply {what} for cluster({cluster}) {'failed' if failed else 'succeed'}."
    return _note(binding, reason, message, "override-manager", warning=failed)


def _observed(state: AggregatorState, event: WorkObserved) -> Note | None:
    binding = _binding(state, event.key, event.uid)
    if binding is None or event.absent or event.reason == LEAVING:
        return None
    key = event.key
    name = namespaced_key(key.namespace, key.name)
    if event.applied:
        if not event.operation:
            return None
        if event.drift:
            message = f"cluster {event.cluster}: {drift_words(event.drift)}"
            return _note(binding, "DriftRepaired", message, "execution-controller", warning=True)
        message = f"Successfully applied resource({name}) to cluster {event.cluster}"
        return _note(binding, "SyncSucceed", message, "execution-controller")
    message = f"Failed to create or update resource({name}) in member cluster({event.cluster}): {event.message}"
    return _note(binding, "SyncFailed", message, "execution-controller", warning=True)


def bound(state: AggregatorState, event: WorkObserved) -> bool:
    """Whether the binding that an observation belongs to is known."""
    return _binding(state, event.key, event.uid) is not None


def _binding(state: AggregatorState, key: ObjectKey, uid: str) -> BindingRequested | None:
    reported = state.objects.get(key)
    binding = reported.binding if reported is not None else None
    return binding if isinstance(binding, BindingRequested) and binding.uid == uid else None


def _binding_title(binding: BindingRequested) -> str:
    name = binding_name(binding.kind, binding.key.name)
    if binding.key.namespace:
        return f"ResourceBinding({binding.key.namespace}/{name})"
    return f"ClusterResourceBinding({name})"


def _note(binding: BindingRequested, reason: str, message: str, component: str, *, warning: bool = False) -> Note:
    return Note(binding.key, binding.uid, binding.api_version, binding.kind, reason, message[:1024], component, warning)
