"""Follows the EndpointSlices of the Services that one cluster exports, while it exports any."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

import msgspec
import structlog
from msgspec import UNSET, Raw, Struct, UnsetType

from schemas.endpoints import PortOfSlice, ServiceSlice, SliceEndpoint
from schemas.events.observed import WorkObserved
from schemas.keys import ObjectKey
from services._kit.concurrency.supervision import Supervised, supervise
from services._kit.concurrency.tasks import first_of, set_within
from services._kit.kube.answers.shapes import check_metadata, readable
from services._kit.kube.client import ApiError, BadAnswer, KubeClient, resource_path
from services._kit.kube.list_watch import Gatekeeper, Reflector
from services._rules.constants import (
    DISPATCH_CONTROLLER,
    IMPORT_CONTROLLER,
    SERVICE_NAME_LABEL,
    SLICE_MANAGED_BY_LABEL,
)
from services._rules.endpoints.reported_slices import bounded

log = structlog.get_logger("delivery.endpoints")

_GATHER_SECONDS: Final = 0.05
"""For how long exports that follow each other are gathered before their endpoints are listed."""
_NOT_SERVED_SECONDS: Final = 10.0
"""After which a cluster is asked again for a kind that it did not serve."""
_PATH: Final = resource_path("discovery.k8s.io", "v1", "endpointslices")
# What was delivered from other clusters is not exported again.
_PARAMS: Final = {
    "labelSelector": f"{SERVICE_NAME_LABEL},{SLICE_MANAGED_BY_LABEL} notin ({DISPATCH_CONTROLLER},{IMPORT_CONTROLLER})"
}

Service = tuple[str, str]
"""Namespace and name of a Service."""
Place = tuple[str, str]
"""Namespace and name of a slice."""


class Found(Struct, frozen=True):
    """Slices of one Service (None: not known yet), and what is wrong with them in words."""

    slices: tuple[ServiceSlice, ...] | None
    problem: str = ""


class _Seen(Struct, frozen=True):
    """One EndpointSlice; no content where it could not be read."""

    namespace: str
    name: str
    version: str
    service: str
    content: ServiceSlice | None


class _Meta(Struct):
    metadata: Raw


class _Content(Struct, rename="camel"):
    address_type: str = ""
    endpoints: tuple[SliceEndpoint, ...] | None = None
    ports: tuple[PortOfSlice, ...] | None = None


_meta: Final = msgspec.json.Decoder(_Meta)
_content: Final = msgspec.json.Decoder(_Content)


class _OfServices:
    """Reads the slices of some Services, and those that belonged to one before."""

    def __init__(self, concerns: Callable[[str, str, str], bool]) -> None:
        self._concerns = concerns

    def begin(self) -> None:
        """Nothing is counted."""

    def read(self, raw: Raw, api_version: str, kind: str) -> _Seen | None:
        """One slice; the content of those of other Services is not looked at."""
        del api_version, kind
        metadata = check_metadata(readable(_meta, raw, "an object").metadata)
        namespace = metadata.namespace or ""
        service = (metadata.labels or {}).get(SERVICE_NAME_LABEL, "")
        if not self._concerns(namespace, metadata.name, service):
            return None
        content: ServiceSlice | None = None
        try:
            found = readable(_content, raw, "an EndpointSlice")
            content = ServiceSlice(metadata.name, found.address_type, found.endpoints or (), found.ports or ())
        except BadAnswer as error:
            log.warning("slice_not_read", namespace=namespace, name=metadata.name, reason=str(error))
        return _Seen(namespace, metadata.name, metadata.resource_version or "", service, content)

    def version(self, found: _Seen) -> str:
        """Its resourceVersion."""
        return found.version


class ExportedEndpoints:
    """The slices by Service; `changed` hears of the exports whose slices are others, or are known from now on."""

    def __init__(
        self, client: KubeClient, changed: Callable[[ObjectKey], None], gate: Gatekeeper[_Seen] | None = None
    ) -> None:
        self._client = client
        self._changed = changed
        self._gate = gate
        self._exports: dict[Service, set[ObjectKey]] = {}
        """The objects that ask for the slices of each Service: a ServiceExport, a MultiClusterService, or both."""
        self._slices: dict[Service, dict[str, ServiceSlice | None]] = {}
        self._places: dict[Place, Service] = {}
        self._listing: frozenset[Service] = frozenset()
        self._listed: frozenset[Service] = frozenset()
        """Services whose slices are all known."""
        self._again = asyncio.Event()
        self._problem = ""
        self._task: Supervised | None = None

    def of(self, key: ObjectKey) -> Found:
        """The slices of the Service that an object exports, which is followed from now on."""
        service = (key.namespace, key.name)
        if service in self._exports:
            self._exports[service].add(key)
        else:
            self._exports[service] = {key}
            self._again.set()
            if self._task is None:
                self._task = supervise("exported-endpoints", self._follow)
        if service not in self._listed:
            return Found(None, self._problem)
        slices = self._slices.get(service, {})
        kept, left_out = bounded(item for item in slices.values() if item is not None)
        unread = sorted(name for name, item in slices.items() if item is None)
        words = [f"EndpointSlice {', '.join(unread[:3])} cannot be read"] if unread else []
        return Found(kept, "; ".join([*words, *([left_out] if left_out else []), *self._words]))

    def reported(
        self, key: ObjectKey, uid: str, before: WorkObserved | None
    ) -> tuple[tuple[ServiceSlice, ...] | UnsetType, str]:
        """Endpoints to report and what is wrong with them; until a list is known those of the report before."""
        found = self.of(key)
        if found.slices is not None:
            return found.slices, found.problem
        known = before is not None and before.uid == uid
        return (before.endpoints if known and before is not None else UNSET), found.problem

    @property
    def _words(self) -> list[str]:
        return [self._problem] if self._problem else []

    def leave(self, key: ObjectKey) -> None:
        """An object exports nothing any more."""
        service = (key.namespace, key.name)
        asking = self._exports.get(service)
        if asking is None or key not in asking:
            return
        asking.remove(key)
        if asking:
            return
        del self._exports[service]
        self._listed -= {service}
        for name in self._slices.pop(service, {}):
            self._places.pop((key.namespace, name), None)
        if not self._exports:
            self.close()

    def list_again(self) -> None:
        """Compare what is known with a new list."""
        self._again.set()

    def close(self) -> None:
        """Stop following."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()

    async def _follow(self) -> None:
        """List and watch; from the start again when there are more exports."""
        while True:
            await asyncio.sleep(_GATHER_SECONDS)
            self._again.clear()
            self._listing = frozenset(self._exports)
            await first_of(self._read(), self._again.wait())

    async def _read(self) -> None:
        reflector = Reflector(
            self._client,
            _PATH,
            self,
            _OfServices(self._concerns),
            params=_PARAMS,
            on_trouble=self._trouble,
            gate=self._gate,
        )
        await reflector.run()
        self._trouble(ApiError(404, "NotFound", "the cluster does not serve EndpointSlices of discovery.k8s.io/v1"))
        await set_within(self._again, _NOT_SERVED_SECONDS)

    def _trouble(self, why: Exception) -> float:
        """What was listed before stands; that nothing is heard is reported where it is more than an interruption."""
        problem = f"its EndpointSlices cannot be read: {why}"[:500] if isinstance(why, ApiError) else self._problem
        if problem != self._problem:
            self._problem = problem
            self._tell(self._exports)
        return 0.0

    def _concerns(self, namespace: str, name: str, service: str) -> bool:
        return (namespace, service) in self._exports or (namespace, name) in self._places

    def _tell(self, services: Iterable[Service]) -> None:
        for service in list(services):
            for key in sorted(self._exports.get(service, ())):
                self._changed(key)

    def listed(self, objects: list[_Seen]) -> None:
        """A complete list of the slices of all exports that were known when it began."""
        before, known = self._slices, self._listed
        self._slices, self._places = {}, {}
        for seen in objects:
            self._keep(seen)
        recovered, self._problem = bool(self._problem), ""
        self._listed = self._listing & self._exports.keys()
        self._tell(
            {
                service
                for service in self._listed
                if recovered or service not in known or before.get(service, {}) != self._slices.get(service, {})
            }
        )

    def changed(self, kind: str, found: _Seen) -> None:
        """One change of a slice; one that belongs to another Service now has left the one before."""
        place = (found.namespace, found.name)
        touched: set[Service] = set()
        before = self._places.pop(place, None)
        if before is not None:
            self._slices.get(before, {}).pop(found.name, None)
            touched.add(before)
        if kind != "DELETED" and (service := self._keep(found)) is not None:
            touched.add(service)
        self._tell(touched)

    def _keep(self, seen: _Seen) -> Service | None:
        service = (seen.namespace, seen.service)
        if service not in self._exports:
            return None
        self._places[seen.namespace, seen.name] = service
        self._slices.setdefault(service, {})[seen.name] = seen.content
        return service
