"""MultiClusterIngresses and the ports of Services as the control plane has them, and what is asked to be written."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct

from schemas.keys import ObjectKey
from schemas.manifest import Manifest
from services._rules.endpoints.ingress_backends import (
    GROUP,
    INGRESS_API,
    INGRESS_KIND,
    INGRESSES,
    Ingress,
    read_ingress,
)
from services._rules.kubernetes.event_objects import Involved
from services.networking.ingresses.backend_places import Place

MANAGER: Final = "fleetlog-networking"
"""Who writes the status, as field management knows it."""


class IngressName(Struct, frozen=True, order=True, array_like=True):
    """A MultiClusterIngress by its name."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{INGRESSES}/{self.namespace}/{self.name}"

    @property
    def key(self) -> ObjectKey:
        """Its key as an object."""
        return ObjectKey(GROUP, INGRESSES, self.namespace, self.name)

    def involved(self, uid: str) -> Involved:
        """The object as Events name it."""
        return Involved(self.key, uid, INGRESS_API, INGRESS_KIND)


class ShowRoutes(Struct, frozen=True):
    """Write what is kept of the status of the MultiClusterIngress with this uid: these fields, and no others."""

    ingress: IngressName
    uid: str
    status: Manifest


class IngressObjects:
    """What the watches have seen."""

    def __init__(self) -> None:
        self._ingresses: dict[IngressName, Ingress] = {}
        self._leading: dict[Place, set[IngressName]] = {}
        """Those that lead to a Service."""
        self._ports: dict[Place, frozenset[tuple[str, int]]] = {}

    def of(self, name: IngressName) -> Ingress | None:
        """A MultiClusterIngress, None where there is none."""
        return self._ingresses.get(name)

    def ports(self, place: Place) -> frozenset[tuple[str, int]] | None:
        """Names and numbers of the ports of a Service, None where there is none."""
        return self._ports.get(place)

    def names(self) -> list[IngressName]:
        """All of them."""
        return list(self._ingresses)

    def leading_to(self, places: Iterable[Place]) -> set[IngressName]:
        """Those that lead to one of the Services."""
        return {name for place in places for name in self._leading.get(place, ())}

    def put(self, place: Place, manifest: Manifest) -> Iterable[IngressName]:
        """A MultiClusterIngress as it is now; raises ValueError for one that cannot be read."""
        name = IngressName(*place)
        found = read_ingress(manifest, MANAGER)
        self.drop(place)
        self._ingresses[name] = found
        for service in found.services:
            self._leading.setdefault((name.namespace, service), set()).add(name)
        return (name,)

    def drop(self, place: Place) -> Iterable[IngressName]:
        """A MultiClusterIngress is gone."""
        name = IngressName(*place)
        before = self._ingresses.pop(name, None)
        for service in before.services if before is not None else ():
            leading = self._leading[name.namespace, service]
            leading.discard(name)
            if not leading:
                del self._leading[name.namespace, service]
        return (name,)

    def put_service(self, place: Place, manifest: Manifest) -> Iterable[IngressName]:
        """A Service as it is now."""
        spec = manifest.get("spec")
        listed = spec.get("ports") if isinstance(spec, dict) else None
        ports = frozenset(_port(item) for item in listed or () if isinstance(item, dict))
        if self._ports.get(place) == ports:
            return ()
        self._ports[place] = ports
        return self.leading_to((place,))

    def drop_service(self, place: Place) -> Iterable[IngressName]:
        """A Service is gone."""
        return self.leading_to((place,)) if self._ports.pop(place, None) is not None else ()


def _port(item: dict[str, Any]) -> tuple[str, int]:
    number = item.get("port")
    return str(item.get("name") or ""), number if isinstance(number, int) else 0
