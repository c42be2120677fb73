"""Faults: whoever has an agent's key floods the hub, or reports what cannot be, through that agent's own account."""

from __future__ import annotations

import asyncio
import itertools
import json
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

import msgspec
import nats
from msgspec import Raw
from msgspec.structs import replace
from nats.aio.client import Client
from nats.errors import Error as NatsError

from schemas.agent import Reported
from schemas.codec import decode
from schemas.events.observed import WorkObserved
from schemas.events.work import WorkRendered
from schemas.subjects import escape
from services.cli.common.layout import agent_process
from tests.faults.hostile.measuring import Figures, figures, measured, worse
from tests.faults.hostile.neighbours import BEFORE_SECONDS, busily, probes
from tests.faults.rounds_load import Step, shares
from tests.faults.scene import Scene

FLOOD_SECONDS: Final = 10.0
"""Of each half: in the first an agent may send much at once, in the second it may not."""
LOG_MIB: Final = 64.0
"""What one agent may make all streams grow by in the second half."""
_STREAMS: Final = ("FACTS", "HISTORY", "OBSERVED", "BLOBS", "PARKED")
_LARGE: Final = 900_000
_SESSION: Final = "of-the-flood"
_IMPLAUSIBLE: Final = (
    {"replicas": "x"},
    {"replicas": -1000, "readyReplicas": -1000},
    {"replicas": 2**63 - 1, "readyReplicas": 2**63 - 1, "availableReplicas": 2**63 - 1},
    {"replicas": 1.5, "readyReplicas": None},
    {"replicas": [1], "conditions": {"a": 1}},
    {"observedGeneration": "many", "replicas": True},
    [],
    "text",
    {"replicas": 10**40},
)


def _member(scene: Scene) -> str:
    return scene.fleet.installation.pull_members[0].name


@asynccontextmanager
async def connected(scene: Scene) -> AsyncIterator[Client]:
    """A connection with the key of the pull member's agent."""
    layout, member = scene.fleet.layout, _member(scene)

    async def ignore(_: Exception) -> None:
        """Refusals are expected."""

    client = await nats.connect(
        scene.fleet.installation.log_url,
        nkeys_seed_str=layout.agent_seed(member).read_text().strip(),
        inbox_prefix=b"_INBOX",
        error_cb=ignore,
        max_reconnect_attempts=-1,
        reconnect_time_wait=0.1,
        pending_size=32 << 20,
    )
    try:
        yield client
    finally:
        with suppress(NatsError):
            await client.close()


async def _works(scene: Scene) -> list[tuple[int, WorkRendered]]:
    """What the pull member shall hold of the round: position and work."""
    member = escape(_member(scene))
    found: dict[str, tuple[int, WorkRendered] | None] = {}
    for message in await scene.eyes.messages("FACTS", (f"work.{member}.*.{escape(scene.namespace)}.*",)):
        event = decode(message.subject, message.data)
        found[message.subject] = (message.seq, event) if isinstance(event, WorkRendered) else None
    return [entry for entry in found.values() if entry is not None]


def _greeting(member: str) -> bytes:
    """A greeting that takes the session of the cluster, and the consumer of its agent."""
    greeting = {"cluster": member, "instance": "x", "at": 1.0, "fresh": True, "session": _SESSION}
    return json.dumps(greeting).encode()


def _report(seq: int, work: WorkRendered, status: object) -> WorkObserved:
    return WorkObserved(
        cluster=work.cluster,
        key=work.key,
        uid=work.uid,
        work_seq=seq,
        digest=work.digest,
        applied=True,
        health="Healthy",
        status=Raw(json.dumps(status).encode()),
        at=time.time(),
    )


async def _send(client: Client, subject: str, body: bytes) -> None:
    with suppress(NatsError, OSError):
        await client.publish(subject, body)
        await client.flush(5)


async def _bytes(scene: Scene) -> float:
    """MiB of all streams that an agent can make grow."""
    total = 0
    for stream in _STREAMS:
        answer = msgspec.json.decode(await scene.eyes.ask(f"$JS.API.STREAM.INFO.{stream}"))
        total += answer["state"]["bytes"]
    return total / (1 << 20)


async def flood(scene: Scene) -> None:
    """Large statuses, tiny reports, greetings and garbage, as many as go through; others are served as before."""
    await scene.under_load()
    for number in range(2):
        await scene.load.add(f"flooded-{number}", "everywhere", Step("create", 1, "nginx:1.20"))
    _, other = await probes(scene)
    run = scene.fleet.layout.directory / "run"
    member = escape(_member(scene))
    seen: list[str] = []

    async def play() -> None:
        before = await measured(run, other, BEFORE_SECONDS)
        works = await _works(scene)
        async with connected(scene) as client:
            flooding = [
                asyncio.create_task(_flood(client, _large(member, works))),
                asyncio.create_task(_flood(client, _small(member, works))),
            ]
            first = await measured(run, other, FLOOD_SECONDS)
            start = await _bytes(scene)
            second = await measured(run, other, FLOOD_SECONDS)
            grown = await _bytes(scene) - start
            for one in flooding:
                one.cancel()
            ended = await asyncio.gather(*flooding, return_exceptions=True)
        seen.extend(f"the flood ended by itself: {one!r}" for one in ended if isinstance(one, Exception))
        during = _both(first, second)
        seen.extend(worse(before, during))
        if grown > LOG_MIB:
            seen.append(f"one agent made the streams grow by {grown:.0f} MiB in {FLOOD_SECONDS:g} s")
        scene.outcome.notes.append(f"{figures(before, during)}; log +{grown:.0f} MiB in {FLOOD_SECONDS:g} s")

    await busily(scene, play())
    scene.outcome.complaints += seen


