"""The public entry: an API server over a store and a registry, over HTTP and in-process."""

import asyncio
import secrets
import ssl
from pathlib import Path
from typing import Any

import structlog
from aiohttp import web
from aiohttp.web_request import BaseRequest

from services._kit.concurrency.supervision import owner
from services.apiserver.admission.admission_webhooks import Webhooks
from services.apiserver.admission.builtin_plugins import NamespaceLifecycle
from services.apiserver.admission.chain import Admission
from services.apiserver.auth import kubeconfig_files as kubeconfig
from services.apiserver.auth.access_reviews import Reviews, own_kind
from services.apiserver.auth.authentication import Authenticator, ServiceAccountTokens
from services.apiserver.auth.authorization import AlwaysAllow, Authorizer, MastersOnly
from services.apiserver.auth.certificate_authority import Authority, server_context
from services.apiserver.auth.confinement import Confining
from services.apiserver.controllers.apiservices import Aggregator
from services.apiserver.controllers.bootstrap_identities import BootstrapAuthentication
from services.apiserver.controllers.in_process_client import LocalClient
from services.apiserver.core.audit import Audit
from services.apiserver.core.request_context import SYSTEM_MASTERS, Identity
from services.apiserver.core.service_addresses import Resolver
from services.apiserver.core.status_errors import ApiError
from services.apiserver.http.discovery_paths import Discovery
from services.apiserver.http.handler import HttpFace
from services.apiserver.http.resource_verbs import ResourceApi
from services.apiserver.http.subresources import Subresources
from services.apiserver.kinds.registry import Registry
from services.apiserver.settings import Settings
from services.apiserver.store.store_port import Store
from services.apiserver.wiring import builtin_controllers, builtin_plugins, openapi_of, table_of
from services.apiserver.writes.deletion import Deleter
from services.apiserver.writes.field_manager import Ownership
from services.apiserver.writes.object_writes import Objects
from services.apiserver.writes.service_account_tokens import TokenRequests

log = structlog.get_logger(__name__)

STOP_SECONDS = 15.0
"""How long accepted writes have to be stored when the server is asked to stop."""
NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


class ApiServer:
    """One API server; `local` is its in-process client."""

    def __init__(self, store: Store, registry: Registry, settings: Settings | None = None) -> None:
        self.store = store
        self.registry = registry
        self.settings = settings or Settings()
        self.url = ""
        self.port = 0
        self.resolver: Resolver | None = None
        """Finds the backend of a Service for aggregation; set before `start` it replaces the built-in one."""
        self.aggregator: Aggregator | None = None
        self.webhooks: Webhooks | None = None
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
        signer = ServiceAccountTokens(self._signing_key())
        self.authenticator = Authenticator(self.settings.tokens, signer)
        if self.settings.bootstrap_tokens:
            self.authenticator.bootstrap = BootstrapAuthentication(self.objects).identify
        inner: Authorizer = AlwaysAllow() if self.settings.authorization == "AlwaysAllow" else MastersOnly()
        authorizer: Authorizer = Confining(inner) if self.settings.bootstrap_tokens else inner
        if self.settings.profile == "current":
            own_kind(registry)
        reviews = Reviews(self.authenticator, authorizer)
        subresources = Subresources(self.objects, self.deleter, TokenRequests(self.objects, signer))
        self._resources = ResourceApi(self.objects, self.deleter, subresources, registry, table_of(), reviews.answer)
        current = self.settings.profile == "current"
        self.discovery = Discovery(
            registry,
            self.settings.git_version,
            lambda: self.store.ready,
            openapi_of(registry, self.settings.git_version, with_v3=current),
            aggregated=current,
            tasks_run=lambda: not owner().trouble(),
        )
        self.controllers = builtin_controllers(self)
        routes = [c.route for c in self.controllers if hasattr(c, "route")]
        self._face = HttpFace(self.authenticator, authorizer, [*routes, self.discovery.route, self._resources.route])
        self._resources.face = self._face
        self._runner: web.ServerRunner | None = None

    def _signing_key(self) -> bytes:
        if self.settings.data_dir is None:
            return secrets.token_bytes(32)
        path = self.settings.data_dir / "sa.key"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(0o600)
            path.write_bytes(secrets.token_bytes(32))
        return path.read_bytes()

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> None:
        """Load the store, serve, and start the controllers; `url` and `port` are set afterwards."""
        await self.store.start()
        await self._create_namespaces()
        context = self._tls(host)
        server = web.Server(self._face.handle, request_factory=self._request_factory, access_log=None)
        self._runner = web.ServerRunner(server, handle_signals=False)
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port, ssl_context=context, backlog=1024, reuse_address=True)
        await site.start()
        assert site._server is not None
        self.port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
        scheme = "https" if context is not None else "http"
        self.url = f"{scheme}://{'127.0.0.1' if host in ('0.0.0.0', '') else host}:{self.port}"
        self.discovery.address = self.url.partition("//")[2]
        await self._publish_front_proxy()
        for controller in self.controllers:
            await controller.start()
        if self.settings.kubeconfig is not None:
            self.write_kubeconfig(self.settings.kubeconfig)

    def _request_factory(self, message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> BaseRequest:
        loop = asyncio.get_running_loop()
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
        for controller in reversed(self.controllers):
            await controller.stop()
        for task in list(self._face.tasks):
            task.cancel()
        if self._runner is not None:
            await self._runner.cleanup()
        await self.store.stop()

    def _tls(self, host: str) -> ssl.SSLContext | None:
        if not self.settings.tls:
            return None
        if self.authority is None:
            raise ValueError("TLS needs a data directory for its certificates: set data_dir or turn tls off")
        self.authority.load()
        names = (*self.settings.tls_names, host)
        cert, key = self.authority.server(tuple(n for n in names if n and n != "0.0.0.0"))
        return server_context(cert, key, self.authority.ca_file)

    @property
    def front_proxy(self) -> Authority | None:
        """The authority whose client certificate aggregated servers trust to name users."""
        if self.settings.data_dir is None:
            return None
        return Authority(self.settings.data_dir / "front-proxy", "fleetlog-front-proxy-ca")

    def front_proxy_context(self, ca_pem: str = "") -> ssl.SSLContext | None:
        """TLS towards aggregated servers and webhooks, with our client certificate; `ca_pem` replaces the system's."""
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

    async def _create_namespaces(self) -> None:
        for name in NAMESPACES:
            if self.local.get("v1", "namespaces", "", name) is None:
                try:
                    await self.local.create("v1", "namespaces", {"metadata": {"name": name}})
                except ApiError as e:
                    if e.reason != "AlreadyExists":
                        raise

    def write_kubeconfig(
        self, path: Path, *, user: str = "admin", groups: tuple[str, ...] = (SYSTEM_MASTERS,), name: str = "fleetlog"
    ) -> None:
        """Write a kubeconfig that lets `user` in: a client certificate with TLS, a new token without."""
        if self.settings.tls and self.authority is not None:
            cert, key = self.authority.client(user, groups)
            kubeconfig.write(
                path,
                server=self.url,
                name=name,
                ca=self.authority.ca_pem,
                cert=cert.read_bytes(),
                key=key.read_bytes(),
            )
            return
        token = secrets.token_urlsafe(24)
        self.authenticator.add_token(token, Identity(user, user, groups))
        kubeconfig.write(path, server=self.url, name=name, ca=None, cert=b"", key=b"", token=token)
