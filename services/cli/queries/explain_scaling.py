"""Shows why a FederatedHPA has the replicas it has, or when rules of a CronFederatedHPA run, as the log has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from schemas.codec import DecodeError, decode
from schemas.events.autoscaling import AutoscalingEvent, ReplicasRecommended, ScheduleAdvanced
from schemas.keys import ObjectKey, PolicyKey
from schemas.subjects import autoscaling
from services._kit.log.fact_history import merged, stored_at
from services._kit.log.stream_port import Log
from services._rules.autoscaling.metric_specs import MetricSpec, metric_specs
from services._rules.autoscaling.timestamps import moment
from services._rules.constants import AUTOSCALERS, AUTOSCALING_GROUP
from services._rules.history.autoscaling_words import autoscaling_words, reading_words
from services._rules.kubernetes.quantity import from_milli
from services.autoscaler.decide import decided_again
from services.cli.common.moments import stamp
from services.cli.common.printing import table
from services.cli.common.running import Failed


class Decided(Struct, frozen=True):
    """The last fact about an autoscaler, with its position and time."""

    position: int
    stored: float
    event: AutoscalingEvent


def autoscaler_of(key: ObjectKey) -> PolicyKey | None:
    """The autoscaler that a key names, None for other objects."""
    kind = AUTOSCALERS.get(key.resource) if key.group == AUTOSCALING_GROUP else None
    return PolicyKey(kind, key.namespace, key.name) if kind is not None else None


async def decided_of(logs: Mapping[str, Log], key: PolicyKey, until: float | None = None) -> Decided:
    """What is in force of an autoscaler at a moment (None: now); raises Failed where nothing was decided."""
    last: Decided | None = None
    for position, message in sorted((await merged(logs, (autoscaling(key),))).items()):
        stored = stored_at(message)
        if until is not None and stored > until:
            continue
        try:
            event = decode(message.subject, message.data)
        except DecodeError as error:
            raise Failed(f"#{position}: {error}") from None
        assert isinstance(event, AutoscalingEvent)
        last = Decided(position, stored, event)
    if last is None:
        raise Failed(f"the log holds no decision about {key}: is the autoscaler running? `fleetlog status` shows it")
    return last


def document(found: Decided) -> dict[str, Any]:
    """The fact as a document."""
    fields: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(found.event))
    return {"kind": "ScalingExplanation", "apiVersion": "fleetlog/v1", "position": found.position, "fact": fields}


def text(key: PolicyKey, found: Decided) -> str:
    """The fact for people."""
    event = found.event
    head = f"{key}, as decided at {stamp(found.stored)} (#{found.position})\n"
    match event:
        case ReplicasRecommended():
            return head + _scaling(event)
        case ScheduleAdvanced():
            return head + "".join(f"  {line}\n" for line in autoscaling_words(event).split("; "))
        case _:
            return head + "  it is gone: nothing is scaled by it\n"


def _scaling(event: ReplicasRecommended) -> str:
    spec = msgspec.json.decode(event.spec)
    target = spec.get("scaleTargetRef") or {}
    size = f"{event.current} replicas"
    if event.current != event.desired:
        size = f"{event.current} -> {event.desired} replicas"
    lines = [
        f"  {target.get('kind')} {target.get('name')}: {size}"
        f" (at least {spec.get('minReplicas', 1)}, at most {spec.get('maxReplicas')})"
        + (f"; {event.reason}" if event.reason else "")
    ]
    if event.recommended is not None:
        lines.append(f"  metrics ask for {event.recommended}, by {event.metric}")
    for metric, reading in zip(metric_specs(spec), event.readings, strict=False):
        lines.append(f"  {metric_name(metric)}: {reading_words(reading)}; target {metric_target(metric)}")
    if len(event.recommendations) > 0:
        window = ", ".join(f"{item.replicas} until {moment(item.at)}" for item in event.recommendations[-5:])
        lines.append(f"  recommendations before it: {window}")
    lines += [f"  {item.type}={item.status} {item.reason}: {item.message}" for item in event.conditions]
    again = decided_again(event)
    if again != event.desired:
        lines.append(f"  this version would decide {again} replicas from the same inputs")
    rows = [
        (item.cluster, "-" if item.away else item.replicas, "-" if item.away else item.existing, item.away)
        for item in event.scales
    ]
    shown = table(("CLUSTER", "ASKED", "EXISTING", "WHY NOT KNOWN"), rows) if rows else ""
    return "\n".join(lines) + "\n" + shown


def metric_name(metric: MetricSpec) -> str:
    """Type, name and container of a metric."""
    return f"{metric.kind} {metric.name}{f' of container {metric.container}' if metric.container else ''}"


def metric_target(metric: MetricSpec) -> str:
    """What a metric is to be brought to."""
    if metric.average is not None:
        return f"{from_milli(metric.average)} a pod"
    if metric.utilization is not None:
        return f"{metric.utilization}% of requests"
    return str(from_milli(metric.value)) if metric.value is not None else "none"
