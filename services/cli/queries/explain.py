"""The command `fleetlog explain`: why an object runs where it runs, cluster by cluster, as the log has it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from schemas.codec import DecodeError, decode
from schemas.events.eviction import EvictionEvent
from schemas.events.placement import (
    PlacementDecided,
    PlacementEvent,
    PlacementFailed,
    PlacementReleased,
    TargetCluster,
)
from schemas.explained import ExplainedCluster, PlacementExplained
from schemas.keys import ObjectKey
from schemas.subjects import explained as explained_subject
from schemas.subjects import facet as facet_subject
from schemas.subjects import placement as placement_subject
from schemas.topology import EXPLAINED
from services._kit.log.fact_history import facts_of, merged, stored_at
from services._kit.log.stream_port import Log
from services._rules.effective import current_targets
from services.cli.common.logbook import open_log, streams
from services.cli.common.moments import moment, stamp
from services.cli.common.printing import render, table
from services.cli.common.running import Failed, complain, patience
from services.cli.objects.kind_lookup import one_object
from services.cli.queries.explain_scaling import autoscaler_of, decided_of
from services.cli.queries.explain_scaling import document as scaling_document
from services.cli.queries.explain_scaling import text as scaling_text
from services.cli.queries.object_history import key_asked
from services.cli.queries.query_options import ObjectQuery
from services.cli.queries.required_by import Required, required_by
from services.cli.queries.unclaimed import unclaimed

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
    """A placement with its position and time, and its explanation where one was kept.

    `eviction` at `eviction_seq` is the last fact about evictions of the object.
    """

    position: int
    stored: float
    event: PlacementEvent
    explanation: PlacementExplained | None = None
    eviction: EvictionEvent | None = None
    eviction_seq: int = 0

    @property
    def left(self) -> tuple[str, ...]:
        """Clusters of the placement that the object has left, or is leaving, since it was decided."""
        event = self.event
        if isinstance(event, PlacementReleased):
            return ()
        stays = {target.name for target in current_targets(event, self.eviction, self.eviction_seq)}
        return tuple(target.name for target in event.clusters if target.name not in stays)


async def explain(query: ObjectQuery, output: str = "", at: str = "") -> int:
    """Print why an object is placed as it is, or was at a moment, or why an autoscaler asks for its replicas.

    Raises Failed when the log knows no placement.
    """
    until = moment(at, "--at", time.time()) if at else None
    one_object(query.words)
    access = query.log.access
    key = await key_asked(query)
    async with patience("reading the log"), open_log(access) as connection:
        logs = streams(connection)
        if (autoscaler := autoscaler_of(key)) is not None:
            decided = await decided_of(logs, autoscaler, until)
            render(output, lambda: scaling_document(decided), lambda: scaling_text(autoscaler, decided))
            return 0
        found = await placement_of(logs, key, until)
        owners = await required_by(logs, key, until)
        known = found is not None or until is not None or bool(await facts_of(logs, key))
    if found is None and (owners.since or owners.attached):
        render(output, lambda: _document(key, owners), lambda: owners.text(key))
        return 0
    if not known:
        raise Failed(f"the log holds no fact about {key}: {await unclaimed(query.log.target, key)}")
    if found is None:
        when = f" at {stamp(until)}" if until is not None else ""
        raise Failed(f"the log held no placement of {key}{when}; `fleetlog history` shows what happened")
    wide = output == "wide"
    render(output, lambda: document(key, found, owners), lambda: text(key, found, wide=wide) + owners.text(key))
    if found.explanation is None and not isinstance(found.event, PlacementReleased):
        complain(
            f"no explanation of #{found.position} is kept: each object keeps those of its newest four changes, 30 days "
            "long, and one may be lost when the scheduler dies"
        )
    return 0


async def placement_of(logs: Mapping[str, Log], key: ObjectKey, until: float | None = None) -> Explained | None:
    """The placement in force at a moment (None: now) with its explanation; None where there was none."""
    last: Explained | None = None
    eviction: EvictionEvent | None = None
    eviction_seq = 0
    subjects = (placement_subject(key), facet_subject("eviction", key))
    for position, message in sorted((await merged(logs, subjects)).items()):
        stored = stored_at(message)
        if until is not None and stored > until:
            continue
        try:
            event = decode(message.subject, message.data)
        except DecodeError as error:
            raise Failed(f"#{position}: {error}") from None
        if isinstance(event, EvictionEvent):
            eviction, eviction_seq = event, position
        else:
            assert isinstance(event, PlacementEvent)
            last = Explained(position, stored, event)
    if last is None or isinstance(last.event, PlacementReleased):
        return last
    decided, last = last.event, msgspec.structs.replace(last, eviction=eviction, eviction_seq=eviction_seq)
    async for message in logs[EXPLAINED.name].read((explained_subject(key),)):
        try:
            found = msgspec.json.decode(message.data, type=PlacementExplained)
        except msgspec.MsgspecError as error:
            complain(f"{EXPLAINED.name} #{message.seq} cannot be read ({error}); a newer version wrote it")
            continue
        if found.uid == decided.uid and found.decided_at == decided_at(decided):
            last = msgspec.structs.replace(last, explanation=found)
    return last


def decided_at(event: PlacementDecided | PlacementFailed) -> float:
    """When a placement was decided, in seconds since 1970."""
    return event.failed_at if isinstance(event, PlacementFailed) else event.scheduled_at


def _document(key: ObjectKey, owners: Required) -> dict[str, Any]:
    named = {"resource": key.group_resource, "namespace": key.namespace, "name": key.name}
    required = {"requiredBy": owners.document()} if owners.since or owners.attached else {}
    return {"kind": "Explanation", "apiVersion": "fleetlog/v1", "object": named, **required}


def document(key: ObjectKey, found: Explained, owners: Required) -> dict[str, Any]:
    """The placement and its reasons as one document, with the objects that require this one."""
    return {
        **_document(key, owners),
        "position": found.position,
        "at": stamp(found.stored),
        "left": list(found.left),
        "placement": msgspec.json.decode(msgspec.json.encode(found.event)),
        "explanation": msgspec.to_builtins(found.explanation),
    }


def text(key: ObjectKey, found: Explained, *, wide: bool = False) -> str:
    """The placement and its reasons for people."""
    event = found.event
    parts = [_headline(key, found), _circumstances(found)]
    if found.explanation is not None and not isinstance(event, PlacementReleased):
        parts += reasons(found.explanation, wide=wide)
    return "\n".join(part for part in parts if part)


def _headline(key: ObjectKey, found: Explained) -> str:
    event, left = found.event, found.left
    match event:
        case PlacementReleased():
            return f"{key} is placed nowhere: its binding ended.\n"
        case PlacementFailed():
            stays = f" It stays on {_targets(event)}." if event.clusters else ""
            return f"{key} could not be placed: {event.message}{stays}\n"
        case PlacementDecided():
            remaining = [target for target in event.clusters if target.name not in left]
            where = _named(remaining) if remaining else "no cluster"
            since = f": it was evicted from {', '.join(left)} after this decision, and not placed again" if left else ""
            return f"{key} runs on {where}{since}.\n"


def _targets(event: PlacementDecided | PlacementFailed) -> str:
    return _named(event.clusters)


def _named(targets: Sequence[TargetCluster]) -> str:
    names = [
        item.name if item.replicas is None else f"{item.name} ({_count(item.replicas, 'replica')})" for item in targets
    ]
    return ", ".join(names[:-1]) + (" and " if len(names) > 1 else "") + names[-1]


def _circumstances(found: Explained) -> str:
    event = found.event
    seen = f", with the log up to #{event.provenance.as_of} in view" if event.provenance.as_of else ""
    lines = [f"Decided at {stamp(found.stored)} (#{found.position}){seen}."]
    if not isinstance(event, PlacementReleased):
        if event.trigger:
            lines.append(f"Why then: {event.trigger if event.prev else 'it had no placement yet'}.")
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
