"""Builds Kubernetes Events about one copy: on its work, and on the template and binding it belongs to.

Source: docs/sources.md#events.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from schemas.events.binding import BindingRequested
from schemas.events.observed import WorkObserved
from schemas.events.work import WorkRendered
from services._rules import involved_objects as involved
from services._rules.delivery.drift import drift_words
from services._rules.delivery.observations import FAILED, LEAVING
from services._rules.delivery.work_status import DISPATCHING, SUSPENDED
from services._rules.interpreter import Operation
from services._rules.kubernetes.event_objects import Involved, Note, note_about
from services._rules.names import namespaced_key
from services.status_aggregator.state import Copy

# As services/_rules/overrides/override_errors.py writes them.
_FAILED_OVERRIDE: Final = re.compile(r"(?P<cluster>Cluster)?OverridePolicy (?P<name>[^\s:]+): overrideRules\[")
_EXECUTION: Final = "execution-controller"
_WORK_STATUS: Final = "work-status-controller"


def about_rendering(binding: BindingRequested, event: WorkRendered, known: Copy | None) -> list[Note]:
    """Events about a copy that was rendered, or could not be; `known` is the work before it."""
    template = involved.template_of(binding.key, binding.uid, binding.api_version, binding.kind)
    shown = involved.binding_of(binding.key, binding.uid, binding.kind)
    notes = list(_overridden(template, event))
    if not binding.everywhere:
        component = "binding-controller" if binding.key.namespace else "cluster-resource-binding-controller"
        if event.problem:
            reason, message = "SyncWorkFailed", f"cluster {event.cluster}: {event.problem}"
        else:
            reason, message = "SyncWorkSucceed", f"Sync work of {involved.title(shown)} successful."
        warning = bool(event.problem)
        notes += [note_about(about, reason, message, component, warning=warning) for about in (shown, template)]
    if known is None or known.uid != event.uid or not known.wanted or known.suspended != event.suspended:
        words = SUSPENDED if event.suspended else DISPATCHING
        notes.append(note_about(_work(event), "WorkDispatching", words.message, _EXECUTION, detail=True))
    return notes


def _overridden(template: Involved, event: WorkRendered) -> Iterator[Note]:
    """The Events about the override policies of a copy: those that took part, or the one that could not be applied."""
    failed = _FAILED_OVERRIDE.match(event.problem) if event.problem else None
    if failed is not None:
        what = f"{'cluster override' if failed['cluster'] else 'override'} policy({failed['name']})"
        yield _applied(template, what, event.cluster, failed=True)
    if event.problem:
        return
    # A policy of several rules has one Event.
    names = [f"cluster override policy({item.policy})" for item in event.cluster_overrides]
    names += [f"override policy({event.key.namespace}/{item.policy})" for item in event.overrides]
    for what in dict.fromkeys(names):
        yield _applied(template, what, event.cluster)


def _applied(template: Involved, what: str, cluster: str, *, failed: bool = False) -> Note:
    reason = "ApplyOverridePolicyFailed" if failed else "ApplyOverridePolicySucceed"
    message = f"Apply {what} for cluster({cluster}) {'failed' if failed else 'succeed'}."
    return note_about(template, reason, message, "override-manager", warning=failed)


def about_observation(
    binding: BindingRequested, event: WorkObserved, known: WorkObserved | None, copy: Copy | None
) -> list[Note]:
    """Events about what a cluster reports of a copy; `known` is its report before, `copy` the work as it is now."""
    if event.absent or event.reason == LEAVING:
        return []
    if copy is not None and not copy.wanted:
        return _not_removed(binding, event, copy)
    template = involved.template_of(binding.key, binding.uid, binding.api_version, binding.kind)
    name = namespaced_key(event.key.namespace, event.key.name)
    work = involved.work_of(event.cluster, event.key, event.uid, binding.kind)
    place = namespaced_key(work.key.namespace, work.key.name)
    if not event.applied:
        message = f"Failed to create or update resource({name}) in member cluster({event.cluster}): {event.message}"
        shown = f"Failed to sync work({place}) to cluster({event.cluster}), err: {event.message}"
        return [
            note_about(template, "SyncFailed", message, _EXECUTION, warning=True),
            note_about(work, "SyncFailed", shown, _EXECUTION, warning=True),
        ]
    notes = []
    if event.operation:
        if event.drift:
            message = f"cluster {event.cluster}: {drift_words(event.drift)}"
            notes.append(note_about(template, "DriftRepaired", message, _EXECUTION, warning=True))
        else:
            message = f"Successfully applied resource({name}) to cluster {event.cluster}"
            notes.append(note_about(template, "SyncSucceed", message, _EXECUTION))
        message = f"Sync work({place}) to cluster({event.cluster}) successful."
        notes.append(note_about(work, "SyncSucceed", message, _EXECUTION, detail=True))
    same = known if known is not None and known.uid == event.uid and known.applied else None
    return [*notes, *_reflected(binding, work, event, same)]


def _reflected(
    binding: BindingRequested, work: Involved, event: WorkObserved, known: WorkObserved | None
) -> Iterator[Note]:
    """Events about the status and the health of a copy, where they are others than before."""
    what = f"{binding.kind}({namespaced_key(event.key.namespace, event.key.name)})"
    if event.message:
        health = event.health == "Unknown" and Operation.STATUS not in event.message
        reason = "InterpretHealthFailed" if health else "ReflectStatusFailed"
        if known is None or known.message != event.message:
            yield note_about(work, reason, f"{what}: {event.message}", _WORK_STATUS, warning=True)
    elif known is None or known.status != event.status or known.message:
        yield note_about(work, "ReflectStatusSucceed", f"Reflect status for {what} succeed.", _WORK_STATUS, detail=True)
    if event.health != "Unknown" and (known is None or known.health != event.health):
        message = f"Interpret health of {what} as {event.health}."
        yield note_about(work, "InterpretHealthSucceed", message, _WORK_STATUS, detail=True)


def _not_removed(binding: BindingRequested, event: WorkObserved, copy: Copy) -> list[Note]:
    """The Event about a copy that its cluster refuses to delete; a late report on it as it was is worth none."""
    if event.reason != FAILED or event.work_seq < copy.seq:
        return []
    component = "binding-controller" if binding.key.namespace else "cluster-resource-binding-controller"
    shown = involved.binding_of(binding.key, binding.uid, binding.kind)
    message = f"cluster {event.cluster}: the copy is not deleted: {event.message}"
    return [note_about(shown, "CleanupWorkFailed", message, component, warning=True)]


def _work(event: WorkRendered) -> Involved:
    return involved.work_of(event.cluster, event.key, event.uid, event.kind)
