"""The command `fleetlog log verify`: walks all facts and says what does not hold together."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping

from services._kit.history import HISTORY, held, origin, walk
from services._kit.log import Log
from services.cli.log_checks import Checker, Problem
from services.cli.log_files import imported_up_to
from services.cli.logbook import LogAccess, open_log, streams
from services.cli.running import SILENT_SECONDS, complain

_LOOK = 1000
"""Events between two looks at the clock."""


async def verify(access: LogAccess) -> int:
    """Print a line per problem and a summary; 1 when there are problems."""
    async with open_log(access) as connection:
        logs = streams(connection)
        imported = await imported_up_to(connection)
        checker, problems = await check(logs, imported, report=True)
    verdict = "no problem" if not problems else "1 problem" if problems == 1 else f"{problems:,} problems"
    print(
        f"{checker.events:,} events of {checker.subjects:,} subjects, "
        f"positions {checker.first} to {checker.last}: {verdict}"
    )
    return 1 if problems else 0


async def check(logs: Mapping[str, Log], imported: int = 0, *, report: bool = False) -> tuple[Checker, int]:
    """Walk everything; the checker at its end and the number of problems, each printed when `report`.

    `imported` is the last position that came from another log, which may have trimmed what stood between.
    """
    begins = await _begins(logs[HISTORY])
    checker = Checker(max(begins, imported + 1), await held(logs[HISTORY]), begins)
    problems = 0
    told = time.monotonic()
    async for place in walk(logs, (">",)):
        for problem in checker.take(place):
            problems += 1
            if report:
                _print(problem)
        if report and checker.events % _LOOK == 0 and time.monotonic() - told > SILENT_SECONDS:
            told = time.monotonic()
            complain(f"at position {checker.last:,}: {checker.events:,} events, {problems:,} problems …")
    return checker, problems


async def _begins(history: Log) -> int:
    """The first position of FACTS that HISTORY holds: what is older was dropped by age. 1 when it holds nothing."""
    async for message in history.read([">"]):
        return origin(message)
    return 1


def _print(problem: Problem) -> None:
    sys.stdout.write(f"{problem}\n")
