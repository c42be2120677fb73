"""The command `fleetlog explain`: why an object runs where it runs, cluster by cluster, as the log has it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from schemas.codec import DecodeError, decode
from schemas.events.placement import PlacementDecided, PlacementEvent, PlacementFailed, PlacementReleased
from schemas.explained import ExplainedCluster, PlacementExplained
from schemas.keys import ObjectKey
from schemas.subjects import explained as explained_subject
from schemas.subjects import placement as placement_subject
from schemas.topology import EXPLAINED
from services._kit.log.fact_history import merged, stored_at
from services._kit.log.stream_port import Log
from services.cli.common.logbook import open_log, streams
from services.cli.common.moments import moment, stamp
from services.cli.common.printing import check_output, render, table
from services.cli.common.running import Failed, complain, patience
from services.cli.queries.object_history import key_asked
from services.cli.queries.query_options import ObjectQuery

_DIVISIONS: Final[Mapping[str, str]] = {
    "everywhere": "The object has no replicas to divide; every selected cluster gets it.",
    "duplicated": "Every selected cluster runs all {demand} replicas.",
    "static weights": "{demand} replicas are divided by static weights, which add up to {weights}.",
    "fresh scale": "{demand} replicas are divided by the capacity of clusters, {weights} in all.",
    "scale down": "{demand} replicas are divided by what runs now, {weights} replicas in all.",
    "scale up": "{kept} replicas stay; {demand} more are divided by the capacity of clusters, {weights} in all.",
    "no change": "All {kept} replicas stay where they are.",
}


class Explained(Struct, frozen=True):
    """A placement with its position and time, and its explanation where one was kept."""

    position: int
    stored: float
    event: PlacementEvent
    explanation: PlacementExplained | None = None


async def explain(query: ObjectQuery, output: str = "", at: str = "") -> int:
    """Print why an object is placed as it is, or was at a moment; raises Failed when the log knows no placement."""
    check_output(output)
    access = query.log.access
    until = moment(at, "--at", time.time()) if at else None
    key = await key_asked(query)
    async with patience("reading the log"), open_log(access) as connection:
        found = await placement_of(streams(connection), key, until)
    if found is None:
        when = f" at {stamp(until)}" if until is not None else ""
        raise Failed(
            f"the log held no placement of {key}{when}; has a policy claimed it? `fleetlog history` shows what happened"
        )
    render(output, lambda: document(key, found), lambda: text(key, found, wide=output == "wide"))
    if found.explanation is None and not isinstance(found.event, PlacementReleased):
        complain(
            f"no explanation of #{found.position} is kept: each object keeps those of its newest four changes, 30 days "
            "long, and one may be lost when the scheduler dies"
        )
    return 0


async def placement_of(logs: Mapping[str, Log], key: ObjectKey, until: float | None = None) -> Explained | None:
    """The placement in force at a moment (None: now) with its explanation; None where there was none."""
    last: Explained | None = None
    for position, message in (await merged(logs, (placement_subject(key),))).items():
        stored = stored_at(message)
        if until is not None and stored > until:
            continue
        try:
            event = decode(message.subject, message.data)
        except DecodeError as error:
            raise Failed(f"#{position}: {error}") from None
        assert isinstance(event, PlacementEvent)
        last = Explained(position, stored, event)
    if last is None or isinstance(last.event, PlacementReleased):
        return last
    async for message in logs[EXPLAINED.name].read((explained_subject(key),)):
        try:
            found = msgspec.json.decode(message.data, type=PlacementExplained)
        except msgspec.MsgspecError as error:
            complain(f"{EXPLAINED.name} #{message.seq} cannot be read ({error}); a newer version wrote it")
            continue
        if found.uid == last.event.uid and found.decided_at == decided_at(last.event):
            last = msgspec.structs.replace(last, explanation=found)
    return last


def decided_at(event: PlacementDecided | PlacementFailed) -> float:
    """When a placement was decided, in seconds since 1970."""
    return event.failed_at if isinstance(event, PlacementFailed) else event.scheduled_at


def document(key: ObjectKey, found: Explained) -> dict[str, Any]:
    """The placement and its reasons as one document."""
    return {
        "kind": "Explanation",
        "apiVersion": "fleetlog/v1",
        "object": {"resource": key.group_resource, "namespace": key.namespace, "name": key.name},
        "position": found.position,
        "at": stamp(found.stored),
        "placement": msgspec.json.decode(msgspec.json.encode(found.event)),
        "explanation": msgspec.to_builtins(found.explanation),
    }


def text(key: ObjectKey, found: Explained, *, wide: bool = False) -> str:
    """The placement and its reasons for people."""
    event = found.event
    parts = [_headline(key, event), _circumstances(found)]
    if found.explanation is not None and not isinstance(event, PlacementReleased):
        parts += reasons(found.explanation, wide=wide)
    return "\n".join(part for part in parts if part)


def _headline(key: ObjectKey, event: PlacementEvent) -> str:
    match event:
        case PlacementReleased():
            return f"{key} is placed nowhere: its binding ended.\n"
        case PlacementFailed():
            stays = f" It stays on {_targets(event)}." if event.clusters else ""
            return f"{key} could not be placed: {event.message}{stays}\n"
        case PlacementDecided():
            return f"{key} runs on {_targets(event)}.\n" if event.clusters else f"{key} runs on no cluster.\n"


def _targets(event: PlacementDecided | PlacementFailed) -> str:
    names = [
        item.name if item.replicas is None else f"{item.name} ({_count(item.replicas, 'replica')})"
        for item in event.clusters
    ]
    return ", ".join(names[:-1]) + (" and " if len(names) > 1 else "") + names[-1]


def _circumstances(found: Explained) -> str:
    event = found.event
    seen = f", with the log up to #{event.provenance.as_of} in view" if event.provenance.as_of else ""
    lines = [f"Decided at {stamp(found.stored)} (#{found.position}){seen}."]
    if not isinstance(event, PlacementReleased):
        if event.trigger:
            lines.append(f"Why then: {event.trigger}.")
        if event.estimate_missed:
            lines.append("No estimate came in time; the clusters' summaries alone were used.")
    return "\n".join(lines) + "\n"


def reasons(found: PlacementExplained, *, wide: bool = False) -> list[str]:
    """Paragraphs and tables of an explanation: groups, regions, clusters, division, refusals."""
    parts = []
    if found.tried or found.affinity_name:
        lines = [f"Affinity group {item.name} was tried: {item.message}" for item in found.tried]
        if found.affinity_name and not found.error:
            lines.append(f"Affinity group {found.affinity_name} is in force.")
        parts.append("\n".join(lines) + "\n")
    if found.regions:
        rows = [(item.name, item.clusters, item.score, "yes" if item.chosen else "no") for item in found.regions]
        more = f"and {_count(found.more_regions, 'more region')}\n" if found.more_regions else ""
        parts.append(table(("region", "clusters", "score", "chosen"), rows) + more)
    if found.clusters:
        parts.append(_clusters(found, wide=wide))
    division = "\n".join(_division(step.mode, step.demand, step.kept, step.weights) for step in found.steps)
    if division:
        uneven = any(item.share and not float(item.share).is_integer() for item in found.clusters)
        ties = f" Shares are rounded; equal claims are settled by name, {found.tie_break}." if uneven else ""
        parts.append(f"{division}{ties}\n")
    refused = [
        (item.filter, item.count, ", ".join(item.names) + _rest(item.count - len(item.names)), item.reason)
        for item in found.refused
    ]
    if refused:
        more = f"and {_count(found.more_reasons, 'cluster')} refused for other reasons\n" if found.more_reasons else ""
        parts.append(table(("refused by", "count", "clusters", "reason"), refused) + more)
    if found.ignored:
        parts.append(f"Not looked at, because it is being deleted: {_count(found.ignored, 'cluster')}.\n")
    if not found.total:
        parts.append("No cluster has joined yet.\n")
    return parts


def _clusters(found: PlacementExplained, *, wide: bool) -> str:
    headers = ["cluster", "rank", "selected", "available", "source", "age", "running", "weight", "share", "replicas"]
    if wide:
        headers[2:2] = ["region", "group", "score"]
        headers += ["kept", "capacity", "reserved"]
    rows = [_row(item, found, wide=wide) for item in found.clusters]
    more = f"and {_count(found.others, 'more cluster')} that passed the filters\n" if found.others else ""
    return table(headers, rows) + more


def _row(item: ExplainedCluster, found: PlacementExplained, *, wide: bool) -> Sequence[object]:
    # Weights are compared with one another only where replicas are divided.
    divided = any(step.weights for step in found.steps)
    cells: list[object] = [
        item.name,
        item.rank,
        "yes" if item.selected else "no",
        "any" if item.available < 0 else item.available,
        item.source,
        f"{max(found.decided_at - item.at, 0.0):.0f}s" if item.at else "-",
        item.running,
        item.weight if divided else "-",
        f"{item.share:.2f}" if divided else "-",
        item.replicas,
    ]
    if wide:
        given = ", ".join(f"{name} {points}" for name, points in item.plugins.items())
        cells[2:2] = [item.region or "-", item.tier, f"{item.score} ({given})" if given else item.score]
        cells += [item.kept, "any" if item.room < 0 else item.room, item.reserved]
    return cells


def _division(mode: str, demand: int, kept: int, weights: int) -> str:
    if mode == "scale up" and not kept:
        # Nothing ran yet: to a reader that is the same as dividing everything.
        mode = "fresh scale"
    return _DIVISIONS.get(mode, mode).format(demand=demand, kept=kept, weights=weights)


def _rest(count: int) -> str:
    return f" and {count} more" if count > 0 else ""


def _count(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
