"""Answers `clusters/NAME/proxy`: finds out who asks for what, and hands the request and its answer on."""

from __future__ import annotations

import asyncio
import re
import time
from typing import TYPE_CHECKING, Any, Final

import structlog
from aiohttp import web
from aiohttp.web_request import BaseRequest
from msgspec import Struct, structs

from services._kit.proxying.caller_exchange import CallerBody, Traffic, hand_on
from services._kit.proxying.caller_limits import CallerLimits
from services._kit.proxying.front_identity import Identity
from services._kit.proxying.member_exchange import (
    Exchange,
    MemberBadAnswer,
    MemberLeft,
    MemberRefused,
    MemberRequest,
    MemberTransport,
    MemberUnknown,
    MemberUnreachable,
)
from services._rules.proxying.header_rules import to_member, upgrade_of
from services._rules.proxying.inner_requests import METHODS, BadPath, inner_path, lasts, watches
from services.apiserver.core.request import split_path
from services.apiserver.core.status_errors import ApiError, bad_request, method_not_allowed
from services.gateway.front.caller_reviews import CallerReviews
from services.gateway.members.every_member import EVERY, EveryMember
from services.gateway.members.member_ways import MemberWays

if TYPE_CHECKING:
    from services.gateway.metrics import MemberMetrics

PREFIX: Final = ["apis", "cluster.karmada.io", "v1alpha1", "clusters"]
"""The path of Clusters; a name and `proxy` follow."""
THROUGH: Final = ["apis", "work.karmada.io", "v1alpha2", "clusters"]
"""The same below a group that every control plane sends here: a kube-apiserver answers for Clusters itself."""
_SEGMENTS: Final = len(PREFIX) + 2
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


class DoorBounds(Struct, frozen=True):
    """Bytes of a request's body, seconds until an answer begins, and seconds without a byte of it.

    The times are not for requests that may run for long.
    """

    body_bytes: int
    answer_seconds: float
    idle_seconds: float


