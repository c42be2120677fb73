"""Calling one webhook over HTTPS: its address, its certificate authority, and the form of a valid answer."""

import asyncio
import base64
import ssl
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
JSON_PATCH = "JSONPatch"


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

    @property
    def server_name(self) -> str | None:
        """The name that the certificate of a Service is for; None where the URL says it."""
        service = self.service
        return None if self.url else f"{service.get('name')}.{service.get('namespace')}.svc"

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

    def context(self) -> ssl.SSLContext:
        """TLS settings, made once per configuration; a webhook is shown no certificate of ours."""
        if self._context is None:
            bundle = base64.b64decode(self._bundle).decode()
            self._context = ssl.create_default_context(cadata=bundle or None)
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
    audit_annotations: dict[str, str] | None = None
    status: _Status | None = None


async def send(
    session: aiohttp.ClientSession,
    target: WebhookTarget,
    review: Manifest,
    timeout: int,
    resolver: Resolver,
) -> Manifest:
    """Send an AdmissionReview and return its response part; raises CallFailed."""
    separator = "&" if "?" in target.shown else "?"
    shown = f"{target.shown}{separator}timeout={timeout}s"
    try:
        url = f"{target.address(resolver)}{separator}timeout={timeout}s"
        context = target.context()
        headers = {"Content-Type": "application/json", "Accept": "application/json, */*", **IDENTITY}
        if target.server_name is not None:
            headers["Host"] = f"{target.server_name}:{target.service.get('port') or 443}"
        async with session.post(
            url,
            data=msgspec.json.encode(review),
            headers=headers,
            ssl=context,
            server_hostname=target.server_name,
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
        raise CallFailed(f'Post "{shown}": x509: {_distrust(e)}') from e
    except (aiohttp.ClientError, BadAnswer, OSError, ValueError, ssl.SSLError) as e:
        raise CallFailed(f'Post "{shown}": {e}') from e
    return _response(body, review["apiVersion"])


_EXPIRED, _NOT_YET_VALID, _OTHER_NAME = 10, 9, 62
"""What a certificate was refused for, as OpenSSL numbers it."""


def _distrust(error: aiohttp.ClientConnectorCertificateError) -> str:
    """Why the certificate of a webhook is not accepted, and what to do about one whose time is over."""
    found = error.certificate_error
    code = getattr(found, "verify_code", 0)
    if code in (_EXPIRED, _NOT_YET_VALID):
        return "certificate has expired or is not yet valid: replace the certificate of the webhook"
    if code == _OTHER_NAME:
        return str(getattr(found, "verify_message", "")) or "certificate is not valid for this name"
    return "certificate signed by unknown authority"


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


def check_response(response: Manifest, uid: str, version: str, *, mutating: bool) -> None:
    """Check that a response belongs to its request and has no parts without each other; raises CallFailed.

    The beta of reviews has no uid to compare, and its patches no type.
    """
    patch, kind = response.get("patch"), response.get("patchType")
    if version != "v1":
        if patch:
            response.setdefault("patchType", JSON_PATCH)
        return
    if response.get("uid") != uid:
        raise CallFailed(f'expected response.uid="{uid}", got "{response.get("uid") or ""}"')
    if not mutating:
        for name, value in (("patch", patch), ("patchType", kind)):
            if value:
                raise CallFailed(f"validating webhook may not return response.{name}")
    elif patch and kind is None:
        raise CallFailed("webhook returned response.patch but not response.patchType")
    elif not patch and kind is not None:
        raise CallFailed("webhook returned response.patchType but not response.patch")
    elif kind is not None and kind != JSON_PATCH:
        text = f'unsupported patch type "{kind}"' if kind else 'webhook returned invalid response.patchType of ""'
        raise CallFailed(text)
