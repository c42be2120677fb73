"""Builds the timeline of one object from its facts: in order, with causes, and one line each for people.

The same function serves the gateway's history and the command line. It never shows manifests: a Secret stays one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from schemas.codec import DecodeError, Known, decode
from schemas.envelope import Provenance
from schemas.events.endpoints import EndpointsCollected, EndpointsReleased
from schemas.events.observed import WorkObserved
from schemas.keys import ObjectKey, PolicyKey
from schemas.subjects import SubjectError, autoscaling, cluster, cluster_of, facet, key_tokens, policy, split
from schemas.topology import FACTS, OBSERVED
from services._rules.constants import (
    AUTOSCALERS,
    AUTOSCALING_GROUP,
    MULTI_CLUSTER_SERVICE,
    MULTI_CLUSTER_SERVICES,
    NETWORKING_GROUP,
)
from services._rules.history.event_words import summarize

UNREADABLE: Final = "Unreadable"

# First steps of a timeline: facts that follow from something outside of the log.
_ORIGINS: Final = {
    "endpoints": "because of what the cluster reported, or of the cluster itself",
    "autoscaling": "because of what a round read, or because a rule was due",
    "template": "because the object changed in the control plane",
    "binding": "because the object or its policy changed in the control plane",
    "policy": "because the policy changed in the control plane",
    "cluster": "because the Cluster object changed or a probe saw something new",
    "observed": "because the object changed in the member",
}


_POLICIES: Final = {
    ("policy.karmada.io", "propagationpolicies"): "PropagationPolicy",
    ("policy.karmada.io", "clusterpropagationpolicies"): "ClusterPropagationPolicy",
    ("policy.karmada.io", "overridepolicies"): "OverridePolicy",
    ("policy.karmada.io", "clusteroverridepolicies"): "ClusterOverridePolicy",
    ("policy.karmada.io", "federatedresourcequotas"): "FederatedResourceQuota",
    ("apps.karmada.io", "workloadrebalancers"): "WorkloadRebalancer",
    (NETWORKING_GROUP, MULTI_CLUSTER_SERVICES): MULTI_CLUSTER_SERVICE,
}
"""Kinds that have facts of their own, by group and resource."""


class Fact(Struct, frozen=True, gc=False):
    """One stored message: its stream, its position there, when it was stored (seconds since 1970), and its bytes."""

    seq: int
    time: float
    subject: str
    data: bytes
    stream: str = FACTS.name


class Cause(Struct, frozen=True, rename="camel"):
    """A fact that made another one necessary; `event` and `subject` are empty where it is not at hand any more."""

    position: int
    event: str = ""
    subject: str = ""
    stream: str = FACTS.name
    after_ms: float | None = None
    """Milliseconds from the cause to its effect."""


class Entry(Struct, frozen=True, rename="camel"):
    """One step of the timeline. `time` is in seconds since 1970, `offset_ms` counts from the first step.

    `as_of` is the log position that the deciding service had seen, `decided_at` the time it was given.
    """

    subject: str
    position: int
    time: float
    offset_ms: float
    event: str
    summary: str
    stream: str = FACTS.name
    cluster: str = ""
    causes: tuple[Cause, ...] = ()
    as_of: int = 0
    decided_at: float = 0.0


def subjects_of(key: ObjectKey) -> dict[str, tuple[str, ...]]:
    """Subjects (with wildcards) that speak of one object, by stream."""
    sharded = ("template", "binding", "estimate", "placement", "eviction", "descheduling", "rollup")
    tokens = key_tokens(key)
    return {
        FACTS.name: (*_of_its_kind(key), *(facet(aggregate, key) for aggregate in sharded), f"work.*.{tokens}"),
        OBSERVED.name: (f"observed.*.{tokens}",),
    }


def _of_its_kind(key: ObjectKey) -> tuple[str, ...]:
    """The subject of a policy, an autoscaler or a Cluster itself; none for other kinds."""
    if (key.group, key.resource) == ("cluster.karmada.io", "clusters"):
        return (cluster(key.name),)
    if key.group == AUTOSCALING_GROUP and (scaler := AUTOSCALERS.get(key.resource)) is not None:
        return (autoscaling(PolicyKey(scaler, key.namespace, key.name)),)
    kind = _POLICIES.get((key.group, key.resource))
    return (policy(PolicyKey(kind, key.namespace, key.name)),) if kind is not None else ()


def object_of(key: PolicyKey) -> ObjectKey | None:
    """The object of the control plane whose facts stand under the key of a policy; None for other kinds."""
    for (group, resource), kind in _POLICIES.items():
        if kind == key.kind:
            return ObjectKey(group=group, resource=resource, namespace=key.namespace, name=key.name)
    return None


def is_endpoint_of(fact: Fact, service: str) -> bool:
    """Whether a fact is about endpoints that a cluster exports of a Service; one that cannot be read is not."""
    event = _read(fact).event
    return isinstance(event, EndpointsCollected | EndpointsReleased) and event.service == service


class _Read(Struct, frozen=True):
    fact: Fact
    name: str
    event: Known | None
    trouble: str = ""


def timeline(facts: Iterable[Fact], others: Iterable[Fact] = ()) -> list[Entry]:
    """The steps of the given facts in the order in which they were stored.

    `others` are facts of other objects that may be causes (see `foreign_causes`). Facts that this version cannot read
    are steps too, with the reason. A fact given twice counts once.
    """
    unique = {(fact.stream, fact.seq): fact for fact in facts}
    steps = sorted((_read(fact) for fact in unique.values()), key=_order)
    known = {(step.fact.stream, step.fact.seq): step for step in (*map(_read, others), *steps)}
    began = steps[0].fact.time if steps else 0.0
    latest: dict[str, Known] = {}
    entries: list[Entry] = []
    for step in steps:
        entries.append(_entry(step, latest.get(step.fact.subject), known, began))
        if step.event is not None:
            latest[step.fact.subject] = step.event
    return entries


def foreign_causes(entries: Sequence[Entry]) -> list[int]:
    """Positions in FACTS of causes that are facts of other objects, in order."""
    causes = (cause for entry in entries for cause in entry.causes)
    return sorted({cause.position for cause in causes if not cause.event and cause.stream == FACTS.name})


def line(entry: Entry) -> str:
    """One step on one line, for people."""
    parts = [offset(entry.offset_ms), entry.subject, f"#{entry.position}", entry.event, entry.summary, because(entry)]
    return "  ".join(part for part in parts if part)


def because(entry: Entry) -> str:
    """The causes of a step in words: other facts by position, or what outside of the log started it."""
    if entry.causes:
        return "because " + ", ".join(_named(cause) for cause in entry.causes)
    return _ORIGINS.get(entry.subject.partition(".")[0], "")


def _named(cause: Cause) -> str:
    """A cause as people read it; observations are counted in their own stream."""
    stream = "" if cause.stream == FACTS.name else f"{cause.stream} "
    return f"{stream}#{cause.position} {cause.event}".rstrip()


def offset(milliseconds: float) -> str:
    """A distance in time in the unit that fits: `+12 ms`, `+3.4 s`, `+5 min`, `+2 h`, `+3 d`."""
    if milliseconds < 1000:
        return f"+{milliseconds:.0f} ms"
    seconds = milliseconds / 1000
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"+{seconds / size:.0f} {unit}"
    return f"+{seconds:.1f} s"


def _read(fact: Fact) -> _Read:
    try:
        event = decode(fact.subject, fact.data)
    except DecodeError as error:
        return _Read(fact, error.unknown_tag or UNREADABLE, None, str(error))
    return _Read(fact, type(event).__name__, event)


def _order(step: _Read) -> tuple[float, str, int]:
    return step.fact.time, step.fact.stream, step.fact.seq


def _entry(step: _Read, before: Known | None, known: Mapping[tuple[str, int], _Read], began: float) -> Entry:
    fact, event = step.fact, step.event
    provenance = event.provenance if event is not None else Provenance()
    return Entry(
        subject=fact.subject,
        position=fact.seq,
        time=fact.time,
        offset_ms=round((fact.time - began) * 1000, 3),
        event=step.name,
        summary=summarize(event, before) if event is not None else step.trouble,
        stream=fact.stream,
        cluster=_cluster(fact.subject),
        causes=_causes(fact, event, provenance, known),
        as_of=provenance.as_of,
        decided_at=provenance.decided_at,
    )


def _causes(
    fact: Fact, event: Known | None, provenance: Provenance, known: Mapping[tuple[str, int], _Read]
) -> tuple[Cause, ...]:
    if isinstance(event, WorkObserved):
        # A report that follows a write names the work it acted upon; any other follows a change in the member.
        if not event.work_seq or event.drift or not (event.operation or event.absent or not event.applied):
            return ()
        return (_cause(fact, event.work_seq, FACTS.name, known),)
    facts = (_cause(fact, seq, FACTS.name, known) for seq in provenance.causes)
    return (*facts, *(_cause(fact, seq, OBSERVED.name, known) for seq in provenance.observed))


def _cluster(subject: str) -> str:
    """Cluster that a fact speaks of; empty where it speaks of none, or its subject is malformed."""
    if split(subject)[0] not in ("work", "observed", "endpoints"):
        return ""
    try:
        return cluster_of(subject)
    except SubjectError:
        return ""


def _cause(fact: Fact, seq: int, stream: str, known: Mapping[tuple[str, int], _Read]) -> Cause:
    """A cause as a link; one that is not at hand any more is a position alone."""
    step = known.get((stream, seq))
    if step is None or step.fact.time > fact.time:
        return Cause(seq, stream=stream)
    after = round((fact.time - step.fact.time) * 1000, 3)
    return Cause(seq, step.name, step.fact.subject, stream, after)


__all__ = [
    "Cause",
    "Entry",
    "Fact",
    "because",
    "foreign_causes",
    "line",
    "object_of",
    "offset",
    "subjects_of",
    "timeline",
]
