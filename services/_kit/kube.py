"""Talks to one Kubernetes endpoint: raw requests with a kubeconfig's identity, answered in bytes.

The only importer of kubernetes_asyncio. Its configuration and authentication are used; its generated models, which
cost 110 MB and two seconds, are kept out by loading the client core below an empty package shell.
"""

from __future__ import annotations

import asyncio
import io
import ssl
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, Self
from weakref import WeakKeyDictionary

import aiohttp
import msgspec
from aiohttp.abc import AbstractStreamWriter

from services._kit import fault_points, kube_api
from services._kit.errors import FenceLost
from services._kit.guard import Guard
from services._kit.kube_api import (
    JSON,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    ApiError,
    ApiResource,
    Manifest,
    NotLeading,
    Unreachable,
    WatchEvent,
    decode,
    encode,
    group_decoder,
    refusal,
    resource_decoder,
    resource_path,
    watch_event_decoder,
)

__all__ = [
    "JSON",
    "JSON_PATCH",
    "MERGE_PATCH",
    "STRATEGIC_PATCH",
    "ApiError",
    "ApiResource",
    "KubeClient",
    "Manifest",
    "NotLeading",
    "Unreachable",
    "WatchEvent",
    "client_core",
    "decode",
    "encode",
    "resource_path",
]

_READ_BUFFER = 1 << 21
_LARGE = 1 << 20
_CONNECT_SECONDS = 10


def client_core() -> tuple[Any, Any]:
    """Configuration class and kubeconfig loader, without the generated models; loaded on the first call."""
    name = "kubernetes_asyncio"
    if name not in sys.modules:
        spec = find_spec(name)
        if spec is None or spec.submodule_search_locations is None:
            raise ImportError("kubernetes-asyncio is not installed")
        root = Path(next(iter(spec.submodule_search_locations)))
        for module_name, folder in (
            (name, root),
            (f"{name}.client", root / "client"),
            (f"{name}.config", root / "config"),
        ):
            shell = ModuleType(module_name)
            shell.__path__ = [str(folder)]
            sys.modules[module_name] = shell
        sys.modules[f"{name}.client.models"] = ModuleType(f"{name}.client.models")
        client = sys.modules[f"{name}.client"]
        client.models = sys.modules[f"{name}.client.models"]  # type: ignore[attr-defined]  # a module shell
        client.Configuration = import_module(f"{name}.client.configuration").Configuration  # type: ignore[attr-defined]  # a module shell
        client.ApiClient = import_module(f"{name}.client.api_client").ApiClient  # type: ignore[attr-defined]  # a module shell
    return import_module(f"{name}.client.configuration").Configuration, import_module(f"{name}.config.kube_config")


class _Request(aiohttp.ClientRequest):
    """A request that asks the guard of its client at the last moment: it has its connection, nothing was written."""

    client: KubeClient

    async def send(self, conn: aiohttp.connector.Connection) -> aiohttp.ClientResponse:
        """Send it once it may be sent; raises FenceLost when it never will be."""
        guard = self.client.guard
        if guard is not None and self.method != "GET" and not guard.holds:
            await guard.wait()
        return await super().send(conn)

    async def write_bytes(
        self, writer: AbstractStreamWriter, conn: aiohttp.connector.Connection, content_length: int | None = None
    ) -> None:
        """Write what was held back so far, unless the leader stood still since it was asked."""
        guard = self.client.guard
        if guard is not None and self.method != "GET" and not guard.holds and conn.protocol is not None:
            conn.protocol.set_exception(aiohttp.ClientConnectionError("not sent: the lease has to be confirmed first"))
            return
        await super().write_bytes(writer, conn, content_length)


