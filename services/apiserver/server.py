"""The public entry: an API server over a store and a registry, over HTTP and in-process."""

import asyncio
import secrets
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import structlog
from aiohttp import web
from aiohttp.web_request import BaseRequest

from services._kit.base import http_stop
from services._kit.concurrency.supervision import owner
from services._rules.kubernetes.rbac.policy_rules import Access
from services._rules.kubernetes.rbac.service_roles import service_objects
from services._rules.kubernetes.rbac.user_names import MASTERS
from services.apiserver.admission.admission_webhooks import Webhooks
from services.apiserver.admission.builtin_plugins import NamespaceLifecycle
from services.apiserver.admission.chain import Admission
from services.apiserver.admission.policy_plugin import AdmissionPolicies
from services.apiserver.admission.priority_class import SYSTEM_CLASSES
from services.apiserver.admission.resource_quotas import ResourceQuotas
from services.apiserver.auth import kubeconfig_files as kubeconfig
from services.apiserver.auth.access_reviews import Reviews
from services.apiserver.auth.authentication import Authenticator
from services.apiserver.auth.authorization import NODE, RBAC, AlwaysAllow, Authorizer, MastersOnly, modes_of
from services.apiserver.auth.certificate_authority import Authority
from services.apiserver.auth.confinement import ANONYMOUS, Confining
from services.apiserver.auth.counted_decisions import CountedDecisions
from services.apiserver.auth.node_identities import NodeAuthorizer, NodeRestriction
from services.apiserver.auth.own_certificate import OwnCertificate
from services.apiserver.auth.rbac.default_roles import default_objects
from services.apiserver.auth.rbac.reconciliation import write_roles
from services.apiserver.auth.rbac.role_authorizer import RoleAuthorizer
from services.apiserver.auth.rbac.role_grants import RoleGrants
from services.apiserver.auth.rbac.signer_rights import SignerRights
from services.apiserver.auth.service_accounts import ServiceAccounts
from services.apiserver.auth.token_signing import tokens_of
from services.apiserver.controllers.aggregation.apiservices import Aggregator
from services.apiserver.controllers.bootstrap_identities import BootstrapAuthentication
from services.apiserver.controllers.in_process_client import LocalClient
from services.apiserver.core.audit import Audit
from services.apiserver.core.outbound import Outbound
from services.apiserver.core.request_context import Identity
from services.apiserver.core.service_addresses import Resolver
from services.apiserver.core.status_errors import ApiError
from services.apiserver.flow.text_workers import TextWorkers
from services.apiserver.flow.work_aside import make_room_for_depth
from services.apiserver.http.aggregated_discovery import computed
from services.apiserver.http.bounded_connections import BoundedServer, BoundedSite
from services.apiserver.http.change_set_route import ChangeSetRoute
from services.apiserver.http.discovery_paths import Discovery
from services.apiserver.http.handler import HttpFace, Route
from services.apiserver.http.issuer_discovery import IssuerDiscovery
from services.apiserver.http.resource_verbs import ResourceApi
from services.apiserver.http.subresources import Subresources
from services.apiserver.kinds.registry import Registry
from services.apiserver.reads.computed_groups import ComputedGroups
from services.apiserver.settings import Settings
from services.apiserver.store.store_port import Store
from services.apiserver.wiring import (
    builtin_controllers,
    builtin_plugins,
    connection_limits,
    openapi_of,
    request_limits,
    table_of,
)
from services.apiserver.writes.deletion import Deleter
from services.apiserver.writes.field_manager import Ownership
from services.apiserver.writes.object_sets import ChangeSets
from services.apiserver.writes.object_writes import Objects
from services.apiserver.writes.service_account_tokens import TokenRequests

log = structlog.get_logger(__name__)

STOP_SECONDS = 15.0
"""How long accepted writes have to be stored when the server is asked to stop."""
CLOSING_SECONDS = 5.0
"""How long requests under way have to be answered, their bodies to arrive, when the server is asked to stop."""
NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


