"""The commands `fleetlog parked …`: keys that services set aside, and what operators want done about them."""

from __future__ import annotations

import getpass
import socket
import sys
import time
from collections.abc import Sequence
from typing import Final

import msgspec

from schemas.codec import encode, subject_of
from schemas.envelope import HEADER_EVENT_ID, HEADER_PRODUCER, named_id
from schemas.events.parked import KeyDropped, KeyRetried
from schemas.topology import FACTS
from services._kit.base.log_errors import Conflict
from services._kit.log.connection import Connection
from services._kit.log.jetstream import JetStreamLog
from services._kit.log.stream_port import Log, NewMessage
from services.cli.common.logbook import LogAccess, open_log
from services.cli.common.moments import age
from services.cli.common.printing import render, table
from services.cli.common.running import Failed, complain, patience
from services.cli.overview.fact_readers import instances_of, parked_records
from services.cli.overview.findings import held_keys
from services.cli.overview.installation_facts import Facts, ParkedRecord

PATIENCE_SECONDS: Final = 20.0
_REASON: Final = 60

Kind = type[KeyRetried] | type[KeyDropped]


async def _facts(connection: Connection) -> Facts:
    facts = Facts(now=time.time(), version="")
    facts.parked = await parked_records(connection)
    facts.instances, facts.leading = await instances_of(connection)
    return facts


async def show(access: LogAccess, service: str, output: str, *, everything: bool) -> int:
    """Print parked keys, those of one service or of all; raises Failed."""
    async with patience("reading the log"), open_log(access) as connection:
        facts = await _facts(connection)
    keys = [
        (record, state)
        for record, state in held_keys(facts)
        if (everything or state not in ("over", "dropped")) and service in ("", record.service)
    ]
    render(
        output,
        lambda: [{**msgspec.to_builtins(record), "state": state} for record, state in keys],
        lambda: _text(keys, facts.now, wide=output == "wide"),
    )
    return 0


def _text(keys: Sequence[tuple[ParkedRecord, str]], now: float, *, wide: bool) -> str:
    if not keys:
        return "No key is parked.\n"
    rows = [
        (
            record.service,
            record.key,
            state,
            f"{age(now - record.at)} ago" if record.at else "",
            record.times,
            record.reason if wide or len(record.reason) <= _REASON else f"{record.reason[:_REASON]}…",
            *((f"#{record.position}" if record.position else "", record.subject) if wide else ()),
        )
        for record, state in keys
    ]
    more = ("input", "subject") if wide else ()
    return table(("service", "key", "state", "parked", "times", "reason", *more), rows)


def _check(names: Sequence[str], service: str, *, everything: bool) -> None:
    if not names and not service and not everything:
        raise Failed("name the keys, or say --service NAME or --all; `fleetlog parked list` shows them")


async def retry(access: LogAccess, names: Sequence[str], service: str, note: str, *, everything: bool) -> int:
    """Have keys decided again, and wait for what becomes of them; 1 when one is parked again. Raises Failed."""
    _check(names, service, everything=everything)
    async with open_log(access) as connection:
        facts = await _facts(connection)
        chosen = _chosen(facts, names, service, ("parked", "dropped", "unknown"))
        log = JetStreamLog(connection, FACTS.name)
        before = {(record.service, record.key): record.times for record in chosen}
        for record in chosen:
            position = await _record(log, KeyRetried, record, note)
            complain(f"{record.service} {record.key}: to be tried again (#{position})")
        left = dict(before)
        ends = time.monotonic() + PATIENCE_SECONDS
        async with patience("waiting for the services to try"):
            while left and time.monotonic() < ends:
                facts = await _facts(connection)
                states = {(record.service, record.key): (record, state) for record, state in held_keys(facts)}
                for key in list(left):
                    now = states.get(key)
                    if now is None or now[1] == "over":
                        complain(f"{key[0]} {key[1]}: is parked no more")
                        del left[key]
                    elif now[0].times > left[key]:
                        complain(f"{key[0]} {key[1]}: parked again: {now[0].reason}")
                        del left[key]
                        before[key] = -1
        for key in left:
            complain(f"{key[0]} {key[1]}: still parked after {PATIENCE_SECONDS:g} s; `fleetlog parked list` shows why")
        return 1 if left or -1 in before.values() else 0


async def drop(access: LogAccess, names: Sequence[str], service: str, note: str, *, everything: bool, yes: bool) -> int:
    """Give keys up, after asking unless `yes`; what is on the log stays. Raises Failed."""
    _check(names, service, everything=everything)
    async with open_log(access) as connection:
        facts = await _facts(connection)
        chosen = _chosen(facts, names, service, ("parked", "unknown"))
        for record in chosen:
            print(f"{record.service} {record.key}: {record.reason}")
        if not yes and not _asked(len(chosen)):
            complain("nothing was given up")
            return 1
        log = JetStreamLog(connection, FACTS.name)
        for record in chosen:
            position = await _record(log, KeyDropped, record, note)
            complain(f"{record.service} {record.key}: given up (#{position})")
    return 0


def _asked(count: int) -> bool:
    if not sys.stdin.isatty():
        raise Failed("there is no terminal to ask on; say --yes")
    what = "this key" if count == 1 else f"these {count} keys"
    return input(f"Leave {what} as it is until something about it changes. Type yes to go on: ").strip() == "yes"


def _chosen(facts: Facts, names: Sequence[str], service: str, states: Sequence[str]) -> list[ParkedRecord]:
    """The keys that are meant, all where none is named; raises Failed for one that is not parked."""
    keys = [(record, state) for record, state in held_keys(facts) if service in ("", record.service)]
    chosen = [record for record, state in keys if state in states and (not names or record.key in names)]
    missing = [name for name in names if name not in {record.key for record in chosen}]
    if missing:
        unreadable = {record.key for record, state in keys if state == "unreadable"}
        if missing[0] in unreadable:
            raise Failed(
                f"{missing[0]} is an event that could not be read, not a key to decide; a newer version or "
                "`fleetlog log verify` helps"
            )
        of = f" of {service}" if service else ""
        raise Failed(f"{missing[0]} is no parked key{of}; `fleetlog parked list --all` shows all there are")
    if not chosen:
        raise Failed(f"no key{f' of {service}' if service else ''} is parked")
    return chosen


async def _record(log: Log, kind: Kind, record: ParkedRecord, note: str) -> int:
    """Append what is wanted; its position. Raises Failed when another operator was faster."""
    by, at = f"{getpass.getuser()}@{socket.gethostname()}", time.time()
    event = kind(service=record.service, key=record.key, by=by, at=at, reason=record.reason, note=note)
    subject = subject_of(event)
    last = await log.last(subject)
    prev = last.seq if last is not None else 0
    data = encode(msgspec.structs.replace(event, prev=prev))
    headers = {HEADER_EVENT_ID: named_id(f"{subject}/{by}/{at}"), HEADER_PRODUCER: "operator"}
    try:
        return (await log.append([NewMessage(subject, data, headers, expect_last=prev)])).last
    except Conflict:
        raise Failed(f"another operator decided about {record.key} at this moment; look again") from None
