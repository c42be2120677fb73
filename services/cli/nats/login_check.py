"""Asks the log's server whether it lets an agent's identity in, until it does, or until it refuses it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from schemas.agent import Reported
from services._kit.base.log_errors import LogError
from services._kit.log.connection import Connection
from services._rules.identity.accounts import reports_subject
from services.cli.common.running import Failed

PATIENCE: Final = 15.0
"""Seconds that a server has to take a change over."""
_GONE: Final = "authorization"

Login = Callable[[], Awaitable[Connection | str]]
"""One attempt to log in; answers why not where it fails."""


async def log_in(url: str, name: str, seconds: float, **identity: Any) -> Connection | str:
    """A connection with an identity, or why there is none within some seconds."""
    said: list[Exception] = []
    try:
        async with asyncio.timeout(seconds):
            return await Connection.open(url, name=name, on_error=said.append, allow_reconnect=False, **identity)
    except Exception as error:  # noqa: BLE001  # the client raises many kinds; the first one it reports is the reason
        return str(said[0] if said else error) or type(error).__name__


async def until_heard(
    hub: Connection,
    cluster: str,
    login: Login,
    problem: Callable[[str], str],
    unheard: Callable[[], None] = lambda: None,
) -> None:
    """Return once a message of the agent's account arrives at the hub; raises Failed with `problem` of the reason.

    `unheard` is called when listening begins, and whenever the agent was let in but its message did not arrive.
    """
    heard = asyncio.Event()

    async def arrived(_: Any) -> None:
        heard.set()

    subject, deadline, why = reports_subject(cluster), time.monotonic() + PATIENCE, "its messages do not arrive"
    agent: Connection | None = None
    try:
        await hub.subscribe(subject, arrived)
        await hub.flushed()
        unheard()
        while not heard.is_set():
            if time.monotonic() > deadline:
                raise Failed(problem(why))
            if agent is None:
                answer = await login()
                agent, why = (answer, why) if isinstance(answer, Connection) else (None, answer)
                continue
            try:
                await agent.publish(subject, msgspec.json.encode(Reported(events=())), reply=agent.inbox())
                async with asyncio.timeout(0.25):
                    await heard.wait()
            except TimeoutError:
                unheard()
            except LogError:
                await agent.close()
                agent = None
    finally:
        if agent is not None:
            await agent.close()


async def until_refused(login: Login, problem: str) -> None:
    """Return once the server refuses the identity; raises Failed."""
    deadline = time.monotonic() + PATIENCE
    while True:
        answer = await login()
        if isinstance(answer, Connection):
            await answer.close()
        elif _GONE in answer.lower():
            return
        if time.monotonic() > deadline:
            raise Failed(problem)
