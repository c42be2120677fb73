"""The command `fleetlog replay`: decides a recorded log again with this version, and prints what differs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from schemas.codec import DecodeError, Known, decode
from schemas.events.autoscaling import ReplicasRecommended
from schemas.events.placement import PlacementDecided, PlacementFailed, PlacementReleased
from schemas.keys import ObjectKey
from schemas.topology import FACTS
from services._kit.log.stream_port import match
from services._rules.constants import AUTOSCALING_GROUP
from services.autoscaler.decide import decided_again
from services.cli.common.printing import render
from services.cli.common.running import complain
from services.cli.log.archive import Header, Record, inspect, read
from services.cli.queries.explain import decided_at, reasons
from services.scheduler.app import Scheduler
from services.scheduler.decide import decide_with_trace
from services.scheduler.decision_trace import explained
from services.scheduler.namespace_quotas import NamespaceQuotas
from services.scheduler.placement_admission import enforced
from services.scheduler.state import SchedulerState, fold

Made = PlacementDecided | PlacementFailed


class Fact(Struct, frozen=True):
    """One fact of the file that the scheduler reads, or about autoscaling."""

    position: int
    stored: float
    subject: str
    event: Known


class Difference(Struct, frozen=True, omit_defaults=True):
    """A decision that comes out otherwise: the one on record, and the one of this version (both in words)."""

    position: int
    key: ObjectKey
    recorded: str
    now: str
    why: tuple[str, ...] = ()


class Result(Struct):
    """What a replay found; `skipped` decisions name facts that are not in the file."""

    decisions: int = 0
    skipped: int = 0
    differences: list[Difference] = msgspec.field(default_factory=list)


def replay(path: Path, output: str = "") -> int:
    """Print decisions of an exported log that would differ; 1 when there is any. Raises Failed for a broken file."""
    header, _ = inspect(path)
    result = replayed(facts_in(path), wide=output == "wide")
    render(output, lambda: document(result), lambda: "".join(map(text, result.differences)))
    complain(summary(result, header))
    return 1 if result.differences else 0


def text(item: Difference) -> str:
    """A decision that differs, for people."""
    why = "".join(f"    {line}\n" for part in item.why for line in part.splitlines())
    return f"#{item.position} {item.key}\n  recorded: {item.recorded}\n  now:      {item.now}\n{why}"


def document(result: Result) -> dict[str, Any]:
    """The result as a document."""
    return {"kind": "Replay", "apiVersion": "fleetlog/v1", **msgspec.to_builtins(result)}


def summary(result: Result, header: Header) -> str:
    """One sentence about a replay."""
    text = f"{result.decisions:,} decisions replayed, {len(result.differences):,} differ"
    if result.skipped:
        text += f"; {result.skipped:,} left out, because facts that they were decided on are not in the file"
        if header.since or header.subject:
            text += " (it was exported with --since or --subject)"
    return text


def facts_in(path: Path) -> Iterable[Fact]:
    """Facts of an exported log that are replayed, in order, without those that this version cannot read."""
    for line in read(path):
        if not isinstance(line, Record) or line.stream != FACTS.name:
            continue
        if not any(match(pattern, line.subject) for pattern in (*Scheduler.filters, "autoscaling.>")):
            continue
        try:
            yield Fact(line.seq, line.time, line.subject, decode(line.subject, line.data))
        except DecodeError as error:
            complain(f"#{line.seq} is left out: {error}")


def replayed(facts: Iterable[Fact], *, wide: bool = False) -> Result:
    """Decide every placement again on the facts it had in view (`as_of`), at its time, with its estimates.

    Autoscalers are decided again from what their facts say was read.
    """
    result = Result()
    ordered = list(facts)
    for item in ordered:
        if isinstance(item.event, ReplicasRecommended):
            result.decisions += 1
            _scaled_otherwise(result, item.position, item.event)
    # One leader decides in the order of what it saw, so the state is folded once, up to each decision's view.
    decisions = sorted(
        (item for item in ordered if isinstance(item.event, Made)),
        key=lambda item: (item.event.provenance.as_of, item.position),
    )
    quotas = NamespaceQuotas()
    state = SchedulerState(quotas=quotas)
    folded = 0
    for item in decisions:
        event = item.event
        assert isinstance(event, Made)
        while folded < len(ordered) and ordered[folded].position <= event.provenance.as_of:
            fact = ordered[folded]
            list(fold(state, fact.position, fact.subject, fact.event, fact.stored))
            folded += 1
        scheduled = state.objects.get(event.key)
        if (
            not event.provenance.as_of
            or scheduled is None
            or scheduled.binding_seq != event.provenance.own.get("binding")
        ):
            result.skipped += 1
            continue
        result.decisions += 1
        quotas.usage.withdraw(event.key)
        state.quotas = quotas if enforced(event) else None
        found = _differing(state, item.position, event, wide=wide)
        if found is not None:
            result.differences.append(found)
        state.quotas = quotas
        # Until the placement is folded its capacity and its quota count as reserved, as they did then.
        state.promise(event, decided_at(event))
    return result


def _scaled_otherwise(result: Result, position: int, event: ReplicasRecommended) -> None:
    again = decided_again(event)
    if again != event.desired:
        key = ObjectKey(AUTOSCALING_GROUP, "federatedhpas", event.key.namespace, event.key.name)
        result.differences.append(Difference(position, key, f"{event.desired} replicas", f"{again} replicas"))


def _differing(state: SchedulerState, position: int, event: Made, *, wide: bool) -> Difference | None:
    now = decided_at(event)
    state.ledger.withdraw(event.key)
    state.ledger.expire(now)
    state.refresh()
    made, considered = decide_with_trace(state, event.key, now, event.scheduler, event.estimates)
    if isinstance(made, Made) and _alike(event, made):
        return None
    why: tuple[str, ...] = ()
    if isinstance(made, Made) and considered is not None:
        why = tuple(reasons(explained(made, considered), wide=wide))
    return Difference(position, event.key, outcome(event), outcome(made), why)


def _alike(recorded: Made, made: Made) -> bool:
    if type(recorded) is not type(made):
        return False
    same = recorded.clusters == made.clusters and recorded.affinity_name == made.affinity_name
    if isinstance(recorded, PlacementFailed) and isinstance(made, PlacementFailed):
        # Another version may say the same reason in other words.
        return same and recorded.reason == made.reason
    return same


def outcome(event: Made | PlacementReleased | None) -> str:
    """A decision in a few words: `m1=2 m2=1`, a reason, or that what stands stays."""
    if event is None:
        return "stays as it is"
    if isinstance(event, PlacementReleased):
        return "released"
    where = " ".join(item.name if item.replicas is None else f"{item.name}={item.replicas}" for item in event.clusters)
    group = f" (group {event.affinity_name})" if event.affinity_name else ""
    if isinstance(event, PlacementFailed):
        return f"{event.reason}: {event.message}{f' (stays on {where})' if where else ''}{group}"
    return (where or "nowhere") + group
