"""Marks a log as restored, so that nothing is delivered before it was compared; and ends that by command."""

from __future__ import annotations

import time
from typing import Final

from schemas.codec import decode, encode
from schemas.envelope import HEADER_EVENT_ID, HEADER_PRODUCER, event_id
from schemas.events.restore import RestoreEvent, RestoreReleased, RestoreStarted
from schemas.subjects import RESTORES, restore
from schemas.topology import FACTS
from services._kit.base.log_errors import Conflict
from services._kit.log.stream_port import Log, NewMessage
from services._rules.log.restore_order import Restoring
from services.cli.common.logbook import LogAccess, open_log, streams
from services.cli.common.running import Failed, complain

PRODUCER: Final = "fleetlog"


async def standing(facts: Log) -> tuple[Restoring, int]:
    """The restore on a log, and the last position of its subject (0 for none)."""
    found, last = Restoring(), 0
    for message in sorted(await facts.last_many([RESTORES]), key=lambda message: message.seq):
        found.take(message.seq, decode(message.subject, message.data))
        if message.subject == restore():
            last = message.seq
    return found, last


async def mark(
    facts: Log,
    reason: str,
    *,
    origin: str = "",
    position: int = 0,
    exported_at: float = 0.0,
    writing: bool = False,
) -> int:
    """Write RestoreStarted; its position. Raises Failed when another command restores at the same time."""
    _, last = await standing(facts)
    event = RestoreStarted(
        prev=last,
        reason=reason,
        origin=origin,
        position=position,
        exported_at=exported_at,
        started_at=time.time(),
        writing=writing,
    )
    return await _append(facts, event, last)


async def release(access: LogAccess) -> int:
    """End the restore under way although not everything was compared; raises Failed when there is none."""
    async with open_log(access) as connection:
        facts = streams(connection)[FACTS.name]
        found, last = await standing(facts)
        if not found.holds:
            raise Failed("no restore is under way: what is on the log is delivered")
        event = RestoreReleased(
            prev=last,
            restore=found.position,
            by="fleetlog log release",
            missing=found.missing,
            released_at=time.time(),
        )
        position = await _append(facts, event, last)
    complain(
        f"#{position}: the restore at #{found.position} is over, without {', '.join(found.missing)}; what they did not "
        "compare is delivered as it stands on the log"
    )
    return 0


async def _append(facts: Log, event: RestoreEvent, last: int) -> int:
    name = event_id(f"{PRODUCER}/{time.time()}", 0, restore())
    headers = {HEADER_EVENT_ID: name, HEADER_PRODUCER: PRODUCER}
    try:
        return (await facts.append([NewMessage(restore(), encode(event), headers, expect_last=last)])).last
    except Conflict:
        raise Failed("another command restores or releases at the same time; see `fleetlog events`") from None