def _both(first: Figures, second: Figures) -> Figures:
    memory = {
        name: max(first.memory.get(name, 0.0), second.memory.get(name, 0.0))
        for name in first.memory.keys() | second.memory.keys()
    }
    return Figures(
        first.deliveries + second.deliveries,
        max(first.median, second.median),
        max(first.longest, second.longest),
        memory,
    )


Next = Callable[[], tuple[str, bytes, float]]


async def _flood(client: Client, following: Next) -> None:
    while True:
        subject, body, pause = following()
        await _send(client, subject, body)
        await asyncio.sleep(pause)


def _large(member: str, works: list[tuple[int, WorkRendered]]) -> Next:
    """Statuses near the largest message, each another one."""
    turn = itertools.count()
    chosen = [entry for entry in works if entry[1].key.name.startswith("flooded-")] or works

    def following() -> tuple[str, bytes, float]:
        number = next(turn)
        seq, work = chosen[number % len(chosen)]
        status = {"replicas": 1, "filling": f"{number}" + "x" * _LARGE}
        return (
            f"reports.{member}",
            msgspec.json.encode(Reported(events=(_report(seq, work, status),), session=_SESSION)),
            0.1,
        )

    return following


def _small(member: str, works: list[tuple[int, WorkRendered]]) -> Next:
    """Reports of a few bytes, greetings, and what is neither."""
    turn = itertools.count()

    def following() -> tuple[str, bytes, float]:
        number = next(turn)
        seq, work = works[number % len(works)]
        report = msgspec.json.encode(Reported(events=(_report(seq, work, {"replicas": number % 5}),), session=_SESSION))
        bodies = (
            (f"reports.{member}", report),
            (f"hello.{member}", _greeting(member)),
            (f"blobs.{member}", b'{"digests":["x"],"as_of":9}'),
            (f"reports.{member}", b"[" * 100_000),
            (f"hello.{member}", b"\x00\xff garbage"),
        )
        subject, body = bodies[number % len(bodies)]
        return subject, body, 0.002

    return following


async def implausible(scene: Scene) -> None:
    """Statuses of wrong types and impossible numbers: the template sums the others, and is right again afterwards."""
    await scene.under_load()
    names = [f"lied-about-{number}" for number in range(len(_IMPLAUSIBLE))]
    for name in names:
        await scene.load.add(name, "everywhere", Step("create", 1, "nginx:1.20"))
    scene.outcome.complaints += await scene.settle()
    agent = agent_process(_member(scene))
    works = {work.key.name: (seq, work) for seq, work in await _works(scene)}
    scene.ground.signal(agent, signal.SIGSTOP)
    try:
        async with connected(scene) as client:
            await _send(client, f"hello.{escape(_member(scene))}", _greeting(_member(scene)))
            for name, status in zip(names, _IMPLAUSIBLE, strict=True):
                await _lie(client, *works[name], status)
        for name in names:
            await scene.load.step(name, Step("scale", 2, ""))
        for name in names:
            await scene.wait(
                f"the status of {name} sums what the other members report", lambda name=name: _summed(scene, name), 30.0
            )
    finally:
        scene.ground.signal(agent, signal.SIGCONT)


async def _lie(client: Client, seq: int, work: WorkRendered, status: object) -> None:
    honest = _report(seq, work, status)
    lies = (
        replace(honest, at=-1e300),
        replace(honest, work_seq=-5),
        replace(honest, uid="somebody-else"),
        replace(honest, member_generation=-(2**60)),
        honest,
    )
    for lie in lies:
        await _send(
            client, f"reports.{escape(work.cluster)}", msgspec.json.encode(Reported(events=(lie,), session=_SESSION))
        )


async def _summed(scene: Scene, name: str) -> bool:
    """Whether the template counts the replicas of the members that tell the truth, and no more than there may be.

    Its generation is not asked for: the agent that stands still has told nothing of it.
    """
    found = await scene.eyes.control.get(scene.load.path(name))
    status = found.get("status") or {}
    wanted = scene.load.wanted[name]
    honest = sum(count for member, count in shares(wanted, False).items() if member != _member(scene))
    ready = status.get("readyReplicas", 0)
    return bool(honest <= ready <= honest + wanted.replicas)