class MemberDoor:
    """The way to members; without `ways` this gateway has no access to the control plane."""

    def __init__(
        self,
        ways: MemberWays | None,
        reviews: CallerReviews,
        limits: CallerLimits,
        bounds: DoorBounds,
        metrics: MemberMetrics,
    ) -> None:
        self._ways = ways
        self.reviews = reviews
        self._limits = limits
        self._bounds = bounds
        self._metrics = metrics
        self._log = structlog.get_logger(__name__)

    def left(self, cluster: str) -> None:
        """End what is under way with a cluster that is no member any more."""
        if self._ways is not None:
            self._ways.directory.forget(cluster)
            self._ways.departing.left(cluster)

    def concerns(self, parts: list[str]) -> bool:
        """Whether a path leads to a member."""
        return len(parts) >= _SEGMENTS and parts[:4] in (PREFIX, THROUGH) and parts[5] == "proxy"

    async def answer(
        self, request: BaseRequest, query: dict[str, str], identity: Identity, parts: list[str]
    ) -> web.StreamResponse:
        """Answer one request; raises ApiError, and TooManyRequests, before the answer has begun."""
        name = parts[4]
        if request.method not in METHODS:
            raise method_not_allowed()
        # Who may use the other path at the API server has not been asked for the right to this cluster.
        caller = await self.reviews.admit(request, identity, name, authorized=parts[:4] == PREFIX)
        if name != EVERY and _NAME.fullmatch(name) is None:
            raise _not_found(name)
        if self._ways is None:
            text = "this gateway has no access to the control plane: FLEETLOG_CONTROL_KUBECONFIG is not set"
            raise ApiError(503, "ServiceUnavailable", text)
        try:
            path = inner_path(request.rel_url.raw_path, _SEGMENTS)
        except BadPath as error:
            raise bad_request(str(error)) from error
        headers = list(request.headers.items())
        upgrade = upgrade_of(headers)
        if upgrade and request.can_read_body:
            raise bad_request("a request that switches the protocol has no body")
        raw_query = request.rel_url.raw_query_string
        asked = MemberRequest(
            cluster=name,
            method=request.method,
            path=f"{path}?{raw_query}" if raw_query else path,
            headers=to_member(headers),
            user=caller.user,
            groups=caller.groups,
            upgrade=upgrade,
        )
        lasting = lasts(request.method, path, query, upgrade)
        watch = watches(request.method, path, query) and not upgrade
        with self._limits.request(caller.user, lasts=lasting):
            return await self._admitted(self._ways, request, asked, path, lasting=lasting, watch=watch)

    async def _admitted(
        self, ways: MemberWays, request: BaseRequest, asked: MemberRequest, path: str, *, lasting: bool, watch: bool
    ) -> web.StreamResponse:
        if asked.cluster == EVERY:
            found = await EveryMember(ways, self._bounds.answer_seconds).answer(asked)
            if isinstance(found, web.Response):
                return found
            asked = structs.replace(asked, cluster=found)
        return await self._carried(ways.transport, request, asked, path, lasting=lasting, watch=watch)

    async def _carried(
        self,
        transport: MemberTransport,
        request: BaseRequest,
        asked: MemberRequest,
        path: str,
        *,
        lasting: bool,
        watch: bool,
    ) -> web.StreamResponse:
        began = time.monotonic()
        traffic = Traffic()
        code, problem = 499, ""
        prefix = f"/{'/'.join(split_path(request.rel_url.raw_path)[:4])}/{asked.cluster}/proxy"
        try:
            exchange = await self._opened(transport, request, asked, traffic, lasting=lasting)
            code = exchange.status
            self._metrics.heads.observe(time.monotonic() - began)
            try:
                return await hand_on(
                    request,
                    exchange,
                    traffic,
                    prefix=prefix,
                    upgrade=asked.upgrade,
                    idle=None if lasting else self._bounds.idle_seconds,
                    watch=watch,
                )
            except MemberUnreachable as error:
                raise _unreachable(error, asked.cluster) from error
            finally:
                await exchange.close()
        except ApiError as error:
            code, problem = error.code, str(error)
            raise
        except ConnectionError as error:
            problem = str(error)
            raise
        finally:
            self._metrics.carried(code, traffic, lasting=lasting)
            # The query may hold what is typed into a container.
            self._log.info(
                "member_request",
                cluster=asked.cluster,
                user=asked.user,
                groups=list(asked.groups),
                method=asked.method,
                path=path[:500],
                upgrade=asked.upgrade,
                code=code,
                seconds=round(time.monotonic() - began, 3),
                bytes_up=traffic.up,
                bytes_down=traffic.down,
                problem=problem[:500],
            )

    async def _opened(
        self,
        transport: MemberTransport,
        request: BaseRequest,
        asked: MemberRequest,
        traffic: Traffic,
        *,
        lasting: bool,
    ) -> Exchange:
        """The exchange, once the head of the answer is there; raises ApiError."""
        seconds = None if lasting else self._bounds.answer_seconds
        body = CallerBody(request, self._bounds.body_bytes, traffic) if request.can_read_body else None
        if body is not None and body.exceeded:
            raise _too_large(self._bounds.body_bytes)
        try:
            async with asyncio.timeout(seconds):
                return await transport.open(asked, body.parts() if body is not None else None)
        except MemberRefused as error:
            raise ApiError(403, "Forbidden", str(error), {"name": asked.cluster}) from error
        except MemberUnreachable as error:
            if body is not None and body.exceeded:
                raise _too_large(self._bounds.body_bytes) from error
            raise _unreachable(error, asked.cluster) from error
        except TimeoutError as error:
            text = f"cluster {asked.cluster} did not begin to answer within {seconds:g} s"
            raise ApiError(504, "Timeout", text, {}) from error


def _not_found(name: str) -> ApiError:
    return ApiError(404, "NotFound", f'clusters.cluster.karmada.io "{name}" not found', _details(name))


def _details(name: str) -> dict[str, Any]:
    return {"name": name, "group": "cluster.karmada.io", "kind": "clusters"}


def _unreachable(error: MemberUnreachable, name: str) -> ApiError:
    """The answer where a member gave none that could be handed on."""
    match error:
        case MemberUnknown():
            return _not_found(name)
        case MemberLeft():
            return ApiError(404, "NotFound", str(error), _details(name))
        case MemberBadAnswer():
            return ApiError(502, "BadGateway", str(error))
        case _:
            return ApiError(503, "ServiceUnavailable", str(error), {"retryAfterSeconds": 1})


def _too_large(most: int) -> ApiError:
    return ApiError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {most} bytes")
