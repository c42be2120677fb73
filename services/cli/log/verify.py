"""The command `fleetlog log verify`: walks all facts and says what does not hold together."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from services._kit.log.connection import Connection
from services._kit.log.fact_history import HISTORY, held, origin, walk
from services._kit.log.stream_port import Log
from services.cli.common.layout import Installation, Layout
from services.cli.common.logbook import LogAccess, log_access, open_log, streams
from services.cli.common.printing import render
from services.cli.common.running import SILENT_SECONDS, complain, patience
from services.cli.log.archive import imported_up_to
from services.cli.log.checks import Checker, Problem
from services.cli.log.disk.files import damage
from services.cli.log.fact_recovery import served
from services.cli.log.stream_checks import reports
from services.cli.nats.server_identities import server_pid
from services.cli.supervision.child import nats_server_binary
from services.cli.supervision.lock import AlreadyRunning, Lock

_LOOK = 1000
"""Events between two looks at the clock."""


class Verdict(Struct, kw_only=True):
    """What was checked and what is wrong, for programs."""

    problems: list[str] = []
    streams: dict[str, int] = {}
    """Messages by stream, of those beside the facts."""
    events: int = 0
    subjects: int = 0
    first: int = 0
    last: int = 0


async def verify(access: LogAccess, output: str = "") -> int:
    """Print a line per problem and a summary, or one document; 1 when there are problems. Raises Failed."""
    async with open_log(access) as connection:
        return await _verify(connection, output)


async def verify_installation(directory: Path, output: str = "") -> int:
    """The same of an installation; one that is stopped is checked on its files first, then by a server of its own."""
    layout = Layout(directory)
    installation = layout.load()
    own = installation is not None and not installation.nats_url and layout.data("nats").is_dir()
    if installation is None or not own or server_pid(layout):
        return await verify(log_access(directory), output)
    try:
        with Lock(layout.lock, "fleetlog log verify"):
            return await _verify_stopped(layout, installation, output)
    except AlreadyRunning:
        return await verify(log_access(directory), output)


async def _verify_stopped(layout: Layout, installation: Installation, output: str) -> int:
    complain("the installation is stopped: its files are checked")
    async with patience("looking through all blocks"):
        found = await asyncio.to_thread(damage, layout.data("nats"), nats_server_binary(), all_of_them=True)
    damages = [f"{one.stream} #{one.messages}: cannot be read, damaged in {one.file.name}" for one in found]
    if damages and output:
        render(output, lambda: msgspec.to_builtins(Verdict(problems=damages)), str)
        return 1
    for text in damages:
        sys.stdout.write(f"{text}\n")
    if damages:
        print(f"{len(damages):,} damaged; `fleetlog log repair` shows what can be mended")
        return 1
    async with served(layout, installation) as connection:
        return await _verify(connection, output)


async def _verify(connection: Connection, output: str) -> int:
    verdict = Verdict()

    def tell(text: str) -> None:
        if output:
            verdict.problems.append(text)
        else:
            sys.stdout.write(f"{text}\n")

    problems = 0
    async for report in reports(connection):
        problems += len(report.problems)
        if report.messages:
            verdict.streams[report.name] = report.messages
        for text in report.problems:
            tell(text)
        if report.messages and not output:
            state = "no problem" if not report.problems else f"{len(report.problems):,} problems"
            print(f"{report.name}: {report.messages:,} messages: {state}")
    logs = streams(connection)
    for log in logs.values():
        log.skips_damaged = True
    imported = await imported_up_to(connection)
    checker, more = await check(logs, imported, lambda problem: tell(str(problem)))
    problems += more
    if output:
        for name in ("events", "subjects", "first", "last"):
            setattr(verdict, name, getattr(checker, name))
        render(output, lambda: msgspec.to_builtins(verdict), str)
        return 1 if problems else 0
    state = "no problem" if not problems else "1 problem" if problems == 1 else f"{problems:,} problems"
    print(
        f"{checker.events:,} events of {checker.subjects:,} subjects, "
        f"positions {checker.first} to {checker.last}: {state}"
    )
    return 1 if problems else 0


async def check(
    logs: Mapping[str, Log], imported: int = 0, report: Callable[[Problem], None] | None = None
) -> tuple[Checker, int]:
    """Walk everything; the checker at its end and the number of problems, each told to `report`.

    `imported` is the last position that came from another log, which may have trimmed what stood between.
    """
    begins = await _begins(logs[HISTORY])
    checker = Checker(max(begins, imported + 1), await held(logs[HISTORY]), begins)
    problems = 0
    reported = time.monotonic()
    async for place in walk(logs, (">",)):
        for problem in checker.take(place):
            problems += 1
            if report is not None:
                report(problem)
        if report is not None and checker.events % _LOOK == 0 and time.monotonic() - reported > SILENT_SECONDS:
            reported = time.monotonic()
            complain(f"at position {checker.last:,}: {checker.events:,} events, {problems:,} problems …")
    return checker, problems


async def _begins(history: Log) -> int:
    """The first position of FACTS that HISTORY holds: what is older was dropped by age. 1 when it holds nothing."""
    async for message in history.read([">"]):
        return origin(message)
    return 1
