"""Words the status of FederatedHPAs and CronFederatedHPAs as API servers show it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from schemas.events.autoscaling import ReplicasRecommended, RuleProgress, RuleRun, ScheduleAdvanced
from schemas.manifest import Manifest
from services._rules.autoscaling.timestamps import moment


def hpa_status(event: ReplicasRecommended, metrics: Sequence[Manifest] | None) -> Manifest:
    """The status of a FederatedHPA; `metrics` are left as they are with None."""
    status: dict[str, Any] = {
        "observedGeneration": event.generation,
        "currentReplicas": event.current,
        "desiredReplicas": event.desired,
        "conditions": [
            {
                "type": item.type,
                "status": item.status,
                "reason": item.reason,
                "message": item.message,
                "lastTransitionTime": moment(item.since),
            }
            for item in event.conditions
        ],
    }
    if metrics is not None:
        status["currentMetrics"] = [metric for metric in metrics if metric.get("type")]
    if event.scaled_at:
        status["lastScaleTime"] = moment(event.scaled_at)
    return status


def cron_status(event: ScheduleAdvanced) -> Manifest:
    """The status of a CronFederatedHPA: one history for each rule that has a next run, or had one."""
    return {"executionHistories": [_history(rule) for rule in event.rules if _has_history(rule)]}


def _has_history(rule: RuleProgress) -> bool:
    return bool(rule.due is not None or rule.successes or rule.failures)


def _history(rule: RuleProgress) -> Manifest:
    found: dict[str, Any] = {"ruleName": rule.name}
    if rule.due is not None:
        found["nextExecutionTime"] = moment(rule.due)
    if rule.successes:
        found["successfulExecutions"] = [_success(run) for run in rule.successes]
    if rule.failures:
        found["failedExecutions"] = [{**_times(run), "message": run.problem} for run in rule.failures]
    return found


def _times(run: RuleRun) -> dict[str, Any]:
    return {"scheduleTime": moment(run.scheduled), "executionTime": moment(run.executed)}


def _success(run: RuleRun) -> Manifest:
    set_to = {
        "appliedReplicas": run.replicas,
        "appliedMinReplicas": run.least,
        "appliedMaxReplicas": run.most,
    }
    return {**_times(run), **{name: value for name, value in set_to.items() if value is not None}}
