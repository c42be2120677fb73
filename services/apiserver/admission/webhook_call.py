"""Calling one webhook over HTTPS: its address, its certificate authority, and the form of a valid answer."""

import asyncio
import base64
import ssl
from collections.abc import Callable
from typing import Any

import aiohttp
import msgspec

from schemas.manifest import Manifest
from services._kit.base.answer_limits import in_force
from services._kit.kube.answers.bodies import whole
from services._kit.kube.answers.exchange import IDENTITY
from services._kit.kube.api import UNREADABLE, BadAnswer
from services.apiserver.core.service_addresses import Resolver, Unresolved

_LONGEST_TEXT = 4000


class CallFailed(Exception):
    """A webhook could not be asked or did not answer as it should."""


class WebhookTarget:
    """Where a webhook is: a URL, or a Service with a path."""

    def __init__(self, config: Manifest) -> None:
        self.url: str = config.get("url") or ""
        self.service: Manifest = config.get("service") or {}
        self._bundle: str = config.get("caBundle") or ""
        self._context: ssl.SSLContext | None = None

    @property
    def shown(self) -> str:
        """The URL as messages show it."""
        if self.url:
            return self.url
        service = self.service
        path = service.get("path") or "/"
        host = f"{service.get('name')}.{service.get('namespace')}.svc:{service.get('port') or 443}"
        return f"https://{host}/{path.lstrip('/')}"

    def address(self, resolver: Resolver) -> str:
        """The URL to call; raises Unresolved."""
        if self.url:
            return self.url
        service = self.service
        namespace, name = service.get("namespace", ""), service.get("name", "")
        found = resolver(namespace, name, service.get("port") or 443)
        if found is None:
            raise Unresolved("ServiceNotFound", f'service "{name}" not found')
        return found.rstrip("/") + "/" + (service.get("path") or "/").lstrip("/")

    def context(self, client_context: Callable[[str], ssl.SSLContext | None]) -> ssl.SSLContext | bool:
        """TLS settings, made once per configuration."""
        if self.url.startswith("http:"):
            return True
        if self._context is None:
            bundle = base64.b64decode(self._bundle).decode()
            context = client_context(bundle) or ssl.create_default_context(cadata=bundle or None)
            if self.service:
                context.check_hostname = False
            self._context = context
        return self._context


class _Status(msgspec.Struct):
    code: int | None = None
    message: str | None = None
    reason: str | None = None
    details: dict[str, Any] | None = None


class _Response(msgspec.Struct, rename="camel"):
    """The types of what is used of a response."""

    uid: str | None = None
    allowed: bool | None = None
    patch: str | None = None
    patch_type: str | None = None
    warnings: list[str] | None = None
    status: _Status | None = None


async def send(
    session: aiohttp.ClientSession,
    target: WebhookTarget,
    review: Manifest,
    timeout: int,
    client_context: Callable[[str], ssl.SSLContext | None],
    resolver: Resolver,
) -> Manifest:
    """Send an AdmissionReview and return its response part; raises CallFailed."""
    separator = "&" if "?" in target.shown else "?"
    shown = f"{target.shown}{separator}timeout={timeout}s"
    try:
        url = f"{target.address(resolver)}{separator}timeout={timeout}s"
        context = target.context(client_context)
        async with session.post(
            url,
            data=msgspec.json.encode(review),
            headers={"Content-Type": "application/json", "Accept": "application/json, */*", **IDENTITY},
            ssl=context,
            timeout=aiohttp.ClientTimeout(total=timeout),
            allow_redirects=False,
        ) as response:
            body = await whole(response, in_force(), asyncio.Lock())
            if response.status != 200:
                text = body[:_LONGEST_TEXT].decode("utf-8", "replace").strip()
                raise CallFailed(_status_text(response.status, text))
    except Unresolved as e:
        raise CallFailed(f'Post "{shown}": {e.message}') from e
    except TimeoutError as e:
        raise CallFailed(f'Post "{shown}": context deadline exceeded') from e
    except aiohttp.ClientConnectorCertificateError as e:
        raise CallFailed(f'Post "{shown}": x509: certificate signed by unknown authority') from e
    except (aiohttp.ClientError, BadAnswer, OSError, ValueError, ssl.SSLError) as e:
        raise CallFailed(f'Post "{shown}": {e}') from e
    return _response(body, review["apiVersion"])


def _status_text(code: int, text: str) -> str:
    if code >= 500:
        return (
            f'an error on the server ("{text}") has prevented the request from succeeding'
            if text
            else (f"the server answered with status {code}")
        )
    return f"the server answered with status {code}: {text}"


def _response(body: bytes, api_version: str) -> Manifest:
    try:
        answer: Any = msgspec.json.decode(body)
    except RecursionError as e:
        raise CallFailed("couldn't get version/kind; json parse error: exceeded max depth") from e
    except UNREADABLE as e:
        first = body[:1].decode("utf-8", "replace")
        text = (
            f"invalid character '{first}' looking for beginning of value" if first else "unexpected end of JSON input"
        )
        raise CallFailed(f"couldn't get version/kind; json parse error: {text}") from e
    if not isinstance(answer, dict):
        kinds = {str: "string", list: "array", bool: "bool", int: "number", float: "number"}
        raise CallFailed(
            f"couldn't get version/kind; json parse error: json: cannot unmarshal {kinds.get(type(answer), 'null')} "
            'into Go value of type struct { APIVersion string "json:\\"apiVersion,omitempty\\""; '
            'Kind string "json:\\"kind,omitempty\\"" }'
        )
    given, kind = answer.get("apiVersion", ""), answer.get("kind", "")
    if kind != "AdmissionReview" or given not in ("admission.k8s.io/v1", "admission.k8s.io/v1beta1"):
        raise CallFailed(
            f'no kind "{kind}" is registered for version "{given}" in scheme '
            '"k8s.io/apiserver/pkg/util/webhook/client.go:71"'
        )
    if given != api_version:
        have, want = given.rpartition("/")[2], api_version.rpartition("/")[2]
        raise CallFailed(f"converting ({have}.AdmissionReview) to ({want}.AdmissionReview): unknown conversion")
    response = answer.get("response")
    if not isinstance(response, dict):
        raise CallFailed("webhook response was absent")
    try:
        msgspec.convert(response, _Response)
    except msgspec.ValidationError as e:
        raise CallFailed(f"webhook response has parts of wrong types: {e}") from e
    return response
