"""Writes facts again that a repair took out of FACTS and HISTORY still holds: the present state of their subject."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec
from msgspec import UnsetType
from msgspec.structs import replace

from schemas.codec import DecodeError, decode, encode
from schemas.events.template import TemplateChanged
from schemas.events.work import WorkRendered
from schemas.manifest import Manifest
from schemas.subjects import blob
from schemas.topology import BLOBS, FACTS, OBJECTS
from services._kit.log.connection import Connection
from services._kit.log.fact_history import HISTORY, origin
from services._kit.log.ids import random_id
from services._kit.log.jetstream import JetStreamLog
from services._kit.log.stream_port import Log, NewMessage
from services._rules.history.delta_encoding import base_of
from services.apiserver.store.store_port import encode_value
from services.apiserver.store.subject_names import DELETED, PREV, WRITE
from services.cli.common.layout import Installation, Layout, free_port
from services.cli.common.logbook import streams
from services.cli.common.running import Failed
from services.cli.log.disk.quarantine import Damaged
from services.cli.nats import server_identities as identities
from services.cli.supervision.child import nats_server_binary

START_SECONDS: Final = 60.0
UNSTORED: Final = "0" * 64
"""A digest that no bytes have."""
_AT_ONCE: Final = 100


@asynccontextmanager
async def served(layout: Layout, installation: Installation) -> AsyncIterator[Connection]:
    """A connection to a server on the stopped installation's log, on a port of its own; raises Failed."""
    port = free_port(set(installation.ports.values()))
    config = identities.server_config(layout, installation)
    process = _started([nats_server_binary(), "-c", str(config), "-p", str(port), "-m", "0"], layout.log("nats"))
    try:
        url = installation.log_access.rpartition(":")[0] + f":{port}"
        try:
            async with asyncio.timeout(START_SECONDS):
                connection = await Connection.open(url, name="fleetlog/repair")
        except TimeoutError:
            raise Failed(f"the log's server does not start; see {layout.log('nats')}") from None
        try:
            yield connection
        finally:
            await connection.close()
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait)


def _started(command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        return subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)


async def restore(layout: Layout, lost: Sequence[Damaged], objects: Mapping[str, Manifest]) -> list[str]:
    """Write again what HISTORY holds of lost facts, and lost objects as the facts hold them; what was done."""
    installation = layout.load()
    wanted = {seq for one in lost if one.stream == FACTS.name for seq in range(one.first, one.last + 1)}
    manifests = any(one.stream == BLOBS.name for one in lost)
    if installation is None or not (wanted or objects or manifests):
        return []
    async with served(layout, installation) as connection:
        logs = streams(connection)
        done = await _restore(logs, wanted) if wanted else []
        done += await _renew_manifests(logs[FACTS.name], logs[BLOBS.name]) if manifests else []
        return done + await _restore_objects(JetStreamLog(connection, OBJECTS.name), objects)


async def _renew_manifests(facts: Log, blobs: Log) -> list[str]:
    """Make the writers of facts whose manifest is gone store it again; what was done.

    Such a fact is followed by one that names bytes that are stored nowhere: its writer finds another digest than its
    own, stores the bytes and writes again, and their readers wait until then.
    """
    latest = {message.subject: message async for message in facts.read(["template.>", "work.>"])}
    named = {}
    for message in latest.values():
        with suppress(DecodeError):
            event = decode(message.subject, message.data)
            if isinstance(event, TemplateChanged | WorkRendered) and isinstance(event.manifest, UnsetType):
                named[message.subject] = message, event
    stored = await _stored(blobs, {event.digest for _, event in named.values() if event.digest})
    done = []
    for subject, (message, event) in named.items():
        if not event.digest or event.digest in stored:
            continue
        data = encode(replace(event, digest=UNSTORED, prev=message.seq))
        headers = {name: value for name, value in message.headers.items() if not name.startswith("Nats-")}
        await facts.append([NewMessage(subject, data, headers, expect_last=message.seq)])
        done.append(f"BLOBS {event.digest}: what {subject} names; it is stored again after the next start")
    return done


async def _stored(blobs: Log, digests: set[str]) -> set[str]:
    """Those that are stored and whose base, if they have one, is stored too."""
    wanted = [blob(digest) for digest in sorted(digests)]
    bases: dict[str, str] = {}
    for start in range(0, len(wanted), _AT_ONCE):
        for message in await blobs.last_many(wanted[start : start + _AT_ONCE]):
            bases[message.subject] = base_of(message.data)
    needed = sorted({blob(base) for base in bases.values() if base})
    there = {message.subject for message in await blobs.last_many(needed)}
    whole = {subject for subject, base in bases.items() if not base or blob(base) in there}
    return {digest for digest in digests if blob(digest) in whole}


async def _restore_objects(log: Log, objects: Mapping[str, Manifest]) -> list[str]:
    """Write objects as the next state of their subjects; one that stayed in a state as new is left alone."""
    done = []
    for subject, manifest in objects.items():
        present = await log.last(subject)
        deleted = present is not None and DELETED in present.headers
        generation = manifest["metadata"].get("generation", 0)
        if present is not None and not deleted and _generation(present.data) >= generation > 0:
            done.append(f"{log.name} {subject}: #{present.seq} is as new as what the log knows")
            continue
        seq = present.seq if present is not None else 0
        headers = {PREV: str(seq), WRITE: f"repair-{random_id()}"}
        stored = await log.append([NewMessage(subject, encode_value(manifest), headers, expect_last=seq)])
        done.append(f"{log.name} {subject}: written again as the log knows it, as #{stored.last}")
    return done


def _generation(data: bytes) -> int:
    try:
        return int(msgspec.json.decode(data)["metadata"].get("generation", 0))
    except (msgspec.MsgspecError, KeyError, TypeError):
        return 0


async def _restore(logs: Mapping[str, Log], wanted: set[int]) -> list[str]:
    done = []
    async for message in logs[HISTORY].read([">"]):
        seq = origin(message)
        if seq not in wanted:
            continue
        present = await logs[FACTS.name].last(message.subject)
        if present is not None and present.seq > seq:
            continue
        try:
            # The original stands in HISTORY: the copy follows it.
            event = replace(decode(message.subject, message.data), prev=seq)
        except (DecodeError, TypeError):
            continue
        headers = {name: value for name, value in message.headers.items() if not name.startswith("Nats-")}
        again = NewMessage(message.subject, encode(event), headers, expect_last=present.seq if present else 0)
        stored = await logs[FACTS.name].append([again])
        done.append(f"FACTS #{seq} {message.subject}: written again from HISTORY, as #{stored.last}")
    return done
