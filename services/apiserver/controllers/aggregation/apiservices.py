"""APIServices: following them, checking whether their backends answer, and what discovery shows of them."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Awaitable, Callable, Container
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
from services._rules.proxying.header_rules import upgrade_of
from services._rules.proxying.inner_requests import lasts
from services.apiserver.controllers.aggregation.aggregated_proxy import Backend, SentBack, proxy
from services.apiserver.controllers.aggregation.local_apiservices import GROUP, PLURAL
from services.apiserver.core.delegated_resources import Delegated, Served, delegated_at, delegated_by, inner_of
from services.apiserver.core.outbound import EVERYWHERE, Outbound
from services.apiserver.core.request_context import LOOPBACK, Call, now, timestamp
from services.apiserver.core.service_addresses import Resolver, Unresolved
from services.apiserver.core.status_errors import unavailable
from services.apiserver.store.store_port import Conflict, Entry, Event, Key
from services.apiserver.writes.object_writes import Objects

if TYPE_CHECKING:
    from services.apiserver.http.handler import Answer, Request


CHECK_SECONDS = 10.0
FAILED_SECONDS = 1.0


def _asked(entry: Entry) -> tuple[object, object]:
    """What of an APIService is acted on."""
    return entry.obj.get("spec"), (entry.obj.get("metadata") or {}).get("annotations")


class _ResourceList(msgspec.Struct):
    kind: str = ""
    resources: list[ApiResource] | None = None


_kinds = msgspec.json.Decoder(_ResourceList)


class Aggregator:
    """Proxies group versions that other servers answer for; `mapping` gives URLs for "group/version".

    Those in `own` are never proxied. A URL of the mapping may be at any address: who starts the server wrote it.
    """

    def __init__(
        self,
        objects: Objects,
        mapping: dict[str, str],
        client_context: Callable[[str], ssl.SSLContext | None],
        outbound: Outbound,
        own: Container[tuple[str, str]] = (),
        resolver: Resolver | None = None,
    ) -> None:
        self._objects = objects
        self._mapping = mapping
        self._outbound = outbound
        self._own = own
        self._client_context = client_context
        self._resolver = resolver or self.resolve_service
        self._backends: dict[tuple[str, str], Backend] = {}
        self._queue: WorkQueue[str] = WorkQueue(self._handle)
        self._sessions: dict[bool, aiohttp.ClientSession] = {}
        """By whether the address comes from the mapping."""
        self._delegates: dict[Delegated, Backend] = {}
        self.served: Served = lambda *_: None
        """The kinds that this server stores."""
        self.generation = 0

    async def start(self) -> None:
        """Follow APIServices."""
        for mapped in (False, True):
            self._sessions[mapped] = aiohttp.ClientSession(
                connector=(Outbound(EVERYWHERE) if mapped else self._outbound).connector(),
                auto_decompress=False,
                read_bufsize=READ_BUFFER,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=5),
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        store = self._objects.store
        store.listen(self._on_event, (GROUP, PLURAL), ("", "services"), ("", "endpoints"))
        for entry in store.list(GROUP, PLURAL):
            self._queue.add(entry.key.name)

    async def stop(self) -> None:
        """Stop following and close connections."""
        await self._queue.close()
        for session in self._sessions.values():
            await session.close()
        self._sessions.clear()

    def _on_event(self, event: Event) -> None:
        key = event.entry.key
        if key.group == GROUP:
            if event.deleted or event.prev is None or _asked(event.prev) != _asked(event.entry):
                self._queue.add(key.name)
        else:
            for backend in self._backends.values():
                if backend.service == (key.namespace, key.name):
                    self._queue.add(backend.name)

    # -- requests

    def route(
        self, request: Request, parts: list[str]
    ) -> Awaitable[Answer | web.StreamResponse | SentBack | None] | None:
        """Proxy a path of an aggregated group version; None for every other path."""
        if parts[:2] == ["openapi", "v3"]:
            parts = parts[2:]
        if len(parts) < 3 or parts[0] != "apis" or not self._backends:
            return None
        if request.path.startswith("/apis/") and (found := self._delegate(parts)) is not None:
            return self._passed_on(request, *found)
        backend = self._backends.get((parts[1], parts[2]))
        return self._passed_on(request, backend) if backend is not None else None

    def lasts(self, request: Request, parts: list[str]) -> bool:
        """Whether a request that another server answers may run for long: a watch, a stream, a switched protocol."""
        if len(parts) < 3 or parts[0] != "apis":
            return False
        found = self._delegate(parts)
        if found is None:
            passed_on = (parts[1], parts[2]) in self._backends
            return passed_on and bool(upgrade_of(request.http.headers.items()))
        upgrade = upgrade_of(request.http.headers.items())
        return lasts(request.method, inner_of(found[1], request.path), request.query, upgrade)

    def _delegate(self, parts: list[str]) -> tuple[Backend, Delegated] | None:
        """The server that answers for a path of a group version whose kinds are this server's own."""
        for one in delegated_at(parts):
            if (backend := self._delegates.get(one)) is not None:
                return backend, one
        return None

    async def _passed_on(
        self, request: Request, backend: Backend, delegated: Delegated | None = None
    ) -> Answer | web.StreamResponse | SentBack | None:
        if not backend.available:
            if backend.reason == "ServiceNotFound" and delegated is None:
                return None
            raise unavailable(f"service unavailable: {backend.message}")
        try:
            return await proxy(self._sessions[self._is_mapped(backend)], backend, request, delegated)
        except ConnectionResetError as e:
            if isinstance(e, aiohttp.ClientError):
                self._queue.add(backend.name)
                raise unavailable(f"error trying to reach service: {e}") from e
            raise
        except (aiohttp.ClientError, OSError) as e:
            self._queue.add(backend.name)
            raise unavailable(f"error trying to reach service: {e}") from e

    def extra_groups(self) -> list[Backend]:
        """The available backends, for discovery."""
        return [b for b in self._backends.values() if b.available and b.resources is not None]

    def delegated(self) -> list[Delegated]:
        """What available backends answer for in other group versions, for discovery."""
        return [one for one, backend in self._delegates.items() if backend.available]

    # -- following

    async def _handle(self, name: str) -> float | None:
        entry = self._objects.store.get(Key(GROUP, PLURAL, "", name))
        if entry is None:
            self._drop(name)
            return None
        spec = entry.obj.get("spec") or {}
        key = (spec.get("group", ""), spec.get("version", ""))
        if key in self._own or (not spec.get("service") and "/".join(key) not in self._mapping):
            self._drop(name)
            await self._condition(entry, True, "Local", "Local APIServices are always available")
            return None
        backend = self._backends.get(key)
        if backend is None or backend.spec != spec:
            backend = self._backends[key] = Backend(name, spec, backend)
        annotations = (entry.obj.get("metadata") or {}).get("annotations")
        backend.delegated = delegated_by(annotations, lambda *one: one in self._own, self.served)
        self._index()
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

    def _drop(self, name: str) -> None:
        for key in [k for k, b in self._backends.items() if b.name == name]:
            del self._backends[key]
            self.generation += 1
        self._index()

    def _index(self) -> None:
        """Find delegated resources by their path; of two servers that claim one, the first by name answers."""
        backends = sorted(self._backends.values(), key=lambda backend: backend.name, reverse=True)
        before = self._delegates
        self._delegates = {one: backend for backend in backends for one in backend.delegated}
        if self._delegates.keys() != before.keys():
            self.generation += 1

    def _is_mapped(self, backend: Backend) -> bool:
        return f"{backend.spec.get('group', '')}/{backend.spec.get('version', '')}" in self._mapping

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
                        host = f"[{address['ip']}]" if ":" in address["ip"] else address["ip"]
                        return f"https://{host}:{target['port']}"
        if endpoints is None:
            raise Unresolved("EndpointsNotFound", f'cannot find endpoints for service/{name} in "{namespace}"')
        raise Unresolved("MissingEndpoints", f'endpoints for service/{name} in "{namespace}" have no addresses')

    def _context(self, spec: Manifest, url: str) -> ssl.SSLContext | bool:
        if not url.startswith("https:"):
            return True
        bundle = base64.b64decode(spec.get("caBundle") or "").decode()
        context = self._client_context(bundle) or ssl.create_default_context(cadata=bundle or None)
        if spec.get("service") and spec.get("insecureSkipTLSVerify") and not bundle:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context

    async def _check(self, backend: Backend, key: tuple[str, str]) -> None:
        """Read the backend's resource list; raises when it does not answer."""
        url = f"{backend.url}/apis/{key[0]}/{key[1]}"
        headers = backend.identity_headers(LOOPBACK)
        headers["Accept"] = "application/json"
        headers.extend(IDENTITY)
        timeout = aiohttp.ClientTimeout(total=5)
        session = self._sessions[self._is_mapped(backend)]
        async with session.get(
            url,
            headers=headers,
            ssl=backend.ssl,
            server_hostname=backend.server_name,
            timeout=timeout,
            allow_redirects=False,
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
