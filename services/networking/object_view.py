"""Watches what exports, imports, MultiClusterServices and MultiClusterIngresses are decided from."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol

import msgspec
import structlog
from msgspec import Raw, Struct

from schemas.manifest import Manifest
from services._kit.concurrency.supervision import Supervised, supervise
from services._kit.kube.answers.shapes import readable
from services._kit.kube.client import KubeClient, resource_path
from services._kit.kube.list_watch import Decoded, Reflector
from services._rules.constants import (
    EXPORTS,
    IMPORT_CONTROLLER,
    IMPORTS,
    MULTI_CLUSTER_SERVICE,
    MULTI_CLUSTER_SERVICES,
    MULTICLUSTER_GROUP,
    NETWORKING_API,
    NETWORKING_GROUP,
    SLICE_MANAGED_BY_LABEL,
)
from services._rules.endpoints.derived_services import read_import, read_service
from services._rules.endpoints.imported_slices import read_imported
from services._rules.endpoints.ingress_backends import GROUP, INGRESS_API, INGRESS_KIND, INGRESSES
from services._rules.names import derived_service_name
from services.networking.dispatching.control_status import read_shared
from services.networking.ingresses.ingress_objects import IngressName, IngressObjects
from services.networking.service_objects import (
    SERVICES,
    SLICES,
    ControlObjects,
    ExportObject,
)
from services.networking.state import ServiceName

log = structlog.get_logger("networking")

_RETRY_SECONDS: Final = 2.0
_PREFIX: Final = derived_service_name("")
_PATHS: Final = {
    EXPORTS: resource_path(MULTICLUSTER_GROUP, "v1alpha1", EXPORTS),
    IMPORTS: resource_path(MULTICLUSTER_GROUP, "v1alpha1", IMPORTS),
    SERVICES: resource_path("", "v1", SERVICES),
    SLICES: resource_path("discovery.k8s.io", "v1", SLICES),
    MULTI_CLUSTER_SERVICES: resource_path(NETWORKING_GROUP, "v1alpha1", MULTI_CLUSTER_SERVICES),
    INGRESSES: resource_path(GROUP, "v1alpha1", INGRESSES),
}
_KINDS: Final = {
    EXPORTS: (f"{MULTICLUSTER_GROUP}/v1alpha1", "ServiceExport"),
    IMPORTS: (f"{MULTICLUSTER_GROUP}/v1alpha1", "ServiceImport"),
    SERVICES: ("v1", "Service"),
    SLICES: ("discovery.k8s.io/v1", "EndpointSlice"),
    MULTI_CLUSTER_SERVICES: (NETWORKING_API, MULTI_CLUSTER_SERVICE),
    INGRESSES: (INGRESS_API, INGRESS_KIND),
}
_PARAMS: Final = {SLICES: {"labelSelector": f"{SLICE_MANAGED_BY_LABEL}={IMPORT_CONTROLLER}"}}

Place = tuple[str, str]
"""Namespace and name of an object."""
Key = ServiceName | IngressName
"""What is decided."""


class Sink(Protocol):
    """Takes in what a watch sees."""

    def put(self, plural: str, place: Place, manifest: Manifest) -> Iterable[Key]:
        """An object as it is now; the Services that it concerns."""

    def drop(self, plural: str, place: Place) -> Iterable[Key]:
        """An object is gone; the Services that it concerned."""


class _Named(Decoded):
    """Services with names of derived ones; of others only names and ports are looked at."""

    def read(self, raw: Raw, api_version: str, kind: str) -> Manifest:
        """Decode it, but keep of other Services only what names them, and their ports."""
        manifest = super().read(raw, api_version, kind)
        if str(manifest["metadata"]["name"]).startswith(_PREFIX):
            return manifest
        spec = manifest.get("spec")
        ports = spec.get("ports") if isinstance(spec, dict) else None
        shown = {"apiVersion": api_version, "kind": kind, "metadata": manifest["metadata"]}
        return {**shown, "spec": {"ports": ports if isinstance(ports, list) else []}}


class _Owner(Struct, rename="camel"):
    manager: str = ""
    fields_v1: dict[str, Any] | None = msgspec.field(name="fieldsV1", default=None)


class _Owned(Struct, rename="camel"):
    managed_fields: list[_Owner] | None = None


class _Managed(Struct):
    metadata: _Owned


_managed: Final = msgspec.json.Decoder(_Managed)


class _WithOwners(Decoded):
    """Objects together with who wrote which field of their status."""

    def read(self, raw: Raw, api_version: str, kind: str) -> Manifest:
        """Decode it."""
        manifest = super().read(raw, api_version, kind)
        owners = readable(_managed, raw, f"a {kind}").metadata.managed_fields or ()
        manifest["metadata"]["managedFields"] = [
            {"manager": owner.manager, "fieldsV1": {"f:status": (owner.fields_v1 or {}).get("f:status")}}
            for owner in owners
        ]
        return manifest


def _reading(plural: str) -> Decoded:
    match plural:
        case "services":
            return _Named()
        case "multiclusteringresses":
            return _WithOwners()
        case _:
            return Decoded()


class KindFollower:
    """The objects of one kind; `told` hears of the Services that changed objects concern."""

    def __init__(self, control: KubeClient, plural: str, sink: Sink, told: Callable[[Iterable[Key]], None]) -> None:
        self._plural = plural
        self._sink = sink
        self._told = told
        self.synced = False
        """Whether a complete list was read."""
        self._places: set[Place] = set()
        api_version, kind = _KINDS[plural]
        self._reflector: Reflector[Manifest] = Reflector(
            control,
            _PATHS[plural],
            self,
            _reading(plural),
            params=_PARAMS.get(plural),
            api_version=api_version,
            kind=kind,
        )
        self._task: Supervised = supervise(f"watch:{plural}", self._run)

    @property
    def trouble(self) -> str:
        """Why the objects are not known; empty once they are."""
        if self.synced:
            return ""
        return f"{self._plural} were not listed yet: {self._reflector.trouble or 'it has just begun'}"

    async def close(self) -> None:
        """Stop watching."""
        await self._task.close()

    async def _run(self) -> None:
        while True:
            await self._reflector.run()
            if not self.synced:
                # The control plane does not serve this kind, so it has no such objects; the others go on without.
                self.listed([])
            # The definition is not there, or is gone: what it held is gone only once it is served again without it.
            self._reflector.list_again()
            await asyncio.sleep(_RETRY_SECONDS)

    def listed(self, objects: list[Manifest]) -> None:
        """Take a complete list."""
        touched: set[Key] = set()
        found = {_place(manifest): manifest for manifest in objects}
        for place in self._places - found.keys():
            touched.update(self._sink.drop(self._plural, place))
        for place, manifest in found.items():
            touched.update(self._sink.put(self._plural, place, manifest))
        self._places = set(found)
        self.synced = True
        self._told(touched)

    def changed(self, kind: str, manifest: Manifest) -> None:
        """Take one change."""
        place = _place(manifest)
        if kind == "DELETED":
            self._places.discard(place)
            self._told(self._sink.drop(self._plural, place))
        else:
            self._places.add(place)
            self._told(self._sink.put(self._plural, place, manifest))


class ControlView:
    """What the control plane has of every Service.

    `told` hears of those of which that changed, from when all kinds are known; `complete` is called when they are.
    """

    def __init__(
        self,
        control: KubeClient,
        told: Callable[[Iterable[Key]], None],
        complete: Callable[[], None],
    ) -> None:
        self._told = told
        self._complete = complete
        self._begun = False
        self._services: dict[ServiceName, ControlObjects] = {}
        self._of_slice: dict[Place, ServiceName] = {}
        self.ingresses = IngressObjects()
        self.versions: dict[tuple[str, Place], str] = {}
        """The resourceVersion of each object, by its plural and place."""
        self._followers = [KindFollower(control, plural, self, self._heard) for plural in _PATHS]

    @property
    def synced(self) -> bool:
        """Whether all kinds are known, so that what is missing is not there."""
        return all(follower.synced for follower in self._followers)

    @property
    def trouble(self) -> str:
        """Why not all is known; empty once it is."""
        return next((follower.trouble for follower in self._followers if follower.trouble), "")

    def _heard(self, names: Iterable[Key]) -> None:
        if not self.synced:
            return
        if not self._begun:
            self._begun = True
            self._complete()
        else:
            self._told(names)

    async def close(self) -> None:
        """Stop watching."""
        await asyncio.gather(*(follower.close() for follower in self._followers))

    def of(self, name: ServiceName) -> ControlObjects:
        """The objects of one Service."""
        return self._services.get(name) or ControlObjects()

    def names(self) -> list[Key]:
        """Services of which there are objects, and MultiClusterIngresses."""
        return [*self._services, *self.ingresses.names()]

    def put(self, plural: str, place: Place, manifest: Manifest) -> Iterable[Key]:
        """An object as it is now; the Services that it concerns."""
        metadata: dict[str, Any] = manifest["metadata"]
        self.versions[plural, place] = str(metadata.get("resourceVersion") or "")
        try:
            return self._take(plural, place, manifest)
        except ValueError as error:
            log.warning("object_not_read", plural=plural, namespace=place[0], name=place[1], reason=str(error))
            return self.drop(plural, place)

    def _take(self, plural: str, place: Place, manifest: Manifest) -> Iterable[Key]:
        namespace, own_name = place
        if plural == SLICES:
            item = read_imported(manifest)
            name = ServiceName(namespace, item.service.removeprefix(_PREFIX))
            before = self._of_slice.get(place)
            touched = {name}
            if before is not None and before != name:
                self._of(before).slices.pop(own_name, None)
                touched.add(before)
            self._of_slice[place] = name
            self._of(name).slices[own_name] = item
            return touched
        if plural == INGRESSES:
            return self.ingresses.put(place, manifest)
        if plural == SERVICES:
            leading = self.ingresses.put_service(place, manifest)
            if not own_name.startswith(_PREFIX):
                self.versions.pop((plural, place), None)
                return leading
            name = ServiceName(namespace, own_name.removeprefix(_PREFIX))
            self._of(name).derived = read_service(manifest)
            return (name, *leading)
        name = ServiceName(namespace, own_name)
        if plural == IMPORTS:
            self._of(name).asked = read_import(manifest)
            return (name,)
        if plural == MULTI_CLUSTER_SERVICES:
            self._of(name).shared = read_shared(manifest)
            return (name,)
        metadata, status = manifest["metadata"], manifest.get("status") or {}
        conditions = status.get("conditions") if isinstance(status, dict) else None
        self._of(name).export = ExportObject(
            str(metadata.get("uid") or ""),
            int(metadata.get("generation") or 0),
            tuple(item for item in conditions or () if isinstance(item, dict)),
        )
        return (name,)

    def drop(self, plural: str, place: Place) -> Iterable[Key]:
        """An object is gone; the Services that it concerned."""
        self.versions.pop((plural, place), None)
        if plural == INGRESSES:
            return self.ingresses.drop(place)
        leading = self.ingresses.drop_service(place) if plural == SERVICES else ()
        namespace, own_name = place
        name: ServiceName | None
        if plural == SLICES:
            name = self._of_slice.pop(place, None)
        elif plural == SERVICES:
            name = ServiceName(namespace, own_name.removeprefix(_PREFIX)) if own_name.startswith(_PREFIX) else None
        else:
            name = ServiceName(namespace, own_name)
        found = self._services.get(name) if name is not None else None
        if name is None or found is None:
            return leading
        match plural:
            case "endpointslices":
                found.slices.pop(own_name, None)
            case "services":
                found.derived = None
            case "serviceimports":
                found.asked = None
            case "multiclusterservices":
                found.shared = None
            case _:
                found.export = None
        if found.nothing:
            del self._services[name]
        return (name, *leading)

    def _of(self, name: ServiceName) -> ControlObjects:
        found = self._services.get(name)
        if found is None:
            found = self._services[name] = ControlObjects()
        return found


def _place(manifest: Manifest) -> Place:
    metadata = manifest["metadata"]
    return str(metadata.get("namespace") or ""), str(metadata["name"])
