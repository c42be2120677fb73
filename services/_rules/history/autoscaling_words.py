"""Says in one line what a fact about autoscaling tells."""

from __future__ import annotations

from typing import assert_never

from schemas.events.autoscaling import (
    AutoscalerReleased,
    AutoscalingEvent,
    MetricReading,
    ReplicasRecommended,
    RuleProgress,
    ScheduleAdvanced,
    ScheduleReleased,
)
from services._rules.autoscaling.timestamps import moment
from services._rules.kubernetes.quantity import from_milli

_NORMAL = frozenset({"SucceededGetScale", "SucceededRescale", "ReadyForNewScale", "ValidMetricFound"})


def autoscaling_words(event: AutoscalingEvent) -> str:
    """What was decided of an autoscaler, and by what; or which rules of a schedule ran."""
    match event:
        case ReplicasRecommended():
            return "; ".join(part for part in _decided(event) if part)
        case ScheduleAdvanced():
            return "; ".join(_rule(rule) for rule in event.rules) or "no rules"
        case AutoscalerReleased() | ScheduleReleased():
            return "gone"
        case _:
            assert_never(event)


def reading_words(reading: MetricReading) -> str:
    """What was read for one metric."""
    if reading.problem:
        return reading.problem
    if reading.pods is not None:
        pods = reading.pods
        counts = [f"{pods.ready} ready", f"{pods.unready} unready", f"{pods.missing} without a sample"]
        shown = ", ".join(each for each in counts if not each.startswith("0 "))
        used = f"{from_milli(pods.usage)} used" + (f" of {from_milli(pods.requested)}" if pods.requested else "")
        return f"{used} by {shown or 'no pod'}"
    return f"value {from_milli(reading.value or 0)}"


def _decided(event: ReplicasRecommended) -> list[str]:
    size = f"{event.current} replicas"
    if event.desired != event.current:
        size = f"{event.current} -> {event.desired} replicas"
    wanted = ""
    if event.recommended is not None and event.recommended != event.desired:
        wanted = f"metrics ask for {event.recommended}"
    shown = [item for item in event.conditions if item.reason not in _NORMAL and item.reason != "DesiredWithinRange"]
    words = [f"{item.reason}: {item.message}" for item in shown]
    written = {"": "", "asked": "", "done": "written"}.get(event.write, f"not written: {event.write}")
    return [size, event.reason, wanted, *(reading_words(each) for each in event.readings), *words, written]


def _rule(rule: RuleProgress) -> str:
    if rule.problem:
        return rule.problem
    if rule.running:
        return f"rule {rule.name} runs, due {moment(rule.last)}"
    last = max((*rule.successes[:1], *rule.failures[:1]), key=lambda run: run.executed, default=None)
    ran = ""
    if last is not None:
        values = (("replicas", last.replicas), ("minReplicas", last.least), ("maxReplicas", last.most))
        settings = ", ".join(f"{name} {value}" for name, value in values if value is not None)
        ran = f", ran {moment(last.executed)}: {last.problem or settings}"
    return f"rule {rule.name}{ran}{f', next {moment(rule.due)}' if rule.due is not None else ''}"
