"""Decides which clusters should not be used for a Service any more, and what stays because only they offer it.

A gate closes before the pods of a cluster are gone: it is not ready, it is tainted against them, or they have to leave.
Sources: docs/sources.md#services, #failover.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from schemas.endpoints import SliceEndpoint
from schemas.events.endpoints import EndpointsCollected
from schemas.events.eviction import EvictionEvent, EvictionRequested
from services._rules.kubernetes.taints import Taint, Toleration, matching_tolerations, seconds_left

GONE_AFTER: Final = 60.0
"""Seconds after the end of an eviction within which the last pods go: twice what Kubernetes grants a pod by default."""


class ClusterHealth(Struct, frozen=True):
    """What is known of a member: `since` is when its readiness turned (seconds since 1970), `why` the reason."""

    ready: bool = True
    since: float = 0.0
    why: str = ""
    leaving: bool = False
    """Whether its removal was asked for."""
    taints: tuple[Taint, ...] = ()
    """Those with the effect NoExecute."""


class Leaving(Struct, frozen=True):
    """An object has to leave a cluster, or has just left it: then `until` is when its pods are gone for certain."""

    reason: str
    until: float | None = None


class Backing(Struct, frozen=True):
    """An object on which endpoints depend: a workload that the Service selects, the Service, or its export.

    `targets` are the clusters that should run it; `leaving` those that it has to leave.
    """

    title: str
    targets: frozenset[str] = frozenset()
    leaving: Mapping[str, Leaving] = {}
    tolerations: tuple[Toleration, ...] = ()


class Backings(Struct, frozen=True):
    """Everything on which endpoints of one Service depend."""

    workloads: tuple[Backing, ...] = ()
    own: tuple[Backing, ...] = ()
    """The Service and the ServiceExport."""


NONE: Final = Backings()


class Gate(Struct, frozen=True):
    """Why a cluster should not be used (empty: it may be), and when that may change by time alone."""

    reason: str = ""
    until: float | None = None


OPEN: Final = Gate()
SlicePlace = tuple[str, str]
"""Cluster and name of a slice."""
Offer = tuple[str, str]
"""What a client looks for: an address type, and a port by name and protocol."""


def gate(cluster: str, health: ClusterHealth, backings: Backings, now: float) -> Gate:
    """Whether clients should use the endpoints of a cluster; the first reason against it."""
    if health.leaving:
        return Gate(f"{cluster} is being removed")
    if not health.ready:
        return Gate(f"{cluster} is not ready{f' ({health.why})' if health.why else ''}")
    tainted = _tainted(cluster, health.taints, backings, now)
    return tainted if tainted.reason else _sooner(_evicted(cluster, backings, now), tainted.until)


def _tainted(cluster: str, taints: Sequence[Taint], backings: Backings, now: float) -> Gate:
    """A taint drives the pods out, unless something that should run there tolerates it (still)."""
    if not taints:
        return OPEN
    here = [each for each in backings.workloads if cluster in each.targets]
    here = here or [each for each in backings.own if cluster in each.targets]
    ends = [_tolerated_until(taints, each.tolerations, now) for each in here]
    if None in ends:
        return OPEN
    last = max((end for end in ends if end is not None), default=0.0)
    if last > now:
        return Gate(until=last)
    return Gate(f"{cluster} is tainted {', '.join(sorted(map(str, taints)))[:200]}")


def _tolerated_until(taints: Sequence[Taint], tolerations: Sequence[Toleration], now: float) -> float | None:
    """Until when all taints are tolerated, in seconds since 1970: `now` for not at all, None without end."""
    tolerated, used = matching_tolerations(taints, tolerations)
    if not tolerated:
        return now
    try:
        left = seconds_left(taints, used, datetime.fromtimestamp(now, UTC))
    except ValueError:
        # The moment of the taint cannot be read: failover waits for it as well.
        return None
    return None if left is None else now + left


def _evicted(cluster: str, backings: Backings, now: float) -> Gate:
    """The pods have to leave: every workload of the Service, or the Service itself."""
    for each in backings.own:
        found = _in_force(each, cluster, now)
        if found is not None and cluster not in each.targets:
            return Gate(f"{each.title} is being evicted from {cluster} ({found.reason})", found.until)
    if any(cluster in each.targets for each in backings.workloads):
        return OPEN
    for each in backings.workloads:
        found = _in_force(each, cluster, now)
        if found is not None:
            return Gate(f"{each.title} is being evicted from {cluster} ({found.reason})", found.until)
    return OPEN


def _in_force(backing: Backing, cluster: str, now: float) -> Leaving | None:
    found = backing.leaving.get(cluster)
    return None if found is None or (found.until is not None and found.until <= now) else found


def _sooner(found: Gate, moment: float | None) -> Gate:
    ends = [end for end in (found.until, moment) if end is not None]
    return Gate(found.reason, min(ends, default=None))


def leaving(eviction: EvictionEvent | None) -> dict[str, Leaving]:
    """Clusters that an object has to leave, with those that it has just left."""
    if eviction is None:
        return {}
    end = eviction.provenance.decided_at + GONE_AFTER
    found = {name: Leaving("its grace is over", end) for name in (*eviction.left, *eviction.unseen)}
    if isinstance(eviction, EvictionRequested):
        found.update({task.from_cluster: Leaving(task.reason) for task in eviction.tasks})
    return found


def admitted(
    wanted: Mapping[SlicePlace, EndpointsCollected], gates: Mapping[str, Gate]
) -> dict[SlicePlace, EndpointsCollected]:
    """The slices that count behind gates: of a gated cluster only what no other one offers, with the reason (`kept`).

    Nothing is taken from clients without a ready endpoint elsewhere of the same address type for every port; where all
    clusters are gated, all stay.
    """
    elsewhere = {
        offer
        for (cluster, _), event in wanted.items()
        if not gates[cluster].reason and any(map(is_ready, event.endpoints))
        for offer in offers(event)
    }
    counting = {}
    for place, event in wanted.items():
        reason = gates[place[0]].reason
        if not reason:
            counting[place] = event
        elif any(map(is_ready, event.endpoints)) and not elsewhere.issuperset(offers(event)):
            counting[place] = replace(event, kept=reason)
    return counting


def offers(event: EndpointsCollected) -> Iterable[Offer]:
    """What clients may look for in a slice; one without ports has any."""
    labels = {f"{port.name}/{port.protocol}" for port in event.ports} or {""}
    return [(event.address_type, label) for label in labels]


def is_ready(endpoint: SliceEndpoint) -> bool:
    """Whether traffic goes to an endpoint; one of which that is not said counts as ready."""
    return endpoint.conditions.ready is not False
