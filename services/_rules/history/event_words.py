"""Summarizes a fact in one line: its meaning, and what is new since the fact before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, assert_never

import msgspec
from msgspec import Raw, Struct

from schemas.codec import Known
from schemas.events.autoscaling import AutoscalerReleased, ReplicasRecommended, ScheduleAdvanced, ScheduleReleased
from schemas.events.binding import BindingReleased, BindingRequested
from schemas.events.cluster import ClusterChanged, ClusterRemoved
from schemas.events.control_plane import AbsenceConfirmed, AbsenceHeld, AbsenceReleased, ControlPlaneIdentified
from schemas.events.descheduling import ReplicasDescheduled
from schemas.events.endpoints import EndpointsCollected, EndpointsReleased
from schemas.events.estimate import CapacityEstimated, ClusterEstimate
from schemas.events.eviction import EvictionEvent, EvictionFinished, EvictionRequested
from schemas.events.lease import LeaseTaken
from schemas.events.observed import WorkObserved
from schemas.events.parked import KeyDropped, KeyParked, KeyRetried
from schemas.events.placement import PlacementDecided, PlacementFailed, PlacementReleased, TargetCluster
from schemas.events.policy import PolicyChanged, PolicyDeleted
from schemas.events.request import MemberRequested
from schemas.events.restore import RestoreCompared, RestoreEvent, RestoreReleased, RestoreStarted
from schemas.events.rollup import StatusRolledUp
from schemas.events.template import TemplateChanged, TemplateDeleted
from schemas.events.work import WorkRendered, WorkWithdrawn
from schemas.keys import ObjectKey
from services._rules.delivery.drift import drift_words
from services._rules.history.autoscaling_words import autoscaling_words
from services._rules.history.changed_fields import changed_fields
from services._rules.history.cluster_words import cluster_words
from services._rules.history.endpoint_words import endpoint_words

LONGEST: Final = 160
"""Characters of a message that are shown."""
_LISTED: Final = 5


def summarize(event: Known, before: Known | None = None) -> str:
    """One line about a fact; `before` is the previous one of its subject."""
    match event:
        case TemplateChanged() | TemplateDeleted():
            return _template(event, before)
        case BindingRequested() | BindingReleased():
            return _binding(event, before)
        case PlacementDecided() | PlacementFailed() | PlacementReleased():
            return _placement(event, before)
        case EvictionRequested() | EvictionFinished():
            return _eviction(event) or "no eviction under way"
        case ReplicasDescheduled():
            lowered = (item for item in event.clusters if item.before != item.replicas)
            return "; ".join(f"{item.name} {item.before} -> {item.replicas}" for item in lowered)
        case WorkRendered() | WorkWithdrawn():
            return _work(event, before)
        case WorkObserved():
            return _observed(event, before)
        case StatusRolledUp():
            return _rollup(event)
        case CapacityEstimated():
            return " ".join(
                f"{item.cluster}={'unknown' if item.replicas < 0 else item.replicas}" for item in event.estimates
            )
        case ReplicasRecommended() | AutoscalerReleased() | ScheduleAdvanced() | ScheduleReleased():
            return autoscaling_words(event)
        case _:
            return _other(event, before)


def _other(
    event: PolicyChanged
    | PolicyDeleted
    | ClusterChanged
    | ClusterRemoved
    | LeaseTaken
    | KeyParked
    | KeyRetried
    | KeyDropped
    | ControlPlaneIdentified
    | AbsenceHeld
    | AbsenceReleased
    | AbsenceConfirmed
    | RestoreEvent
    | EndpointsCollected
    | EndpointsReleased
    | MemberRequested,
    before: Known | None,
) -> str:
    match event:
        case ControlPlaneIdentified():
            return f"the control plane is {event.uid}, at revision {event.revision}"
        case AbsenceHeld():
            return _joined(f"withdrawals held in {event.scope}: {event.reason}", _short(event.message))
        case AbsenceReleased():
            return f"withdrawals go on in {event.scope}: {event.reason}"
        case AbsenceConfirmed():
            return _joined(f"{event.by} confirmed #{event.held_at} in {event.scope}", event.note)
        case PolicyChanged():
            deleting = "being deleted" if event.deleting else ""
            news = ""
            if isinstance(before, PolicyChanged) and before.uid == event.uid:
                # Overrides hold values of environment variables.
                texts = "Override" not in event.key.kind
                news = changed_fields(bytes(before.manifest), bytes(event.manifest), texts=texts)
            return _joined(f"{event.key} generation {event.generation}", news, deleting, _short(event.outcome))
        case PolicyDeleted():
            return _joined(f"{event.key} is gone", event.reason)
        case ClusterChanged():
            return cluster_words(event, before if isinstance(before, ClusterChanged) else None)
        case ClusterRemoved():
            return _joined(f"{event.name} is no member any more", event.reason)
        case LeaseTaken():
            return _joined(f"{event.instance} leads {event.service}", event.reason)
        case KeyRetried():
            return _joined(f"{event.by} wants {event.service} to try {event.key} again", event.note)
        case KeyDropped():
            return _joined(f"{event.by} gives {event.key} up in {event.service}", event.note, _short(event.reason))
        case RestoreStarted():
            return _joined(event.reason, "nothing is delivered until it is compared")
        case RestoreCompared():
            return f"{event.service} has compared everything with the restore at #{event.restore}"
        case RestoreReleased():
            without = f"not compared by {', '.join(event.missing)}" if event.missing else ""
            return _joined(f"{event.by or 'a person'} ended the restore at #{event.restore}", without)
        case EndpointsCollected() | EndpointsReleased():
            return endpoint_words(event, before)
        case MemberRequested():
            asked = f"{event.user}: {event.method} {event.path} in {event.cluster}"
            missed = f"{event.missed} before it are not on record" if event.missed else ""
            return _joined(asked, str(event.status) if event.status else "no answer", _short(event.problem), missed)
        case KeyParked():
            return _joined(f"{event.service} set {event.key} aside", _short(event.reason))
        case _:
            assert_never(event)


def _template(event: TemplateChanged | TemplateDeleted, before: Known | None) -> str:
    if isinstance(event, TemplateDeleted):
        return event.reason or "gone"
    if not isinstance(before, TemplateChanged):
        return _joined(f"{event.kind} taken up", f"generation {event.generation}" if event.generation else "")
    if before.uid != event.uid:
        return f"{event.kind} replaced by another of the same name"
    news = []
    if before.generation != event.generation:
        news.append(f"generation {before.generation} -> {event.generation}")
    if before.labels != event.labels:
        news.append("labels")
    if before.annotations != event.annotations:
        news.append("annotations")
    if not news and before.digest != event.digest:
        news.append("content")
    fields = ""
    if isinstance(event.manifest, Raw) and isinstance(before.manifest, Raw):
        fields = changed_fields(bytes(before.manifest), bytes(event.manifest))
    return f"changed: {', '.join(news)}{f': {fields}' if fields else ''}" if news else "unchanged"


class _Spec(Struct, rename="camel"):
    """Parts of a binding's spec that are worth a word; raw, because only their change matters."""

    placement: msgspec.Raw = msgspec.Raw(b"null")
    suspension: msgspec.Raw = msgspec.Raw(b"null")


