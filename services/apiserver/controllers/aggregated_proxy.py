"""Passing one request on to an aggregated server, with the requester's identity in X-Remote-* headers."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import aiohttp
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

from schemas.manifest import Manifest
from services._kit.kube.answers.relay import forwarded, relay
from services.apiserver.core.request_context import Identity

if TYPE_CHECKING:
    from services.apiserver.http.handler import Request


class Backend:
    """One aggregated group version: where it is and whether it answers."""

    def __init__(self, name: str, spec: Manifest, before: Backend | None = None) -> None:
        self.name = name
        self.spec = spec
        service = spec.get("service") or {}
        self.service = (service.get("namespace", ""), service.get("name", ""))
        self.url = ""
        self.ssl: ssl.SSLContext | bool = True
        self.available: bool = before is not None and before.available
        self.reason = ""
        self.message = "not checked yet"
        self.resources: list[dict[str, Any]] | None = before.resources if before is not None else None
        if before is not None:
            self.url, self.ssl = before.url, before.ssl

    def set(self, available: bool, reason: str, message: str) -> None:
        """Record the outcome of a check."""
        self.available, self.reason, self.message = available, reason, message

    @staticmethod
    def identity_headers(user: Identity) -> CIMultiDict[str]:
        """Headers with the requester's identity; the backend trusts them for this server's client certificate."""
        headers: CIMultiDict[str] = CIMultiDict()
        headers["X-Remote-User"] = user.name
        if user.uid:
            headers["X-Remote-Uid"] = user.uid
        for group in user.groups:
            headers.add("X-Remote-Group", group)
        for name, values in user.extra.items():
            for value in values:
                headers.add(f"X-Remote-Extra-{quote(name, safe='')}", value)
        return headers


async def proxy(session: aiohttp.ClientSession, backend: Backend, request: Request) -> web.StreamResponse:
    """Send the request on and stream the answer back as it comes; raises aiohttp.ClientError before it began."""
    http = request.http
    headers = forwarded(http, "impersonate-", "content-length")
    headers.extend(backend.identity_headers(request.user))
    body = await request.body() if http.can_read_body else None
    url = URL(f"{backend.url}{http.rel_url.raw_path_qs}", encoded=True)
    async with session.request(
        http.method, url, headers=headers, data=body, allow_redirects=False, ssl=backend.ssl
    ) as upstream:
        return await relay(http, upstream)
