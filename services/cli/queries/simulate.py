"""The command `fleetlog simulate`: what would be placed otherwise if clusters, metrics, replicas or a policy changed.

The states of scheduler and autoscaler are folded from the log, changed in memory, and decided with their own code;
nothing is written.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from schemas.codec import DecodeError, decode
from schemas.events.binding import BindingRequested
from schemas.events.cluster import ClusterChanged
from schemas.events.placement import PlacementDecided, PlacementFailed
from schemas.keys import ObjectKey
from schemas.topology import FACTS
from services._kit.log.fact_history import past, present, stored_at
from services._kit.log.stream_port import Log
from services._rules.constants import AUTOSCALING_GROUP
from services._rules.scheduling.scheduling_views import MAX_REPLICAS
from services.autoscaler.state import FILTERS as SCALING
from services.autoscaler.state import fold as fold_scaling
from services.cli.common.installation_options import LogAndControlOptions
from services.cli.common.karmadactl_options import DEFAULT_NAMESPACE
from services.cli.common.logbook import open_log, streams
from services.cli.common.moments import moment, stamp
from services.cli.common.printing import render, table
from services.cli.common.running import Failed, complain, patience
from services.cli.objects.kind_lookup import one_object
from services.cli.queries.object_history import key_of
from services.cli.queries.query_options import Suppositions
from services.cli.queries.replay import outcome
from services.cli.queries.supposed_metrics import (
    Recommendation,
    recommendations,
    supposed_metric,
    unknown,
)
from services.cli.queries.supposed_metrics_output import ScaledShares, scaling_document, scaling_text
from services.cli.queries.unclaimed import undecided
from services.cli.queries.what_if import SimulatedState, check_suppositions, suppose
from services.scheduler.app import Scheduler
from services.scheduler.binding_spec import scheduler_of
from services.scheduler.decide import decide_with_trace
from services.scheduler.namespace_quotas import NamespaceQuotas
from services.scheduler.placement_admission import enforced
from services.scheduler.state import SchedulerState, fold

_AUTOSCALERS: Final = f"federatedhpas.{AUTOSCALING_GROUP}"


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
    log: LogAndControlOptions,
    supposed: Suppositions,
    words: Sequence[str] = (),
    namespace: str = "",
    output: str = "",
    at: str = "",
) -> int:
    """Print what would move, of the object that `words` name or of all; raises Failed for unknown objects."""
    wanted = [scaled(text) for text in supposed.scale]
    named = one_object(words) if words else None
    now = time.time()
    until = moment(at, "--at", now) if at else None
    check_suppositions(supposed)
    access = log.access
    scale = {await key_of(log.target, kind, name, namespace): replicas for kind, name, replicas in wanted}
    only = await key_of(log.target, *named, namespace) if named else None
    metrics = [supposed_metric(text) for text in supposed.metric]
    if metrics:
        namespace = (await key_of(log.target, _AUTOSCALERS, metrics[0].name, namespace)).namespace or DEFAULT_NAMESPACE
    async with patience("reading the log"), open_log(access) as connection:
        world = await world_of(streams(connection), until, scaling=bool(metrics))
    if until is not None and not world.position:
        raise Failed(f"at {stamp(until)} the log held no fact")
    if only is not None and only not in world.state.objects:
        raise Failed(f"no policy has claimed {only}; the log holds no binding of it")
    for key in unknown(world.scaling, metrics, namespace):
        if until is not None:
            raise Failed(f"at {stamp(until)} the log held no decision about {key}")
        known = [each.name for each in world.scaling.scaling if each.namespace == namespace]
        raise Failed(await undecided(log.target, key, known))
    moment_decided = now if until is None else until
    autoscalers = recommendations(world.scaling, metrics, namespace, moment_decided)
    held = {found.target: _counts(world.state.objects[found.target].placed) for found in autoscalers}
    moved = outcomes(world, supposed, rescaled(scale, autoscalers), moment_decided, only)
    shown = [shares(found, held[found.target], moved) for found in autoscalers]
    render(output, lambda: document(moved, shown), lambda: text(moved, shown, wide=output == "wide"))
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


async def world_of(logs: Mapping[str, Log], at: float | None = None, *, scaling: bool = False) -> SimulatedState:
    """The state as the present facts make it, or those of a time in the past (seconds since 1970).

    `scaling` folds what the autoscaler knows as well. Quotas count where a placement shows that they are enforced.
    """
    world = SimulatedState(SchedulerState(quotas=NamespaceQuotas()))
    filters = tuple(dict.fromkeys((*Scheduler.filters, *(SCALING if scaling else ()))))
    if at is None:
        messages = [(message.seq, message) for message in await present(logs[FACTS.name], filters)]
    else:
        messages = await past(logs, filters, at)
    for seq, message in messages:
        try:
            event = decode(message.subject, message.data)
        except DecodeError as error:
            complain(f"#{seq} is left out: {error}")
            continue
        list(fold(world.state, seq, message.subject, event, stored_at(message)))
        if scaling:
            list(fold_scaling(world.scaling, seq, message.subject, event))
        world.position = seq
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


def rescaled(scale: Mapping[ObjectKey, int], autoscalers: Sequence[Recommendation]) -> dict[ObjectKey, int]:
    """Replicas by object: as they were supposed, and as FederatedHPAs would set them; raises Failed for both."""
    found = dict(scale)
    for each in autoscalers:
        if each.target in scale:
            raise Failed(f"--scale and --metric both set the replicas of {each.target}; leave one of them out")
        if each.replicas is not None:
            found[each.target] = each.replicas
    return found


def shares(found: Recommendation, held: Mapping[str, int], moved: Sequence[Moved]) -> ScaledShares:
    """How the scheduler would divide the replicas of a FederatedHPA's target; `held` is what clusters have now."""
    divided = next((item for item in moved if item.key == found.target), None)
    given = divided.given if divided is not None else held
    names = sorted(held.keys() | given.keys())
    clusters = {name: (held.get(name, 0), given.get(name, 0)) for name in names}
    return ScaledShares(found, clusters, divided.after if divided is not None and divided.fails else "")


def document(moved: Sequence[Moved], autoscalers: Sequence[ScaledShares] = ()) -> dict[str, Any]:
    """What would move as a document, and what FederatedHPAs would ask for."""
    return {
        "kind": "Simulation",
        "apiVersion": "fleetlog/v1",
        **({"autoscalers": [scaling_document(item) for item in autoscalers]} if autoscalers else {}),
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


def text(moved: Sequence[Moved], autoscalers: Sequence[ScaledShares] = (), *, wide: bool = False) -> str:
    """What FederatedHPAs would ask for, a table of what would move, the differences by cluster, and the sums."""
    head = "".join(f"{scaling_text(item)}\n" for item in autoscalers)
    if not moved:
        return head + "Everything stays where it is.\n"
    rows = [
        (str(item.key), item.before, item.after, _difference(item), *((item.why,) if wide else ())) for item in moved
    ]
    headers = ("object", "before", "after", "difference", *(("why",) if wide else ()))
    sums = [(name, before, after, f"{after - before:+d}") for name, before, after in totals(moved)]
    return head + table(headers, rows) + "\n" + table(("cluster", "before", "after", "difference"), sums)


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
