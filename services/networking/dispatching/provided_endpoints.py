"""Decides which endpoints of a MultiClusterService count, and what its status and Events say.

Source: docs/sources.md#services.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
from msgspec import Struct, field

from schemas.endpoints import ServiceSlice
from schemas.events.endpoints import EndpointsCollected
from schemas.manifest import Manifest
from services._rules.endpoints.export_conditions import Condition, merged
from services._rules.endpoints.multi_cluster_services import LOAD_BALANCER, SharedService, hindrance
from services._rules.endpoints.reported_slices import pieces
from services.networking.dispatching.sharing_state import Ingress, Name, SharedServices, Sharing

SERVICE_APPLIED: Final = "ServiceApplied"
SLICES_DISPATCHED: Final = "EndpointSliceDispatched"
CLAIM_SECONDS: Final = 5.0
"""How long a MultiClusterService may wait for its Service before that is a failure."""
_LISTED: Final = 5

Place = tuple[str, str]
"""Cluster and name of a slice."""


class SharedObject(Struct, frozen=True):
    """A MultiClusterService of the control plane and the status that it shows."""

    uid: str
    generation: int
    conditions: tuple[Manifest, ...] = ()
    ingress: tuple[Ingress, ...] = ()


class Happening(Struct, frozen=True):
    """What an Event says: reason, message, and whether it needs attention."""

    reason: str
    message: str
    warning: bool = False


class Shown(Struct, frozen=True):
    """What the object has to show: a status that differs (None: it stands), Events, and when to look again."""

    status: Manifest | None = None
    happenings: tuple[Happening, ...] = ()
    wake_at: float | None = None


class _Judged(Struct):
    conditions: list[Condition] = field(default_factory=list)
    happenings: list[Happening] = field(default_factory=list)
    wake_at: float | None = None


def is_provider(state: SharedServices, name: Name, cluster: str) -> bool:
    """Whether endpoints of a cluster count for a MultiClusterService."""
    found = state.services.get(name)
    return found is not None and found.asked is not None and cluster in found.markers and cluster in state.partners


def provided(
    state: SharedServices, name: Name, collected: Mapping[Place, EndpointsCollected]
) -> Iterator[tuple[Place, EndpointsCollected]]:
    """What counts now: as providers report, and where one has not listed its slices what was collected before.

    A provider that is not ready keeps what it has: its traffic is not cut off for that.
    """
    found = state.services.get(name)
    if found is None or found.asked is None:
        return
    for cluster in sorted(cluster for cluster in found.markers if is_provider(state, name, cluster)):
        report = found.reports.get(cluster)
        if report is None or report.slices is None:
            yield from ((place, before) for place, before in collected.items() if place[0] == cluster)
            continue
        for piece in pieces(report.slices):
            yield (cluster, piece.name), _collected(cluster, name, piece, report.at)


def _collected(cluster: str, name: Name, piece: ServiceSlice, at: float) -> EndpointsCollected:
    return EndpointsCollected(
        cluster=cluster,
        namespace=name[0],
        name=piece.name,
        service=name[1],
        address_type=piece.address_type,
        endpoints=piece.endpoints,
        ports=piece.ports,
        at=at,
    )


def shown(state: SharedServices, name: Name, present: SharedObject | None, now: float) -> Shown:
    """What the MultiClusterService of a name shows; nothing for one that the log does not hold, or holds as another."""
    found = state.services.get(name)
    if found is None or found.asked is None or present is None or present.uid != found.asked.uid:
        return Shown()
    if found.asked.type == LOAD_BALANCER:
        return _balanced(found, found.asked, present)
    judged = _Judged()
    _judge_service(state, found, found.asked, judged, now)
    _judge_slices(state, name, found.asked, judged)
    stands = {str(item.get("type")): item.get("status") for item in present.conditions}
    known = [item for item in judged.happenings if item.warning or stands.get(_condition_of(item)) != "True"]
    conditions = merged(present.conditions, judged.conditions, present.generation, now)
    status: Manifest | None = {"conditions": conditions} if conditions is not None else None
    return Shown(status, tuple(known), judged.wake_at)


def _balanced(found: Sharing, asked: SharedService, present: SharedObject) -> Shown:
    """The addresses of the load balancers that members have for the Service."""
    addresses = [
        address for cluster, given in sorted(found.balancers.items()) if asked.provides(cluster) for address in given
    ]
    ingress = tuple(dict.fromkeys(addresses))
    if ingress == present.ingress:
        return Shown()
    return Shown({"loadBalancer": {"ingress": msgspec.to_builtins(ingress)}})


def _judge_service(state: SharedServices, found: Sharing, asked: SharedService, judged: _Judged, now: float) -> None:
    for cluster in asked.provider_names(state.partners):
        hindered = hindrance(cluster, state.partners)
        if hindered is not None:
            judged.happenings.append(Happening(*hindered, warning=True))
    if found.claimed:
        message = "Service is propagated to target clusters."
        judged.conditions.append(Condition(SERVICE_APPLIED, "True", "ServiceAppliedSucceed", message))
        judged.happenings.append(Happening("SyncServiceSucceed", message))
        return
    due = asked.since + CLAIM_SECONDS
    if now < due:
        judged.wake_at = due
        return
    problem = f"Service {asked.namespace}/{asked.name} is not in the control plane, or is never propagated: create it"
    judged.conditions.append(Condition(SERVICE_APPLIED, "False", "ServiceAppliedFailed", problem))
    judged.happenings.append(Happening("SyncServiceFailed", problem, warning=True))


def _judge_slices(state: SharedServices, name: Name, asked: SharedService, judged: _Judged) -> None:
    keys = sorted(state.slices.of(*name))
    sources = [(key, state.slices.sources[key]) for key in keys]
    dispatched = [(key, source) for key, source in sources if asked.provides(source.cluster)]
    if not dispatched:
        # Nothing was dispatched, so that nothing is said of it.
        return
    problems: list[str] = []
    for cluster in asked.consumer_names(state.partners):
        given = [(key, source) for key, source in dispatched if asked.consumes(cluster, source.cluster)]
        if not given:
            continue
        hindered = hindrance(cluster, state.partners)
        if hindered is not None:
            happening = Happening(*hindered, warning=True)
            if happening not in judged.happenings:
                judged.happenings.append(happening)
            continue
        refused = ((key, state.refusals.get((cluster, key))) for key, _ in given)
        problems += [f"{cluster}: EndpointSlice {key.name}: {why}" for key, why in refused if why]
    if problems:
        more = f"; and {len(problems) - _LISTED} more" if len(problems) > _LISTED else ""
        message = ("; ".join(problems[:_LISTED]) + more)[:1024]
        judged.conditions.append(Condition(SLICES_DISPATCHED, "False", "EndpointSliceDispatchedFailed", message))
        judged.happenings.append(Happening("DispatchEndpointSliceFailed", message, warning=True))
        return
    message = "EndpointSlice are dispatched successfully"
    judged.conditions.append(Condition(SLICES_DISPATCHED, "True", "EndpointSliceDispatchedSucceed", message))
    judged.happenings.append(Happening("DispatchEndpointSliceSucceed", message))


def _condition_of(happening: Happening) -> str:
    return SERVICE_APPLIED if happening.reason == "SyncServiceSucceed" else SLICES_DISPATCHED
