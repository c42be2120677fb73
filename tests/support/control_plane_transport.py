"""Carries requests to a control plane in the caller's name, as the API server answers what was sent back to it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from services._kit.kube.client import KubeClient
from services._kit.proxying.member_exchange import (
    CHUNK,
    Exchange,
    MemberBadAnswer,
    MemberRefused,
    MemberRequest,
    MemberUnreachable,
)
from services._kit.proxying.switched_connection import SwitchedConnection, of_answer
from services._rules.proxying.header_rules import BadIdentity, identity_headers

_BROKEN: Final = (aiohttp.ClientError, OSError, ValueError, TimeoutError)


class ControlPlaneTransport:
    """Carries requests to the control plane: with this service's credentials, in the name of the caller."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def open(self, request: MemberRequest, body: AsyncIterator[bytes] | None = None) -> Exchange:
        """Send a request; raises MemberUnreachable, MemberBadAnswer and MemberRefused."""
        try:
            headers = [*request.headers, *identity_headers(request.user, request.groups)]
        except BadIdentity as error:
            raise MemberRefused(str(error)) from error
        if request.upgrade:
            headers += [("Connection", "Upgrade"), ("Upgrade", request.upgrade)]
        try:
            sent = CIMultiDict(headers)
            sent.update(await self._client.identity())
            answer = await self._client._open_streams().request(
                request.method,
                URL(self._client.server + request.path, encoded=True),
                headers=sent,
                data=body,
                allow_redirects=False,
                skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
            )
        except _BROKEN as error:
            raise MemberUnreachable(str(error)) from error
        return _ControlPlaneExchange(answer, request.upgrade)


class _ControlPlaneExchange:
    """One answer of the control plane."""

    def __init__(self, answer: aiohttp.ClientResponse, upgrade: str) -> None:
        self.status = answer.status
        self.headers = tuple(answer.headers.items())
        self._answer = answer
        self._switched: SwitchedConnection | None = None
        if self.status == 101:
            if not upgrade:
                answer.close()
                raise MemberBadAnswer("it switched the connection to a protocol that was not asked for")
            try:
                self._switched = of_answer(answer)
            except ConnectionError as error:
                raise MemberUnreachable(str(error)) from error

    async def read(self) -> bytes:
        """The next bytes of the body, or of the other protocol."""
        if self._switched is not None:
            return await self._switched.read()
        try:
            return await self._answer.content.read(CHUNK)
        except _BROKEN as error:
            raise MemberUnreachable(f"it broke off its answer: {type(error).__name__}") from error

    async def write(self, data: bytes) -> None:
        """Send bytes of the other protocol."""
        if self._switched is None:
            raise MemberUnreachable("it did not switch the connection")
        try:
            await self._switched.write(data)
        except OSError as error:
            raise MemberUnreachable("it closed the connection") from error

    async def close(self) -> None:
        """End it."""
        if self._switched is not None:
            self._switched.close()
        self._answer.close()
