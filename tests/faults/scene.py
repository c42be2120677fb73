"""One round of one fault: load, the fault in the midst of it, everything healed, and the checker."""

from __future__ import annotations

import asyncio
import random
import time
import traceback
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

from msgspec import Struct

from schemas.keys import ObjectKey
from schemas.subjects import escape
from services._kit.kube.client import resource_path
from services._kit.log.stream_port import Message
from tests.faults.checker import Audits, check_log
from tests.faults.checker_groups import decided_by_owners, reported_by_leaders
from tests.faults.checker_log import losses_of
from tests.faults.checker_writes import identities, single_writers, state_hashes, still_there, writes
from tests.faults.ground import Ground
from tests.faults.rounds import SETTLE_SECONDS, Eyes, settle, settled
from tests.faults.rounds_load import Load, Step

Inject = Callable[[], Awaitable[None]]


class Outcome(Struct, kw_only=True):
    """What one round of a fault did and what the checker had to say; times in seconds."""

    fault: str
    number: int
    seed: int
    steps: int = 0
    facts: int = 0
    writes: int = 0
    seconds: float = 0.0
    healed: float = 0.0
    """From the end of the fault until everything was as it should be."""
    state: str = ""
    """Digest of the folded log."""
    notes: list[str] = []
    takeovers: list[float] = []
    complaints: list[str] = []
    checks: dict[str, int] = {}
    """How often each invariant was checked."""

    @property
    def ok(self) -> bool:
        """Whether the checker found nothing."""
        return not self.complaints


