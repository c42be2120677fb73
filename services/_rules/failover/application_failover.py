"""Application failover: where an application is unhealthy, for how long, and the eviction that follows.

Source: docs/sources.md#application-failover.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from schemas.events.eviction import EvictionTask
from services._rules.constants import EVICTION_REASON_APPLICATION_FAILURE
from services._rules.failover.eviction_requests import Target, evict
from services._rules.failover.state_preservation import preserved_state

PRODUCER: Final = "resource-binding-application-failover-controller"
PRODUCER_CLUSTER_WIDE: Final = "cluster-resource-binding-application-failover-controller"
UNHEALTHY: Final = "Unhealthy"
DEFAULT_TOLERATION: Final = 300


class PurgeRefused(ValueError):
    """The purge mode asks for what a feature gate forbids."""


class Gates(Struct, frozen=True):
    """The feature gates that evictions depend on, with Karmada's defaults."""

    graceful_eviction: bool = True
    stateful_failover_injection: bool = False


class Health(Struct, frozen=True):
    """Clusters by what they report: `unhealthy` ones without a task, and those that end any suspicion."""

    unhealthy: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


class Failure(Struct, frozen=True):
    """Clusters to leave now, and in how many whole seconds to look again (0: not because of time)."""

    evict: tuple[str, ...] = ()
    again_in: int = 0


def health_of(statuses: Sequence[Mapping[str, Any]], tasks: Sequence[EvictionTask]) -> Health:
    """Sort the items of an aggregated status by their health."""
    leaving = {task.from_cluster for task in tasks}
    reports = [(str(item.get("clusterName", "")), item.get("health")) for item in statuses]
    return Health(
        unhealthy=tuple(name for name, health in reports if health == UNHEALTHY and name not in leaving),
        others=tuple(name for name, health in reports if health in ("Healthy", "Unknown")),
    )


def detect(unhealthy: Sequence[str], since: Mapping[str, float], toleration: float, now: float) -> Failure:
    """Which unhealthy clusters have used up the toleration (seconds).

    `since` is when each was first seen unhealthy, in seconds since 1970; one that is not in it was not seen before and
    stays for now.
    """
    evict_now: list[str] = []
    waits: list[int] = []
    for name in unhealthy:
        first = since.get(name)
        if first is None:
            waits.append(math.ceil(toleration))
        elif now - first > toleration:
            evict_now.append(name)
        else:
            waits.append(math.ceil(first + toleration - now))
    return Failure(tuple(evict_now), min(waits, default=0))


def evict_unhealthy(
    behaviour: Mapping[str, Any],
    clusters: Sequence[str],
    targets: Sequence[Target],
    tasks: Sequence[EvictionTask],
    statuses: Sequence[Mapping[str, Any]],
    *,
    gates: Gates,
    producer: str = PRODUCER,
) -> tuple[tuple[Target, ...], tuple[EvictionTask, ...]]:
    """Targets and tasks of an object after it left `clusters` by the rules of `failover.application`.

    Raises StateError when state to be preserved is not there, PurgeRefused when a gate forbids the purge mode.
    """
    before = tuple(target.name for target in targets)
    left, added = tuple(targets), tuple(tasks)
    mode = str(behaviour.get("purgeMode") or "")
    for cluster in clusters:
        state: dict[str, str] = {}
        if gates.stateful_failover_injection:
            state = preserved_state(behaviour.get("statePreservation"), statuses, cluster)
        if mode == "Gracefully" and not gates.graceful_eviction:
            raise PurgeRefused("GracefulEviction featureGate must be enabled when purgeMode is Gracefully")
        task = EvictionTask(
            from_cluster=cluster,
            purge_mode=mode,
            reason=EVICTION_REASON_APPLICATION_FAILURE,
            producer=producer,
            grace_period_seconds=behaviour.get("gracePeriodSeconds") if mode == "Gracefully" else None,
            suppress_deletion=True if mode == "Never" else None,
            preserved_state=state,
            clusters_before=before if state else (),
        )
        left, added = evict(left, added, task)
    return left, added
