"""What holds of evictions in every history: nothing comes back unasked, nothing that may stay is restarted, all end."""

from __future__ import annotations

from collections.abc import Iterable

from schemas.codec import Known
from schemas.events.eviction import EvictionFinished, EvictionRequested
from schemas.events.placement import PlacementDecided, PlacementFailed
from schemas.events.work import WorkRendered, WorkWithdrawn
from services._rules.effective import evicted_clusters


def broken_evictions(facts: Iterable[tuple[int, Known]]) -> list[str]:
    """Complaints about the facts of one object, each with its position; everything has settled at their end.

    No work is written for a cluster between its eviction and a placement that was decided in view of it. What a cluster
    holds again after an eviction is not withdrawn before a placement was decided in view of that. No eviction is under
    way at the end.
    """
    away: dict[str, int] = {}
    again: dict[str, int] = {}
    complaints = []
    last = None
    for seq, event in facts:
        match event:
            case EvictionRequested() | EvictionFinished():
                last = event
                gone = evicted_clusters(event)
                again = {name: at for name, at in again.items() if name not in gone}
                again |= {target.name: again.get(target.name, seq) for target in event.returned}
                away = {name: at for name, at in away.items() if name not in again}
                away |= {name: away.get(name, seq) for name in gone}
            case PlacementDecided() | PlacementFailed():
                seen = event.provenance.as_of
                again = {name: at for name, at in again.items() if seen < at}
                if isinstance(event, PlacementDecided):
                    named = {target.name for target in event.clusters}
                    away = {name: at for name, at in away.items() if name not in named or seen < at}
            case WorkRendered() if event.provenance.as_of >= away.get(event.cluster, event.provenance.as_of + 1):
                # A renderer that has not read the eviction yet may write one more.
                complaints.append(f"{seq}: {event.key} came back to {event.cluster} while it is evicted")
            case WorkWithdrawn() if event.cluster in again:
                complaints.append(f"{seq}: {event.key} was taken from {event.cluster}, which holds it again")
            case _:
                pass
    if isinstance(last, EvictionRequested):
        left = [*(task.from_cluster for task in last.tasks), *(waiting.cluster for waiting in last.postponed)]
        complaints.append(f"{last.key} is being evicted from {', '.join(left)} for ever")
    return complaints
