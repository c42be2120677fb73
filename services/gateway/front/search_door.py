"""Hands requests about objects of all members on to the service search, in the caller's name.

A control plane that is not ours does not send them there. The gateway asks it whether the caller may, and then names
the caller to search as an API server's front proxy does: by headers that count because of its client certificate.
"""

from __future__ import annotations

import ssl
from typing import Final

import aiohttp
from aiohttp import web
from aiohttp.web_request import BaseRequest
from yarl import URL

from services._kit.base.settings import SettingsError
from services._kit.kube.answers.relay import forwarded, relay
from services._kit.proxying.front_identity import Identity
from services._rules.proxying import sent_back
from services._rules.proxying.inner_requests import BadPath, inner_path
from services.apiserver.core.status_errors import ApiError, bad_request
from services.apiserver.kinds.kind_model import Resource
from services.gateway.front.caller_reviews import CallerReviews, verb_of
from services.gateway.front.front import Asked, Front
from services.gateway.front.upstream import passing_session
from services.gateway.settings import GatewaySettings

_KARMADA: Final = ["apis", "search.karmada.io", "v1alpha1"]
_OWN: Final = ["apis", "search.fleetlog.io", "v1alpha1"]
_SEGMENTS: Final = 6
"""Of the path of the global proxy: apis, group, version, proxying, name, proxy."""


class SearchDoor:
    """The way to search; raises SettingsError for files that cannot be used."""

    def __init__(self, settings: GatewaySettings, reviews: CallerReviews, front: Front | None) -> None:
        self._url = settings.search_url.rstrip("/")
        self._tls = _tls(settings)
        self._reviews = reviews
        self._front = front
        self._session: aiohttp.ClientSession | None = None

    def concerns(self, parts: list[str]) -> bool:
        """Whether search answers for a path; the kinds of its group stay with the control plane."""
        if parts[:3] == _OWN:
            return True
        if parts[:3] != _KARMADA:
            return False
        return (parts[3:4] == ["search"] and len(parts) > 4) or (parts[3:4] == ["proxying"] and parts[5:6] == ["proxy"])

    async def start(self) -> None:
        """Be ready to hand requests on."""
        self._session = passing_session(self._tls)

    async def stop(self) -> None:
        """Close every connection."""
        if self._session is not None:
            await self._session.close()

    async def answer(self, request: BaseRequest, identity: Identity, parts: list[str]) -> web.StreamResponse:
        """Answer one request; raises ApiError before the answer has begun."""
        if "Upgrade" in request.headers:
            text = "exec, attach and port-forward go to clusters/NAME/proxy here, not to all members at once"
            raise ApiError(501, "NotImplemented", text)
        caller = await self._reviews.permit(request, identity, _asked(request, parts))
        headers = forwarded(request, "impersonate-")
        headers.add("X-Remote-User", caller.user)
        for group in caller.groups:
            headers.add("X-Remote-Group", group)
        assert self._session is not None
        short = (request.content_length or 0) <= sent_back.LARGEST_BODY
        body = await request.read() if request.can_read_body and request.content_length and short else None
        data = body if body is not None else request.content if request.can_read_body else None
        url = URL(f"{self._url}{request.rel_url.raw_path_qs}", encoded=True)
        try:
            answer = await self._session.request(request.method, url, headers=headers, data=data, allow_redirects=False)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            why = str(error) or type(error).__name__
            details = {"retryAfterSeconds": 1}
            raise ApiError(
                503, "ServiceUnavailable", f"search at {self._url} does not answer: {why}", details
            ) from error
        async with answer:
            if answer.status != sent_back.STATUS or sent_back.HEADER not in answer.headers or self._front is None:
                return await relay(request, answer)
        if request.can_read_body and body is None:
            text = f"a body has to say its length here, of {sent_back.LARGEST_BODY} bytes at most"
            raise ApiError(413, "RequestEntityTooLarge", text)
        try:
            path = inner_path(request.rel_url.raw_path, _SEGMENTS)
        except BadPath as error:
            raise bad_request(str(error)) from error
        query = request.rel_url.raw_query_string
        return await self._front.answer_inner(request, identity, f"{path}?{query}" if query else path, body)


def _asked(request: BaseRequest, parts: list[str]) -> Asked:
    """What has to be allowed, as an API server names it by the path."""
    _, group, version, *rest = parts
    resource, name, subresource = (*rest[:3], "", "", "")[:3]
    if not resource:
        return Asked("get", request.rel_url.raw_path)
    kind = Resource(group, version, "Search", resource, namespaced=False)
    verb = verb_of(request.method) if name else "list"
    return Asked(verb, request.rel_url.raw_path, kind, "", name, subresource)


def _tls(settings: GatewaySettings) -> ssl.SSLContext | None:
    if not settings.search_url.startswith("https:"):
        return None
    try:
        context = ssl.create_default_context(cafile=settings.search_ca or None)
        if settings.search_cert:
            context.load_cert_chain(settings.search_cert, settings.search_key or None)
    except OSError as error:
        raise SettingsError(f"FLEETLOG_SEARCH_CA, FLEETLOG_SEARCH_CERT, FLEETLOG_SEARCH_KEY: {error}") from error
    return context
