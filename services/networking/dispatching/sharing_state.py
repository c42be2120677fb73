"""Projects MultiClusterServices: who provides, what providers report, what consumers refuse, who can take part."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import Raw, Struct, UnsetType, field

from schemas.codec import Known
from schemas.endpoints import ServiceSlice
from schemas.events.binding import BindingReleased, BindingRequested
from schemas.events.cluster import ClusterChanged, ClusterRemoved
from schemas.events.endpoints import EndpointsCollected, EndpointsReleased
from schemas.events.observed import WorkObserved
from schemas.events.policy import PolicyChanged, PolicyDeleted
from schemas.events.rollup import StatusRolledUp
from schemas.events.work import WorkRendered, WorkWithdrawn
from schemas.keys import ObjectKey, PolicyKey
from services._rules.constants import MULTI_CLUSTER_SERVICE
from services._rules.endpoints.dispatched_slices import DispatchedSlices, is_slice
from services._rules.endpoints.multi_cluster_services import (
    Partner,
    SharedService,
    is_marker,
    partner_of,
    read_shared_service,
)

Name = tuple[str, str]
"""Namespace and name of a Service."""


class Ingress(Struct, frozen=True, omit_defaults=True):
    """One address of a load balancer."""

    ip: str = ""
    hostname: str = ""


class Provided(Struct, frozen=True):
    """What a provider reports; slices are None where it has not listed them."""

    slices: tuple[ServiceSlice, ...] | None
    problem: str = ""
    at: float = 0.0


class Sharing(Struct):
    """One MultiClusterService, and the Service of its name."""

    asked: SharedService | None = None
    markers: dict[str, str] = field(default_factory=dict)
    """Uid for which each provider is asked for endpoints."""
    reports: dict[str, Provided] = field(default_factory=dict)
    claimed: bool = False
    """Whether the Service is placed as the MultiClusterService asks."""
    balancers: dict[str, tuple[Ingress, ...]] = field(default_factory=dict)
    """Addresses of the Service's load balancer by cluster."""

    @property
    def nothing(self) -> bool:
        """Whether nothing is known of it."""
        return not (self.asked or self.markers or self.reports or self.claimed or self.balancers)


class _LoadBalancer(Struct, frozen=True):
    ingress: tuple[Ingress, ...] | None = None


class _Status(Struct, frozen=True, rename="camel"):
    load_balancer: _LoadBalancer | None = None


_status: Final = msgspec.json.Decoder(_Status)


class SharedServices(Struct):
    """All of them by name, with the slices that were collected and the members as partners."""

    services: dict[Name, Sharing] = field(default_factory=dict)
    slices: DispatchedSlices = field(default_factory=DispatchedSlices)
    partners: dict[str, Partner] = field(default_factory=dict)
    refusals: dict[tuple[str, ObjectKey], str] = field(default_factory=dict)
    """Why a cluster does not hold an EndpointSlice that it was given, in words."""

    def take(self, event: Known) -> Iterable[Name]:
        """Take in a fact or a report; the Services of which something else may be decided."""
        match event:
            case PolicyChanged() | PolicyDeleted() if event.key.kind == MULTI_CLUSTER_SERVICE:
                asked = read_shared_service(event) if isinstance(event, PolicyChanged) else None
                return self._change((event.key.namespace, event.key.name), asked)
            case WorkRendered() | WorkWithdrawn() if is_marker(event.key):
                return self._marked((event.key.namespace, event.key.name), event)
            case WorkObserved() if is_marker(event.key):
                return self._reported((event.key.namespace, event.key.name), event)
            case WorkObserved() if is_slice(event.key):
                return self._held(event)
            case EndpointsCollected() | EndpointsReleased():
                self.slices.take(event)
                return ()
            case ClusterChanged() | ClusterRemoved():
                return self._met(event)
            case BindingRequested() | BindingReleased() if _is_service(event.key):
                return self._bound((event.key.namespace, event.key.name), event)
            case StatusRolledUp() if _is_service(event.key):
                return self._summed((event.key.namespace, event.key.name), event)
            case _:
                return ()

    def _of(self, name: Name) -> Sharing:
        found = self.services.get(name)
        if found is None:
            found = self.services[name] = Sharing()
        return found

    def _settled(self, name: Name) -> Iterable[Name]:
        if name in self.services and self.services[name].nothing:
            del self.services[name]
        return (name,)

    def _change(self, name: Name, asked: SharedService | None) -> Iterable[Name]:
        self._of(name).asked = asked
        return self._settled(name)

    def _marked(self, name: Name, event: WorkRendered | WorkWithdrawn) -> Iterable[Name]:
        found = self._of(name)
        if isinstance(event, WorkRendered):
            found.markers[event.cluster] = event.uid
        else:
            found.markers.pop(event.cluster, None)
            found.reports.pop(event.cluster, None)
        return self._settled(name)

    def _reported(self, name: Name, event: WorkObserved) -> Iterable[Name]:
        found = self._of(name)
        if event.absent:
            found.reports.pop(event.cluster, None)
        else:
            slices = None if isinstance(event.endpoints, UnsetType) else event.endpoints
            found.reports[event.cluster] = Provided(slices, event.message, event.at)
        return self._settled(name)

    def _held(self, event: WorkObserved) -> Iterable[Name]:
        place = (event.cluster, event.key)
        before = self.refusals.pop(place, None)
        if not event.applied and not event.absent:
            self.refusals[place] = event.message or "it is not applied"
        source = self.slices.sources.get(event.key)
        if source is None or self.refusals.get(place) == before:
            return ()
        return ((source.namespace, source.service),)

    def _met(self, event: ClusterChanged | ClusterRemoved) -> Iterable[Name]:
        before = self.partners.get(event.name)
        if isinstance(event, ClusterRemoved) or event.deleting:
            self.partners.pop(event.name, None)
        else:
            self.partners[event.name] = partner_of(event)
        return list(self.services) if self.partners.get(event.name) != before else ()

    def _bound(self, name: Name, event: BindingRequested | BindingReleased) -> Iterable[Name]:
        policy = event.policy if isinstance(event, BindingRequested) else None
        claimed = policy is not None and policy.key == PolicyKey(MULTI_CLUSTER_SERVICE, *name)
        if not claimed and name not in self.services:
            return ()
        self._of(name).claimed = claimed
        return self._settled(name)

    def _summed(self, name: Name, event: StatusRolledUp) -> Iterable[Name]:
        found = {item.cluster: _addresses(item.status) for item in event.items if isinstance(item.status, Raw)}
        balancers = {cluster: addresses for cluster, addresses in found.items() if addresses}
        if not balancers and name not in self.services:
            return ()
        self._of(name).balancers = balancers
        return self._settled(name)


def _is_service(key: ObjectKey) -> bool:
    return key.resource == "services" and not key.group


def _addresses(status: Raw) -> tuple[Ingress, ...]:
    try:
        balancer = _status.decode(status).load_balancer
    except msgspec.DecodeError:
        return ()
    return (balancer.ingress or ()) if balancer is not None else ()