class ApiServer:
    """One API server; `local` is its in-process client."""

    def __init__(self, store: Store, registry: Registry, settings: Settings | None = None) -> None:
        self.store = store
        self.registry = registry
        self.settings = settings or Settings()
        self.outbound = Outbound(self.settings.allow_local_extensions)
        self.url = ""
        self.port = 0
        self.resolver: Resolver | None = None
        """Finds the backend of a Service for aggregation; set before `start` it replaces the built-in one."""
        self.aggregator: Aggregator | None = None
        self.webhooks: Webhooks | None = None
        self.policies: AdmissionPolicies | None = None
        self.quotas: ResourceQuotas | None = None
        self.audit = Audit(self.settings.audit_log)
        self.authority: Authority | None = None
        if self.settings.data_dir is not None:
            self.authority = Authority(self.settings.data_dir)
        admission = Admission([NamespaceLifecycle(store)])
        ownership = Ownership(track_creates=self.settings.track_fields)
        self.objects = Objects(store, registry, admission, ownership, self.audit)
        self.deleter = Deleter(self.objects)
        self.local = LocalClient(self.objects, self.deleter, registry)
        admission.plugins += builtin_plugins(self)
        self.signer = tokens_of(self.settings.data_dir)
        self.authenticator = Authenticator(self.settings.tokens, self.signer)
        self.authenticator.honours = ServiceAccounts(store).honours
        if self.settings.bootstrap_tokens:
            self.authenticator.bootstrap = BootstrapAuthentication(self.objects).identify
        modes = modes_of(self.settings.authorization)
        self._roles = RoleAuthorizer(store) if RBAC in modes else None
        authorizer: Authorizer = AlwaysAllow() if "AlwaysAllow" in modes else MastersOnly()
        if self._roles is not None:
            authorizer = self._roles
            self.authenticator.anonymous = ANONYMOUS
            admission.plugins.append(RoleGrants(self._roles.index, CountedDecisions(self._roles)))
        if NODE in modes:
            authorizer = NodeAuthorizer(store, authorizer)
            admission.plugins.append(NodeRestriction(store))
        if self.settings.bootstrap_tokens:
            authorizer = Confining(authorizer)
        counted = CountedDecisions(authorizer)
        admission.plugins.append(SignerRights(counted))
        self._authorizer = authorizer
        reviews = Reviews(self.authenticator, authorizer)
        subresources = Subresources(self.objects, self.deleter, TokenRequests(self.objects, self.signer))
        self.connections = subresources.connections
        self._resources = ResourceApi(self.objects, self.deleter, subresources, registry, table_of(), reviews.answer)
        self.discovery = Discovery(
            registry,
            self.settings.git_version,
            lambda: self.store.ready,
            openapi_of(registry, self.settings.git_version),
            tasks_run=lambda: not owner().trouble(),
        )
        self._issuer = IssuerDiscovery(self.signer)
        self.discovery.aside = self.objects.aside
        self.controllers = builtin_controllers(self)
        self.computed = ComputedGroups()
        """Groups that are computed when they are read, beside the kinds."""
        routes: list[Route] = [self.computed.route, *(c.route for c in self.controllers if hasattr(c, "route"))]
        routes += [ChangeSetRoute(ChangeSets(self.objects), counted, self.audit.refusal).route, self._issuer.route]
        self._texts = TextWorkers()
        limits = request_limits(self.settings.limits, self._texts, store, registry)
        routes = [*routes, self.discovery.route, self._resources.route]
        aggregated = self.discovery.extra
        self.discovery.extra = lambda: [*aggregated(), *computed(self.computed)]
        self._face = HttpFace(self.authenticator, counted, routes, limits)
        self._face.on_refusal = self.audit.refusal
        self._face.lasts = lambda request, parts: self.aggregator is not None and self.aggregator.lasts(request, parts)
        self._resources.face = self._face
        self._runner: web.ServerRunner | None = None
        self._certificate: OwnCertificate | None = None

    def may(self, identity: Identity, question: Mapping[str, str]) -> tuple[bool, str]:
        """Answer a question to the authorizer that an expression asks about someone."""
        names = ("verb", "group", "resource", "subresource", "namespace", "name", "path")
        decision = self._authorizer.decide(identity, Access(**{name: question.get(name, "") for name in names}))
        return decision.allowed, decision.reason

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> None:
        """Load the store, serve, and start the controllers; `url` and `port` are set afterwards."""
        make_room_for_depth()
        await self.store.start()
        await self._create_standing()
        if self._roles is not None:
            self._roles.start()
            await self._write_roles()
        self._certificate = self._serving_certificate(host)
        context = self.tls
        if self._certificate is not None:
            self._certificate.start()
        limits = connection_limits(self.settings.limits)
        server = BoundedServer(self._face.handle, limits, request_factory=self._request_factory)
        self._runner = web.ServerRunner(server, handle_signals=False)
        await self._runner.setup()
        site = BoundedSite(self._runner, host, port, limits, context)
        await site.start()
        self.port = site.bound
        scheme = "https" if context is not None else "http"
        self.url = f"{scheme}://{'127.0.0.1' if host in ('0.0.0.0', '') else host}:{self.port}"
        self._issuer.address = self.settings.public_url or self.url
        self.discovery.address = self.url.partition("//")[2]
        await self._publish_front_proxy()
        for controller in self.controllers:
            await controller.start()
        if self.settings.kubeconfig is not None:
            self.write_kubeconfig(self.settings.kubeconfig)

    async def _write_roles(self) -> None:
        await write_roles(self.local, (manifest for _, manifest in default_objects()))
        if self.settings.service_roles:
            namespace, *roles = service_objects()
            if self.local.get("v1", "namespaces", "", namespace["metadata"]["name"]) is None:
                await self.local.create("v1", "namespaces", namespace)
            await write_roles(self.local, roles, exact=True)

    def _request_factory(self, message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> BaseRequest:
        # The loop of the connection: to ask for the running one costs a system call.
        loop = protocol._loop
        return BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=self.settings.max_body)

    async def stop(self) -> None:
        """Stop controllers, end watches and finish accepted writes, unless the log does not take them for long."""
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await self._stop()
        except TimeoutError:
            # The writes dropped here were not acknowledged as stored.
            log.warning("stopped_without_the_log", seconds=STOP_SECONDS)
        finally:
            self.audit.close()

    async def _stop(self) -> None:
        if self._certificate is not None:
            await self._certificate.stop()
        for controller in reversed(self.controllers):
            await controller.stop()
        for task in list(self._face.tasks):
            task.cancel()
        if self._runner is not None:
            await http_stop.stop(self._runner, self._face.underway, CLOSING_SECONDS)
        await self._texts.close()
        self.objects.aside.close()
        await self.store.stop()

    @property
    def tls(self) -> ssl.SSLContext | None:
        """TLS of the server that was started; None for plain HTTP."""
        return self._certificate.context if self._certificate is not None else None

    def _serving_certificate(self, host: str) -> OwnCertificate | None:
        if not self.settings.tls:
            return None
        if self.authority is None:
            raise ValueError("TLS needs a data directory for its certificates: set data_dir or turn tls off")
        names = (*self.settings.tls_names, host)
        return OwnCertificate(self.authority, tuple(n for n in names if n and n != "0.0.0.0"))

    @property
    def front_proxy(self) -> Authority | None:
        """The authority whose client certificate aggregated servers trust to name users."""
        if self.settings.data_dir is None:
            return None
        return Authority(self.settings.data_dir / "front-proxy", "fleetlog-front-proxy-ca")

    def front_proxy_context(self, ca_pem: str = "") -> ssl.SSLContext | None:
        """TLS towards aggregated servers, with our client certificate; `ca_pem` replaces the system's authorities."""
        authority = self.front_proxy
        if authority is None:
            return None
        authority.load()
        context = ssl.create_default_context(cadata=ca_pem or None)
        cert, key = authority.client("front-proxy-client", ())
        context.load_cert_chain(cert, key)
        return context

    async def _publish_front_proxy(self) -> None:
        """Publish the certificate and headers that aggregated servers trust, in the customary ConfigMap."""
        authority = self.front_proxy
        if authority is None or self.registry.find("", "v1", "configmaps") is None:
            return
        authority.load()
        data = {
            "requestheader-allowed-names": '["front-proxy-client"]',
            "requestheader-client-ca-file": authority.ca_pem.decode(),
            "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
            "requestheader-group-headers": '["X-Remote-Group"]',
            "requestheader-username-headers": '["X-Remote-User"]',
        }
        if self.authority is not None and self.settings.tls:
            data["client-ca-file"] = self.authority.ca_pem.decode()
        await self.local.publish({"name": "extension-apiserver-authentication", "namespace": "kube-system"}, data)

    async def _create_standing(self) -> None:
        """Create the objects that every cluster has: its namespaces and the priority classes of the system."""
        wanted = [("v1", "namespaces", {"metadata": {"name": name}}) for name in NAMESPACES]
        if self.registry.find("scheduling.k8s.io", "v1", "priorityclasses") is not None:
            wanted += [("scheduling.k8s.io/v1", "priorityclasses", one) for one in SYSTEM_CLASSES]
        for version, plural, obj in wanted:
            if self.local.get(version, plural, "", obj["metadata"]["name"]) is None:
                try:
                    await self.local.create(version, plural, obj)
                except ApiError as e:
                    if e.reason != "AlreadyExists":
                        raise

    def write_kubeconfig(
        self,
        path: Path,
        *,
        user: str = "admin",
        groups: tuple[str, ...] = (MASTERS,),
        name: str = "fleetlog",
        address: str = "",
    ) -> None:
        """Write a kubeconfig that lets `user` in: a client certificate with TLS, a new token without.

        `address` is the URL by which its holder reaches this server; empty: where it listens.
        """
        if self.settings.tls and self.authority is not None:
            cert, key = self.authority.client(user, groups)
            kubeconfig.write(
                path,
                server=address or self.url,
                name=name,
                ca=self.authority.ca_pem,
                cert=cert.read_bytes(),
                key=key.read_bytes(),
            )
            return
        token = secrets.token_urlsafe(24)
        self.authenticator.add_token(token, Identity(user, user, groups))
        kubeconfig.write(path, server=address or self.url, name=name, ca=None, cert=b"", key=b"", token=token)
