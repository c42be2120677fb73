"""Reads past facts from FACTS, HISTORY and OBSERVED: positions of old facts, and the timeline of one object.

A fact has one position, that in FACTS. HISTORY stores it under another one, with the first in a header.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from schemas.keys import ObjectKey
from schemas.subjects import endpoints_in
from schemas.topology import FACTS, OBSERVED
from services._kit.log.stream_port import Log, Message
from services._rules.history.timeline import Entry, Fact, foreign_causes, is_endpoint_of, subjects_of, timeline

HISTORY: Final = "HISTORY"
SOURCE_HEADER: Final = "Nats-Stream-Source"
HEADER_STORED_AT: Final = "Fleetlog-Stored-At"
"""When an imported event was stored first, in seconds since 1970: the log it came from knew it."""
_LOOK: Final = 0.05
FOREIGN: Final = 200
"""Limit of causes of other objects that are looked up for one timeline."""


def origin(message: Message) -> int:
    """Position in FACTS of a message of HISTORY; that of any other message is its own."""
    stream, _, rest = message.headers.get(SOURCE_HEADER, "").partition(" ")
    number = rest.partition(" ")[0]
    return int(number) if stream.partition(":")[0] == FACTS.name and number.isdecimal() else message.seq


def stored_at(message: Message) -> float:
    """When a message was stored first, in seconds since 1970."""
    stored_at = message.headers.get(HEADER_STORED_AT, "")
    try:
        return float(stored_at) if stored_at else message.time
    except ValueError:
        return message.time


async def held(history: Log) -> int:
    """The last position of FACTS that HISTORY holds, 0 for none. HISTORY is written in the order of FACTS."""
    end = (await history.identity()).last_seq
    last = await history.get(end) if end else None
    return origin(last) if last is not None else 0


class Place(Struct, frozen=True):
    """One position of FACTS: the message there, the one that HISTORY keeps of it, or both."""

    seq: int
    tail: Message | None
    older: Message | None

    @property
    def message(self) -> Message:
        """What stands at the position; the tail knows best when it was stored."""
        message = self.tail or self.older
        assert message is not None
        return message


async def present(log: Log, filters: Sequence[str]) -> list[Message]:
    """The last message of every subject that matches, in log order, however many there are."""
    pump = log.pump(filters)
    deliveries = pump.__aiter__()
    last: dict[str, Message] = {}
    try:
        async for delivery in deliveries:
            last.update((message.subject, message) for message in delivery.messages)
            if delivery.caught_up:
                break
    finally:
        await pump.close()
        close = getattr(deliveries, "aclose", None)
        if close is not None:
            await close()
    return sorted(last.values(), key=lambda message: message.seq)


async def past(logs: Mapping[str, Log], filters: Sequence[str], at: float) -> list[tuple[int, Message]]:
    """The last message of every subject that matches at a time (seconds since 1970), by its position in FACTS."""
    last: dict[str, tuple[int, Message]] = {}
    for name in (HISTORY, FACTS.name):
        async for message in logs[name].read(filters):
            seq = origin(message)
            known = last.get(message.subject)
            if stored_at(message) <= at and (known is None or known[0] < seq):
                last[message.subject] = seq, message
    return sorted(last.values(), key=lambda item: item[0])


async def until_held(history: Log, position: int, patience: float = 5.0) -> int:
    """Wait until HISTORY holds a position, or no longer than it goes on coming closer; the last it holds."""
    last, quiet = await held(history), 0.0
    while last < position and quiet < patience:
        await asyncio.sleep(_LOOK)
        now = await held(history)
        quiet, last = (quiet + _LOOK, last) if now == last else (0.0, now)
    return last


async def walk(
    logs: Mapping[str, Log], filters: Sequence[str], start: int = 1, stop: int | None = None
) -> AsyncIterator[Place]:
    """Every known fact in the order of positions, from `start` up to `stop` (None: the end now), from both streams."""
    facts, history = logs[FACTS.name], logs[HISTORY]
    if stop is None:
        stop = (await facts.identity()).last_seq
    await until_held(history, stop)
    older, tail = history.read(filters), facts.read(filters, start, stop)
    try:
        old, new = await _next(older, start), await anext(tail, None)
        while old is not None or new is not None:
            left = origin(old) if old is not None else stop + 1
            right = new.seq if new is not None else stop + 1
            seq = min(left, right)
            if seq > stop:
                return
            yield Place(seq, new if right == seq else None, old if left == seq else None)
            if left == seq:
                old = await _next(older, start)
            if right == seq:
                new = await anext(tail, None)
    finally:
        for reader in (older, tail):
            close = getattr(reader, "aclose", None)
            if close is not None:
                await close()


async def _next(messages: AsyncIterator[Message], start: int) -> Message | None:
    """The next message of HISTORY whose position in FACTS is not before `start`."""
    async for message in messages:
        if origin(message) >= start:
            return message
    return None


async def facts_of(logs: Mapping[str, Log], key: ObjectKey, until: float | None = None) -> list[Fact]:
    """Every fact and observation of an object that was stored up to a time, each once under its own position."""
    subjects, observations = subjects_of(key), OBSERVED.name
    facts, observed = await asyncio.gather(
        merged(logs, subjects[FACTS.name]), _all(logs[observations].read(subjects[observations]))
    )
    found = [fact_of(message, seq) for seq, message in facts.items()]
    found += [fact_of(message, message.seq, OBSERVED.name) for message in observed]
    return [fact for fact in found if until is None or fact.time <= until]


async def merged(logs: Mapping[str, Log], subjects: Sequence[str]) -> dict[int, Message]:
    """Messages of the tail, and the older ones that only the history holds, by their position in FACTS, in order."""
    found = {message.seq: message async for message in logs[FACTS.name].read(subjects)}
    async for message in logs[HISTORY].read(subjects):
        found.setdefault(origin(message), message)
    return dict(sorted(found.items()))


async def story(logs: Mapping[str, Log], key: ObjectKey, until: float | None = None) -> list[Entry]:
    """The steps of an object's timeline in the order in which they were stored; empty when the log knows nothing."""
    return await told(logs, await facts_of(logs, key, until))


async def endpoint_story(logs: Mapping[str, Log], key: ObjectKey, until: float | None = None) -> list[Entry]:
    """The steps of the endpoints that clusters export of the Service of an object's name, in order."""
    messages = await merged(logs, [endpoints_in(key.namespace)])
    facts = [fact_of(message, seq) for seq, message in messages.items()]
    wanted = [fact for fact in facts if is_endpoint_of(fact, key.name) and (until is None or fact.time <= until)]
    return await told(logs, wanted)


async def told(logs: Mapping[str, Log], facts: Sequence[Fact]) -> list[Entry]:
    """The timeline of facts, with the facts of other objects that caused them."""
    entries = timeline(facts)
    foreign = foreign_causes(entries)[-FOREIGN:]
    if not foreign:
        return entries
    return timeline(facts, await _at(logs[FACTS.name], foreign))


async def _at(tail: Log, positions: Iterable[int]) -> list[Fact]:
    messages = await asyncio.gather(*(tail.get(position) for position in positions))
    return [fact_of(message, message.seq) for message in messages if message is not None]


async def _all(messages: AsyncIterator[Message]) -> list[Message]:
    return [message async for message in messages]


def fact_of(message: Message, seq: int, stream: str = FACTS.name) -> Fact:
    """A message as the timeline takes it."""
    return Fact(seq, stored_at(message), message.subject, message.data, stream)
