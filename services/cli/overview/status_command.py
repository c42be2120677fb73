"""The command `fleetlog status`: the installation on one page."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from schemas.topology import FACTS, OPTIONAL, SERVICES
from services._kit.leadership.lease import Beat
from services._kit.log.jetstream import JetStreamLog
from services._kit.log.streams import fills
from services._rules.log.stream_limits import Fill
from services.cli.common.logbook import LogAccess, open_log
from services.cli.common.moments import stamp
from services.cli.common.printing import check_output, render, table
from services.cli.overview.status_facts import Held, Overview, overview

LISTEN_SECONDS: Final = 1.2
"""How long heartbeats are listened for: leaders send one every 0.3 seconds."""
NAMED: Final = 5


async def status(access: LogAccess, output: str = "") -> int:
    """Print the page; 1 when something waits, a stream is filling or a service is silent. Raises Failed, LogError."""
    check_output(output, ("yaml", "json"))
    alive: dict[str, str] = {}

    async def heard(message: Any) -> None:
        try:
            beat = msgspec.json.decode(message.data, type=Beat)
        except msgspec.MsgspecError:
            return
        alive[message.subject.partition(".")[2]] = beat.instance

    async with open_log(access) as connection:
        await connection.subscribe("alive.*", heard)
        found = await overview(JetStreamLog(connection, FACTS.name))
        filling = [fill for fill in await fills(connection) if fill.alarming]
        await asyncio.sleep(LISTEN_SECONDS)
    silent = [name for name in SERVICES if name in found.leaders and name not in alive]
    render(output, lambda: document(found, alive, filling), lambda: text(found, alive, filling))
    return 1 if found.held or found.restoring.holds or filling or silent else 0


def document(found: Overview, alive: Mapping[str, str], filling: Sequence[Fill] = ()) -> dict[str, Any]:
    """The page for programs."""
    control = found.control_plane
    return {
        "controlPlane": {"uid": control.uid, "revision": control.revision} if control is not None else None,
        "held": [{**msgspec.to_builtins(held.event), "position": held.position} for held in found.held],
        "restore": found.restoring.words,
        "filling": [{"stream": fill.stream, "bytes": fill.bytes, "limit": fill.most} for fill in filling],
        "members": [msgspec.to_builtins(member) for member in found.members],
        "services": [
            {"name": name, "instance": alive.get(name) or found.leaders.get(name, ""), "alive": name in alive}
            for name in _services(found, alive)
        ],
    }


def text(found: Overview, alive: Mapping[str, str], filling: Sequence[Fill] = ()) -> str:
    """The page for people."""
    control = found.control_plane
    parts = [
        f"Control plane: {control.uid}, revision {control.revision}\n"
        if control is not None
        else "Control plane: its identity is not known yet\n"
    ]
    if found.held:
        parts.append("Withdrawals: HELD\n" + "".join(held_text(held) for held in found.held))
    else:
        parts.append("Withdrawals: none held\n")
    if found.restoring.holds:
        parts.append(f"Delivery: HELD\n  {found.restoring.words}\n")
    parts += [f"Log: {fill.words}\n" for fill in filling]
    members = [
        (
            member.name,
            member.mode,
            member.ready,
            "another cluster answers" if member.stranger else "leaving" if member.deleting else member.reason,
            member.version,
        )
        for member in found.members
    ]
    parts.append(
        "\n" + (table(("member", "mode", "ready", "reason", "version"), members) if members else "No members\n")
    )
    services = [
        (name, "running" if name in alive else "silent", alive.get(name) or found.leaders.get(name, ""))
        for name in _services(found, alive)
    ]
    parts.append("\n" + table(("service", "state", "leader"), services))
    return "".join(parts)


def held_text(held: Held, named: int = NAMED) -> str:
    """What is held in one scope, with the first names."""
    event = held.event
    lines = [f"  {event.scope}: {event.reason} since {stamp(event.since)} (#{held.position})", f"    {event.message}"]
    lines += [f"    missing: {name}" for name in event.missing[:named]]
    if event.count > named:
        lines.append(f"    … and {event.count - min(named, len(event.missing))} more")
    if held.confirmed:
        lines.append("    confirmed; the service that holds it has not taken that in yet")
    return "\n".join(lines) + "\n"


def _services(found: Overview, alive: Mapping[str, str]) -> list[str]:
    known = [name for name in SERVICES if name not in OPTIONAL or name in found.leaders or name in alive]
    led = [name for name in known if name in found.leaders or name in alive]
    return [*led, *sorted(name for name in {*alive, *found.leaders} if name not in SERVICES)]
