"""Runs fault rounds and prints a table: `python -m tests.faults.run --rounds 10 --seed 7`."""

from __future__ import annotations

import argparse
import asyncio
import random
import secrets
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from services.cli.layout import CONTROL
from services.cli.up import SERVICES
from tests.e2e.fleet import Fleet
from tests.faults.rounds import Result, Round

_COLUMNS = "{:>5}  {:<18} {:>6} {:>6} {:>7} {:>7} {:>8} {:>9} {:>7} {:>7}  {}"
SHOWN = 30


def play(fleet: Fleet, number: int, seed: int, deployments: int, victims: Sequence[str] = SERVICES) -> Result:
    """One round; all that is random in it comes from the seed and its number."""
    return asyncio.run(Round(fleet, number, random.Random(f"{seed}/{number}"), deployments, victims).run())


def say(text: str) -> None:
    """Print at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def row(result: Result) -> str:
    """The line of a round in the table."""
    return _COLUMNS.format(
        result.number,
        result.victim,
        result.steps,
        result.retries,
        result.facts,
        result.writes,
        f"{result.load_seconds:.1f}s",
        f"{result.settle_seconds:.1f}s",
        f"{result.restart_seconds:.1f}s",
        f"{result.load_seconds + result.settle_seconds + result.restart_seconds:.1f}s",
        "ok" if result.ok else f"FAILED ({len(result.complaints)})",
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Play the rounds; the exit code is 1 when any of them failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=None, help="repeats a run; drawn at random otherwise")
    parser.add_argument("--deployments", type=int, default=100)
    parser.add_argument(
        "--dir", type=Path, default=None, help="directory of the installation; a temporary one otherwise"
    )
    parser.add_argument("--everything", action="store_true", help="kill API servers and members too, not services only")
    options = parser.parse_args(arguments)
    seed = options.seed if options.seed is not None else secrets.randbelow(10**6)
    directory = options.dir or Path(tempfile.mkdtemp(prefix="fleetlog-faults-"))
    say(f"seed {seed}, installation in {directory}")
    began = time.monotonic()
    fleet = Fleet(directory).start()
    say(
        _COLUMNS.format(
            "round",
            "killed (+ nats)",
            "steps",
            "retry",
            "facts",
            "writes",
            "load",
            "settle",
            "restart",
            "all",
            "result",
        )
    )
    failed = 0
    victims = (*SERVICES, CONTROL, *fleet.members) if options.everything else SERVICES
    try:
        for number in range(1, options.rounds + 1):
            result = play(fleet, number, seed, options.deployments, victims)
            say(row(result))
            failed += not result.ok
            for complaint in result.complaints[:SHOWN]:
                say(f"         {complaint}")
    finally:
        fleet.stop()
    say(f"{options.rounds - failed} of {options.rounds} rounds passed in {time.monotonic() - began:.0f} s; seed {seed}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
