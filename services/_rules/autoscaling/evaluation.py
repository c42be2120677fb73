"""Evaluates all metrics of an autoscaler: the most replicas that one asks for, its status and its condition.

Source: docs/sources.md#autoscaling.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from schemas.events.autoscaling import MetricReading
from schemas.manifest import Manifest
from services._rules.autoscaling.metric_proposals import (
    Proposal,
    Scope,
    by_average,
    by_external_per_pod,
    by_utilization,
    by_value,
    by_value_per_pod,
)
from services._rules.autoscaling.metric_specs import FIELDS, REASONS, MetricSpec
from services._rules.autoscaling.pod_readings import MetricError
from services._rules.autoscaling.scaling_conditions import SCALING_ACTIVE, Condition
from services._rules.kubernetes.quantity import from_milli


class Evaluation(Struct, frozen=True):
    """Replicas that the metrics ask for (None: nothing is certain enough), and which metric asked for them.

    `statuses` are as an API server shows current metrics, `problem` names the first metric that could not be evaluated.
    """

    replicas: int | None
    metric: str
    statuses: tuple[Manifest, ...]
    condition: Condition
    problem: str = ""
    failed: str = ""
    """Reason of the first metric that could not be evaluated."""


class _Failed(Exception):
    def __init__(self, reason: str, short: str, prefix: str = "") -> None:
        super().__init__(prefix + short)
        self.reason, self.short = reason, short


def evaluate(specs: Sequence[MetricSpec], readings: Sequence[MetricReading], scope: Scope, existing: int) -> Evaluation:
    """Evaluate every metric; `existing` are the replicas that clusters report in their status.

    Replicas never go down while a metric is unknown: any of them could have asked for more.
    """
    best, best_name = 0, ""
    first: _Failed | None = None
    statuses: list[Manifest] = []
    failures = 0
    for spec, reading in zip(specs, readings, strict=True):
        try:
            proposal, name, status = _one(spec, reading, scope, existing)
        except _Failed as failure:
            first, failures = first or failure, failures + 1
            statuses.append({"type": ""})
            continue
        statuses.append(status)
        if best == 0 or proposal.replicas > best:
            best, best_name = proposal.replicas, name
    problem = f"invalid metrics ({failures} invalid out of {len(specs)}), first error is: {first}" if first else ""
    reason = first.reason if first else ""
    if first is not None and (failures == len(specs) or best < scope.current):
        condition = Condition(
            SCALING_ACTIVE, "False", reason, f"the HPA was unable to compute the replica count: {first.short}"
        )
        return Evaluation(None, "", tuple(statuses), condition, problem, reason)
    message = f"the HPA was able to successfully calculate a replica count from {best_name}"
    return Evaluation(
        best,
        best_name,
        tuple(statuses),
        Condition(SCALING_ACTIVE, "True", "ValidMetricFound", message),
        problem,
        reason,
    )


def _one(spec: MetricSpec, reading: MetricReading, scope: Scope, existing: int) -> tuple[Proposal, str, Manifest]:
    if spec.problem:
        known = spec.kind in FIELDS and "unknown metric source" not in spec.problem
        raise _Failed(REASONS[spec.kind] if known else "InvalidMetricSourceType", spec.problem)
    try:
        if spec.of_pods:
            return _of_pods(spec, reading, scope)
        return _of_object(spec, reading, scope, existing)
    except MetricError as error:
        short, prefix = _words(spec, str(error))
        raise _Failed(REASONS[spec.kind], short, prefix) from None


def _of_pods(spec: MetricSpec, reading: MetricReading, scope: Scope) -> tuple[Proposal, str, Manifest]:
    if reading.pods is None:
        raise MetricError(reading.problem or "nothing was read")
    if spec.utilization is not None and spec.average is None:
        proposal = by_utilization(reading.pods, spec.utilization, scope)
    else:
        proposal = by_average(reading.pods, spec.average or 0, scope)
    current: dict[str, Any] = {"averageValue": str(from_milli(proposal.average))}
    if proposal.utilization is not None:
        current["averageUtilization"] = proposal.utilization
    if spec.kind == "Pods":
        return proposal, f"pods metric {spec.name}", _status(spec, {"metric": _metric(spec), "current": current})
    source: dict[str, Any] = {"name": spec.name, "current": current}
    if spec.kind == "ContainerResource":
        source["container"] = spec.container
    words = f"{spec.name} resource"
    if proposal.utilization is not None:
        words = f"{spec.name}{' container' if spec.container else ''} resource utilization (percentage of request)"
    return proposal, words, _status(spec, source)


def _of_object(spec: MetricSpec, reading: MetricReading, scope: Scope, existing: int) -> tuple[Proposal, str, Manifest]:
    if reading.value is None:
        raise MetricError(reading.problem or "nothing was read")
    _, kind, name = spec.object
    if spec.value is not None and spec.average is None:
        proposal = by_value(reading.value, spec.value, reading.serving, scope)
        current, words = {"value": str(from_milli(proposal.average))}, f"{kind} metric {spec.name}"
        described = {"kind": kind, "name": name}
    else:
        per_pod = by_value_per_pod if spec.kind == "Object" else by_external_per_pod
        proposal = per_pod(reading.value, spec.average or 0, existing, scope)
        current, words = {"averageValue": str(from_milli(proposal.average))}, f"external metric {spec.name}(nil)"
        described = {"kind": "", "name": ""}
    source: dict[str, Any] = {"metric": _metric(spec), "current": current}
    if spec.kind == "Object":
        return proposal, words, _status(spec, {**source, "describedObject": described})
    return proposal, f"external metric {spec.name}({spec.selector or 'nil'})", _status(spec, source)


def _metric(spec: MetricSpec) -> Manifest:
    return {"name": spec.name}


def _status(spec: MetricSpec, source: Manifest) -> Manifest:
    return {"type": spec.kind, FIELDS[spec.kind]: source}


def _words(spec: MetricSpec, error: str) -> tuple[str, str]:
    """An error for a condition, and what stands before it in the error of the whole evaluation."""
    unit = "utilization" if spec.utilization is not None and spec.average is None else "usage"
    match spec.kind:
        case "Resource":
            return f"failed to get {spec.name} {unit}: {error}", f"failed to get {spec.name} resource metric value: "
        case "ContainerResource":
            prefix = f"failed to get {spec.container} container metric value: "
            return f"failed to get {spec.name} {unit}: {error}", prefix
        case "Pods":
            return error, "failed to get pods metric value: "
        case "Object":
            inner = f"failed to get {spec.name} object metric: " if spec.value is None else ""
            return error, f"failed to get object metric value: {inner}"
        case _:
            return error, f"failed to get {spec.name} external metric value: "
