"""Has the log's servers read their configuration again, over their own account, and asks which accounts they have."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

import msgspec
from msgspec import Struct
from nats.aio.msg import Msg

from services._kit.base.log_errors import LogError
from services._kit.base.settings import Settings, tls_context
from services._kit.log.connection import Connection
from services._rules.identity.accounts import SYSTEM_USER
from services.cli.common.running import Failed
from services.cli.nats.login_check import log_in

_TRY_SECONDS: Final = 4.0
_ANSWER_SECONDS: Final = 3.0
_PAUSE: Final = 2.0
_REQUESTS: Final = "$SYS.REQ.SERVER"


class _Server(Struct):
    name: str = ""
    id: str = ""


class _Error(Struct):
    description: str = ""


class _Answer(Struct):
    """What a server says to any of these requests."""

    server: _Server
    error: _Error | None = None


class Servers:
    """The servers of the log; `number` is how many there have to be."""

    def __init__(self, system: Connection, number: int) -> None:
        self._system = system
        self._number = number

    @classmethod
    @asynccontextmanager
    async def opened(cls, url: str, password: str, authority: str, number: int) -> AsyncIterator[Servers]:
        """The servers behind a URL; `authority` is the file of theirs. Raises Failed where none lets the user in."""
        tls = tls_context(Settings(tls_ca=authority))
        login = await log_in(url, "fleetlog/accounts", _TRY_SECONDS, user=SYSTEM_USER, password=password, tls=tls)
        if isinstance(login, str):
            raise Failed(f"the log's server at {url} cannot be reached as {SYSTEM_USER}: {login}")
        try:
            yield cls(login, number)
        finally:
            await login.close()

    async def until_known(self, account: str, *, known: bool, seconds: float) -> None:
        """Return once every server has an account with its imports, or has it no more; raises Failed with what lacks.

        The files of a pod's Secret are written some time after the Secret is. The imports of an account that appears
        are connected at the reload after the one that brings it.
        """
        deadline = time.monotonic() + seconds
        while True:
            servers, lacking = await self._found(), []
            if len(servers) < self._number:
                lacking.append(f"{len(servers)} of {self._number} servers answer")
            for one in servers.values():
                why = await self._reload(one)
                if why or (await self._has(one, account)) is not known:
                    lacking.append(f"{one.name} {why or ('lacks' if known else 'still has') + f' account {account}'}")
            if not lacking:
                break
            if time.monotonic() > deadline:
                raise Failed(f"the log's servers have not read their accounts within {seconds:g} s: {lacking[0]}")
            await asyncio.sleep(_PAUSE)
        for one in servers.values():
            if why := await self._reload(one):
                raise Failed(f"the log's server {one.name} {why}")

    async def _found(self) -> dict[str, _Server]:
        """The servers that answer, by id: at once where all do."""
        found: dict[str, _Server] = {}
        complete = asyncio.Event()

        def heard(message: Msg) -> None:
            with suppress(msgspec.MsgspecError):
                server = msgspec.json.decode(message.data, type=_Answer).server
                found[server.id] = server
            if len(found) >= self._number:
                complete.set()

        inbox = self._system.inbox()
        await self._system.listen(inbox, heard)
        await self._system.publish(f"{_REQUESTS}.PING", b"", reply=inbox)
        with suppress(TimeoutError):
            async with asyncio.timeout(_ANSWER_SECONDS):
                await complete.wait()
        return found

    async def _reload(self, server: _Server) -> str:
        """Why a server cannot read its configuration; empty when it has."""
        answer = await self._ask(server, "RELOAD", b"")
        if isinstance(answer, str):
            return f"does not answer: {answer}"
        return f"cannot read its configuration: {answer.error.description}" if answer.error else ""

    async def _has(self, server: _Server, account: str) -> bool | None:
        answer = await self._ask(server, "ACCOUNTZ", msgspec.json.encode({"account": account}))
        return None if isinstance(answer, str) else answer.error is None

    async def _ask(self, server: _Server, request: str, body: bytes) -> _Answer | str:
        try:
            message = await self._system.request(f"{_REQUESTS}.{server.id}.{request}", body, timeout=_ANSWER_SECONDS)
            return msgspec.json.decode(message.data, type=_Answer)
        except (LogError, msgspec.MsgspecError) as error:
            return str(error)
