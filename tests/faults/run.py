"""Plays faults and prints a table: `python -m tests.faults.run --rounds 10 --seed 7 --only kill-log,member-500`.

Without a choice it kills one service and the log with -9 while 100 Deployments are created, scaled and deleted, and
then restarts everything; --all plays every fault on several installations at once, --chaos random ones for minutes.
"""

from __future__ import annotations

import argparse
import secrets
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from tests.faults.catalog import BY_NAME, FAULTS, STANDARD
from tests.faults.chaos.disturbances import EVERY as DISTURBANCES
from tests.faults.chaos.run import Chosen, play
from tests.faults.lanes import Lanes
from tests.faults.scene import Outcome

SHOWN = 20
AT_ONCE = 5
"""Installations at once when every fault is played: most of a round is waiting."""
_ROUND = "{:<22} {:>5} {:>6} {:>6} {:>6} {:>7} {:>7}  {:<16}  {:<12} {}"
_TOTAL = "{:<22} {:>6} {:>6} {:>8} {:>8} {:>8}  {}"


def say(text: str) -> None:
    """Print at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def again(outcome: Outcome, deployments: int = 0) -> str:
    """The command that plays a round again."""
    size = f" --deployments {deployments}" if deployments else ""
    return f"python -m tests.faults.run --only {outcome.fault} --seed {outcome.seed} --round {outcome.number}{size}"


def show(outcome: Outcome) -> None:
    """Print a round that ended."""
    say("\n".join([row(outcome), *(f"         {complaint[:1500]}" for complaint in outcome.complaints[:SHOWN])]))


def row(outcome: Outcome) -> str:
    """The line of a round."""
    return _ROUND.format(
        outcome.fault,
        outcome.number,
        outcome.steps,
        outcome.facts,
        outcome.writes,
        f"{outcome.healed:.1f}s",
        f"{outcome.seconds:.1f}s",
        outcome.state,
        "ok" if outcome.ok else f"FAILED ({len(outcome.complaints)})",
        "; ".join(outcome.notes),
    ).rstrip()


def table(outcomes: Sequence[Outcome], skipped: dict[str, str], seed: int) -> list[str]:
    """The result by fault: rounds, passed, seed, time, takeovers."""
    lines = [
        _TOTAL.format("fault", "rounds", "passed", "seed", "mean", "longest", "takeover (median, longest) / remark")
    ]
    for name in dict.fromkeys(outcome.fault for outcome in outcomes):
        mine = [outcome for outcome in outcomes if outcome.fault == name]
        times = [outcome.seconds for outcome in mine]
        takeovers = [seconds for outcome in mine for seconds in outcome.takeovers]
        lines.append(
            _TOTAL.format(
                name,
                len(mine),
                sum(outcome.ok for outcome in mine),
                seed,
                f"{sum(times) / len(times):.1f}s",
                f"{max(times):.1f}s",
                f"{median(takeovers):.2f}s {max(takeovers):.2f}s" if takeovers else "",
            ).rstrip()
        )
    lines += [_TOTAL.format(name, 0, 0, seed, "", "", f"skipped: {why}") for name, why in skipped.items()]
    return lines


def invariants(outcomes: Sequence[Outcome]) -> list[str]:
    """How often each invariant was checked in all rounds."""
    counts: Counter[str] = Counter()
    for outcome in outcomes:
        counts.update(outcome.checks)
    return [f"{name:<50} {count:>10} checks" for name, count in sorted(counts.items())]


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _chaos(options: argparse.Namespace) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    directory = options.dir or Path(tempfile.mkdtemp(prefix="fleetlog-chaos-"))
    code = play(
        Chosen(
            minutes=options.minutes,
            seed=options.seed if options.seed is not None else secrets.randbelow(10**6),
            directory=directory,
            skip=frozenset(_names(options.without)),
            cycle=options.cycle,
        )
    )
    if code == 0 and options.dir is None:
        shutil.rmtree(directory, ignore_errors=True)
    return code


def main(arguments: Sequence[str] | None = None) -> int:
    """Play the rounds; the exit code is 1 when any of them failed."""
    parser = argparse.ArgumentParser(prog="just faults", description=__doc__, epilog=f"faults: {', '.join(BY_NAME)}")
    parser.add_argument("--rounds", type=int, default=10, help="of each fault; those that take long have a bound")
    parser.add_argument("--round", type=int, default=0, help="only the round of this number")
    parser.add_argument("--seed", type=int, default=None, help="repeats a run; drawn at random otherwise")
    parser.add_argument("--only", default="", help="names of faults, separated by commas")
    parser.add_argument("--all", action="store_true", help="every fault")
    parser.add_argument("--deployments", type=int, default=0, help="size of the load; each fault has its own otherwise")
    parser.add_argument("--at-once", type=int, default=0, help=f"installations; {AT_ONCE} with --all, 1 otherwise")
    parser.add_argument("--chaos", action="store_true", help="random operations and faults instead of rounds")
    parser.add_argument("--minutes", type=float, default=5.0, help="of the chaos run; a cycle that began is ended")
    parser.add_argument("--cycle", type=int, default=0, help="of the chaos run: only the schedule of this number")
    parser.add_argument("--without", default="", help=f"of the chaos run: not {', '.join(DISTURBANCES)}")
    parser.add_argument(
        "--dir", type=Path, default=None, help="directory of the installations; a temporary one otherwise"
    )
    options = parser.parse_args(arguments)
    if options.chaos:
        return _chaos(options)
    names = _names(options.only)
    unknown = [name for name in names if name not in BY_NAME]
    if unknown:
        parser.error(f"there is no fault {', '.join(unknown)}; there are {', '.join(BY_NAME)}")
    faults = list(FAULTS) if options.all else [BY_NAME[name] for name in names or [STANDARD]]
    numbers = [options.round] if options.round else list(range(1, options.rounds + 1))
    seed = options.seed if options.seed is not None else secrets.randbelow(10**6)
    directory = options.dir or Path(tempfile.mkdtemp(prefix="fleetlog-faults-"))
    say(f"seed {seed}, installations in {directory}")
    say(_ROUND.format("fault", "round", "steps", "facts", "writes", "healed", "all", "state", "result", "notes"))
    # Told to end, the run still stops what it has started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    began = time.monotonic()
    lanes = Lanes(directory, seed, options.deployments, show)
    outcomes, skipped = lanes.play(faults, numbers, options.at_once or (AT_ONCE if options.all else 1))
    failed = [outcome for outcome in outcomes if not outcome.ok]
    if not failed and options.dir is None:
        shutil.rmtree(directory, ignore_errors=True)
    say("")
    for outcome in failed:
        say(f"failed, to play it again: {again(outcome, options.deployments)}")
    for line in (*table(outcomes, skipped, seed), "", *invariants(outcomes), ""):
        say(line)
    say(
        f"{len(outcomes) - len(failed)} of {len(outcomes)} rounds passed in "
        f"{time.monotonic() - began:.0f} s; seed {seed}"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
