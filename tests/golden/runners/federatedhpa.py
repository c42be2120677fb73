"""Replays the recorded decisions of autoscalers and the schedules of their limits."""

from collections.abc import Callable
from typing import Any

import msgspec

from schemas.events.autoscaling import MetricReading, PodReading
from services._rules.admission.later.cron_federated_hpa import is_valid_schedule
from services._rules.autoscaling import metric_proposals as proposals
from services._rules.autoscaling.cron_rules import limits_of, rule_settings
from services._rules.autoscaling.cron_schedule import CronError, parse_schedule
from services._rules.autoscaling.evaluation import evaluate
from services._rules.autoscaling.metric_specs import MetricSpec, metric_spec
from services._rules.autoscaling.pod_readings import MetricError, PodView, Sample, Startup, pod_view, read_pods
from services._rules.autoscaling.scaling_limits import (
    Ask,
    Timed,
    allow,
    longest_window,
    read_behavior,
    remember,
    scaled,
)
from services._rules.autoscaling.timestamps import moment, seconds

Case = dict[str, Any]
_NOW = 1_000_000.0


def _now(args: Case) -> float:
    found = seconds(args["env"]["now"])
    assert found is not None
    return found


def _pods(args: Case) -> list[PodView]:
    return [pod_view(pod) for pod in args["pods"] or ()]


def _startup(args: Case) -> Startup:
    env = args["env"]
    return Startup(env["cpuInitializationPeriodSeconds"], env["initialReadinessDelaySeconds"])


def _samples(args: Case) -> dict[str, Sample]:
    if args["metrics"] is None:
        raise MetricError("metrics not available")
    now = _now(args)
    return {
        name: Sample(item["value"], now - item["secondsAgo"], item["windowSeconds"])
        for name, item in args["metrics"].items()
    }


def _reading(args: Case, **of: Any) -> PodReading:
    return read_pods(_pods(args), _samples(args), _now(args), _startup(args), **of)


def _scope(args: Case, calibration: float | None = None) -> proposals.Scope:
    tolerance = args["env"]["tolerance"]
    share = args["calibration"] if calibration is None else calibration
    current = args.get("currentReplicas", args.get("templateReplicas", 0))
    return proposals.Scope(current, share, tolerance, tolerance)


def _resource(args: Case) -> Case:
    target = args["targetUtilization"]
    reading = _reading(args, resource=args["resource"], container=args["container"], utilization=target)
    found = proposals.by_utilization(reading, target, _scope(args))
    return {"replicas": found.replicas, "utilization": found.utilization, "rawUtilization": found.average}


def _raw_resource(args: Case) -> Case:
    reading = _reading(args, resource=args["resource"], container=args["container"])
    found = proposals.by_average(reading, args["targetUsage"], _scope(args))
    return {"replicas": found.replicas, "usage": found.average}


def _pod_metric(args: Case) -> Case:
    found = proposals.by_average(_reading(args), args["targetUsage"], _scope(args))
    return {"replicas": found.replicas, "usage": found.average}


def _value(args: Case) -> int:
    if args["metricValue"] is None:
        raise MetricError("metric not available")
    return int(args["metricValue"])


def _serving(args: Case) -> int | None:
    pods = _pods(args)
    return sum(pod.serves for pod in pods) if pods else None


def _object_metric(args: Case) -> Case:
    found = proposals.by_value(_value(args), args["targetUsage"], _serving(args), _scope(args))
    return {"replicas": found.replicas, "usage": found.average}


def _object_per_pod(args: Case) -> Case:
    found = proposals.by_value_per_pod(_value(args), args["targetAverageUsage"], args["statusReplicas"], _scope(args))
    return {"replicas": found.replicas, "usage": found.average}


def _of_spec(args: Case, spec: MetricSpec) -> MetricReading:
    """What would have been read for a metric."""
    try:
        if spec.of_pods:
            resource = spec.name if spec.of_resource else ""
            utilization = spec.utilization if spec.average is None else None
            pods = _reading(args, resource=resource, container=spec.container, utilization=utilization)
            return MetricReading(pods=pods)
        if args["objectMetric"] is None:
            raise MetricError("metric not available")
    except MetricError as error:
        return MetricReading(problem=str(error))
    return MetricReading(value=args["objectMetric"], serving=_serving(args))


def _compute(args: Case) -> Case:
    specs = [metric_spec(metric) for metric in args["metricSpecs"]]
    scale = args["scale"]
    scope = _scope(args, scale["spec"]["replicas"] / args["templateReplicas"])
    found = evaluate(specs, [_of_spec(args, spec) for spec in specs], scope, scale["status"]["replicas"])
    condition = found.condition
    return {
        "replicas": -1 if found.replicas is None else found.replicas,
        "metric": found.metric,
        "statuses": list(found.statuses),
        "computeError": bool(found.problem),
        "conditions": [_told(msgspec.to_builtins(condition))],
    }