class KubeClient:
    """A session with one endpoint. Close it when done."""

    def __init__(
        self, server: str, *, ssl_context: ssl.SSLContext | None, headers: Mapping[str, str], connections: int = 64
    ) -> None:
        self.server = server.rstrip("/")
        self._ssl = ssl_context
        self._headers = {"User-Agent": kube_api.MANAGER, **headers}
        self._connections = connections
        self._session: aiohttp.ClientSession | None = None
        self._streams: aiohttp.ClientSession | None = None
        self._configuration: Any = None
        self.guard: Guard | None = None
        """Asked before every request that changes something; None: everything may be sent."""

    @classmethod
    async def from_kubeconfig(
        cls, kubeconfig: str | Path | Manifest, *, context: str | None = None, connections: int = 64
    ) -> Self:
        """Open the endpoint of a kubeconfig, given as a path or as its decoded content."""
        configuration_type, loader = client_core()
        configuration = configuration_type()
        async with _loading():
            if isinstance(kubeconfig, dict):
                await loader.load_kube_config_from_dict(kubeconfig, context=context, client_configuration=configuration)
            else:
                path = _existing(kubeconfig)
                await loader.load_kube_config(config_file=path, context=context, client_configuration=configuration)
            try:
                ssl_context = _ssl_of(configuration)
            finally:
                # The loader writes inline certificates and keys to files, which the context has read by now.
                loader._cleanup_temp_files()
        client = cls(configuration.host, ssl_context=ssl_context, headers={}, connections=connections)
        client._configuration = configuration
        return client

    @classmethod
    def from_token(
        cls,
        server: str,
        token: str,
        *,
        ca_pem: str = "",
        insecure: bool = False,
        client_pem: tuple[str, str] | None = None,
        connections: int = 64,
    ) -> Self:
        """Open an endpoint with what a member's Secret holds: a bearer token or a client certificate, and a CA."""
        context: ssl.SSLContext | None = None
        if server.startswith("https"):
            context = ssl.create_default_context(cadata=ca_pem or None)
            if insecure:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            if client_pem is not None:
                # The ssl module reads certificates from files only; this one lives for the length of the call, in a
                # directory that nobody else may enter.
                with tempfile.TemporaryDirectory() as directory:
                    pair = Path(directory) / "pair.pem"
                    pair.write_text("\n".join(client_pem), encoding="utf-8")
                    context.load_cert_chain(pair)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return cls(server, ssl_context=context, headers=headers, connections=connections)

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None or self._session.closed:
            self._session = self._make_session(self._connections)
        return self._session

    def _open_streams(self) -> aiohttp.ClientSession:
        """The session of the watches: each holds a connection, however many kinds there are."""
        if self._streams is None or self._streams.closed:
            self._streams = self._make_session(0)
        return self._streams

    def _make_session(self, connections: int) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            limit=connections, ssl=self._ssl if self._ssl is not None else True, keepalive_timeout=75
        )
        return aiohttp.ClientSession(
            connector=connector,
            request_class=type("Request", (_Request,), {"client": self}),
            headers=self._headers,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
            read_bufsize=_READ_BUFFER,
            auto_decompress=True,
        )

    async def close(self) -> None:
        """Close every connection."""
        sessions = (self._session, self._streams)
        self._session = self._streams = None
        for session in sessions:
            if session is not None:
                await session.close()

    async def _identity(self) -> dict[str, str]:
        if self._configuration is None:
            return {}
        setting = (await self._configuration.auth_settings()).get("BearerToken")
        if setting and setting["value"]:
            return {setting["key"]: setting["value"]}
        return {}

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | Manifest | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        timeout: float = 32.0,
    ) -> bytes:
        """Send one request and return the answer's bytes.

        Raises ApiError for a refusal, Unreachable when no answer came within `timeout` seconds, and NotLeading (an
        Unreachable) when the guard let nothing through: then it was not sent.
        """
        headers = {"Accept": accept, **await self._identity()}
        data = encode(body) if isinstance(body, dict) else body
        if data is not None:
            headers["Content-Type"] = content_type
        if method != "GET":
            fault_points.reach("before_act")
            if self.guard is not None and not self.guard.holds:
                # Beside the time that the endpoint has to answer.
                await _admitted(self.guard, f"{method} {self.server}{path}")
        try:
            async with self._open().request(
                method,
                self.server + path,
                params=params,
                # A large body is written piece by piece.
                data=data if data is None or len(data) < _LARGE else io.BytesIO(data),
                headers=headers,
                timeout=aiohttp.ClientTimeout(total=timeout, sock_connect=_CONNECT_SECONDS),
                allow_redirects=False,
            ) as response:
                answer = await response.read()
                if response.status >= 300:
                    raise _refused(response, answer)
                if method != "GET":
                    fault_points.reach("after_act")
                return answer
        except FenceLost as error:
            raise NotLeading(f"{method} {self.server}{path} was not sent: {error}") from error
        except aiohttp.ConnectionTimeoutError as error:
            raise Unreachable(f"{method} {self.server}{path}: no connection within {_CONNECT_SECONDS} s") from error
        except TimeoutError as error:
            raise Unreachable(f"{method} {self.server}{path}: no answer within {timeout:g} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise Unreachable(f"{method} {self.server}{path}: {str(error) or type(error).__name__}") from error

    async def get(self, path: str, **kwargs: Any) -> Manifest:
        """Read one object or collection."""
        return decode(await self.request("GET", path, **kwargs))

    async def create(self, path: str, body: bytes | Manifest) -> Manifest:
        """POST an object to its collection."""
        return decode(await self.request("POST", path, body=body))

    async def update(self, path: str, body: bytes | Manifest) -> Manifest:
        """PUT an object (or its subresource)."""
        return decode(await self.request("PUT", path, body=body))

    async def patch(self, path: str, body: bytes | Manifest, content_type: str = MERGE_PATCH) -> Manifest:
        """PATCH an object (or its subresource)."""
        return decode(await self.request("PATCH", path, body=body, content_type=content_type))

    async def delete(self, path: str, *, propagation: str = "", uid: str = "") -> bytes:
        """DELETE an object, optionally only if it still has this uid."""
        options: Manifest = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if propagation:
            options["propagationPolicy"] = propagation
        if uid:
            options["preconditions"] = {"uid": uid}
        return await self.request("DELETE", path, body=options)

    async def watch(
        self, path: str, resource_version: str, *, params: Mapping[str, str] | None = None, idle: float = 330.0
    ) -> AsyncIterator[list[WatchEvent]]:
        """Stream changes after a resourceVersion, as many at once as have arrived.

        Ends when the server closes the stream. Raises ApiError (410 when the version is too old) and Unreachable.
        """
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": "300",
            "resourceVersion": resource_version,
            **(params or {}),
        }
        headers = {"Accept": JSON, **await self._identity()}
        try:
            async with self._open_streams().get(
                self.server + path,
                params=query,
                headers=headers,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS, sock_read=idle),
            ) as response:
                if response.status >= 400:
                    raise _refused(response, await response.read())
                rest = b""
                async for chunk in response.content.iter_any():
                    *lines, rest = (rest + chunk).split(b"\n")
                    events = [watch_event_decoder.decode(line) for line in lines if line]
                    if events:
                        yield events
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise Unreachable(f"watch {self.server}{path}: {error}") from error

    async def discover(self, *, preferred: bool = True) -> list[ApiResource]:
        """Kinds the endpoint serves, without subresources; only each group's preferred version unless told otherwise.

        A group whose server does not answer is left out.
        """
        found: list[ApiResource] = []
        versions: list[tuple[str, str]] = [("", "v1")]
        for group in group_decoder.decode(await self.request("GET", "/apis")).groups:
            chosen = group.versions
            if preferred and group.preferred_version is not None:
                chosen = (group.preferred_version,)
            versions.extend((group.name, version.version) for version in chosen)
        for name, version in versions:
            path = f"/apis/{name}/{version}" if name else f"/api/{version}"
            try:
                listed = resource_decoder.decode(await self.request("GET", path))
            except ApiError:
                continue
            found.extend(
                msgspec.structs.replace(resource, group=name, version=version)
                for resource in listed.resources
                if "/" not in resource.name
            )
        return found


async def _admitted(guard: Guard, request: str) -> None:
    try:
        await guard.wait()
    except FenceLost as error:
        raise NotLeading(f"{request} was not sent: {error}") from error


_locks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()


def _loading() -> asyncio.Lock:
    """Kubeconfigs are loaded one at a time: the files of one must not go while another is read."""
    return _locks.setdefault(asyncio.get_running_loop(), asyncio.Lock())


def _existing(kubeconfig: str | Path) -> str:
    path = Path(kubeconfig).expanduser()
    if not path.is_file():
        raise FileNotFoundError(f"kubeconfig {path} does not exist")
    return str(path)


def _refused(response: aiohttp.ClientResponse, body: bytes) -> ApiError:
    return refusal(response.status, response.reason or "", response.headers, body, str(response.url))


def _ssl_of(configuration: Any) -> ssl.SSLContext | None:
    if not configuration.host.startswith("https"):
        return None
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert or None)
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
    return context
