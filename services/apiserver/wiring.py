"""What a server is assembled from besides its core: admission plugins, controllers, tables and OpenAPI documents."""

from functools import cache
from typing import TYPE_CHECKING, Protocol

from schemas.manifest import Manifest
from services._kit.runtime.policy_guard import PolicyGuard
from services._rules.feature_gates import feature_gates
from services.apiserver.admission.admission_webhooks import Webhooks
from services.apiserver.admission.builtin_plugins import CertificateRequests, LimitRanger, VolumePhases, VolumeProtected
from services.apiserver.admission.chain import Plugin
from services.apiserver.admission.default_classes import DefaultClasses
from services.apiserver.admission.expression_checks import ExpressionChecks
from services.apiserver.admission.karmada_kinds import DeletionProtection, KarmadaKinds
from services.apiserver.admission.policy_plugin import AdmissionPolicies
from services.apiserver.admission.priority_class import Classes
from services.apiserver.admission.resource_quotas import ResourceQuotas
from services.apiserver.admission.service_account_pods import ServiceAccountPods
from services.apiserver.auth.openid_tokens import OpenIdTokens
from services.apiserver.controllers import crd_controller as definitions
from services.apiserver.controllers.aggregation import apiservices as aggregation
from services.apiserver.controllers.aggregation.local_apiservices import APISERVICES, LocalApiServices
from services.apiserver.controllers.bootstrap_identities import AgentRequests, ClusterInfo, info_kubeconfig
from services.apiserver.controllers.event_expiry import EventExpiry
from services.apiserver.controllers.finished_jobs import FinishedJobs
from services.apiserver.controllers.garbage_collector import GarbageCollector
from services.apiserver.controllers.namespace_controller import NamespaceController
from services.apiserver.controllers.namespace_objects import NamespaceObjects
from services.apiserver.controllers.openid_keys import OpenIdKeys
from services.apiserver.controllers.quota_usage import QuotaUsage
from services.apiserver.controllers.role_aggregation import RoleAggregation
from services.apiserver.controllers.service_allocator import ServiceAllocator
from services.apiserver.controllers.token_secrets import TokenSecrets
from services.apiserver.controllers.volume_protection import VolumeProtection
from services.apiserver.core.request import RequestInfo
from services.apiserver.core.request_context import now
from services.apiserver.core.service_addresses import Resolver
from services.apiserver.flow.request_seats import RequestSeats
from services.apiserver.flow.text_workers import TextWorkers
from services.apiserver.http.bounded_connections import ConnectionLimits
from services.apiserver.http.request_limits import RequestLimits
from services.apiserver.kinds.kind_model import Kind
from services.apiserver.kinds.registry import Registry
from services.apiserver.reads.responses import TableOf
from services.apiserver.settings import Limits
from services.apiserver.store.store_port import Store

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

    server.webhooks = Webhooks(server.store, server.registry, server.outbound, resolver)
    server.webhooks.decide = server.may
    server.policies = AdmissionPolicies(server.store, server.registry, server.may)
    plugins: list[Plugin] = [
        LimitRanger(server.store),
        *([ServiceAccountPods(server.store)] if server.settings.service_accounts else ()),
        Classes(server.store),
        DefaultClasses(server.store),
        VolumePhases(),
        *([VolumeProtected()] if server.settings.protect_volumes else ()),
        CertificateRequests(),
        AgentRequests(),
        server.policies,
        server.webhooks,
        ExpressionChecks(),
    ]
    if server.settings.admission:
        # After the webhooks, which may change an object that has to meet the rules.
        gates = feature_gates(server.settings.feature_gates)
        no_execute = server.settings.no_execute_policies
        guard = PolicyGuard(server.settings.guard_seconds)
        plugins += [DeletionProtection(), KarmadaKinds(server.store, gates, no_execute=no_execute, guard=guard)]
    if server.settings.quotas:
        # What was charged and is refused afterwards stays counted for a while.
        server.quotas = ResourceQuotas(server.store)
        plugins.append(server.quotas)
    return plugins


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
    if server.policies is not None:
        found.append(server.policies)
    if server.registry.find(APISERVICES[0], "v1", APISERVICES[1]) is not None:
        mapped = server.settings.aggregate
        local = LocalApiServices(server.store, server.registry, mapped)
        server.objects.admission.plugins.append(local)
        aggregator = aggregation.Aggregator(
            server.objects, mapped, server.front_proxy_context, server.outbound, local.builtin, server.resolver
        )
        server.discovery.extra = aggregator.extra_groups
        server.discovery.delegated = aggregator.delegated
        aggregator.served = server.discovery.served
        server.aggregator = aggregator
        found += [local, aggregator]
    if server.settings.openid is not None:
        tokens = OpenIdTokens(server.settings.openid)
        server.authenticator.provider = tokens.identify
        found.append(OpenIdKeys(tokens))
    if server.settings.controllers:
        if server.settings.bootstrap_tokens:
            found.append(ClusterInfo(server.objects, server.local, lambda: _info(server)))
        if server.settings.namespace_objects:
            found.append(NamespaceObjects(server.store, server.local, lambda: _ca_of(server)))
        found.append(NamespaceController(server.objects, server.deleter))
        found.append(GarbageCollector(server.objects, server.deleter))
        if server.quotas is not None:
            found.append(QuotaUsage(server.objects, server.quotas, templates=server.settings.admission))
        found.append(RoleAggregation(server.objects))
        found.append(EventExpiry(server.store, server.settings.event_ttl))
        found.append(TokenSecrets(server.objects, server.deleter, server.signer, lambda: _ca_of(server)))
        if server.settings.finished_jobs:
            found.append(FinishedJobs(server.objects, server.deleter))
        if server.settings.protect_volumes:
            found.append(VolumeProtection(server.objects))
    return found


def _ca_of(server: "ApiServer") -> bytes:
    """The certificate authority that clients of this server trust; empty without TLS."""
    return server.authority.ca_pem if server.authority is not None and server.settings.tls else b""


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


def openapi_of(registry: Registry, release: str) -> "Find":
    """The OpenAPI documents, made when they are first asked for."""

    @cache
    def documents() -> "OpenApi":
        from services.apiserver.openapi.serve import OpenApi

        return OpenApi(registry, release)

    return lambda path, accept: documents().find(path, accept)


def connection_limits(limits: Limits) -> ConnectionLimits:
    """The limits of connections among those of a server."""
    return ConnectionLimits(limits.handshake_seconds, limits.head_seconds, limits.idle_seconds, limits.unread_seconds)


def request_limits(limits: Limits, texts: TextWorkers, store: Store, registry: Registry) -> RequestLimits:
    """The limits of requests of a server."""

    def count(info: RequestInfo) -> int:
        kind = registry.find(info.group, info.version, info.resource)
        return store.count(kind.store_group, kind.resource.plural, info.namespace) if kind is not None else 0

    seats = RequestSeats(limits.seats, limits.queue, limits.queue_seconds, limits.watches)
    return RequestLimits(seats, texts, limits.request_seconds, count)