def _told(condition: Case) -> Case:
    """A condition, without the text of an error."""
    return {name: value for name, value in condition.items() if name != "message" or condition["status"] == "True"}


def _timed(items: list[Case] | None, field: str = "change") -> list[Timed]:
    return [Timed(item[field], _NOW - item["secondsAgo"]) for item in items or ()]


def _normalize(args: Case) -> Case:
    window = float(args["downscaleStabilizationSeconds"])
    behavior = args.get("behavior") and read_behavior(args["behavior"], window)
    ask = Ask(
        current=args["currentReplicas"],
        desired=args["desiredReplicas"],
        least=args["minReplicas"],
        most=args["maxReplicas"],
        now=_NOW,
        window=window,
        behavior=behavior,
        recommendations=_timed(args["recommendations"], "replicas"),
        ups=_timed(args.get("scaleUpEvents")),
        downs=_timed(args.get("scaleDownEvents")),
    )
    allowed = allow(ask)
    kept = remember(ask.recommendations, ask.desired, _NOW, longest_window(behavior, window))
    result: Case = {
        "replicas": allowed.replicas,
        "recommendationsAfter": [item.replicas for item in kept],
        "conditions": [
            {"type": item.type, "status": item.status, "reason": item.reason, "message": item.message}
            for item in allowed.conditions
        ],
    }
    if behavior:
        change = allowed.replicas - ask.current
        ups = scaled(ask.ups, change, _NOW, behavior.up) if change > 0 else ask.ups
        downs = scaled(ask.downs, -change, _NOW, behavior.down) if change < 0 else ask.downs
        result["scaleUpEventsAfter"] = [item.replicas for item in ups]
        result["scaleDownEventsAfter"] = [item.replicas for item in downs]
    return result


def _cron(args: Case) -> Case:
    now = seconds(args["now"])
    assert now is not None
    found: list[str | None] = []
    accepted = True
    try:
        schedule = parse_schedule(args["schedule"], args["timeZone"])
    except CronError:
        accepted = False
    else:
        at: float | None = now
        while len(found) < 3 and at is not None:
            at = schedule.after(at)
            found.append(None if at is None else moment(at))
    return {"accepted": accepted, "admitted": is_valid_schedule(args["schedule"]), "next": found}


def _settings(args: Case) -> Case:
    found = rule_settings(args["rule"])
    return {
        "suspended": found.suspended,
        "successfulHistoryLimit": found.successes,
        "failedHistoryLimit": found.failures,
    }


FUNCTIONS: dict[str, Callable[[Case], Case]] = {
    "GetResourceReplicas": _resource,
    "GetRawResourceReplicas": _raw_resource,
    "GetMetricReplicas": _pod_metric,
    "GetObjectMetricReplicas": _object_metric,
    "GetObjectPerPodMetricReplicas": _object_per_pod,
    "ComputeReplicasForMetrics": _compute,
    "NormalizeDesiredReplicas": _normalize,
    "NormalizeDesiredReplicasWithBehaviors": _normalize,
    "CronNext": _cron,
    "ScaleFederatedHPA": lambda args: limits_of(args["rule"], args["spec"]),
    "RuleSettings": _settings,
}


def _comparable(function: str, result: Case) -> Case:
    """A recorded result in the shape of ours: texts of errors are not compared."""
    result = dict(result)
    if function == "ComputeReplicasForMetrics":
        result["computeError"] = bool(result.get("computeError"))
        result["conditions"] = [_told(item) for item in result["conditions"]]
    for name in ("scaleUpEventsAfter", "scaleDownEventsAfter"):
        if name in result:
            result[name] = [item["change"] for item in result[name] or ()]
    return result


def _pruned(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: found for key, item in value.items() if (found := _pruned(item)) not in (None, {}, [])}
    if isinstance(value, list):
        return [_pruned(item) for item in value]
    return value


def check_federatedhpa(case: Case) -> bool | None:
    """Whether the case comes out as recorded."""
    try:
        found = FUNCTIONS[case["function"]](case["args"])
    except MetricError:
        return "error" in case
    if "error" in case:
        return False
    expected = _comparable(case["function"], case["result"])
    expected.setdefault("metric", "") if "metric" in found else None
    return bool(_pruned(found) == _pruned(expected))


FILES: dict[str, Callable[[Case], bool | None]] = {"federatedhpa": check_federatedhpa}
