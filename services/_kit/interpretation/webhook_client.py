"""Calls interpreter webhooks: over https only, each with its own connections, deadline and limit of concurrent calls.

So a webhook that hangs holds up the objects of its own kinds and no others (docs/sources.md#interpreter-webhooks).
"""

from __future__ import annotations

import asyncio
import io
import socket
import ssl
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

import aiohttp
import structlog
from aiohttp.abc import AbstractResolver, ResolveResult
from msgspec.structs import replace

from schemas.manifest import Manifest
from services._kit.base.answer_limits import in_force
from services._kit.kube.answers.bodies import whole
from services._kit.kube.answers.exchange import IDENTITY, READ_BUFFER
from services._kit.kube.client import ApiError, BadAnswer, KubeClient, Unreachable, resource_path
from services._kit.log.ids import random_id
from services._rules.interpreter.common.interpretation import InterpretError, Operation
from services._rules.interpreter.webhooks.webhook_calls import refused, request_body, result_of
from services._rules.interpreter.webhooks.webhook_index import ClientConfig, ServiceAddress, Webhook, Webhooks

AT_ONCE: Final = 16
"""Calls to one place at the same time; more of them wait."""
LARGEST: Final = 8 << 20
"""Bytes of an answer."""
_LARGE: Final = 1 << 20
_HEADERS: Final = {"Content-Type": "application/json", "Accept": "application/json", **IDENTITY}
log = structlog.get_logger("interpreter_webhooks")


class WebhookLevel:
    """A level of webhooks. `replace` swaps their configurations; connections to those that stay are kept."""

    def __init__(self) -> None:
        self._webhooks = Webhooks()
        self._places: dict[ClientConfig, _Place] = {}
        self._left: list[_Place] = []
        self._services: KubeClient | None = None

    def reach_services(self, client: KubeClient) -> None:
        """Look Services up in this control plane; without one their names within the cluster are tried."""
        self._services = client

    def replace(self, configurations: Mapping[str, Manifest]) -> None:
        """Use other configurations from the next call on."""
        self._webhooks = Webhooks(configurations)
        for problem in self._webhooks.unreadable:
            log.warning("webhooks are not asked", error=problem)
        stay = self._webhooks.clients()
        for client in [client for client in self._places if client not in stay]:
            self._left.append(self._places.pop(client))

    def hook_enabled(self, api_version: str, kind: str, operation: Operation) -> bool:
        """Whether a webhook answers an operation for a kind."""
        return self._webhooks.find(api_version, kind, operation) is not None

    async def call(self, operation: Operation, arguments: Sequence[Any]) -> Any:
        """The result of an operation in the form of scripts; raises InterpretLater, naming the webhook."""
        obj: Manifest = arguments[0]
        webhook = self._webhooks.find(str(obj.get("apiVersion")), str(obj.get("kind")), operation)
        if webhook is None:
            raise InterpretError(f"no webhook offers {operation} any more: its configuration was removed")
        uid = random_id()
        body = request_body(webhook, uid, operation, arguments)
        place = self._places.get(webhook.client)
        if place is None:
            place = self._places[webhook.client] = _Place(webhook.client, self._services)
        try:
            status, answer = await place.post(webhook, body)
        finally:
            await self._sweep()
        if not 200 <= status < 300:
            raise refused(webhook, status, answer)
        return result_of(webhook, uid, operation, arguments, answer)

    async def _sweep(self) -> None:
        """Close the connections to webhooks that were removed, once no request on them is pending."""
        idle = [place for place in self._left if not place.busy]
        for place in idle:
            self._left.remove(place)
            await place.close()

    async def close(self) -> None:
        """Close every connection; calls that wait fail with InterpretLater."""
        places, self._places, self._left = [*self._places.values(), *self._left], {}, []
        for place in places:
            await place.close()


