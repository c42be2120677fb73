"""Reads from the log what concerns the installation as a whole: its control plane, what is held, members, leaders."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Struct, field

from schemas.codec import DecodeError, decode
from schemas.events.cluster import ClusterChanged
from schemas.events.control_plane import AbsenceConfirmed, AbsenceHeld, ControlPlaneIdentified
from schemas.events.lease import LeaseTaken
from schemas.events.restore import RestoreCompared, RestoreReleased, RestoreStarted
from services._kit.log.stream_port import Log
from services._rules.log.restore_order import Restoring

PATTERNS: Final = ("identity.*", "absence.*", "confirmation.*", "cluster.*", "lease.*", "restore.*")


_EXPIRING: Final = "CredentialsExpiring"


class Held(Struct, frozen=True):
    """What is held in one scope, and where that stands on the log; `confirmed` once an operator said so."""

    event: AbsenceHeld
    position: int
    confirmed: bool = False


class Member(Struct, frozen=True):
    """One member as its cluster fact describes it."""

    name: str
    mode: str
    ready: str
    reason: str
    version: str
    identity: str
    stranger: str
    deleting: bool
    message: str = ""
    expiring: str = ""
    """When its credentials end, once that is near."""


class Overview(Struct):
    """The installation as the log knows it; `leaders` names the last instance to take each lease."""

    control_plane: ControlPlaneIdentified | None = None
    held: list[Held] = field(default_factory=list)
    members: list[Member] = field(default_factory=list)
    leaders: dict[str, str] = field(default_factory=dict)
    restoring: Restoring = field(default_factory=Restoring)


class _Condition(Struct):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class _Status(Struct, rename="camel"):
    conditions: list[_Condition] = []
    kubernetes_version: str = ""


class _Spec(Struct, rename="camel"):
    sync_mode: str = ""


class _Cluster(Struct):
    spec: _Spec = field(default_factory=_Spec)
    status: _Status = field(default_factory=_Status)


async def overview(facts: Log) -> Overview:
    """Read the last fact of every subject that matters here; raises LogError."""
    found = Overview()
    held: list[tuple[AbsenceHeld, int]] = []
    confirmed: dict[str, AbsenceConfirmed] = {}
    for message in sorted(await facts.last_many(PATTERNS), key=lambda message: message.seq):
        try:
            event: Any = decode(message.subject, message.data)
        except DecodeError:
            continue
        match event:
            case ControlPlaneIdentified():
                found.control_plane = event
            case AbsenceHeld():
                held.append((event, message.seq))
            case AbsenceConfirmed():
                confirmed[event.scope] = event
            case ClusterChanged():
                found.members.append(_member(event))
            case LeaseTaken():
                found.leaders[event.service] = event.instance
            case RestoreStarted() | RestoreCompared() | RestoreReleased():
                found.restoring.take(message.seq, event)
            case _:
                pass
    for hold, position in held:
        said = confirmed.get(hold.scope)
        found.held.append(Held(hold, position, said is not None and said.held_at == position))
    found.members.sort(key=lambda member: member.name)
    return found


def _member(event: ClusterChanged) -> Member:
    cluster = msgspec.json.decode(event.manifest, type=_Cluster)
    conditions = {item.type: item for item in cluster.status.conditions}
    ready, expiring = conditions.get("Ready", _Condition()), conditions.get(_EXPIRING, _Condition())
    return Member(
        event.name,
        cluster.spec.sync_mode,
        ready.status or "Unknown",
        ready.reason,
        cluster.status.kubernetes_version,
        event.identity,
        event.stranger,
        event.deleting,
        ready.message if ready.status != "True" else "",
        expiring.message if expiring.status == "True" else "",
    )
