"""Measures a whole installation: starts one in a temporary directory, prints one JSON line per figure, stops it."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.bench import document
from tests.bench.logcount import LogCount
from tests.bench.measures import FIGURES, Bench, emit
from tests.bench.processes import pss_mib, running
from tests.bench.stopped import stopped
from tests.e2e.fleet import Fleet
from tests.support.closing import closing

MEASURES = ("memory", "appends", "latency", "throughput", "stopped", "baseline", "restart")


def options(arguments: list[str]) -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(prog="just bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few objects: does everything work?")
    parser.add_argument("--full", action="store_true", help="also 300 Deployments at once")
    parser.add_argument("--only", action="append", choices=MEASURES, help="one measure; may be repeated")
    parser.add_argument("--baseline", action="store_true", help="also direct writes to the members, for comparison")
    parser.add_argument("--bindings", type=int, default=1000, help="bindings of the restart measure")
    parser.add_argument("--stopped-seconds", type=float, default=8.0, help="how long one member stands still")
    parser.add_argument("--control-kubeconfig", default="", help="a real API server as the control plane")
    parser.add_argument("--member", action="append", default=[], help="name=kubeconfig of a real member")
    parser.add_argument("--play", action="store_true", help="play the Deployment controller of members without one")
    parser.add_argument("--write-doc", action="store_true", help="write the figures into docs/performance.md")
    parser.add_argument("--dir", default="", help="keep the installation in this directory")
    return parser.parse_args(arguments)


class Run:
    """One installation and the measures asked for."""

    def __init__(self, asked: argparse.Namespace, directory: Path) -> None:
        self._asked = asked
        arguments = ["--members", "0"] if asked.member else ["--nodes", "12"]
        if asked.control_kubeconfig:
            arguments += ["--control-kubeconfig", asked.control_kubeconfig]
        for member in asked.member:
            arguments += ["--member", member]
        self._fleet = Fleet(directory, arguments)

    def measure(self) -> None:
        """Start, measure, stop."""
        asked = self._asked
        chosen = asked.only or [name for name in MEASURES if name != "baseline" or asked.baseline]
        numbers = [20] if asked.quick else [100, 300] if asked.full else [100]
        began = time.perf_counter()
        self._fleet.start()
        emit("start_seconds", time.perf_counter() - began, "s")
        try:
            if "memory" in chosen:
                self._with(lambda bench: bench.memory())
            if "appends" in chosen:
                self._with(lambda bench: bench.appends())
            if "latency" in chosen:
                self._with(lambda bench: bench.latency(5 if asked.quick else 30))
            for number in numbers:
                if "throughput" in chosen:
                    self._with(lambda bench, number=number: bench.throughput(number))  # type: ignore[misc]  # bound now
                if "baseline" in chosen:
                    self._with(lambda bench, number=number: bench.baseline(number))  # type: ignore[misc]  # bound now
            if "stopped" in chosen and not asked.member:
                self._with(lambda bench: stopped(bench, 2.0 if asked.quick else asked.stopped_seconds))
            if "restart" in chosen:
                self._restart(50 if asked.quick else asked.bindings)
        finally:
            self._fleet.stop()

    def _with(self, work: Callable[[Bench], Awaitable[None]]) -> None:
        async def body() -> None:
            bench = Bench(self._fleet.layout, play=self._asked.play)
            await bench.open()
            try:
                await work(bench)
            finally:
                await bench.close()

        import uvloop

        uvloop.run(body())

    def _restart(self, bindings: int) -> None:
        """Stop with many bindings, start again: how long, what is appended, how much memory."""
        self._with(lambda bench: bench.fill(bindings))
        position = asyncio.run(self._facts())
        self._fleet.stop()
        began = time.perf_counter()
        self._fleet.start()
        emit("restart_ready_seconds", time.perf_counter() - began, "s", bindings=bindings)
        appended = asyncio.run(self._appended(position))
        emit("restart_facts_appended", sum(appended.values()), "facts", bindings=bindings, by_subject=appended)
        found = {name: round(pss_mib(pid), 1) for name, pid in running(self._fleet.layout).items()}
        emit("restart_pss_mib_total", sum(found.values()), "MiB", bindings=bindings, by_process=found)

    async def _facts(self) -> int:
        async with closing(await LogCount.open(self._fleet.layout)) as count:
            return await count.position("FACTS")

    async def _appended(self, position: int) -> dict[str, int]:
        async with closing(await LogCount.open(self._fleet.layout)) as count:
            return dict(await count.since("FACTS", position))


def main() -> int:
    """Entry point."""
    asked = options(sys.argv[1:])
    if asked.dir:
        Run(asked, Path(asked.dir)).measure()
    else:
        with tempfile.TemporaryDirectory(prefix="fleetlog-bench-") as directory:
            Run(asked, Path(directory)).measure()
    if asked.write_doc:
        document.write(FIGURES)
    return 0


if __name__ == "__main__":
    sys.exit(main())
