"""Computes the queueing hint of an object: the cluster changes that may move it, or that it lacked at its last try."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from schemas.events.binding import BindingRequested
from schemas.events.placement import PlacementFailed
from schemas.manifest import Manifest
from services._rules.capacity.general_estimate import NO_DEMAND
from services._rules.effective import spec_with_targets
from services._rules.kubernetes.quantity import QuantityError
from services._rules.scheduling.compiled_placement import CompiledPlacement
from services._rules.scheduling.decoding import binding_view
from services._rules.scheduling.scheduling_views import BindingView
from services.scheduler.queue.unschedulable_queue import QueueingHint

if TYPE_CHECKING:
    from services.scheduler.state import Scheduled

NO_ROOM: Final = "Unschedulable"
NO_CLUSTER: Final = "NoClusterFit"


def interest_of(scheduled: Scheduled) -> QueueingHint | None:
    """What a change of a cluster may mean to an object; None where only facts of its own can move it.

    A division of replicas that stands is not moved by clusters, unless they leave (docs/sources.md#scheduling).
    """
    binding, spec, compiled = scheduled.binding, scheduled.spec, scheduled.compiled
    if not isinstance(binding, BindingRequested) or binding.everywhere or spec is None or compiled is None:
        return None
    placed = scheduled.placed
    if isinstance(placed, PlacementFailed):
        return _lacks(scheduled, spec, compiled, placed)
    # What was never placed is on its way to be.
    terms = compiled.affinity_names or ("",)
    if placed is not None:
        if not compiled.duplicated and _is_workload(spec):
            return None
        terms = (_in_force(compiled, placed.affinity_name),)
    return QueueingHint(_outline(spec, compiled), terms)


def _lacks(
    scheduled: Scheduled, spec: Manifest, compiled: CompiledPlacement, placed: PlacementFailed
) -> QueueingHint | None:
    targets = scheduled.targets
    try:
        view = binding_view(spec_with_targets(spec, targets, scheduled.tasks))
    except (msgspec.ValidationError, QuantityError, ValueError):
        # Nothing that a cluster does makes it readable.
        return None
    names = compiled.affinity_names
    terms = names[names.index(_in_force(compiled, placed.affinity_name)) :] if names else ("",)
    if placed.refusal is not None:
        # Room does not help where a quota refuses; another choice of clusters may.
        return QueueingHint(view, terms, failed=True)
    # A selection may fail for want of room, too; of several groups only the first failure is on record.
    room = placed.reason == NO_ROOM or (placed.reason != NO_CLUSTER and not compiled.duplicated) or len(terms) > 1
    wanted = max(0, view.replicas - sum(target.replicas or 0 for target in targets))
    return QueueingHint(view, terms, True, room, wanted, scheduled.by_room)


def _in_force(compiled: CompiledPlacement, observed: str) -> str:
    """The affinity term in force; the first where none or an unknown one was noted (docs/sources.md#scheduling)."""
    names = compiled.affinity_names
    if not names:
        return ""
    return observed if observed in names else names[0]


def _is_workload(spec: Manifest) -> bool:
    return bool(spec.get("replicas") or spec.get("replicaRequirements") or spec.get("components"))


def _outline(spec: Manifest, compiled: CompiledPlacement) -> BindingView:
    """The part of a binding that selects its candidate clusters."""
    resource = spec.get("resource") or {}
    return BindingView(
        api=(resource.get("apiVersion", ""), resource.get("kind", "")),
        uid="",
        replicas=0,
        demand=NO_DEMAND if _is_workload(spec) else None,
        components=(),
        placement=compiled,
        clusters=(),
        evicting=frozenset(),
        reschedule_triggered_at=None,
    )
