"""Writes what a FederatedHPA would recommend, and how that would be divided, as a document and for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from schemas.events.autoscaling import MetricReading
from services._rules.autoscaling.metric_specs import MetricSpec
from services._rules.kubernetes.quantity import from_milli
from services.cli.common.printing import table
from services.cli.queries.explain_scaling import metric_name, metric_target
from services.cli.queries.supposed_metrics import Recommendation


class ScaledShares(Struct, frozen=True):
    """A recommendation, replicas by cluster now and then; `problem` says why the new ones find no place."""

    found: Recommendation
    clusters: Mapping[str, tuple[int, int]]
    problem: str


def scaling_document(item: ScaledShares) -> dict[str, Any]:
    """A recommendation with its shares as a document."""
    found = item.found
    fact, (least, most) = found.fact, found.limits
    return {
        "name": fact.key.name,
        "namespace": fact.key.namespace,
        "target": msgspec.to_builtins(found.target),
        "currentReplicas": fact.current,
        "recommendedReplicas": fact.recommended,
        "desiredReplicas": fact.desired,
        "minReplicas": least,
        "maxReplicas": most,
        "metric": fact.metric,
        "reason": fact.reason,
        "metrics": [
            {
                "type": spec.kind,
                "name": spec.name,
                "container": spec.container,
                "supposed": supposed,
                "value": _value(spec, reading),
                "reading": msgspec.to_builtins(reading),
            }
            for spec, reading, supposed in _metrics(found)
        ],
        "conditions": [
            {"type": each.type, "status": each.status, "reason": each.reason, "message": each.message}
            for each in fact.conditions
        ],
        "clusters": {name: {"before": before, "after": after} for name, (before, after) in item.clusters.items()},
        "placementProblem": item.problem,
        "recordedAt": found.seen,
    }


def scaling_text(item: ScaledShares) -> str:
    """A recommendation with its shares for people: replicas, metrics, conditions, and a table of clusters."""
    found = item.found
    fact, (least, most) = found.fact, found.limits
    size = f"{fact.current} -> {fact.desired} replicas" if found.replicas is not None else f"{fact.current} replicas"
    asked = "metrics decide nothing" if fact.recommended is None else f"metrics ask for {fact.recommended}"
    lines = [
        f"{fact.key}: {size} of {found.target} ({asked}; at least {least}, at most {most})"
        + (f"; {fact.reason}" if fact.reason else "")
    ]
    for spec, reading, supposed in _metrics(found):
        source = "supposed" if supposed else f"as recorded at #{found.seen}"
        lines.append(f"  {metric_name(spec)}: {_value(spec, reading)} ({source}); target {metric_target(spec)}")
    lines += [f"  {each.type}={each.status} {each.reason}: {each.message}" for each in fact.conditions]
    if item.problem:
        lines.append(f"  the scheduler finds no place for them: {item.problem}")
    rows = [(name, before, after, f"{after - before:+d}") for name, (before, after) in item.clusters.items()]
    shown = table(("cluster", "now", "then", "difference"), rows) if rows else "it runs in no cluster\n"
    return "\n".join(lines) + "\n" + shown


def _metrics(found: Recommendation) -> Iterator[tuple[MetricSpec, MetricReading, bool]]:
    """Its metrics, what is read of each, and whether that was supposed."""
    return zip(found.specs, found.fact.readings, found.supposed, strict=True)


def _value(spec: MetricSpec, reading: MetricReading) -> str:
    """The value of a metric for people: a share, an average of pods, or a value."""
    pods = reading.pods
    if pods is None:
        return reading.problem or str(from_milli(reading.value or 0))
    if spec.utilization is not None and spec.average is None:
        return f"{pods.usage * 100 // pods.requested}%" if pods.requested else "no pod with a request"
    return f"{from_milli(pods.usage // pods.sampled)} a pod" if pods.sampled else "no pod with a sample"
