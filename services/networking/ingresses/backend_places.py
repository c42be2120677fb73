"""Projects which clusters have which Services, and from which of them traffic is taken away."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import Struct, field

from schemas.codec import Known
from schemas.events.cluster import ClusterChanged, ClusterRemoved
from schemas.events.work import WorkRendered, WorkWithdrawn
from services._rules.endpoints.ingress_backends import TRAFFIC_CONTROL

Place = tuple[str, str]
"""Namespace and name of a Service."""


class _Status(Struct, rename="camel"):
    remedy_actions: list[str] | None = None


class _Cluster(Struct):
    status: _Status = field(default_factory=_Status)


_cluster: Final = msgspec.json.Decoder(_Cluster)


class BackendPlaces(Struct):
    """Clusters by Service, and the clusters whose traffic is to be blocked."""

    clusters: dict[Place, frozenset[str]] = field(default_factory=dict)
    blocked: set[str] = field(default_factory=set)

    def of(self, place: Place) -> tuple[str, ...]:
        """The clusters that have a Service, sorted."""
        return tuple(sorted(self.clusters.get(place, ())))

    def take(self, event: Known) -> Iterable[Place]:
        """Apply one event; the Services that a cluster has won or lost, or whose traffic is led otherwise."""
        match event:
            case WorkRendered() | WorkWithdrawn() if event.key.group == "" and event.key.resource == "services":
                return self._held(event)
            case ClusterChanged():
                actions = _cluster.decode(event.manifest).status.remedy_actions or ()
                return self._led(event.name, TRAFFIC_CONTROL in actions)
            case ClusterRemoved():
                touched = [place for place, names in self.clusters.items() if event.name in names]
                self.blocked.discard(event.name)
                for place in touched:
                    self._put(place, self.clusters[place] - {event.name})
                return touched
            case _:
                return ()

    def _held(self, event: WorkRendered | WorkWithdrawn) -> Iterable[Place]:
        place = (event.key.namespace, event.key.name)
        before = self.clusters.get(place, frozenset())
        rendered = isinstance(event, WorkRendered)
        now = before | {event.cluster} if rendered else before - {event.cluster}
        if now == before:
            return ()
        self._put(place, now)
        return (place,)

    def _led(self, cluster: str, blocked: bool) -> Iterable[Place]:
        if blocked == (cluster in self.blocked):
            return ()
        self.blocked ^= {cluster}
        return [place for place, names in self.clusters.items() if cluster in names]

    def _put(self, place: Place, names: frozenset[str]) -> None:
        if names:
            self.clusters[place] = names
        else:
            self.clusters.pop(place, None)
