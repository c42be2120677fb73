"""Checks every stream behind the log's server: nothing unreadable, nothing cut off, contents that are what they say."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any, Final

import msgspec
from msgspec import Struct

from schemas.codec import DecodeError, decode
from schemas.subjects import blob
from services._kit.content.blobs import digest_of
from services._kit.content.envelope_encryption import WrappedKey, key_id
from services._kit.log.connection import Connection
from services._kit.log.damage import find_damage
from services._kit.log.jetstream import JetStreamLog
from services._kit.log.jetstream_api import ApiAnswer, answer
from services._kit.log.stream_port import Message
from services._rules.history.delta_encoding import base_of, decode_delta
from services._rules.secrets.secret_objects import is_sealed
from services.cli.common.running import Failed

FACTS_AND_HISTORY: Final = frozenset({"FACTS", "HISTORY"})
"""Their events are checked one by one, beside each other."""
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_EVENTS: Final = frozenset({"observed", "parked", "request"})


class _Names(ApiAnswer):
    streams: list[str] | None = None
    total: int = 0


class StreamReport(Struct):
    """What was found in one stream."""

    name: str
    messages: int = 0
    problems: list[str] = []


async def names(connection: Connection) -> list[str]:
    """All streams of the account, in order."""
    found: list[str] = []
    while True:
        page = await answer(connection, "STREAM.NAMES", {"offset": len(found)}, _Names)
        found += page.streams or []
        if len(found) >= page.total or not page.streams:
            return sorted(found)


async def reports(connection: Connection) -> AsyncIterator[StreamReport]:
    """Check one stream after the other; raises LogError or Failed when the server does not answer."""
    for name in await names(connection):
        report = StreamReport(name)
        report.problems += await _lost(connection, name)
        for damaged in await find_damage(connection, name):
            where = f"{name} #{damaged.seq} {damaged.subject}".rstrip()
            report.problems.append(f"{where}: cannot be read, its bytes are damaged; `fleetlog log repair` mends it")
        if name not in FACTS_AND_HISTORY:
            await _contents(connection, report)
        yield report


async def _lost(connection: Connection, name: str) -> list[str]:
    found = await connection.request(f"{connection.api}.STREAM.INFO.{name}", timeout=10.0)
    info: dict[str, Any] = msgspec.json.decode(found.data)
    if "state" not in info:
        why = (info.get("error") or {}).get("description", "no reason given")
        raise Failed(f"stream {name} does not answer: {why}")
    lost = info["state"].get("lost")
    if not lost:
        return []
    places = ", ".join(f"#{seq}" for seq in (lost.get("msgs") or ())[:10])
    size = f"{lost.get('bytes', 0):,} bytes behind a damaged message{f' ({places})' if places else ''}"
    return [f"{name}: the log's server cut off {size}; restore a backup"]


async def _contents(connection: Connection, report: StreamReport) -> None:
    log = JetStreamLog(connection, report.name)
    log.skips_damaged = True
    async for message in log.read([">"]):
        report.messages += 1
        problem = await _problem(log, message)
        if problem:
            report.problems.append(f"{report.name} #{message.seq} {message.subject}: {problem}")


async def _problem(log: JetStreamLog, message: Message) -> str:
    """What is wrong with the content of a message; empty when nothing is, or nothing is known of it."""
    word, _, rest = message.subject.partition(".")
    if word == "blob":
        return await _blob_problem(log, rest, message.data)
    try:
        if word in _EVENTS:
            decode(message.subject, message.data)
        elif word == "explained":
            msgspec.json.decode(message.data)
        elif word == "key" or word.startswith("keys-"):
            msgspec.json.decode(message.data, type=WrappedKey)
        elif word.partition("-")[0] == "obj" and message.data and key_id(message.data) is None:
            msgspec.json.decode(message.data, type=dict[str, msgspec.Raw])
    except (DecodeError, msgspec.MsgspecError) as error:
        return f"its content cannot be read: {error}"
    return ""


async def _blob_problem(log: JetStreamLog, digest: str, data: bytes) -> str:
    if not _DIGEST.fullmatch(digest) or is_sealed(digest) or digest_of(data) == digest:
        return ""
    base = base_of(data)
    if not base:
        return "it holds other bytes than its name says"
    built_on = await log.last(blob(base))
    if built_on is None:
        return f"what it is built on, {blob(base)}, is missing"
    return "" if digest_of(decode_delta(data, built_on.data)) == digest else "it holds other bytes than its name says"
