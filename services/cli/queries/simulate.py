"""The command `fleetlog simulate`: what would be placed otherwise if clusters, replicas or a policy were others.

The scheduler's state is folded from the log, changed in memory, and decided with the scheduler's own code; nothing is
written.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from schemas.codec import DecodeError, decode
from schemas.events.binding import BindingRequested
from schemas.events.cluster import ClusterChanged
from schemas.events.placement import PlacementDecided, PlacementFailed
from schemas.keys import ObjectKey
from schemas.topology import FACTS
from services._kit.log.fact_history import present
from services._kit.log.stream_port import Log
from services._rules.scheduling.scheduling_views import MAX_REPLICAS
from services.cli.common.installation_options import LogAndControlOptions
from services.cli.common.logbook import open_log, streams
from services.cli.common.printing import render, table
from services.cli.common.running import Failed, complain, patience
from services.cli.objects.kind_lookup import one_object
from services.cli.queries.object_history import key_of
from services.cli.queries.query_options import Suppositions
from services.cli.queries.replay import outcome
from services.cli.queries.what_if import SimulatedState, check_suppositions, suppose
from services.scheduler.app import Scheduler
from services.scheduler.binding_spec import scheduler_of
from services.scheduler.decide import decide_with_trace
from services.scheduler.namespace_quotas import NamespaceQuotas
from services.scheduler.placement_admission import enforced
from services.scheduler.state import SchedulerState, fold


class Moved(Struct, frozen=True):
    """One object whose placement would be another: in words, by cluster, and why the scheduler would look."""

    key: ObjectKey
    before: str
    after: str
    why: str
    fails: bool
    held: dict[str, int]
    given: dict[str, int]


async def simulate(
    log: LogAndControlOptions, supposed: Suppositions, words: Sequence[str] = (), namespace: str = "", output: str = ""
) -> int:
    """Print what would move, of the object that `words` name or of all; raises Failed for unknown objects."""
    wanted = [scaled(text) for text in supposed.scale]
    named = one_object(words) if words else None
    check_suppositions(supposed)
    access = log.access
    scale = {await key_of(log.target, kind, name, namespace): replicas for kind, name, replicas in wanted}
    only = await key_of(log.target, *named, namespace) if named else None
    async with patience("reading the log"), open_log(access) as connection:
        world = await world_of(streams(connection)[FACTS.name])
    if only is not None and only not in world.state.objects:
        raise Failed(f"no policy has claimed {only}; the log holds no binding of it")
    moved = outcomes(world, supposed, scale, time.time(), only)
    render(output, lambda: document(moved), lambda: text(moved, wide=output == "wide"))
    looked = 1 if only is not None else requested(world)
    complain(f"{len(moved):,} of {looked:,} objects would be placed otherwise; nothing was changed")
    return 0


def scaled(text: str) -> tuple[str, str, int]:
    """Kind, name and replicas of `deploy/nginx=10`; raises Failed for anything else."""
    named, equals, count = text.rpartition("=")
    if not equals or not count.isdecimal() or int(count) > MAX_REPLICAS:
        raise Failed(f"--scale {text!r}: write KIND/NAME=REPLICAS, for example deploy/nginx=10")
    kind, name = one_object([named])
    return kind, name, int(count)


async def world_of(log: Log) -> SimulatedState:
    """The state as the present facts make it; quotas count where a placement shows that they are enforced."""
    world = SimulatedState(SchedulerState(quotas=NamespaceQuotas()))
    for message in await present(log, Scheduler.filters):
        try:
            event = decode(message.subject, message.data)
        except DecodeError as error:
            complain(f"#{message.seq} is left out: {error}")
            continue
        list(fold(world.state, message.seq, message.subject, event, message.time))
        world.position = message.seq
        if isinstance(event, ClusterChanged):
            world.clusters[event.name] = event
    placements = [scheduled.placed for scheduled in world.state.objects.values()]
    if not any(placed is not None and enforced(placed) for placed in placements):
        world.state.quotas = None
    return world


def requested(world: SimulatedState) -> int:
    """How many objects policies want to be placed; those whose binding ended stay on the log for a while."""
    return sum(isinstance(scheduled.binding, BindingRequested) for scheduled in world.state.objects.values())


def outcomes(
    world: SimulatedState,
    supposed: Suppositions,
    scale: Mapping[ObjectKey, int],
    now: float,
    only: ObjectKey | None = None,
) -> list[Moved]:
    """Suppose, then decide every object, or the one; the capacity that a decision takes counts for those after it."""
    suppose(world, supposed, scale)
    state = world.state
    state.ledger.expire(now)
    found = []
    for key in sorted(state.objects):
        scheduled = state.objects[key]
        placed = scheduled.placed
        estimate = scheduled.estimate
        if estimate is not None:
            # What members said of their nodes is the best that is known, although it saw nothing of this.
            answers = tuple(item for item in estimate.estimates if item.cluster not in world.changed_capacity)
            seen = replace(estimate.provenance, as_of=world.position + 1)
            scheduled.estimate = replace(estimate, estimates=answers, provenance=seen)
        scheduler = placed.scheduler if placed is not None else scheduler_of(scheduled.spec)
        state.refresh()
        event, _ = decide_with_trace(state, key, now, scheduler)
        if not isinstance(event, PlacementDecided | PlacementFailed):
            continue
        if only in (None, key):
            found.append(_moved(key, placed, event))
        world.happens(event, now)
    return [item for item in found if item.before != item.after]


def _moved(
    key: ObjectKey, placed: PlacementDecided | PlacementFailed | None, event: PlacementDecided | PlacementFailed
) -> Moved:
    before = outcome(placed) if placed is not None else "not placed yet"
    failed = isinstance(event, PlacementFailed)
    return Moved(key, before, outcome(event), event.trigger, failed, _counts(placed), _counts(event))


def _counts(event: PlacementDecided | PlacementFailed | None) -> dict[str, int]:
    return {item.name: item.replicas or 0 for item in event.clusters} if event is not None else {}


def document(moved: Sequence[Moved]) -> dict[str, Any]:
    """What would move as a document."""
    return {
        "kind": "Simulation",
        "apiVersion": "fleetlog/v1",
        "moved": [msgspec.to_builtins(item) for item in moved],
        "clusters": {name: {"before": before, "after": after} for name, before, after in totals(moved)},
    }


def totals(moved: Iterable[Moved]) -> list[tuple[str, int, int]]:
    """Replicas of the objects that would move, by cluster, before and after."""
    before: Counter[str] = Counter()
    after: Counter[str] = Counter()
    for item in moved:
        before.update(item.held)
        after.update(item.given)
    return [(name, before[name], after[name]) for name in sorted(before | after)]


def text(moved: Sequence[Moved], *, wide: bool = False) -> str:
    """A table of what would move, the differences by cluster, and the sums."""
    if not moved:
        return "Everything stays where it is.\n"
    rows = [
        (str(item.key), item.before, item.after, _difference(item), *((item.why,) if wide else ())) for item in moved
    ]
    headers = ("object", "before", "after", "difference", *(("why",) if wide else ()))
    sums = [(name, before, after, f"{after - before:+d}") for name, before, after in totals(moved)]
    return table(headers, rows) + "\n" + table(("cluster", "before", "after", "difference"), sums)


def _difference(item: Moved) -> str:
    names = sorted(item.held.keys() | item.given.keys())
    parts = []
    for name in names:
        if name not in item.held:
            parts.append(f"+{name}" + (f" {item.given[name]:+d}" if item.given[name] else ""))
        elif name not in item.given:
            parts.append(f"-{name}" + (f" {-item.held[name]:+d}" if item.held[name] else ""))
        elif item.held[name] != item.given[name]:
            parts.append(f"{name} {item.given[name] - item.held[name]:+d}")
    return ", ".join(parts) or "-"
