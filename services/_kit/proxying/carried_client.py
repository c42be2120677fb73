"""A client of a member that has no address: its requests are carried to the member's agent."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import urlencode

from services._kit.base import answer_limits
from services._kit.base.answer_limits import Limits
from services._kit.kube.answers.bodies import Buffer, Lines, TooLarge
from services._kit.kube.answers.exchange import check_json
from services._kit.kube.answers.shapes import readable
from services._kit.kube.answers.share import Share
from services._kit.kube.api import JSON, ApiError, BadAnswer, Unreachable, WatchEvent, refusal, watch_event_decoder
from services._kit.kube.client import KubeClient
from services._kit.proxying.member_exchange import (
    Exchange,
    MemberRefused,
    MemberRequest,
    MemberTransport,
    MemberUnreachable,
)
from services._rules.kubernetes.rbac.service_roles import SERVICE_GROUP, user_of

_EVENTS: Final = frozenset({"ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"})


class CarriedClient(KubeClient):
    """Reads one member through a transport, within the limits of any neighbour.

    It asks in the name of a service: what that may read there, the roles of the member say.
    """

    def __init__(self, transport: MemberTransport, cluster: str, service: str) -> None:
        limits = answer_limits.in_force()
        super().__init__(
            f"member://{cluster}", ssl_context=None, headers={}, limits=limits, share=Share(limits.cpu_share)
        )
        self._transport = transport
        self._cluster = cluster
        self._user = user_of(service)

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        accept: str = JSON,
        timeout: float = 0.0,
        **_: Any,
    ) -> bytes:
        """Send one request that reads; see KubeClient."""
        what = f"{method} {self.server}{path}"
        limits = self.limits
        try:
            async with (
                asyncio.timeout(timeout or limits.answer_seconds),
                self._opened(method, path, params, accept) as answer,
            ):
                body = await _whole(answer, limits)
                _check(answer, body, what)
                check_json(body, _header(answer, "content-type"))
                return body
        except TimeoutError:
            raise Unreachable(f"{what}: no answer within {timeout or limits.answer_seconds:g} s") from None

    async def watch(
        self, path: str, resource_version: str, *, params: Mapping[str, str] | None = None, accept: str = JSON
    ) -> AsyncIterator[list[WatchEvent]]:
        """Stream changes after a resourceVersion; see KubeClient."""
        limits = self.limits
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(max(1, round(limits.watch_seconds * random.uniform(0.8, 1.0)))),
            "resourceVersion": resource_version,
            **(params or {}),
        }
        what = f"watch {self.server}{path}"
        async with self._opened("GET", path, query, accept) as answer:
            if answer.status >= 300:
                _check(answer, await _whole(answer, limits), what)
            yield []
            cut = Lines(limits.object_bytes)
            while True:
                try:
                    async with asyncio.timeout(limits.silence_seconds):
                        piece = await answer.read()
                except TimeoutError:
                    return
                found = cut.feed(piece) if piece else [cut.rest] if cut.size else []
                if found:
                    yield [_event(line) for line in found]
                if not piece:
                    return

    @asynccontextmanager
    async def _opened(
        self, method: str, path: str, params: Mapping[str, str] | None, accept: str = JSON
    ) -> AsyncIterator[Exchange]:
        query = f"?{urlencode(params)}" if params else ""
        asked = MemberRequest(
            cluster=self._cluster,
            method=method,
            path=f"{path}{query}",
            headers=(("Accept", accept),),
            user=self._user,
            groups=(SERVICE_GROUP,),
        )
        try:
            answer = await self._transport.open(asked)
        except MemberRefused as error:
            raise ApiError(403, "Forbidden", str(error)) from None
        except MemberUnreachable as error:
            raise Unreachable(str(error)) from None
        try:
            yield answer
        except MemberUnreachable as error:
            raise Unreachable(str(error)) from None
        finally:
            await answer.close()


async def _whole(answer: Exchange, limits: Limits) -> bytes:
    found = Buffer()
    while piece := await answer.read():
        found.add(piece)
        if found.size > limits.answer_bytes:
            raise TooLarge(f"it has more than {limits.answer_bytes} bytes")
    return found.whole()


def _check(answer: Exchange, body: bytes, what: str) -> None:
    """Raises ApiError for a refusal, and BadAnswer for what an API server never answers."""
    if answer.status < 300:
        return
    error = refusal(answer.status, "", dict(answer.headers), body, what)
    raise error if answer.status >= 400 else BadAnswer(str(error))


def _header(answer: Exchange, name: str) -> str:
    return next((value for each, value in answer.headers if each.lower() == name), "")


def _event(line: bytes) -> WatchEvent:
    event = readable(watch_event_decoder, line, "an event of a watch")
    if event.type not in _EVENTS:
        raise BadAnswer(f"a watch has no events of type {event.type[:40]!r}")
    return event
