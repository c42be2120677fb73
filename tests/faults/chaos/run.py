"""Plays random operations and random faults for some minutes: `just faults --chaos --minutes 30 --seed 7`.

Cycles of operations and disturbances; after each everything is made sane, and the outside checker waits until every
invariant holds, or says which does not. The schedule of every cycle follows from the seed.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import aiohttp
from msgspec import Struct

from services.cli.common.layout import CONTROL
from tests.faults.chaos import clients
from tests.faults.chaos.checker import check
from tests.faults.chaos.clients import Clients
from tests.faults.chaos.disturbances import Disturber
from tests.faults.chaos.endpoint import Endpoint
from tests.faults.chaos.ledger import Ledger
from tests.faults.chaos.log_check import Deletions, History
from tests.faults.chaos.machine import Breakable, standing
from tests.faults.chaos.memory import Slopes
from tests.faults.chaos.objects import MEMBERS

CYCLE_SECONDS: Final = 18.0
RATE: Final = 5.0
"""Operations per second."""
CONVERGED_AT_MOST: Final = 120.0
"""Seconds within which everything holds again after the end of a cycle."""
_HISTORY_AT_MOST: Final = 60.0
_LOOK: Final = 0.5
_ASK_SECONDS: Final = 15.0
"""After which an operator looks whether withdrawals are held."""
_FLEETLOG: Final = "from services.cli.fleetlog import main; main()"
_SHOWN: Final = 12


class Chosen(Struct, frozen=True, kw_only=True):
    """What a run is asked for; `cycle` plays the schedule of that cycle alone."""

    minutes: float
    seed: int
    directory: Path
    skip: frozenset[str] = frozenset()
    cycle: int = 0
    rate: float = RATE
    seconds: float = CYCLE_SECONDS


class Chaos:
    """One run on one installation."""

    def __init__(self, ground: Breakable, chosen: Chosen) -> None:
        self.chosen = chosen
        self.counts: Counter[str] = Counter()
        self.violations: list[str] = []
        self._known: set[str] = set()
        """What does not hold any more whatever happens; it is said once."""
        self.converged: list[float] = []
        self._ground = ground
        self._ledger = Ledger()
        layout = ground.fleet.layout
        self._history = History(ground.fleet.installation.log_access)
        self._deletions = Deletions({name: layout.audit(name) for name in MEMBERS})
        self._slopes = Slopes(layout.directory / "run")
        self._disturber = Disturber(ground, chosen.skip)

    async def run(self) -> dict[str, Any]:
        """All cycles; the summary."""
        began = time.monotonic()
        async with AsyncExitStack() as stack:
            self._control = await stack.enter_async_context(Endpoint(self._ground.kubeconfig(CONTROL)))
            self._members = {
                name: await stack.enter_async_context(Endpoint(self._ground.kubeconfig(name))) for name in MEMBERS
            }
            self._clients = Clients(self._control, self._members, self._ledger)
            await self._clients.begin()
            watching = asyncio.create_task(self._slopes.watch())
            try:
                number = self.chosen.cycle or 1
                while True:
                    await self._cycle(number)
                    number += 1
                    if self.chosen.cycle or time.monotonic() - began > self.chosen.minutes * 60:
                        break
            finally:
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)
        return self._summary(time.monotonic() - began)

    async def _cycle(self, number: int) -> None:
        chance = random.Random(f"{self.chosen.seed}/{number}")
        operations = clients.schedule(chance, self.chosen.seconds, self.chosen.rate)
        disturbances = self._disturber.schedule(chance, self.chosen.seconds)
        acknowledged = self._ledger.counts["acknowledged"]
        playing = [asyncio.create_task(self._disturber.play(one)) for one in disturbances]
        working = asyncio.create_task(self._clients.play(operations))
        # A client may wait for what only a sane installation can do.
        await asyncio.gather(*playing)
        await asyncio.wait({working}, timeout=self.chosen.seconds)
        await self._disturber.heal()
        began = time.monotonic()
        await working
        complaints = await self._hold(began)
        taken = time.monotonic() - began
        self.converged.append(taken)
        complaints += await self._log()
        complaints = [text for text in complaints if text not in self._known]
        self._known.update(text for text in complaints if "times by us" in text)
        for told in (self._clients.violations, self._disturber.violations):
            complaints += told
            told.clear()
        said = list(self._disturber.said)
        self._disturber.said.clear()
        written = self._ledger.counts["acknowledged"] - acknowledged
        _say(f"cycle {number}: {written} writes; {'; '.join(said)}; all holds after {taken:.1f} s")
        for complaint in complaints[:_SHOWN]:
            _say(f"  VIOLATION {complaint[:1500]}")
        if complaints:
            _say(f"  {len(complaints)} in all; play it again: {self._again(number)}")
        self.violations += [f"cycle {number}: {complaint}" for complaint in complaints]

    def _again(self, number: int) -> str:
        return f"just faults --chaos --minutes {self.chosen.minutes:g} --seed {self.chosen.seed} --cycle {number}"

    async def _hold(self, began: float) -> list[str]:
        """Wait until every invariant of objects holds; what does not when time is up."""
        asked = began
        while True:
            counts: Counter[str] = Counter()
            complaints = await check(self._control, self._members, self._ledger, counts)
            if complaints and time.monotonic() > asked + _ASK_SECONDS:
                asked = time.monotonic()
                await self._confirm(complaints)
            complaints += await self._unready() if not complaints else []
            if not complaints or time.monotonic() - began > CONVERGED_AT_MOST:
                self.counts.update(counts)
                return complaints
            await asyncio.sleep(_LOOK)

    async def _confirm(self, complaints: list[str]) -> None:
        """Say, as an operator would, that what clients deleted was meant to go, where the withdrawals are held.

        A namespace that went while nobody watched is such a sudden disappearance. What the control plane lost itself
        is never confirmed.
        """
        if not any("is an orphan" in text or "has namespaces" in text for text in complaints):
            return
        if any("last acknowledged write" in text for text in complaints):
            return
        directory = str(self._ground.fleet.layout.directory)
        command = ("-c", _FLEETLOG, "confirm-absence", "templates", "--yes", "--dir", directory)
        process = await asyncio.create_subprocess_exec(
            sys.executable, *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        said = (await process.communicate())[0].decode()
        if process.returncode == 0 and "confirmed at" in said:
            self.counts["confirmed disappearances"] += 1
            self._disturber.said.append("an operator confirmed a disappearance")

    async def _unready(self) -> list[str]:
        """Services that do not say that they are ready."""
        installation = self._ground.fleet.installation
        others = {"nats", "nats_http", "gateway_api", "search_api", CONTROL, *MEMBERS}
        found = []
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as http:
            for name, port in installation.ports.items():
                if name in others:
                    continue
                try:
                    async with http.get(f"http://127.0.0.1:{port}/readyz") as answer:
                        if answer.status != 200:
                            found.append(f"{name} is not ready: {(await answer.text())[:300]}")
                except (aiohttp.ClientError, TimeoutError) as error:
                    found.append(f"{name} does not answer: {error!r}")
        return found

    async def _log(self) -> list[str]:
        """The invariants of the log, once the history has come after."""
        ends = time.monotonic() + _HISTORY_AT_MOST
        complaints: list[str] = []
        while True:
            try:
                found = await self._history.check(self.counts)
            except (OSError, TimeoutError) as error:
                found = [f"HISTORY ends at an error: {error!r}"]
            late = [text for text in found if text.startswith("HISTORY ends at")]
            complaints += [text for text in found if text not in late]
            if not late or time.monotonic() > ends:
                break
            await asyncio.sleep(_LOOK)
        return complaints + late + self._deletions.check(self._history.withdrawals(), self.counts)

    def _summary(self, seconds: float) -> dict[str, Any]:
        lines = self._slopes.lines()
        for line in lines:
            self.counts["memory"] += 1
            if line.grows:
                self.violations.append(f"{line.name} grows by {line.slope:.2f} MiB a minute over {line.seconds:.0f} s")
        return {
            "seed": self.chosen.seed,
            "minutes": round(seconds / 60, 1),
            "cycles": len(self.converged),
            "operations": dict(self._clients.done),
            "writes": dict(self._ledger.counts),
            "checks": dict(self.counts),
            "holds_again_seconds": {
                "median": round(sorted(self.converged)[len(self.converged) // 2], 1),
                "longest": round(max(self.converged), 1),
            },
            "memory": {
                line.name: {"mean": round(line.mean), "most": round(line.most), "slope": round(line.slope, 2)}
                for line in lines
            },
            "violations": len(self.violations),
        }


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def play(chosen: Chosen) -> int:
    """One run with its table of invariants and its line of JSON; the exit code is 1 when anything did not hold."""
    _say(f"seed {chosen.seed}, {chosen.minutes:g} minutes, installation in {chosen.directory}")
    with standing(chosen.directory) as ground:
        chaos = Chaos(ground, chosen)
        summary = asyncio.run(chaos.run())
    _say("")
    for name, count in sorted(chaos.counts.items()):
        _say(f"{name:<30} {count:>10} checks")
    for name, line in summary["memory"].items():
        _say(f"memory {name:<23} {line['mean']:>6} MiB, at most {line['most']} MiB, {line['slope']:+.2f} MiB a minute")
    for violation in chaos.violations:
        _say(f"VIOLATION {violation[:600]}")
    _say(json.dumps(summary))
    return 1 if chaos.violations else 0