class Scene:
    """What a fault may touch during its round."""

    def __init__(self, ground: Ground, fault: str, number: int, seed: int, deployments: int) -> None:
        self.ground = ground
        self.fleet = ground.fleet
        self.chance = random.Random(f"{seed}/{fault}/{number}")
        self.outcome = Outcome(fault=fault, number=number, seed=seed)
        self.eyes: Eyes
        self.load: Load
        self.shapes: tuple[str, ...] = ()
        self.by_hand: dict[tuple[str, ObjectKey], int] = {}
        """How often somebody else edited or deleted an object of a member."""
        self._deployments = deployments
        self.namespace = f"{fault}-{number}-{self.chance.randrange(16**4):04x}"

    async def play(self, fault: Callable[[Scene], Awaitable[None]]) -> Outcome:
        """The round; whatever goes wrong in it is a complaint."""
        outcome, began = self.outcome, time.monotonic()
        try:
            async with AsyncExitStack() as self._stack:
                self.eyes = await self._stack.enter_async_context(Eyes(self.fleet, self.ground.kubeconfig))
                self.load = Load(self.eyes.control, self.namespace, self._deployments, self.chance)
                outcome.steps = self.load.total
                await self._round(fault)
        except Exception:  # noqa: BLE001 - the next round has to run
            # What happened stands at the end.
            outcome.complaints.append(traceback.format_exc()[-1200:])
        try:
            await asyncio.to_thread(self.ground.heal)
        except OSError as error:
            outcome.complaints.append(f"the installation could not be healed: {error}")
        outcome.complaints += self.ground.failures()
        outcome.seconds = time.monotonic() - began
        return outcome

    async def reopen(self) -> None:
        """Look through new connections: everything was started anew."""
        await self._stack.aclose()
        self.eyes = await self._stack.enter_async_context(Eyes(self.fleet, self.ground.kubeconfig))
        self.load.rebind(self.eyes.control)

    async def _round(self, fault: Callable[[Scene], Awaitable[None]]) -> None:
        outcome = self.outcome
        audits = Audits({name: self.fleet.layout.audit(name) for name in self.fleet.members})
        before = await self.eyes.last_seq()
        await self.load.prepare()
        await fault(self)
        began = time.monotonic()
        outcome.complaints += await self.settle()
        outcome.healed = time.monotonic() - began
        outcome.complaints += await self._check(audits, before)
        await self.load.delete_all()
        outcome.complaints += await self.settle()

    async def _check(self, audits: Audits, before: int) -> list[str]:
        """Every invariant, on what concerns this round."""
        facts, observed = await self._read()
        held = identities(facts)
        ours = audits.ours()
        self.outcome.facts, self.outcome.writes = sum(seq > before for seq in held), len(ours)
        complaints = check_log(facts, observed, before)
        lost = losses_of(facts, observed, before).counts
        self.outcome.checks |= {
            "facts linked to the one before": len(facts),
            "observations of works that were given": len(observed),
            "one writer for each subject": len({message.subject for message in facts}),
            "reports of the instance that led": len(observed),
            "writes with a work that asks for them": len(ours),
            **{f"{name} with a recorded cause": count for name, count in lost.items()},
        }
        complaints += audits.needless()
        complaints += writes(facts, ours, self.namespace, self.by_hand)
        complaints += [*single_writers(facts), *decided_by_owners(facts), *reported_by_leaders(facts, observed)]
        again, observed_again = await self._read()
        # What members tell late is no other past.
        again, observed_again = _up_to(facts, again), _up_to(observed, observed_again)
        complaints += still_there(facts, again)
        self.outcome.checks["facts still there at a second reading"] = len(again)
        first = state_hashes(facts, observed)
        second = state_hashes(again, observed_again)
        complaints += [
            f"{name}: state {first[name]} after one fold of the log, {second[name]} after another"
            for name in first
            if first[name] != second[name]
        ]
        self.outcome.checks["states equal after a second fold"] = len(first)
        self.outcome.state = first.get("services.gateway", "")
        return complaints

    async def _read(self) -> tuple[list[Message], list[Message]]:
        mine = escape(self.namespace)
        keyed = (f"*.*.*.{mine}.*", f"*.*.*._.{mine}")
        facts = await self.eyes.messages("FACTS", (*keyed, f"policy.*.{mine}.*", "cluster.*", "lease.*"))
        return facts, await self.eyes.messages("OBSERVED", keyed)

    async def settle(self) -> list[str]:
        """Wait until everything is as it should be; what is not when time is up."""
        self.eyes.beside = dict(self.ground.standbys.ports)
        return await settle(self.eyes, self.load)

    async def under_load(self, *injections: Inject, at: float | None = None) -> None:
        """Play the load; each injection begins when a share of it is done (drawn at random unless given)."""

        async def inject(injection: Inject, share: float) -> None:
            await self.load.reached(share)
            await injection()

        shares = [self.chance.uniform(0.1, 0.7) if at is None else at for _ in injections]
        edit = self.chance.uniform(0.2, 0.8)
        async with asyncio.TaskGroup() as group:
            group.create_task(self.load.run())
            group.create_task(inject(self.load.move, edit))
            for injection, share in zip(injections, shares, strict=True):
                group.create_task(inject(injection, share))

    async def nudge(self) -> None:
        """Scale one of the Deployments, so that every service has something to do."""
        name = self.chance.choice([name for name, wanted in self.load.wanted.items() if wanted.replicas])
        await self.load.step(name, Step("scale", self.chance.randint(1, 3), ""))

    async def wait(self, what: str, look: Callable[[], Awaitable[bool]], seconds: float = SETTLE_SECONDS) -> None:
        """Return once something is so; a complaint when it does not become so."""

        async def complaint() -> list[str]:
            return [] if await look() else [f"never came true: {what}"]

        self.outcome.complaints += await settled(complaint, seconds)

    async def shown(self, member: str, ready: str) -> bool:
        """Whether the control plane shows a member's condition Ready with this status."""
        path = resource_path("cluster.karmada.io", "v1alpha1", "clusters", "", member)
        conditions = ((await self.eyes.control.get(path)).get("status") or {}).get("conditions") or ()
        return any(entry["type"] == "Ready" and entry["status"] == ready for entry in conditions)

    async def history(self, subject: str) -> list[Message]:
        """What the history holds of some subjects, once all facts are in it."""

        async def copied() -> bool:
            return await self.eyes.end_of("HISTORY") >= await self.eyes.last_seq()

        await self.wait("the history holds all facts", copied)
        return await self.eyes.messages("HISTORY", (subject,))

    async def back(self, service: str, dead: int) -> bool:
        """Whether a service runs in another process than the dead one, and is ready."""
        return self.fleet.pid(service) not in (0, dead) and not await self.eyes.unready([service])

    async def member(self, name: str, **fault: Any) -> None:
        """Set a fault of a simulated member's API."""
        await asyncio.to_thread(self.ground.member_fault, name, **fault)


def _up_to(before: list[Message], messages: list[Message]) -> list[Message]:
    """What was read again, up to where the first reading ended."""
    end = before[-1].seq if before else 0
    return [message for message in messages if message.seq <= end]
