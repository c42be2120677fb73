"""Decides from which zones each endpoint should be used: clients get endpoints of their own zone or region first.

One slice serves all importing clusters, as hints name the zones of clients. Source: docs/sources.md#services.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from schemas.endpoints import EndpointHints, SliceEndpoint, ZoneHint
from schemas.events.endpoints import EndpointsCollected
from services._rules.endpoints.health_gates import is_ready

MOST_HINTS: Final = 8
"""Zones that an endpoint may name; API servers refuse more."""


class Place(Struct, frozen=True):
    """Where a cluster is, as its spec says."""

    region: str = ""
    zones: tuple[str, ...] = ()


NOWHERE: Final = Place()


class _Spec(Struct, frozen=True):
    region: str = ""
    zone: str = ""
    zones: list[str] | None = None


class _Cluster(Struct, frozen=True):
    spec: _Spec = _Spec()


_cluster: Final = msgspec.json.Decoder(_Cluster)


def place_of(manifest: Raw) -> Place:
    """Where a Cluster object says that it is; `zone` is the older name of the field."""
    spec = _cluster.decode(manifest).spec
    return Place(spec.region, tuple(spec.zones or ([spec.zone] if spec.zone else ())))


class Locality(Struct, frozen=True):
    """The zones from which endpoints are used, by their cluster and zone; empty: from everywhere, by `reason`."""

    zones: Mapping[tuple[str, str], tuple[str, ...]] = {}
    reason: str = ""
    places: Mapping[str, Place] = {}

    def of(self, cluster: str, endpoint: SliceEndpoint) -> tuple[str, ...]:
        """The zones from which an endpoint of a cluster is used; none: from everywhere."""
        return self.zones.get((cluster, zone_of(endpoint, self.places.get(cluster, NOWHERE))), ())

    def hinted(self, cluster: str, endpoints: tuple[SliceEndpoint, ...]) -> tuple[SliceEndpoint, ...]:
        """Endpoints of a cluster with these hints instead of those of their own cluster."""
        if not self.zones and all(endpoint.hints is None for endpoint in endpoints):
            return endpoints
        return tuple(self._hinted(cluster, endpoint) for endpoint in endpoints)

    def _hinted(self, cluster: str, endpoint: SliceEndpoint) -> SliceEndpoint:
        zones = self.of(cluster, endpoint)
        hints = EndpointHints(tuple(map(ZoneHint, zones))) if zones else None
        return endpoint if endpoint.hints == hints else replace(endpoint, hints=hints)


EVERYWHERE: Final = Locality()


def zone_of(endpoint: SliceEndpoint, place: Place) -> str:
    """The zone of an endpoint: its own, or that of its cluster where that has only one; empty for unknown."""
    return endpoint.zone or (place.zones[0] if len(place.zones) == 1 else "")


def locality(
    collected: Iterable[EndpointsCollected], places: Mapping[str, Place], importers: Iterable[str]
) -> Locality:
    """Where the endpoints that count are used from, given the clusters (`importers`) whose clients look for them.

    An endpoint is used from its own zone, and from zones of its region that have no ready one of their own. Zones
    without one in their region as well are named nowhere: their clients use all. All is used from everywhere where the
    zone of an endpoint is not known, or all are in one.
    """
    ready: set[tuple[str, str]] = set()
    known: set[tuple[str, str]] = set()
    for event in collected:
        place = places.get(event.cluster, NOWHERE)
        for endpoint in event.endpoints:
            zone = zone_of(endpoint, place)
            if not zone:
                return Locality(reason=f"the zone of endpoints of {event.cluster} is not known")
            known.add((event.cluster, zone))
            if is_ready(endpoint):
                ready.add((event.cluster, zone))
    own = {zone for _, zone in ready}
    if len(own) < 2:
        return Locality(reason="all endpoints are in one zone" if own else "no endpoint is ready")
    regions = {places.get(cluster, NOWHERE).region for cluster, _ in ready} - {""}
    lacking: dict[str, set[str]] = {}
    for name in importers:
        place = places.get(name, NOWHERE)
        if place.region in regions:
            lacking.setdefault(place.region, set()).update(zone for zone in place.zones if zone not in own)
    zones = {
        (cluster, zone): (zone, *sorted(lacking.get(places.get(cluster, NOWHERE).region, ()))[: MOST_HINTS - 1])
        for cluster, zone in known
    }
    return Locality(zones, places=places)
