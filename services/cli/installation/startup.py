"""The steps of a start that talk to servers: streams, definitions, joining, and waiting until everything is ready."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

import aiohttp

from services._kit.kube.client import ApiError, Unreachable
from services.cli.common.failure_reasons import Reasons
from services.cli.common.layout import Installation
from services.cli.common.running import Failed, JoinRefused, NotReady, reporting, say
from services.cli.common.stream_topology import asked_sizes
from services.cli.common.waiting import answers, opened, wait_until, waiting
from services.cli.log.disk.files import why_refused

OUTSIDE_LOG_SECONDS: Final = 30.0
LOG_SECONDS: Final = 120.0
FRONT_DOOR_SECONDS: Final = 120.0
"""How long an API server may take to read its store."""


CONNECT_SECONDS: Final = 2.0


def run_step(name: str, work: Callable[[], Awaitable[str]]) -> int:
    """Run one step, saying its name, what it waits for while it lasts, and its result; the exit code."""
    began = time.monotonic()
    say(f"  {name} … ")
    try:
        result = asyncio.run(_with_progress(name, work))
    except (NotReady, Failed, JoinRefused, ApiError, Unreachable, OSError, ValueError, KeyError) as error:
        say(f"failed\n    {error}\n")
        return 1
    say(f"{result or 'ok'} ({time.monotonic() - began:.1f} s)\n")
    return 0


async def _with_progress(name: str, work: Callable[[], Awaitable[str]]) -> str:
    """Report from time to time what is waited for, on lines of their own."""

    def report(seconds: float) -> None:
        what = "; ".join(f"{place}: {complaint}" for place, complaint in waiting.items() if complaint)
        say(f"({seconds:.0f} s){' waiting for ' + what if what else ''}\n  {name} … ")

    async with reporting(report):
        return await work()


async def apply_streams(installation: Installation, refused: Path) -> str:
    """Create and update the streams of the log; waits for its server, unless `refused` says why it does not start."""
    from services._kit.base.log_errors import Ambiguous, LogError, Unavailable
    from services._kit.log import streams as topology
    from services._kit.log.connection import Connection

    asked = asked_sizes()
    connection: Connection | None = None

    async def connect() -> str:
        nonlocal connection
        if reason := why_refused(refused):
            raise NotReady(f"the log's server is not started: {reason}")
        try:
            # The client tries for ever, and a server that refuses to start says so elsewhere.
            async with asyncio.timeout(CONNECT_SECONDS):
                url, options = installation.log_access, installation.log_options
                connection = await Connection.open(url, name="fleetlog/up", **options)
        except Exception as error:  # noqa: BLE001  # the client raises many kinds while the server starts
            return f"no answer at {installation.log_url}: {error}"
        return ""

    async def make() -> str:
        assert connection is not None
        try:
            await topology.apply(connection, replicas=installation.log_replicas, sizes=asked)
        except (Ambiguous, Unavailable) as error:
            # Several servers elect a leader first, and then one for each stream.
            return str(error)
        except LogError as error:
            raise Failed(f"the streams cannot be made with {installation.log_replicas} replicas: {error}") from None
        return ""

    # One of our own checks its store first, and says so where it finds damage.
    await wait_until("nats-server", connect, OUTSIDE_LOG_SECONDS if installation.nats_url else LOG_SECONDS)
    assert connection is not None
    try:
        await wait_until("streams", make, 60.0)
    finally:
        await connection.close()
    return ""


async def front_doors(kubeconfigs: Iterable[Path], log_of: Callable[[str], Path]) -> str:
    """Wait until every API server has written its kubeconfig and answers; `log_of` finds the log of one."""
    names = []

    async def wait_for(path: Path) -> None:
        said = Reasons(log_of(path.stem))

        async def look() -> str:
            if reason := said.permanent():
                raise NotReady(reason)
            try:
                async with opened(path) as client:
                    return await answers(client)
            except FileNotFoundError as error:
                return str(error)

        try:
            await wait_until(path.stem, look, FRONT_DOOR_SECONDS)
        except NotReady as error:
            raise NotReady(f"{error}; its log: {log_of(path.stem)}") from None

    paths = list(kubeconfigs)
    await asyncio.gather(*(wait_for(path) for path in paths))
    names = [path.stem for path in paths]
    return ", ".join(names)


async def services_ready(ports: Mapping[str, int], logs: Mapping[str, Path]) -> str:
    """Wait until every service says that it is ready; fails at once where its log file says that it never will be."""
    async with aiohttp.ClientSession() as session:

        async def wait_for(name: str, port: int) -> None:
            said = Reasons(logs[name])

            async def look() -> str:
                if reason := said.permanent():
                    raise NotReady(f"{name} cannot start: {reason}")
                try:
                    async with session.get(f"http://127.0.0.1:{port}/readyz") as answer:
                        return "" if answer.status == 200 else (await answer.text())[:300]
                except aiohttp.ClientError as error:
                    return str(error)

            await wait_until(name, look, 60.0)

        await asyncio.gather(*(wait_for(name, port) for name, port in ports.items()))
    return f"{len(ports)} services"
