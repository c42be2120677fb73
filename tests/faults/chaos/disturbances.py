"""What goes wrong meanwhile: processes die, stand still or start again; neighbours are silent or answer garbage."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Final

from msgspec import Struct

from services.cli.common.layout import CONTROL
from tests.faults.chaos.machine import Breakable
from tests.faults.hostile.front import Order
from tests.faults.hostile.ground import HOSTILE
from tests.faults.hostile.measuring import processes

_CONTROL_MISDEEDS: Final = (
    "html_200",
    "wrong_types",
    "wrong_items",
    "hang",
    "redirect",
    "refuse_401",
    "refuse_410",
    "truncated",
    "endless_line",
)
_MEMBER_MISDEEDS: Final = (
    *_CONTROL_MISDEEDS,
    "gzip_bomb",
    "endless_pages",
    "slow_bytes",
    "invented_objects",
    "huge_headers",
)
"""Modes of tests/support/hostile_server.py."""
_GARBAGE: Final = ("<html>proxy error</html>", "[1,2]", '{"type":"MODIFIED","object":{"metadata":7}}', "\x00\xff", "{}")


class Disturbance(Struct, frozen=True):
    """One step of the schedule: what begins when after the start of the cycle, and what its choices are drawn from."""

    at: float
    what: str
    seed: int


class Disturber:
    """Plays disturbances on an installation; at most one at a time stops and starts the whole of it."""

    def __init__(self, ground: Breakable, skip: frozenset[str] = frozenset()) -> None:
        self.ground = ground
        self.violations: list[str] = []
        self.said: list[str] = []
        self._whole = asyncio.Lock()
        self._run = ground.fleet.layout.directory / "run"
        self._plays: Mapping[str, Callable[[random.Random], Awaitable[str]]] = {
            "kill": self._kill,
            "kill-two": self._kill_two,
            "kill-log": self._kill_log,
            "kill-log-and-servers": self._kill_log_and_servers,
            "freeze": self._freeze,
            "member": self._member,
            "control": self._control,
            "garbage-line": self._garbage_line,
            "half-open": self._half_open,
            "disk-full": self._disk_full,
            "power-loss": self._power_loss,
            "restart": self._restart,
            "parent-killed": self._parent_killed,
        }
        unknown = skip - self._plays.keys()
        if unknown:
            raise ValueError(f"there is no disturbance {sorted(unknown)}; there are {sorted(self._plays)}")
        self._weights = {name: weight for name, weight in _WEIGHTS.items() if name not in skip}

    def schedule(self, chance: random.Random, seconds: float) -> list[Disturbance]:
        """One to three disturbances of a cycle."""
        whats = chance.choices(list(self._weights), list(self._weights.values()), k=chance.randint(1, 3))
        return [Disturbance(chance.uniform(0.5, seconds * 0.8), what, chance.randrange(1 << 32)) for what in whats]

    async def play(self, disturbance: Disturbance) -> None:
        """Wait for its time, begin it, and take it back."""
        await asyncio.sleep(disturbance.at)
        chance = random.Random(disturbance.seed)
        try:
            said = await self._plays[disturbance.what](chance)
        except OSError as error:
            said = f"could not be played: {error}"
        self.said.append(f"{disturbance.at:.1f} s {disturbance.what} {said}".strip())

    async def heal(self) -> None:
        """Everything runs, and every neighbour is sane."""
        async with self._whole:
            for pid in processes(self._run).values():
                self._signal(pid, signal.SIGCONT)
            await asyncio.to_thread(self.ground.fronts.sane)
            await asyncio.to_thread(self.ground.free_disk)
            await self._start_again("")

    def _signal(self, pid: int, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, number)

    async def _hit(self, names: list[str], number: signal.Signals = signal.SIGKILL) -> str:
        async with self._whole:
            pids = processes(self._run)
            hit = [name for name in names if name in pids]
            for name in hit:
                self._signal(pids[name], number)
        return ", ".join(hit)

    def _some(self, chance: random.Random, count: int) -> list[str]:
        names = sorted(processes(self._run))
        return chance.sample(names, min(count, len(names)))

    async def _kill(self, chance: random.Random) -> str:
        return await self._hit(self._some(chance, 1))

    async def _kill_two(self, chance: random.Random) -> str:
        first, *rest = self._some(chance, 2)
        said = await self._hit([first])
        await asyncio.sleep(chance.uniform(0.0, 3.0))
        return f"{said}, {await self._hit(rest)}"

    async def _kill_log(self, _: random.Random) -> str:
        return await self._hit(["nats"])

    async def _kill_log_and_servers(self, chance: random.Random) -> str:
        """An API server reads the log while that dies."""
        server = chance.choice((CONTROL, "member1", "member2", "member3"))
        said = await self._hit([server])
        await asyncio.sleep(chance.uniform(0.2, 2.5))
        return f"{said}, {await self._hit(['nats'])}"

    async def _freeze(self, chance: random.Random) -> str:
        names = self._some(chance, chance.randint(1, 2))
        said = await self._hit(names, signal.SIGSTOP)
        await asyncio.sleep(chance.uniform(1.0, 6.0))
        await self._hit(names, signal.SIGCONT)
        return said

    async def _front(self, name: str, order: Order, seconds: float) -> None:
        await asyncio.to_thread(self.ground.misbehave, name, order)
        await asyncio.sleep(seconds)
        await asyncio.to_thread(self.ground.misbehave, name, Order())

    async def _member(self, chance: random.Random) -> str:
        misdeed = chance.choice(_MEMBER_MISDEEDS)
        await self._front(HOSTILE, Order(misdeed=misdeed, cut=True), chance.uniform(3.0, 8.0))
        return misdeed

    async def _control(self, chance: random.Random) -> str:
        misdeed = chance.choice(_CONTROL_MISDEEDS)
        await self._front(CONTROL, Order(misdeed=misdeed, cut=True), chance.uniform(2.0, 5.0))
        return misdeed

    async def _garbage_line(self, chance: random.Random) -> str:
        name, line = chance.choice((CONTROL, HOSTILE)), chance.choice(_GARBAGE)
        await self._front(name, Order(say=line), 1.0)
        return f"{name} {line!r}"

    async def _half_open(self, chance: random.Random) -> str:
        name = chance.choice((CONTROL, HOSTILE))
        await self._front(name, Order(freeze=True), chance.uniform(5.0, 12.0))
        return name

    async def _disk_full(self, chance: random.Random) -> str:
        if not self.ground.disk_of_its_own:
            return "is skipped: nothing may be mounted here"
        await asyncio.to_thread(self.ground.fill_disk)
        await asyncio.sleep(chance.uniform(1.0, 6.0))
        await asyncio.to_thread(self.ground.free_disk)
        return ""

    async def _power_loss(self, chance: random.Random) -> str:
        async with self._whole:
            await asyncio.to_thread(self.ground.mortal.kill_everything)
            await asyncio.sleep(chance.uniform(0.0, 2.0))
            return await self._start_again("power loss")

    async def _restart(self, _: random.Random) -> str:
        async with self._whole:
            await asyncio.to_thread(self.ground.mortal.stop)
            return await self._start_again("a stop in good order")

    async def _parent_killed(self, chance: random.Random) -> str:
        """Only `fleetlog up` dies; the next one has to get along with what it left."""
        async with self._whole:
            await asyncio.to_thread(self.ground.mortal.kill_parent)
            await asyncio.sleep(chance.uniform(0.5, 4.0))
            return await self._start_again("its parent was killed")

    async def _start_again(self, after: str) -> str:
        refused = await asyncio.to_thread(self.ground.mortal.again)
        if refused:
            self.violations.append(f"`fleetlog up` did not start after {after or 'a disturbance'}: {refused[-600:]}")
        return "started again" if not refused else "refused to start"


_WEIGHTS: Final[Mapping[str, int]] = {
    "kill": 20,
    "kill-two": 8,
    "kill-log": 8,
    "kill-log-and-servers": 8,
    "freeze": 12,
    "member": 16,
    "control": 10,
    "garbage-line": 8,
    "half-open": 6,
    "disk-full": 4,
    "power-loss": 3,
    "restart": 2,
    "parent-killed": 3,
}
"""How often each is drawn."""
EVERY: Final = tuple(_WEIGHTS)
