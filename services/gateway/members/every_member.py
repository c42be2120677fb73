"""Answers `clusters/*/proxy`: finds the one member that holds an object, and lists objects of all members."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeAlias

import msgspec
from aiohttp import web
from msgspec import Raw, Struct, structs

from services._kit.concurrency.tasks import all_of
from services._kit.kube.client import ApiError as KubeError
from services._kit.kube.client import Unreachable
from services._kit.proxying.member_exchange import (
    Exchange,
    MemberRefused,
    MemberRequest,
    MemberUnreachable,
)
from services._rules.proxying.inner_requests import InnerResource, inner_resource
from services.apiserver.core.status_errors import ApiError
from services.gateway.members.member_ways import MemberWays

EVERY: Final = "*"
"""Stands for all clusters in the place of a name."""
AT_ONCE: Final = 32
"""Members that are asked at a time for one request."""
LARGEST: Final = 32 << 20
"""Bytes of the list of one member; a larger one is left out."""
ALTOGETHER: Final = 128 << 20
"""Bytes of the lists of all members."""
_JSON: Final = (("Accept", "application/json"),)
_OPEN: Final = ("/api", "/apis", "/openapi", "/version", "/healthz", "/livez", "/readyz")
"""Where paths begin that every user of the control plane may read."""


Asking: TypeAlias = Callable[[str], Awaitable[None]]


class _List(Struct):
    kind: str = ""
    apiVersion: str = ""  # noqa: N815 - as it is on the wire
    items: list[Raw] | None = None


_lists: Final = msgspec.json.Decoder(_List)


class EveryMember:
    """All members at once; each has `seconds` to answer, and one that does not is left out."""

    def __init__(self, ways: MemberWays, seconds: float) -> None:
        self._directory = ways.directory
        self._transport = ways.transport
        self._control = ways.control
        self._seconds = seconds

    async def answer(self, asked: MemberRequest) -> web.Response | str:
        """The answer to a request for all members, or the name of the one that it is for; raises ApiError."""
        path, _, query = asked.path.partition("?")
        found = inner_resource(path)
        if found is None:
            return await self._of_control_plane(asked.method, path, query)
        if found.name:
            return await self._holder(asked, found)
        watches = found.watch or "watch=" in query
        if asked.method != "GET" or watches or asked.upgrade:
            text = f"{asked.method} without a name is not possible for all clusters at once; name a cluster"
            raise ApiError(405, "MethodNotAllowed", text, {})
        return await self._listed(asked)

    async def _of_control_plane(self, method: str, path: str, query: str) -> web.Response:
        """What is no resource is the control plane's own; of that, what every user may read."""
        if method not in ("GET", "HEAD") or not any(path == one or path.startswith(f"{one}/") for one in _OPEN):
            raise ApiError(403, "Forbidden", f"{method} {path} is not possible for all clusters at once", {})
        try:
            body = await self._control.request("GET", f"{path}?{query}" if query else path, accept="*/*")
        except KubeError as error:
            raise ApiError(error.status, error.reason, error.message) from error
        except Unreachable as error:
            raise ApiError(503, "ServiceUnavailable", f"the control plane does not answer: {error}") from error
        media = "application/json" if body[:1] in (b"{", b"[") else "text/plain"
        return web.Response(body=body, content_type=media)

    async def _holder(self, asked: MemberRequest, found: InnerResource) -> str:
        path = asked.path.partition("?")[0].rstrip("/").split("/")
        shown = _segments(found)
        probe = structs.replace(asked, method="GET", path="/".join(path[: shown + 1]), headers=_JSON, upgrade="")
        holders: list[str] = []

        async def ask(name: str) -> None:
            async with self._opened(probe, name) as exchange:
                if exchange.status == 200:
                    holders.append(name)

        await self._each(ask)
        if not holders:
            text = f"{found.resource} {found.name!r} was not found in any cluster, or you may not read it there"
            raise ApiError(404, "NotFound", text, {"name": found.name, "group": found.group, "kind": found.resource})
        if len(holders) > 1:
            shown_names = ", ".join(sorted(holders))
            text = f"{found.resource} {found.name!r} is in several clusters: {shown_names}; name one of them"
            raise ApiError(409, "Conflict", text, {"name": found.name, "group": found.group, "kind": found.resource})
        return holders[0]

    async def _listed(self, asked: MemberRequest) -> web.Response:
        found: dict[str, _List] = {}
        size = 0
        wanted = structs.replace(asked, headers=_JSON)

        async def ask(name: str) -> None:
            nonlocal size
            async with self._opened(wanted, name) as exchange:
                body = await _whole(exchange) if exchange.status == 200 else None
            if body is None:
                return
            size += len(body)
            if size > ALTOGETHER:
                text = f"the lists of all clusters exceed {ALTOGETHER >> 20} MiB; ask for less, or name a cluster"
                raise ApiError(413, "RequestEntityTooLarge", text)
            try:
                answer = _lists.decode(body)
            except msgspec.MsgspecError:
                return
            if answer.items is not None and answer.kind.endswith("List"):
                found[name] = answer

        await self._each(ask)
        if not found:
            raise ApiError(404, "NotFound", "no cluster answered with a list, or you may not list this in any", {})
        first = found[min(found)]
        items = [item for name in sorted(found) for item in found[name].items or ()]
        document = {"kind": first.kind, "apiVersion": first.apiVersion, "metadata": {}, "items": items}
        return web.Response(body=msgspec.json.encode(document), content_type="application/json")

    async def _each(self, ask: Asking) -> None:
        """Ask every member, so many at a time; what one does not answer does not hold up the others."""
        try:
            names = await self._directory.names()
        except MemberUnreachable as error:
            raise ApiError(503, "ServiceUnavailable", str(error)) from error
        seats = asyncio.Semaphore(AT_ONCE)

        async def one(name: str) -> None:
            async with seats:
                try:
                    async with asyncio.timeout(self._seconds):
                        await ask(name)
                except (MemberUnreachable, MemberRefused, TimeoutError):
                    return

        await all_of(one(name) for name in names)

    @asynccontextmanager
    async def _opened(self, asked: MemberRequest, name: str) -> AsyncIterator[Exchange]:
        exchange = await self._transport.open(structs.replace(asked, cluster=name))
        try:
            yield exchange
        finally:
            await exchange.close()


def _segments(found: InnerResource) -> int:
    """How many segments of a path name the object, without its subresource."""
    return (5 if found.group else 4) + (2 if found.namespace else 0) + (1 if found.watch else 0)


async def _whole(exchange: Exchange) -> bytes | None:
    """A body, unless it is too large or packed."""
    if any(name.lower() == "content-encoding" for name, _ in exchange.headers):
        return None
    body = bytearray()
    while data := await exchange.read():
        body += data
        if len(body) > LARGEST:
            return None
    return bytes(body)