_spec: Final = msgspec.json.Decoder(_Spec).decode


def _eviction(event: EvictionEvent) -> str:
    said = [f"left {', '.join(event.left)}"] if event.left else []
    if event.returned:
        said.append(f"stays in {', '.join(target.name for target in event.returned)}")
    if isinstance(event, EvictionRequested):
        said += [
            _joined(f"leave {task.from_cluster}: {task.reason}", task.purge_mode, _short(task.message))
            for task in event.tasks
        ]
        said += [f"leave {one.cluster} later: {_short(one.reason)}" for one in event.postponed]
    return "; ".join(said)


def _binding(event: BindingRequested | BindingReleased, before: Known | None) -> str:
    if isinstance(event, BindingReleased):
        return event.reason or "nothing asks for it any more"
    asked = "a copy in every cluster" if event.everywhere else f"{event.replicas} replicas" if event.workload else ""
    if event.attached:
        asked = "follows what requires it"
    policy = f"policy {event.policy.key}" if event.policy is not None else ""
    if event.reason and policy:
        policy = f"{policy} ({event.reason})"
    if not isinstance(before, BindingRequested) or before.uid != event.uid:
        return _joined(asked or "asked for", policy, *_required((), event.requires), *_disagreed((), event))
    news = [*_required(before.requires, event.requires), *_disagreed(before.contradictions, event)]
    if event.attached != before.attached:
        news.append("follows what requires it" if event.attached else "no longer only a dependency")
    elif event.attached and _wishes(before.spec) and not _wishes(event.spec):
        news.append("nothing requires it any more")
    if before.replicas != event.replicas:
        news.append(f"replicas {before.replicas} -> {event.replicas}")
    if before.policy != event.policy:
        news.append(event.reason or policy or "no policy any more")
    elif event.reason:
        news.append(event.reason)
    if event.reschedule is not None and event.reschedule != before.reschedule:
        news.append(f"fresh schedule asked for by WorkloadRebalancer {', '.join(event.reschedule.by)}")
    if before.spec != event.spec:
        old, new = _spec(before.spec), _spec(event.spec)
        if bytes(old.placement) != bytes(new.placement):
            news.append("placement")
        if bytes(old.suspension) != bytes(new.suspension):
            news.append("suspension")
        if event.attached and not news:
            news.append("conflict resolution or preservation that owners ask for")
    return f"changed: {', '.join(news) or 'spec'}; generation {event.generation}"


def _required(before: Sequence[ObjectKey], now: Sequence[ObjectKey]) -> list[str]:
    came, gone = [key for key in now if key not in before], [key for key in before if key not in now]
    words = (("requires", came), ("no longer requires", gone))
    return [f"{word} {_several(str(key) for key in keys)}" for word, keys in words if keys]


