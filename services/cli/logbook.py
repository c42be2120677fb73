"""Opens the log for reading and collects the story of one object from it: facts, older facts, observations, causes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

from schemas.keys import ObjectKey
from schemas.topology import FACTS, HISTORY, OBSERVED
from services._kit.connection import Connection
from services._kit.jetstream_log import JetStreamLog
from services._kit.log import Message
from services._rules.timeline import Entry, Fact, foreign_causes, subjects_of, timeline
from services.cli.layout import Layout
from services.cli.running import Failed

PATIENCE: Final = 5.0
SOURCE_HEADER: Final = "Nats-Stream-Source"
FOREIGN: Final = 200
"""Causes of other objects that are looked up for one story."""


class LogAccess(Struct, frozen=True):
    """Where the log's server is; `token` is empty when the URL says it all."""

    url: str
    token: str = ""


def log_access(directory: Path, nats: str = "") -> LogAccess:
    """The log of a URL (and FLEETLOG_NATS_TOKEN_FILE) or of an installation; raises Failed when there is neither."""
    if nats:
        token_file = os.environ.get("FLEETLOG_NATS_TOKEN_FILE", "")
        token = Path(token_file).read_text(encoding="utf-8").strip() if token_file else ""
        return LogAccess(nats if "//" in nats else f"nats://{nats}", token)
    installation = Layout(directory).load()
    if installation is None:
        raise Failed(f"no installation in {directory}; start one with `fleetlog up`, or use --dir or --nats")
    if installation.nats_url:
        return LogAccess(installation.nats_url)
    return LogAccess(f"nats://127.0.0.1:{installation.port('nats')}", installation.nats_token)


@asynccontextmanager
async def open_log(access: LogAccess) -> AsyncIterator[Connection]:
    """A connection to the log's server, closed afterwards; raises Failed when none answers within five seconds."""
    trouble: list[Exception] = []
    try:
        async with asyncio.timeout(PATIENCE):
            connection = await Connection.open(
                access.url, name="fleetlog/cli", on_error=trouble.append, token=access.token or None
            )
    except TimeoutError:
        why = f": {trouble[-1]}" if trouble and str(trouble[-1]) else ""
        raise Failed(
            f"the log at {_without_secret(access.url)} does not answer{why}; is the installation up?"
        ) from None
    try:
        yield connection
    finally:
        await connection.close()


def _without_secret(url: str) -> str:
    return url.replace(f"{urlsplit(url).netloc.rpartition('@')[0]}@", "") if "@" in url else url


async def story(connection: Connection, key: ObjectKey) -> list[Entry]:
    """The steps of an object's story in the order in which they were stored; empty when the log knows nothing."""
    subjects = subjects_of(key)
    tail, older, seen = (JetStreamLog(connection, stream.name) for stream in (FACTS, HISTORY, OBSERVED))
    facts, observed = await asyncio.gather(
        _facts(tail, older, subjects[FACTS.name]), _observed(seen, subjects[OBSERVED.name])
    )
    facts += observed
    entries = timeline(facts)
    foreign = foreign_causes(entries)[-FOREIGN:]
    return timeline(facts, await _at(tail, foreign)) if foreign else entries


async def _facts(tail: JetStreamLog, older: JetStreamLog, subjects: Sequence[str]) -> list[Fact]:
    """Facts of the tail and those that only the history still holds, each once under its own position."""
    found = {message.seq: _fact(message, message.seq) async for message in tail.read(subjects)}
    async for message in older.read(subjects):
        seq = origin(message)
        if seq not in found:
            found[seq] = _fact(message, seq)
    return list(found.values())


async def _observed(log: JetStreamLog, subjects: Sequence[str]) -> list[Fact]:
    return [_fact(message, message.seq, OBSERVED.name) async for message in log.read(subjects)]


async def _at(tail: JetStreamLog, positions: Iterable[int]) -> list[Fact]:
    messages = await asyncio.gather(*(tail.get(position) for position in positions))
    return [_fact(message, message.seq) for message in messages if message is not None]


def _fact(message: Message, seq: int, stream: str = FACTS.name) -> Fact:
    return Fact(seq, message.time, message.subject, message.data, stream)


def origin(message: Message) -> int:
    """Position in FACTS of a message of HISTORY; its own position there is another one."""
    stream, _, rest = message.headers.get(SOURCE_HEADER, "").partition(" ")
    number = rest.partition(" ")[0]
    return int(number) if stream.partition(":")[0] == FACTS.name and number.isdecimal() else message.seq
