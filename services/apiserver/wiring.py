"""What a server is assembled from besides its core: admission plugins, controllers, tables and OpenAPI documents."""

from functools import cache
from typing import TYPE_CHECKING, Protocol

from schemas.manifest import Manifest
from services.apiserver.admission.admission_webhooks import Webhooks
from services.apiserver.admission.builtin_plugins import CertificateRequests, LimitRanger
from services.apiserver.admission.chain import Plugin
from services.apiserver.admission.priority_class import Classes
from services.apiserver.controllers import apiservices as aggregation
from services.apiserver.controllers import crd_controller as definitions
from services.apiserver.controllers.bootstrap_identities import AgentRequests, ClusterInfo, info_kubeconfig
from services.apiserver.controllers.garbage_collector import GarbageCollector
from services.apiserver.controllers.namespace_controller import NamespaceController
from services.apiserver.controllers.service_allocator import ServiceAllocator
from services.apiserver.core.request_context import now
from services.apiserver.core.service_addresses import Resolver
from services.apiserver.kinds.kind_model import Kind
from services.apiserver.kinds.registry import Registry
from services.apiserver.reads.responses import TableOf

if TYPE_CHECKING:
    from services.apiserver.http.discovery_paths import Find
    from services.apiserver.openapi.serve import OpenApi
    from services.apiserver.server import ApiServer


class Controller(Protocol):
    """A background part of a server."""

    async def start(self) -> None:
        """Begin; the store is loaded."""

    async def stop(self) -> None:
        """End."""


def builtin_plugins(server: "ApiServer") -> list[Plugin]:
    """Admission plugins after the namespace check."""

    def resolver() -> Resolver:
        if server.resolver is not None:
            return server.resolver
        if server.aggregator is not None:
            return server.aggregator.resolve_service
        return lambda *_: None

    server.webhooks = Webhooks(server.store, server.registry, server.front_proxy_context, resolver)
    return [LimitRanger(server.store), Classes(server.store), CertificateRequests(), AgentRequests(), server.webhooks]


def builtin_controllers(server: "ApiServer") -> list[Controller]:
    """Controllers in start order."""
    found: list[Controller] = []
    if server.registry.find(definitions.GROUP, "v1", definitions.PLURAL) is not None:
        definitions.own_kind(server.registry)
        found.append(definitions.Definitions(server.objects, server.deleter))
    allocator = ServiceAllocator(server.store, server.settings.service_cidr)
    server.objects.allocate = allocator
    found.append(allocator)
    if server.webhooks is not None:
        found.append(server.webhooks)
    if server.registry.find(aggregation.GROUP, "v1", aggregation.PLURAL) is not None:
        aggregator = aggregation.Aggregator(
            server.objects, server.settings.aggregate, server.front_proxy_context, server.resolver
        )
        server.discovery.extra = aggregator.extra_groups
        server.aggregator = aggregator
        found.append(aggregator)
    if server.settings.controllers:
        if server.settings.bootstrap_tokens:
            found.append(ClusterInfo(server.objects, server.local, lambda: _info(server)))
        found.append(NamespaceController(server.objects, server.deleter))
        found.append(GarbageCollector(server.objects, server.deleter))
    return found


def _info(server: "ApiServer") -> str:
    """The kubeconfig that cluster-info publishes for this server."""
    ca = server.authority.ca_pem if server.authority is not None else b""
    return info_kubeconfig(server.settings.public_url or server.url, ca)


def table_of() -> TableOf:
    """The Table renderer."""

    def render(kind: Kind, objects: list[Manifest], include: str, version: str, columns: bool) -> Manifest:
        from services.apiserver.tables.build import printer_of
        from services.apiserver.tables.printer import table

        return table(printer_of(kind), objects, include, version, columns, now())

    return render


def openapi_of(registry: Registry, release: str, *, with_v3: bool) -> "Find":
    """The OpenAPI documents, made when they are first asked for."""

    @cache
    def documents() -> "OpenApi":
        from services.apiserver.openapi.serve import OpenApi

        return OpenApi(registry, release, with_v3=with_v3)

    return lambda path, accept: documents().find(path, accept)
