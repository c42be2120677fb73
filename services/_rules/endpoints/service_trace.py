"""Follows an imported Service from one cluster to the endpoints behind it, and names where it breaks off."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct

from schemas.endpoints import SliceEndpoint
from schemas.events.endpoints import EndpointsCollected, EndpointsReleased
from schemas.events.observed import WorkObserved
from schemas.events.work import WorkEvent, WorkRendered
from schemas.keys import ObjectKey
from services._rules.constants import DISCOVERY_API
from services._rules.endpoints.health_gates import is_ready
from services._rules.endpoints.imported_slices import imported
from services._rules.endpoints.locality import NOWHERE, Locality, Place, locality
from services._rules.names import derived_service_name


class TracedEndpoint(Struct, frozen=True, rename="camel"):
    """One endpoint behind an imported Service."""

    addresses: tuple[str, ...]
    ready: bool
    target: str = ""
    """Kind and name of the object behind it, in its own cluster."""
    zones: tuple[str, ...] = ()
    """Zones of clients that are kept to it and others of theirs; none: it is used from everywhere."""
    used: bool = True
    """Whether clients of the cluster are sent there, when it is ready."""


class TracedSlice(Struct, frozen=True, rename="camel"):
    """One slice on its way: the cluster it is from, its name where it is imported, and why it is not there.

    `kept` is why its cluster should not be used, where no other one offers the same.
    """

    cluster: str
    name: str
    ports: tuple[str, ...]
    endpoints: tuple[TracedEndpoint, ...]
    missing: str = ""
    kept: str = ""


class LeftOut(Struct, frozen=True, rename="camel"):
    """A cluster that offers endpoints which do not count at present."""

    cluster: str
    reason: str


class ServiceTrace(Struct, frozen=True, rename="camel"):
    """What a client in one cluster reaches under the derived name; `problems` say what keeps it from more."""

    service: str
    cluster: str
    missing: str
    """Why the derived Service is not in the cluster; empty where it is."""
    slices: tuple[TracedSlice, ...] = ()
    problems: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    locality: str = ""
    """Which endpoints clients of the cluster are kept to, or why to none."""
    own_name: bool = False
    """Whether it is reached by the name that it has itself, by a MultiClusterService."""

    @property
    def reached(self) -> int:
        """Ready endpoints that a client reaches."""
        if self.missing:
            return 0
        return sum(each.ready and each.used for item in self.slices if not item.missing for each in item.endpoints)


class TracedFacts(Struct, frozen=True):
    """What the log says last: slices that count or do not, works and observations by cluster and object.

    `exporters` are the clusters that export the Service, `places` those of the members; `importers` are those that
    import it, None where clients are not kept to what is near them.
    """

    collected: Sequence[EndpointsCollected] = ()
    works: Mapping[tuple[str, ObjectKey], WorkEvent] = {}
    observed: Mapping[tuple[str, ObjectKey], WorkObserved] = {}
    released: Sequence[EndpointsReleased] = ()
    exporters: Collection[str] = ()
    places: Mapping[str, Place] = {}
    importers: Collection[str] | None = ()


def service_key(namespace: str, name: str) -> ObjectKey:
    """The derived Service of an imported one."""
    return ObjectKey("", "services", namespace, derived_service_name(name))


def slice_key(event: EndpointsCollected) -> ObjectKey:
    """The imported EndpointSlice of one that was collected."""
    return ObjectKey(DISCOVERY_API.partition("/")[0], "endpointslices", event.namespace, imported(event).name)


def trace(namespace: str, name: str, cluster: str, facts: TracedFacts) -> ServiceTrace:
    """What a client in a cluster reaches of a Service that others export."""
    wanted = [event for event in facts.collected if (event.namespace, event.service) == (namespace, name)]
    wanted.sort(key=lambda event: (event.cluster, event.name))
    near = Locality(reason="it is turned off")
    if facts.importers is not None:
        near = locality(wanted, facts.places, facts.importers)
    mine = facts.places.get(cluster, NOWHERE).zones
    marked = {zone for zones in near.zones.values() for zone in zones}
    kept_to = [zone for zone in mine if zone in marked]
    slices = tuple(
        traced_slice(
            event,
            imported(event).name,
            missing_from(cluster, slice_key(event), facts),
            tuple(_endpoint(each, near.of(event.cluster, each), mine, kept_to) for each in event.endpoints),
            event.kept,
        )
        for event in wanted
    )
    missing = missing_from(cluster, service_key(namespace, name), facts)
    problems = []
    if missing:
        problems.append(f"{derived_service_name(name)} is not in {cluster}: {missing}; propagate a ServiceImport there")
    if not slices:
        problems.append(
            f"no cluster exports endpoints of {name}: it needs a ServiceExport beside a Service that has pods"
        )
    problems += [f"{item.name} is not in {cluster}: {item.missing}" for item in slices if item.missing]
    if slices and not any(endpoint.ready for item in slices for endpoint in item.endpoints):
        problems.append("no endpoint is ready")
    return ServiceTrace(
        f"{namespace}/{name}",
        cluster,
        missing,
        slices,
        tuple(problems),
        left_out=tuple(LeftOut(*item) for item in sorted(_left_out(namespace, name, facts))),
        locality=_kept_to(mine, kept_to, near) if slices else "",
    )


def traced_slice(
    event: EndpointsCollected,
    name: str,
    missing: str,
    endpoints: tuple[TracedEndpoint, ...] | None = None,
    kept: str = "",
) -> TracedSlice:
    """A slice that was collected, under its name in another cluster; `endpoints` where zones tell them apart."""
    ports = tuple(f"{port.name or port.port}/{port.protocol}" for port in event.ports)
    if endpoints is None:
        endpoints = tuple(_endpoint(each, (), (), ()) for each in event.endpoints)
    return TracedSlice(event.cluster, name, ports, endpoints, missing, kept)


def _endpoint(
    endpoint: SliceEndpoint, zones: tuple[str, ...], mine: Sequence[str], kept_to: Sequence[str]
) -> TracedEndpoint:
    """One endpoint as clients with the zones `mine` see it, those in `kept_to` being kept to what names their zone."""
    target = endpoint.target_ref
    return TracedEndpoint(
        endpoint.addresses,
        is_ready(endpoint),
        f"{target.kind}/{target.name}" if target else "",
        zones,
        not zones or not mine or len(kept_to) < len(mine) or not set(zones).isdisjoint(kept_to),
    )


def _left_out(namespace: str, name: str, facts: TracedFacts) -> set[tuple[str, str]]:
    """Clusters whose gate is closed, with the reasons."""
    return {
        (event.cluster, event.reason)
        for event in facts.released
        if event.gated and event.cluster in facts.exporters and (event.namespace, event.service) == (namespace, name)
    }


def _kept_to(mine: Sequence[str], kept_to: Sequence[str], near: Locality) -> str:
    """Which endpoints clients with these zones are kept to, in words."""
    if near.reason:
        return f"clients use all endpoints: {near.reason}"
    if not mine:
        return "clients use all endpoints: the zones of the cluster are not known"
    words = [f"clients in {', '.join(kept_to)} use the endpoints that name their zone"] if kept_to else []
    others = [zone for zone in mine if zone not in kept_to]
    if others:
        words.append(f"clients in {', '.join(others)} use all: no ready endpoint is in their zone or region")
    return "; ".join(words)


def missing_from(cluster: str, key: ObjectKey, facts: TracedFacts) -> str:
    """Why a cluster does not hold an object, in words; empty where it does."""
    work, seen = facts.works.get((cluster, key)), facts.observed.get((cluster, key))
    if not isinstance(work, WorkRendered):
        return "nothing asks for it there"
    if work.problem:
        return work.problem
    if seen is None or seen.uid != work.uid:
        return "it is on its way"
    if seen.absent or not seen.applied:
        return seen.message or "the cluster does not hold it"
    return "" if seen.digest == work.digest else "an older version is there, the present one is on its way"
