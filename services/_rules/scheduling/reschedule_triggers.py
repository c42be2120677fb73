"""Decides whether a binding has to be scheduled at all (docs/sources.md#scheduling)."""

from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Struct

from services._rules.scheduling.compiled_placement import CompiledPlacement
from services._rules.scheduling.division.usage import moment, replicas_changed, reschedule_requested
from services._rules.scheduling.index import ClusterIndex
from services._rules.scheduling.scheduling_views import BindingView, SchedulingOptions, Status

ScheduleType: TypeAlias = Literal["ReconcileSchedule", "ScaleSchedule"]
RESCHEDULE: Final = "a reschedule was requested"

# Parts of a placement whose change always counts.
_DECISIVE = ("clusterAffinity", "clusterTolerations", "spreadConstraints", "replicaScheduling")
_DEFAULTS = SchedulingOptions()


class Trigger(Struct, frozen=True):
    """Why a binding is scheduled now."""

    schedule_type: ScheduleType
    reason: str


def trigger(
    index: ClusterIndex,
    binding: BindingView,
    status: Status,
    applied: str | None,
    options: SchedulingOptions = _DEFAULTS,
) -> Trigger | None:
    """The first reason to schedule a binding, or None when what stands is still right.

    `applied` is the placement of the last attempt that wrote a result, as JSON text.
    """
    if placement_changed(binding.placement, applied, status.observed_affinity):
        return Trigger("ReconcileSchedule", "the placement changed")
    if _replicas_changed(binding, options):
        return Trigger("ScaleSchedule", "the number of replicas changed")
    if reschedule_due(binding, status):
        return Trigger("ReconcileSchedule", RESCHEDULE)
    if not binding.workload:
        return Trigger("ReconcileSchedule", "an object without replicas follows every change of clusters")
    if binding.placement.duplicated:
        return Trigger("ReconcileSchedule", "a duplicated workload follows every change of clusters")
    for target in binding.clusters:
        cluster = index.by_name.get(target.name)
        if cluster is not None and cluster.deleting:
            return Trigger("ReconcileSchedule", f"target cluster {target.name} is being deleted")
    return None


def answered(binding: BindingView, status: Status, applied: str | None, options: SchedulingOptions = _DEFAULTS) -> bool:
    """Whether what was decided last answers what is asked for now, wherever clusters stand by now."""
    if placement_changed(binding.placement, applied, status.observed_affinity) or _replicas_changed(binding, options):
        return False
    return not reschedule_due(binding, status)


def reschedule_due(binding: BindingView, status: Status) -> bool:
    """Whether a fresh schedule is to be made because it was asked for (docs/sources.md#rebalancing).

    Times have seconds: what is asked for in the second of the last success counts unless that success answered it.
    """
    asked, last = binding.reschedule_triggered_at, status.last_scheduled_time
    if asked is None or not last or status.unanswered is None:
        return reschedule_requested(asked, last)
    return status.unanswered and moment(asked) >= moment(last)


def _replicas_changed(binding: BindingView, options: SchedulingOptions) -> bool:
    scheduling = binding.placement.raw.replica_scheduling
    return replicas_changed(
        binding.replicas,
        scheduling.replica_scheduling_type if scheduling else None,
        [item.replicas for item in binding.clusters],
        components=bool(binding.components),
        several_templates=options.several_templates,
    )


def placement_changed(placement: CompiledPlacement, applied: str | None, observed: str) -> bool:
    """Whether a placement differs from the applied one in a way that matters for the term in force.

    An applied placement that cannot be read counts as unchanged.
    """
    if not applied:
        return True
    return _changed(placement.encoded, applied, observed)


@lru_cache(maxsize=8192)
def _changed(current: bytes, applied: str, observed: str) -> bool:
    try:
        old = msgspec.json.decode(applied, type=dict[str, Any])
    except msgspec.DecodeError:
        return False
    new: dict[str, Any] = _normal(msgspec.json.decode(current))
    old = _normal(old)
    if new == old:
        return False
    if any(new.get(part) != old.get(part) for part in _DECISIVE):
        return True
    terms = [_term(part, observed) for part in (new, old)]
    return observed == "" or None in terms or terms[0] != terms[1]


def _term(placement: dict[str, Any], observed: str) -> dict[str, Any] | None:
    for term in placement.get("clusterAffinities") or ():
        if term.get("affinityName") == observed:
            return dict(term)
    return None


def _normal(value: Any) -> Any:
    """Without members that mean the same when absent; an empty object stands for one that was given, and stays."""
    if isinstance(value, dict):
        normal = {key: _normal(item) for key, item in value.items()}
        if "weight" in normal:
            normal.setdefault("targetCluster", {})
        return {
            key: item
            for key, item in normal.items()
            if item not in (None, "", 0, False) and item != [] and (item != {} or key != "matchLabels")
        }
    if isinstance(value, list):
        return [_normal(item) for item in value]
    return value