class _Place:
    """Connections to one place where webhooks listen."""

    def __init__(self, client: ClientConfig, services: KubeClient | None) -> None:
        self._client = client
        self._services = services
        self._session: aiohttp.ClientSession | None = None
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._calls = 0
        self._closed = False

    @property
    def busy(self) -> bool:
        """Whether calls are under way or wait."""
        return self._calls > 0

    async def post(self, webhook: Webhook, body: bytes) -> tuple[int, bytes]:
        """HTTP status and answer; the time of the webhook begins once its turn has come."""
        self._calls += 1
        try:
            async with self._slots:
                return await self._post(webhook, body)
        finally:
            self._calls -= 1

    async def _post(self, webhook: Webhook, body: bytes) -> tuple[int, bytes]:
        try:
            address = self._client.address
            session = self._session = self._session or self._open()
            async with asyncio.timeout(webhook.timeout):
                try:
                    return await _exchange(session, address, body)
                except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as problem:
                    if isinstance(problem, aiohttp.ClientConnectorError):
                        raise
                    # A connection that was kept had been closed there; questions may be asked twice.
                    return await _exchange(session, address, body)
        except InterpretError as problem:
            raise webhook.wrong(problem.what, problem.field) from None
        except TimeoutError:
            raise webhook.wrong(f"no answer within {webhook.timeout:g} s (timeoutSeconds)") from None
        except BadAnswer as problem:
            raise webhook.wrong(f"the answer cannot be used: {problem}") from None
        except (aiohttp.ClientError, OSError, ValueError, RuntimeError) as problem:
            raise webhook.wrong(f"cannot be called: {_told(problem)}") from None

    def _open(self) -> aiohttp.ClientSession:
        """A session with the connection settings of the configuration; raises InterpretError."""
        if self._closed:
            raise InterpretError("cannot be called: the connections to it are being closed")
        service = self._client.service
        connector = aiohttp.TCPConnector(
            limit=AT_ONCE,
            ssl=_trust(self._client.ca_bundle),
            resolver=None if service is None else _ServiceResolver(service, self._services),
            keepalive_timeout=75,
        )
        return aiohttp.ClientSession(
            connector=connector,
            headers=_HEADERS,
            timeout=aiohttp.ClientTimeout(total=None),
            read_bufsize=READ_BUFFER,
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def close(self) -> None:
        """Close every connection."""
        session, self._session, self._closed = self._session, None, True
        if session is not None:
            await session.close()


async def _exchange(session: aiohttp.ClientSession, address: str, body: bytes) -> tuple[int, bytes]:
    data = body if len(body) < _LARGE else io.BytesIO(body)
    # Redirects are refused: only the configured endpoint may answer.
    async with session.post(address, data=data, allow_redirects=False) as response:
        # One of several large answers at a time is a matter of one neighbour's readers; here each has its own bound.
        return response.status, await whole(response, replace(in_force(), answer_bytes=LARGEST), asyncio.Lock())


def _told(problem: Exception) -> str:
    """What kept a call from being answered; the same words for the same trouble."""
    if isinstance(problem, aiohttp.InvalidURL):
        return f"clientConfig.url: {problem} is no URL"
    if isinstance(problem, aiohttp.ClientConnectorCertificateError):
        why = getattr(problem.certificate_error, "verify_message", "") or problem.certificate_error
        return f"the certificate of {problem.host}:{problem.port} is not trusted: {why} (clientConfig.caBundle)"
    if isinstance(problem, aiohttp.ClientConnectorError):
        return f"no connection to {problem.host}:{problem.port}: {problem.os_error.strerror or problem.os_error}"
    return str(problem) or type(problem).__name__


def _trust(bundle: bytes) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cadata=bundle.decode("ascii") if bundle else None)
    except (ssl.SSLError, ValueError) as problem:
        raise InterpretError(f"holds no PEM certificates: {problem}", "clientConfig.caBundle") from None
    # Certificates that Kubernetes' own tools accept need not have every extension that RFC 5280 asks for.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.hostname_checks_common_name = False
    return context


class _ServiceResolver(AbstractResolver):
    """Finds the address behind a Service's name: where the control plane has the Service, what is written there."""

    def __init__(self, service: ServiceAddress, client: KubeClient | None) -> None:
        self._service = service
        self._client = client
        self._names = aiohttp.ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Addresses to connect to; the name that the certificate must carry stays the Service's."""
        found = await self._find()
        target = host if found is None else _target(found, port)
        try:
            results = await self._names.resolve(target, port, family)
        except OSError as problem:
            raise InterpretError(
                f"{target} has no address here: {problem}; where the webhook runs outside of the cluster, set url",
                "clientConfig.service",
            ) from None
        for result in results:
            result["hostname"] = host
        return results

    async def _find(self) -> Manifest | None:
        if self._client is None:
            return None
        service = self._service
        try:
            return await self._client.get(resource_path("", "v1", "services", service.namespace, quote(service.name)))
        except ApiError as problem:
            if problem.status == 404:
                return None
            raise InterpretError(f"cannot be looked up: {problem}", "clientConfig.service") from None
        except Unreachable as problem:
            raise InterpretError(f"cannot be looked up: {problem}", "clientConfig.service") from None

    async def close(self) -> None:
        """Nothing is held."""


def _target(service: Manifest, port: int) -> str:
    """The host to connect to for a Service of the control plane; raises InterpretError where it has none."""
    spec = service.get("spec") or {}
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName") or "")
    if not any((entry or {}).get("port") == port for entry in spec.get("ports") or ()):
        raise InterpretError(f"{port} is not among the ports of the Service", "clientConfig.service.port")
    address = str(spec.get("clusterIP") or "None")
    if address == "None":
        raise InterpretError("the Service is headless: it has no clusterIP to call", "clientConfig.service")
    return address
