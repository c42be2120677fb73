"""The command `fleetlog log export`: facts, observations and the manifests they name, as one file.

Messages are taken as they are: what is encrypted on the log is encrypted in the file.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from schemas.subjects import blob
from schemas.topology import BLOBS, FACTS, OBSERVED
from services._kit.log.fact_history import stored_at, walk
from services._kit.log.stream_port import Log, match
from services._rules.history.delta_encoding import base_of, decode_delta
from services.cli.common.logbook import LogAccess, check_pattern, open_log, streams
from services.cli.common.moments import moment
from services.cli.common.printing import counted
from services.cli.common.running import Failed, complain, patience
from services.cli.log.archive import FORMAT, Extent, Header, Record, Writer, check_place, record
from services.cli.log.log_options import ExportChoice

_DIGEST: Final = re.compile(rb'"digest":"([^"]+)"')
_BLOBS_AT_ONCE: Final = 100


class Bounds(Struct, frozen=True):
    """Positions in FACTS and times, both inclusive."""

    first: int = 1
    last: int | None = None
    after: float = float("-inf")
    before: float = float("inf")

    def holds(self, when: float) -> bool:
        """Whether a time lies within."""
        return self.after <= when <= self.before


ALL: Final = Bounds()


async def export(access: LogAccess, path: Path, choice: ExportChoice) -> int:
    """Write the file; raises Failed for a choice that makes no sense."""
    bounds = _bounds(choice, time.time())
    check_pattern(choice.subject)
    check_place(path)
    async with patience("exporting"), open_log(access) as connection:
        logs = streams(connection)
        writer = Writer(path, await header_of(logs, choice))
        try:
            digests: set[bytes] = set()
            async for item in messages_of(logs, choice.subject, bounds):
                digests.update(_DIGEST.findall(item.data))
                writer.write(item)
            async for item in blobs_of(logs[BLOBS.name], None if choice.all else sorted(digests)):
                writer.write(item)
        except BaseException:
            writer.give_up()
            raise
        await asyncio.to_thread(writer.finish)
    complain(f"{path}: {counted(writer.counts)}")
    return 0


async def header_of(logs: Mapping[str, Log], choice: ExportChoice, format_: str = FORMAT) -> Header:
    """The first line of a file that is written now."""
    extents = {}
    for stream in (FACTS, OBSERVED):
        identity = await logs[stream.name].identity()
        extents[stream.name] = Extent(identity.id, identity.last_seq)
    return Header(
        format=format_,
        version=version("fleetlog"),
        exported_at=time.time(),
        streams=extents,
        since=choice.since,
        until=choice.until,
        subject=choice.subject,
    )


async def messages_of(logs: Mapping[str, Log], subject: str = "", bounds: Bounds = ALL) -> AsyncIterator[Record]:
    """Facts in the order of their positions, then observations in that of theirs."""
    aggregate = subject.partition(".")[0]
    if aggregate != "observed":
        patterns = (subject,) if subject not in ("", ">") and aggregate != "*" else (">",)
        async for place in walk(logs, patterns, bounds.first, bounds.last):
            message = place.message
            if bounds.holds(stored_at(message)) and (not subject or match(subject, message.subject)):
                yield record(FACTS.name, place.seq, stored_at(message), message)
    if aggregate in ("", ">", "*", "observed"):
        patterns = (subject,) if aggregate == "observed" else (">",)
        async for message in logs[OBSERVED.name].read(patterns):
            if bounds.holds(stored_at(message)) and (not subject or match(subject, message.subject)):
                yield record(OBSERVED.name, message.seq, stored_at(message), message)


async def blobs_of(log: Log, digests: list[bytes] | None) -> AsyncIterator[Record]:
    """Manifest bytes: all as they stand on the log, or those of certain digests, each whole."""
    if digests is None:
        async for message in log.read(BLOBS.subjects):
            yield record(BLOBS.name, message.seq, message.time, message)
        return
    found = {}
    for start in range(0, len(digests), _BLOBS_AT_ONCE):
        names = [blob(digest.decode()) for digest in digests[start : start + _BLOBS_AT_ONCE]]
        found.update({message.seq: message for message in await log.last_many(names)})
    for seq in sorted(found):
        message = found[seq]
        if base := base_of(message.data):
            # What it builds on may not be among them.
            built_on = await log.last(blob(base))
            message = (
                replace(message, data=decode_delta(message.data, built_on.data)) if built_on is not None else message
            )
        yield record(BLOBS.name, seq, message.time, message)


def _bounds(choice: ExportChoice, now: float) -> Bounds:
    bounds = Bounds()
    if choice.since.isdecimal():
        bounds = replace(bounds, first=int(choice.since))
    elif choice.since:
        bounds = replace(bounds, after=moment(choice.since, "--since", now))
    if choice.until.isdecimal():
        bounds = replace(bounds, last=int(choice.until))
    elif choice.until:
        bounds = replace(bounds, before=moment(choice.until, "--until", now))
    if _backwards(bounds.first, bounds.last) or _backwards(bounds.after, bounds.before):
        raise Failed(f"--since {choice.since} is later than --until {choice.until}: nothing lies between them")
    return bounds


def _backwards(first: float | None, last: float | None) -> bool:
    return first is not None and last is not None and first > last
