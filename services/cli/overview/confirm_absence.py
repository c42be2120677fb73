"""The command `fleetlog confirm-absence`: lets withdrawals pass that are held, after showing what they are."""

from __future__ import annotations

import asyncio
import getpass
import socket
import sys
import time
from collections.abc import Sequence
from typing import Final

from schemas.codec import DecodeError, decode, encode
from schemas.envelope import HEADER_EVENT_ID, HEADER_PRODUCER, named_id
from schemas.events.control_plane import AbsenceConfirmed, AbsenceHeld
from schemas.events.work import WorkRendered
from schemas.keys import ObjectKey
from schemas.subjects import absence, confirmation, key_tokens
from schemas.topology import FACTS
from services._kit.base.log_errors import Conflict
from services._kit.log.jetstream import JetStreamLog
from services._kit.log.stream_port import Log, NewMessage
from services.cli.common.logbook import LogAccess, open_log
from services.cli.common.running import Failed, complain
from services.cli.overview.status_command import held_text
from services.cli.overview.status_facts import Held, overview

NAMED: Final = 50
SHOWN_CLUSTERS: Final = 500
"""Objects of which it is looked up in how many clusters they are."""
PATIENCE_SECONDS: Final = 20.0


async def confirm(access: LogAccess, scopes: Sequence[str], *, yes: bool, note: str = "") -> int:
    """Show what is held, ask unless `yes`, record the confirmation and wait until it is taken in; raises Failed."""
    async with open_log(access) as connection:
        facts = JetStreamLog(connection, FACTS.name)
        held = [item for item in (await overview(facts)).held if not scopes or item.event.scope in scopes]
        missing = set(scopes) - {item.event.scope for item in held}
        if missing:
            raise Failed(f"nothing is held in {', '.join(sorted(missing))}; `fleetlog status` shows what is")
        if not held:
            complain("nothing is held")
            return 0
        for item in held:
            print(await described(facts, item), end="")
        if not yes and not _asked(held):
            complain("nothing was confirmed")
            return 1
        who = f"{getpass.getuser()}@{socket.gethostname()}"
        positions = [(item, await record(facts, item, who, note)) for item in held]
        return await _taken_in(facts, positions)


async def described(facts: Log, held: Held) -> str:
    """What would be withdrawn, and from how many clusters."""
    text = held_text(held, NAMED)
    keys = [key for name in held.event.missing[:SHOWN_CLUSTERS] if (key := _key(name)) is not None]
    if not keys:
        return text
    works = await facts.last_many([f"work.*.{key_tokens(key)}" for key in keys])
    copies, clusters = 0, set()
    for message in works:
        try:
            event = decode(message.subject, message.data)
        except DecodeError:
            continue
        if isinstance(event, WorkRendered):
            copies += 1
            clusters.add(event.cluster)
    of = "" if held.event.count <= len(keys) else f" (of the first {len(keys)} objects)"
    return f"{text}    would withdraw {copies} copies in {len(clusters)} clusters{of}\n"


def _key(name: str) -> ObjectKey | None:
    """The object of a name as a fact has it; None for policies and clusters."""
    resource, _, rest = name.partition("/")
    namespace, separator, plain = rest.partition("/")
    if not separator or not resource[:1].islower():
        return None
    plural, _, group = resource.partition(".")
    return ObjectKey(group, plural, "" if namespace == "_" else namespace, plain)


def _asked(held: Sequence[Held]) -> bool:
    if not sys.stdin.isatty():
        raise Failed("there is no terminal to ask on; say --yes")
    count = sum(item.event.count for item in held)
    others = [item.event.identity for item in held if item.event.identity != item.event.expected]
    what = f"{count} missing objects count as deleted" + (f", and {others[0]} as the right identity" if others else "")
    return input(f"From now on {what}. Type yes to go on: ").strip() == "yes"


async def record(facts: Log, held: Held, who: str, note: str = "") -> int:
    """Append the confirmation of what is held; its position. Raises Failed when another operator was faster."""
    at = time.time()
    subject = confirmation(held.event.scope)
    last = await facts.last(subject)
    prev = last.seq if last is not None else 0
    event = AbsenceConfirmed(
        scope=held.event.scope,
        held_at=held.position,
        by=who,
        at=at,
        identity=held.event.identity,
        digest=held.event.digest,
        count=held.event.count,
        note=note,
        prev=prev,
    )
    headers = {
        HEADER_EVENT_ID: named_id(f"confirmation/{held.event.scope}/{held.position}/{who}/{at}"),
        HEADER_PRODUCER: "operator",
    }
    try:
        stored = await facts.append([NewMessage(subject, encode(event), headers, expect_last=prev)])
    except Conflict:
        raise Failed(f"another operator confirmed in {held.event.scope} at this moment; ask again") from None
    return stored.last


async def _taken_in(facts: Log, positions: Sequence[tuple[Held, int]]) -> int:
    """Wait until what was held is released; say what became of it."""
    code = 0
    for held, position in positions:
        scope = held.event.scope
        complain(f"{scope}: confirmed at #{position}")
        if not await _released(facts, held):
            complain(f"{scope}: not released within {PATIENCE_SECONDS:g} s; `fleetlog status` shows what is held now")
            code = 1
    return code


async def _released(facts: Log, held: Held) -> bool:
    loop = asyncio.get_running_loop()
    ends = loop.time() + PATIENCE_SECONDS
    while loop.time() < ends:
        message = await facts.last(absence(held.event.scope))
        event = decode(message.subject, message.data) if message is not None else None
        if not isinstance(event, AbsenceHeld):
            return True
        await asyncio.sleep(0.2)
    return False
