"""Checks an invariant of the log: every removal has a recorded cause."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct, field

from schemas.codec import Known
from schemas.events.binding import BindingReleased, BindingRequested
from schemas.events.cluster import ClusterChanged, ClusterRemoved
from schemas.events.control_plane import AbsenceConfirmed, AbsenceHeld, AbsenceReleased
from schemas.events.descheduling import ReplicasDescheduled
from schemas.events.eviction import EvictionFinished, EvictionRequested
from schemas.events.observed import WorkObserved
from schemas.events.placement import PlacementDecided, PlacementFailed, PlacementReleased
from schemas.events.policy import PolicyChanged, PolicyDeleted
from schemas.events.template import TemplateDeleted
from schemas.events.work import WorkRendered, WorkWithdrawn

_CONFIRMED: Final = re.compile(r"confirmed by .* at #(\d+)$")


class Losses(Struct):
    """How much was taken away, by kind of event, and what of it has no cause: one sentence each."""

    counts: dict[str, int] = field(default_factory=dict)
    uncaused: list[str] = field(default_factory=list)

    def count(self, event: Known) -> None:
        """Count one loss."""
        name = type(event).__name__
        self.counts[name] = self.counts.get(name, 0) + 1


def losses(facts: Iterable[tuple[int, Known]], observed: Iterable[Known] = (), since: int = 0) -> Losses:
    """Follow everything that was taken away after a position to what caused it.

    `facts` are positions and events of FACTS in order, as complete as they are kept; `observed` are reports of members.
    """
    found = Losses()
    known: dict[int, Known] = {}
    held: dict[str, AbsenceHeld] = {}
    for seq, event in facts:
        known[seq] = event
        match event:
            case AbsenceHeld():
                held[event.scope] = event
            case AbsenceReleased() | AbsenceConfirmed():
                held.pop(event.scope, None)
            case _:
                pass
        if seq <= since:
            continue
        if isinstance(event, WorkWithdrawn):
            found.count(event)
            found.uncaused.extend(_withdrawal(seq, event, known))
        elif isinstance(event, TemplateDeleted | PolicyDeleted | ClusterRemoved):
            found.count(event)
            found.uncaused.extend(_end(seq, event, known, held))
    for report in observed:
        if isinstance(report, WorkObserved) and report.absent and report.work_seq > since:
            found.count(report)
            work = known.get(report.work_seq)
            if isinstance(work, WorkRendered):
                found.uncaused.append(
                    f"{report.cluster} reports {report.key} gone for FACTS {report.work_seq}, which asks for it"
                )
    return found


def _withdrawal(seq: int, event: WorkWithdrawn, known: Mapping[int, Known]) -> list[str]:
    place = f"FACTS {seq}: the work of {event.key} in {event.cluster} is withdrawn"
    named = event.provenance.causes or tuple(event.provenance.own.values())
    if not named:
        return [f"{place} without a cause"]
    causes = [known[position] for position in named if position in known and position < seq]
    if not causes:
        # What caused it was trimmed since: positions that are not there cannot be judged.
        return (
            [] if all(position < min(known) for position in named) else [f"{place} for what is not on the log: {named}"]
        )
    # Of many causes the first and the latest are kept; what the decision rests on says the same.
    if any(_explains(cause, event) for cause in causes) or any(
        _asks_no_more(known[position], event)
        for position in event.provenance.own.values()
        if position in known and position < seq
    ):
        return []
    return [f"{place} for what does not concern it: {', '.join(type(cause).__name__ for cause in causes)}"]


def _explains(cause: Known, event: WorkWithdrawn) -> bool:
    match cause:
        case BindingReleased() | TemplateDeleted():
            return cause.key == event.key and bool(cause.reason)
        case (
            BindingRequested()
            | PlacementDecided()
            | PlacementFailed()
            | PlacementReleased()
            | EvictionRequested()
            | EvictionFinished()
            | ReplicasDescheduled()
        ):
            return cause.key == event.key
        case ClusterChanged() | ClusterRemoved() | PolicyChanged() | PolicyDeleted():
            return True
        case WorkRendered() | WorkWithdrawn():
            return cause.key == event.key
        case _:
            return False


def _asks_no_more(fact: Known, event: WorkWithdrawn) -> bool:
    match fact:
        case BindingReleased() | TemplateDeleted() | PlacementReleased():
            return fact.key == event.key
        case PlacementDecided() | PlacementFailed():
            return fact.key == event.key and event.cluster not in {target.name for target in fact.clusters}
        case _:
            return False


def _end(
    seq: int,
    event: TemplateDeleted | PolicyDeleted | ClusterRemoved,
    known: Mapping[int, Known],
    held: Mapping[str, AbsenceHeld],
) -> list[str]:
    name = event.name if isinstance(event, ClusterRemoved) else str(event.key)
    place = f"FACTS {seq}: {type(event).__name__} of {name}"
    if not event.reason:
        return [f"{place} without a reason"]
    confirmed = _CONFIRMED.search(event.reason)
    if confirmed is not None:
        position = int(confirmed[1])
        if position >= min(known) and not isinstance(known.get(position), AbsenceConfirmed):
            return [f"{place} was confirmed at #{position}, where no confirmation stands"]
        return []
    scope = "clusters" if isinstance(event, ClusterRemoved) else "templates"
    if scope in held and name in held[scope].missing:
        return [f"{place} while it is held, {event.reason}"]
    return []