def _disagreed(before: Sequence[str], event: BindingRequested) -> list[str]:
    if event.contradictions == before:
        return []
    return [f"owners disagree on {', '.join(event.contradictions)}" if event.contradictions else "owners agree"]


def _wishes(spec: msgspec.Raw) -> bool:
    return b'"preserveResourcesOnDeletion"' in bytes(spec)


def _several(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - _LISTED} more" if len(listed) > _LISTED else ""
    return f"{', '.join(listed[:_LISTED])}{more}"


def _placement(event: PlacementDecided | PlacementFailed | PlacementReleased, before: Known | None) -> str:
    if isinstance(event, PlacementReleased):
        return "placed nowhere any more"
    where = _targets(event.clusters)
    if isinstance(event, PlacementFailed):
        kept = f"stays on {where}" if event.clusters else ""
        return _joined(f"{event.reason}: {_short(event.message)}", kept, capacity_summary(event))
    lost = []
    if isinstance(before, PlacementDecided | PlacementFailed) and before.uid == event.uid:
        now = {target.name for target in event.clusters}
        lost = [target.name for target in before.clusters if target.name not in now]
    return _joined(
        where or "no cluster",
        f"leaves {', '.join(lost)}" if lost else "",
        f"affinity {event.affinity_name}" if event.affinity_name else "",
        event.trigger if event.prev or not event.trigger else "for the first time",
        capacity_summary(event),
    )


def _targets(targets: Iterable[TargetCluster]) -> str:
    return " ".join(
        target.name if target.replicas is None else f"{target.name}={target.replicas}" for target in targets
    )


def _work(event: WorkRendered | WorkWithdrawn, before: Known | None) -> str:
    if isinstance(event, WorkWithdrawn):
        return _joined(f"{event.cluster} lets go", event.reason, "its copy stays" if event.keep else "")
    overrides = [item.policy for item in (*event.cluster_overrides, *event.overrides)]
    same = isinstance(before, WorkRendered) and before.uid == event.uid and before.digest == event.digest
    return _joined(
        f"{event.cluster}: {'the same manifest' if same else f'manifest {event.digest[:12]}'}",
        f"overrides {', '.join(dict.fromkeys(overrides))}" if overrides else "",
        "dispatching suspended" if event.suspended else "",
        f"could not be rendered: {_short(event.problem)}" if event.problem else "",
    )


def _observed(event: WorkObserved, before: Known | None) -> str:
    if event.absent:
        return _joined(f"{event.cluster} holds no copy", _short(event.message))
    if not event.applied:
        if event.reason == "Terminating":
            return f"{event.cluster} is deleting it: {_short(event.message)}"
        return f"{event.cluster} refused: {_short(event.message or event.reason)}"
    if event.drift:
        return _joined(
            f"{event.cluster}: {_short(drift_words(event.drift))}", "" if event.health == "Unknown" else event.health
        )
    known = isinstance(before, WorkObserved) and before.uid == event.uid and before.applied
    health = "" if event.health == "Unknown" else event.health
    if known and isinstance(before, WorkObserved) and before.work_seq == event.work_seq:
        return _joined(f"{event.cluster} reports", health or "its status")
    return _joined(f"{event.cluster} holds it", event.operation, health)


def _rollup(event: StatusRolledUp) -> str:
    if event.closed:
        return "every copy is gone"
    applied = sum(item.applied for item in event.items)
    healthy = sum(item.health == "Healthy" for item in event.items)
    failing = [f"{item.cluster}: {_short(item.message)}" for item in event.items if item.message]
    counted = f"{applied}/{len(event.items)} applied, {healthy} healthy"
    return _joined(counted, "complete" if event.fully_applied else "", "; ".join(failing))


def _joined(*parts: str) -> str:
    return ", ".join(part for part in parts if part)


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def capacity_summary(event: PlacementDecided | PlacementFailed) -> str:
    """The estimates that a placement used; empty where it asked for none."""
    if event.estimate_missed:
        return "room by summaries alone, no estimate came in time"
    groups: dict[tuple[str, str], list[ClusterEstimate]] = {}
    for item in event.estimates:
        groups.setdefault((item.source, _age(item, event.provenance.decided_at)), []).append(item)
    said = [" ".join([_counts(items), *_source_and_age(*about)]) for about, items in groups.items()]
    return f"room {'; '.join(said)}" if said else ""


def _source_and_age(source: str, age: str) -> list[str]:
    """Source and age of an estimate, as far as known."""
    origin = {"nodes": "on nodes", "agent": "by the agent"}.get(source, source)
    return [part for part in (origin, age) if part]


def _counts(items: Sequence[ClusterEstimate]) -> str:
    return " ".join(
        f"{item.cluster}={item.replicas}" + (f" ({item.reserved} given away since)" if item.reserved else "")
        for item in items
    )


def _age(item: ClusterEstimate, decided: float) -> str:
    if not item.at or not decided:
        return ""
    seconds = max(0.0, decided - item.at)
    return f"{seconds * 1000:.0f} ms before" if seconds < 1 else f"{seconds:.1f} s before"
