"""Reads what happened from FACTS, HISTORY and OBSERVED: positions of old facts, and the story of one object.

A fact has one position, that in FACTS. HISTORY stores it under another one, and says the first in a header.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Final

from schemas.keys import ObjectKey
from services._kit.log import Log, Message
from services._rules.timeline import FACTS, OBSERVED, Entry, Fact, foreign_causes, subjects_of, timeline

HISTORY: Final = "HISTORY"
SOURCE_HEADER: Final = "Nats-Stream-Source"
HEADER_STORED_AT: Final = "Fleetlog-Stored-At"
"""When an imported event was stored first, in seconds since 1970: the log it came from knew it."""
FOREIGN: Final = 200
"""Causes of other objects that are looked up for one story."""


def origin(message: Message) -> int:
    """Position in FACTS of a message of HISTORY; that of any other message is its own."""
    stream, _, rest = message.headers.get(SOURCE_HEADER, "").partition(" ")
    number = rest.partition(" ")[0]
    return int(number) if stream.partition(":")[0] == FACTS and number.isdecimal() else message.seq


def stored_at(message: Message) -> float:
    """When a message was stored first, in seconds since 1970."""
    told = message.headers.get(HEADER_STORED_AT, "")
    try:
        return float(told) if told else message.time
    except ValueError:
        return message.time


async def held(history: Log) -> int:
    """The last position of FACTS that HISTORY holds, 0 for none. HISTORY is written in the order of FACTS."""
    end = (await history.identity()).last_seq
    last = await history.get(end) if end else None
    return origin(last) if last is not None else 0


async def facts_of(logs: Mapping[str, Log], key: ObjectKey, until: float | None = None) -> list[Fact]:
    """Every fact and observation of an object that was stored up to a time, each once under its own position."""
    subjects = subjects_of(key)
    facts, observed = await asyncio.gather(merged(logs, subjects[FACTS]), _all(logs[OBSERVED].read(subjects[OBSERVED])))
    found = [fact_of(message, seq) for seq, message in facts.items()]
    found += [fact_of(message, message.seq, OBSERVED) for message in observed]
    return [fact for fact in found if until is None or fact.time <= until]


async def merged(logs: Mapping[str, Log], subjects: Sequence[str]) -> dict[int, Message]:
    """Messages of the tail, and the older ones that only the history holds, by their position in FACTS."""
    found = {message.seq: message async for message in logs[FACTS].read(subjects)}
    async for message in logs[HISTORY].read(subjects):
        found.setdefault(origin(message), message)
    return found


async def story(logs: Mapping[str, Log], key: ObjectKey, until: float | None = None) -> list[Entry]:
    """The steps of an object's story in the order in which they were stored; empty when the log knows nothing."""
    return await told(logs, await facts_of(logs, key, until))


async def told(logs: Mapping[str, Log], facts: Sequence[Fact]) -> list[Entry]:
    """The story that facts tell, with the facts of other objects that caused them."""
    entries = timeline(facts)
    foreign = foreign_causes(entries)[-FOREIGN:]
    if not foreign:
        return entries
    return timeline(facts, await _at(logs[FACTS], foreign))


async def _at(tail: Log, positions: Iterable[int]) -> list[Fact]:
    messages = await asyncio.gather(*(tail.get(position) for position in positions))
    return [fact_of(message, message.seq) for message in messages if message is not None]


async def _all(messages: AsyncIterator[Message]) -> list[Message]:
    return [message async for message in messages]


def fact_of(message: Message, seq: int, stream: str = FACTS) -> Fact:
    """A message as the timeline takes it."""
    return Fact(seq, stored_at(message), message.subject, message.data, stream)
