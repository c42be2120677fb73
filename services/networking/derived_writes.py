"""Makes the writes of the networking service: EndpointSlices and Services that are its own, and statuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from schemas.manifest import Manifest
from services._kit.kube.api import PASSING
from services._kit.kube.client import ApiError, KubeClient, resource_path
from services._rules.constants import (
    IMPORT_CONTROLLER,
    MULTI_CLUSTER_SERVICES,
    MULTICLUSTER_GROUP,
    NETWORKING_GROUP,
    SLICE_MANAGED_BY_LABEL,
)
from services._rules.endpoints.derived_services import read_service, service_manifest, taken
from services._rules.endpoints.imported_slices import manifest_of
from services._rules.endpoints.ingress_backends import GROUP, INGRESS_API, INGRESS_KIND, INGRESSES
from services._rules.names import derived_service_name
from services.networking.ingresses.ingress_objects import MANAGER, ShowRoutes
from services.networking.service_objects import (
    SERVICES,
    SLICES,
    DropService,
    DropSlice,
    PutService,
    PutSlice,
    ShowAddresses,
    ShowStatus,
)

Write = PutSlice | DropSlice | PutService | DropService | ShowAddresses | ShowStatus | ShowRoutes
_GONE: Final = frozenset({404, 409})
_TRIES: Final = 3
_APPLY: Final = "application/apply-patch+yaml"
_AS_MANAGER: Final = {"fieldManager": MANAGER}


class Busy(Exception):
    """The control plane did not take a write now; it is tried again."""


class Taken(Exception):
    """The name of an object is that of one that is not ours; the message says which."""


class ControlWrites:
    """Writes of one instance; `version` knows what the watch saw last of an object."""

    def __init__(self, control: KubeClient, version: Callable[[str, tuple[str, str]], str]) -> None:
        self._control = control
        self._version = version
        self.written = 0
        """Objects that were created, changed or deleted."""

    async def carry_out(self, write: Write) -> None:
        """Make one write.

        Raises Busy where it should be tried again, Taken where the name is another one's, ApiError for a refusal.
        """
        try:
            match write:
                case PutSlice():
                    await self._put_slice(write)
                case DropSlice():
                    await self._drop_slice(write)
                case PutService():
                    await self._put_service(write)
                case DropService():
                    path = _service(write.service.namespace, derived_service_name(write.service.name))
                    await self._delete(path, uid=write.uid)
                case ShowAddresses():
                    ingress = [{"ip": address} for address in write.ips]
                    path = _service(write.service.namespace, derived_service_name(write.service.name), "status")
                    await self._patch(path, {"status": {"loadBalancer": {"ingress": ingress}}})
                case ShowStatus():
                    service = write.service
                    group = NETWORKING_GROUP if write.plural == MULTI_CLUSTER_SERVICES else MULTICLUSTER_GROUP
                    path = resource_path(group, "v1alpha1", write.plural, service.namespace, service.name, "status")
                    await self._patch(path, {"metadata": {"uid": write.uid}, "status": write.status})
                case ShowRoutes():
                    await self._apply_routes(write)
        except ApiError as error:
            if error.status in PASSING:
                raise Busy(str(error)) from error
            raise
        self.written += 1

    async def _put_slice(self, write: PutSlice) -> None:
        namespace, name = write.service.namespace, write.item.name
        manifest = manifest_of(write.item, namespace)
        version = self._version(SLICES, (namespace, name))
        for _ in range(_TRIES):
            try:
                if version:
                    manifest["metadata"]["resourceVersion"] = version
                    await self._control.update(_slice(namespace, name), manifest)
                else:
                    manifest["metadata"].pop("resourceVersion", None)
                    await self._control.create(_slice(namespace), manifest)
            except ApiError as error:
                if error.status not in _GONE or (error.status == 404 and not version):
                    raise
                version = await self._present_version(namespace, name)
                continue
            return
        raise Busy(f"EndpointSlice {namespace}/{name} changes all the time")

    async def _present_version(self, namespace: str, name: str) -> str:
        """The version of a slice that may be replaced, empty where there is none; raises Taken."""
        try:
            present = await self._control.get(_slice(namespace, name))
        except ApiError as error:
            if error.status == 404:
                return ""
            raise
        labels = present["metadata"].get("labels") or {}
        if labels.get(SLICE_MANAGED_BY_LABEL) != IMPORT_CONTROLLER:
            raise Taken(
                f"EndpointSlice {name} exists and is not marked as imported: it is left as it is; delete it, and the "
                "endpoints follow"
            )
        return str(present["metadata"].get("resourceVersion") or "")

    async def _drop_slice(self, write: DropSlice) -> None:
        # One that changes at this moment is decided about again.
        version = self._version(SLICES, (write.service.namespace, write.name))
        await self._delete(_slice(write.service.namespace, write.name), version=version)

    async def _put_service(self, write: PutService) -> None:
        namespace, name = write.service.namespace, derived_service_name(write.given.name)
        manifest = service_manifest(write.given, namespace)
        for _ in range(_TRIES):
            try:
                present = await self._control.get(_service(namespace, name))
            except ApiError as error:
                if error.status != 404:
                    raise
                created = {**manifest, "spec": {key: value for key, value in manifest["spec"].items() if value}}
                try:
                    await self._control.create(_service(namespace), created)
                except ApiError as refusal:
                    if refusal.status == 409:
                        continue
                    raise
                return
            if refusal_text := taken(read_service(present), write.given):
                raise Taken(refusal_text)
            version = present["metadata"].get("resourceVersion")
            annotations = manifest["metadata"]["annotations"]
            patch = {"metadata": {"resourceVersion": version, "annotations": annotations}, "spec": manifest["spec"]}
            try:
                await self._control.patch(_service(namespace, name), patch)
            except ApiError as error:
                if error.status in _GONE:
                    continue
                raise
            return
        raise Busy(f"Service {namespace}/{name} changes all the time")

    async def _apply_routes(self, write: ShowRoutes) -> None:
        """No field of another manager is taken: after a refusal the watch shows which of them are another's now."""
        name = write.ingress
        path = resource_path(GROUP, "v1alpha1", INGRESSES, name.namespace, name.name, "status")
        metadata = {"name": name.name, "namespace": name.namespace, "uid": write.uid}
        body: Manifest = {
            "apiVersion": INGRESS_API,
            "kind": INGRESS_KIND,
            "metadata": metadata,
            "status": write.status,
        }
        try:
            await self._control.request("PATCH", path, params=_AS_MANAGER, body=body, content_type=_APPLY)
        except ApiError as error:
            if error.status not in _GONE:
                raise

    async def _delete(self, path: str, *, uid: str = "", version: str = "") -> None:
        try:
            await self._control.delete(path, uid=uid, resource_version=version)
        except ApiError as error:
            if error.status not in _GONE:
                raise

    async def _patch(self, path: str, body: Manifest) -> None:
        try:
            await self._control.patch(path, body)
        except ApiError as error:
            if error.status not in _GONE:
                raise


def _slice(namespace: str, name: str = "") -> str:
    return resource_path("discovery.k8s.io", "v1", SLICES, namespace, name)


def _service(namespace: str, name: str = "", subresource: str = "") -> str:
    return resource_path("", "v1", SERVICES, namespace, name, subresource)
