"""APIServices: following them, checking whether their backends answer, and what discovery shows of them."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING

import aiohttp
import msgspec
from aiohttp import web

from schemas.manifest import Manifest
from services._kit.base.answer_limits import in_force
from services._kit.concurrency.keyed_work import WorkQueue
from services._kit.kube.answers.bodies import whole
from services._kit.kube.answers.discovery_answers import check_kind
from services._kit.kube.answers.exchange import IDENTITY, READ_BUFFER
from services._kit.kube.answers.shapes import manifest_of, readable
from services._kit.kube.api import ApiResource, BadAnswer
from services.apiserver.controllers.aggregated_proxy import Backend, proxy
from services.apiserver.core.request_context import LOOPBACK, Call, now, timestamp
from services.apiserver.core.service_addresses import Resolver, Unresolved
from services.apiserver.core.status_errors import unavailable
from services.apiserver.store.store_port import Conflict, Entry, Event, Key
from services.apiserver.writes.object_writes import Objects

if TYPE_CHECKING:
    from services.apiserver.http.handler import Answer, Request


GROUP, PLURAL = "apiregistration.k8s.io", "apiservices"
CHECK_SECONDS = 10.0
FAILED_SECONDS = 1.0


class _ResourceList(msgspec.Struct):
    kind: str = ""
    resources: list[ApiResource] | None = None


_kinds = msgspec.json.Decoder(_ResourceList)


class Aggregator:
    """Proxies group versions that other servers answer for; `mapping` gives URLs for "group/version"."""

    def __init__(
        self,
        objects: Objects,
        mapping: dict[str, str],
        client_context: Callable[[str], ssl.SSLContext | None],
        resolver: Resolver | None = None,
    ) -> None:
        self._objects = objects
        self._mapping = mapping
        self._client_context = client_context
        self._resolver = resolver or self.resolve_service
        self._backends: dict[tuple[str, str], Backend] = {}
        self._queue: WorkQueue[str] = WorkQueue(self._handle)
        self._session: aiohttp.ClientSession | None = None
        self.generation = 0

    async def start(self) -> None:
        """Follow APIServices."""
        connector = aiohttp.TCPConnector(limit=0, limit_per_host=0)
        self._session = aiohttp.ClientSession(
            connector=connector,
            auto_decompress=False,
            read_bufsize=READ_BUFFER,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=5),
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        store = self._objects.store
        store.listen(self._on_event)
        for entry in store.list(GROUP, PLURAL):
            self._queue.add(entry.key.name)

    async def stop(self) -> None:
        """Stop following and close connections."""
        await self._queue.close()
        if self._session is not None:
            await self._session.close()

    def _on_event(self, event: Event) -> None:
        key = event.entry.key
        if key.group == GROUP and key.resource == PLURAL:
            if event.deleted or event.prev is None or event.prev.obj.get("spec") != event.entry.obj.get("spec"):
                self._queue.add(key.name)
        elif key.group == "" and key.resource in ("services", "endpoints"):
            for backend in self._backends.values():
                if backend.service == (key.namespace, key.name):
                    self._queue.add(backend.name)

    # -- requests

    async def route(self, request: Request, parts: list[str]) -> Answer | web.StreamResponse | None:
        """Proxy a path of an aggregated group version; None for every other path."""
        if parts[:2] == ["openapi", "v3"]:
            parts = parts[2:]
        if len(parts) < 3 or parts[0] != "apis" or not self._backends:
            return None
        backend = self._backends.get((parts[1], parts[2]))
        if backend is None:
            return None
        if not backend.available:
            if backend.reason == "ServiceNotFound":
                return None
            raise unavailable(f"service unavailable: {backend.message}")
        assert self._session is not None
        try:
            return await proxy(self._session, backend, request)
        except (aiohttp.ClientError, OSError, TimeoutError) as e:
            self._queue.add(backend.name)
            raise unavailable(f"error trying to reach service: {e}") from e

    def extra_groups(self) -> list[Backend]:
        """The available backends, for discovery."""
        return [b for b in self._backends.values() if b.available and b.resources is not None]

    # -- following

    async def _handle(self, name: str) -> float | None:
        entry = self._objects.store.get(Key(GROUP, PLURAL, "", name))
        if entry is None:
            for key in [k for k, b in self._backends.items() if b.name == name]:
                del self._backends[key]
                self.generation += 1
            return None
        spec = entry.obj.get("spec") or {}
        key = (spec.get("group", ""), spec.get("version", ""))
        if not spec.get("service") and "/".join(key) not in self._mapping:
            await self._condition(entry, True, "Local", "Local APIServices are always available")
            return None
        backend = self._backends.get(key)
        if backend is None or backend.spec != spec:
            backend = self._backends[key] = Backend(name, spec, backend)
        before = (backend.available, backend.resources)
        try:
            backend.url = self._url(key, spec)
            backend.ssl = self._context(spec, backend.url)
            await self._check(backend, key)
            backend.set(True, "Passed", "all checks passed")
        except Unresolved as e:
            backend.set(False, e.reason, e.message)
        except (aiohttp.ClientError, BadAnswer, OSError, TimeoutError, ValueError, ssl.SSLError) as e:
            text = f"failing or missing response from {backend.url}/apis/{key[0]}/{key[1]}: {type(e).__name__}: {e}"
            backend.set(False, "FailedDiscoveryCheck", text)
        if before != (backend.available, backend.resources):
            self.generation += 1
        await self._condition(entry, backend.available, backend.reason, backend.message)
        return CHECK_SECONDS if backend.available else FAILED_SECONDS

    def _url(self, key: tuple[str, str], spec: Manifest) -> str:
        mapped = self._mapping.get("/".join(key))
        if mapped:
            return mapped.rstrip("/")
        service = spec["service"]
        namespace, name = service.get("namespace", ""), service.get("name", "")
        found = self._resolver(namespace, name, service.get("port") or 443)
        if found is None:
            raise Unresolved("ServiceNotFound", f'service/{name} in "{namespace}" is not present')
        return found.rstrip("/")

    def resolve_service(self, namespace: str, name: str, port: int) -> str | None:
        """An ExternalName, or the first address of the Service's Endpoints."""
        store = self._objects.store
        service = store.get(Key("", "services", namespace, name))
        if service is None:
            return None
        spec = service.obj.get("spec") or {}
        if spec.get("type") == "ExternalName":
            return f"https://{spec.get('externalName')}:{port}"
        wanted = next((p for p in spec.get("ports") or () if p.get("port") == port), None)
        if wanted is None:
            raise Unresolved("ServicePortError", f'service/{name} in "{namespace}" is not listening on port {port}')
        endpoints = store.get(Key("", "endpoints", namespace, name))
        for subset in (endpoints.obj.get("subsets") or ()) if endpoints is not None else ():
            for target in subset.get("ports") or ():
                if target.get("name", "") == wanted.get("name", ""):
                    for address in subset.get("addresses") or ():
                        return f"https://{address['ip']}:{target['port']}"
        raise Unresolved("MissingEndpoints", f'endpoints for service/{name} in "{namespace}" have no addresses')

    def _context(self, spec: Manifest, url: str) -> ssl.SSLContext | bool:
        if not url.startswith("https:"):
            return True
        bundle = base64.b64decode(spec.get("caBundle") or "").decode()
        context = self._client_context(bundle) or ssl.create_default_context(cadata=bundle or None)
        if not bundle and (spec.get("insecureSkipTLSVerify") or not spec.get("service")):
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        service = spec.get("service")
        if context.check_hostname and service:
            # Serving certificates name the Service, not the address it is reached by here.
            context.check_hostname = False
        return context

    async def _check(self, backend: Backend, key: tuple[str, str]) -> None:
        """Read the backend's resource list; raises when it does not answer."""
        assert self._session is not None
        url = f"{backend.url}/apis/{key[0]}/{key[1]}"
        headers = backend.identity_headers(LOOPBACK)
        headers["Accept"] = "application/json"
        headers.extend(IDENTITY)
        timeout = aiohttp.ClientTimeout(total=5)
        async with self._session.get(
            url, headers=headers, ssl=backend.ssl, timeout=timeout, allow_redirects=False
        ) as response:
            body = await whole(response, in_force(), asyncio.Lock())
            if response.status != 200:
                raise aiohttp.ClientResponseError(
                    response.request_info, (), status=response.status, message=body[:200].decode("utf-8", "replace")
                )
        # What is no list of kinds must not get into the discovery that all others read.
        check_kind(readable(_kinds, body, "a list of resources").kind, "APIResourceList", url)
        backend.resources = list(manifest_of(body, in_force().answer_values).get("resources") or [])

    async def _condition(self, entry: Entry, good: bool, reason: str, message: str) -> None:
        state = entry.obj.get("status") or {}
        before = next((c for c in state.get("conditions") or () if c.get("type") == "Available"), None)
        word = "True" if good else "False"
        if before is not None and (before.get("status"), before.get("reason")) == (word, reason):
            return
        moment = timestamp(now())
        if before is not None and before.get("status") == word:
            moment = before.get("lastTransitionTime", moment)
        condition = {"type": "Available", "status": word, "lastTransitionTime": moment}
        conditions = [c for c in state.get("conditions") or () if c.get("type") != "Available"]
        conditions.append({**condition, "reason": reason, "message": message})
        new = {**entry.obj, "status": {**state, "conditions": conditions}}
        try:
            written = await self._objects.store.put(entry.key, new, entry.revision)
        except Conflict:
            self._queue.add(entry.key.name)
            return
        self._objects.audit.write(Call(LOOPBACK, manager="apiservices"), "update", written, entry, "status")
