"""A log with lifetimes of objects on it, and all that it holds."""

from __future__ import annotations

from itertools import count
from typing import Any

from schemas.codec import encode, subject_of
from schemas.envelope import HEADER_EVENT_ID, HEADER_PRODUCER
from schemas.subjects import restore
from services._kit.log.fact_history import until_held
from services._kit.log.stream_port import Log, NewMessage
from tests.support.lifetimes import World, named


async def lifetimes(logs: dict[str, Log], *, holes: bool = True) -> World:
    """A log with a life on it: objects made, delivered and deleted; manifests; subjects with holes."""
    world = World("m1", "m2")
    for number in range(3):
        world.create(named(f"app-{number}"))
    world.settle()
    world.delete(named("app-0"))
    world.settle()
    for stream in ("FACTS", "OBSERVED"):
        await store(logs[stream], [event for _, _, _, event in world.streams[stream]])
    await logs["BLOBS"].append([NewMessage("blob.abc", b'{"kind":"ConfigMap"}'), NewMessage("blob.bin", b"\xff\x00")])
    await until_held(logs["HISTORY"], world.ends["FACTS"])
    if holes:
        await logs["FACTS"].purge("work.m1.>", world.ends["FACTS"] - 3)
        await logs["OBSERVED"].purge("observed.m1.*.*.app-1", 100)
    return world


_numbers = count(1)


async def store(log: Log, events: Any, producer: str = "") -> None:
    messages = [
        NewMessage(
            subject_of(event),
            encode(event),
            {HEADER_EVENT_ID: f"{log.name}-{next(_numbers)}", **({HEADER_PRODUCER: producer} if producer else {})},
        )
        for event in events
    ]
    await log.append(messages)


async def everything(log: Log, *patterns: str) -> list[tuple[int, str, bytes]]:
    """Messages of a log without the mark that an import sets behind them."""
    return [
        (message.seq, message.subject, message.data)
        async for message in log.read(patterns or (">",))
        if message.subject != restore()
    ]
