"""Decides the estimate of one object: whether one is due, and what each candidate's nodes have room for."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from schemas.envelope import Provenance
from schemas.events.estimate import CapacityEstimated, ClusterEstimate
from schemas.events.eviction import EvictionRequested
from schemas.keys import ObjectKey
from services._rules.estimation_answers import NO_OPINION, Requirements, requirements_of
from services._rules.estimation_asking import candidates
from services._rules.quantity import QuantityError
from services._rules.scheduling.read import binding_view
from services.estimator.state import Asked, EstimatorState

Manifest = dict[str, Any]


class Later(Struct, frozen=True):
    """A member is still being read: look again when it was, or at `at` (seconds since 1970)."""

    at: float


def decide(state: EstimatorState, key: ObjectKey, now: float) -> CapacityEstimated | Later | None:
    """The estimate that should become the latest of an object, or None when the present one answers."""
    asked = state.objects.get(key)
    if asked is None or asked.spec is None:
        return None
    due = state.is_due(asked)
    if not due and not asked.unplaced:
        return None
    try:
        names = _candidates(state, asked, asked.spec)
        wanted = requirements_of(asked.spec)
        if due and (waiting := [state.opening[name] for name in names if state.opening.get(name, 0.0) > now]):
            return Later(max(waiting))
        found = tuple(ClusterEstimate(name, _replicas(state, name, wanted)) for name in names)
    except (msgspec.ValidationError, QuantityError, ValueError):
        # The scheduler says what is wrong with the binding; it need not wait for it.
        wanted, found = Requirements("", None, None), ()
    if not due and not _is_news(asked, found):
        return None
    own = {"binding": asked.binding_seq}
    if asked.eviction_seq:
        own["eviction"] = asked.eviction_seq
    return CapacityEstimated(
        key=key, uid=asked.uid, requirements_digest=wanted.digest, estimates=found, provenance=Provenance(own=own)
    )


def _candidates(state: EstimatorState, asked: Asked, spec: Manifest) -> list[str]:
    full = {**spec, "clusters": [{"name": item.name, "replicas": item.replicas or 0} for item in asked.targets]}
    if isinstance(asked.eviction, EvictionRequested) and asked.eviction.uid == asked.uid:
        full["gracefulEvictionTasks"] = [{"fromCluster": task.from_cluster} for task in asked.eviction.tasks]
    return candidates(state.clusters, binding_view(full))


def _replicas(state: EstimatorState, name: str, wanted: Requirements) -> int:
    answers = state.answers.get(name)
    return answers.replicas(wanted) if answers is not None else NO_OPINION


def _is_news(asked: Asked, found: tuple[ClusterEstimate, ...]) -> bool:
    """Whether what was not placed may be placed now, or fits even less: some cluster's answer differs for it.

    Room beyond what the object asks for, and members that fell silent, make no difference.
    """
    most = int((asked.spec or {}).get("replicas") or 0)
    before = {item.cluster: item.replicas for item in asked.estimate.estimates} if asked.estimate is not None else {}
    return any(
        item.replicas != NO_OPINION and min(item.replicas, most) != min(before.get(item.cluster, NO_OPINION), most)
        for item in found
    )
