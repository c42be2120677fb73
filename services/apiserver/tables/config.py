"""Table rows of configuration, access and policy kinds: config maps, secrets, events, roles, quotas, autoscalers."""

import datetime as dt
from typing import Final

from schemas.manifest import Manifest
from services.apiserver.tables.human import NONE, UNKNOWN, UNSET, age, created
from services.apiserver.tables.printer import Cell, Cells, name_of, part

_MOST: Final = 2
_BY_SOURCE: Final = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}


def _config_map(obj: Manifest, now: dt.datetime) -> Cells:
    return [name_of(obj), len(obj.get("data") or ()) + len(obj.get("binaryData") or ()), created(obj, now)]


def _secret(obj: Manifest, now: dt.datetime) -> Cells:
    return [name_of(obj), obj.get("type", ""), len(obj.get("data") or ()), created(obj, now)]


def _service_account(obj: Manifest, now: dt.datetime) -> Cells:
    return [name_of(obj), len(obj.get("secrets") or ()), created(obj, now)]


def _event(obj: Manifest, now: dt.datetime) -> Cells:
    """Both event APIs: core/v1 and events.k8s.io/v1 name the same things differently."""
    first = age(obj.get("firstTimestamp") or obj.get("deprecatedFirstTimestamp") or obj.get("eventTime"), now)
    last_time = obj.get("lastTimestamp") or obj.get("deprecatedLastTimestamp")
    last = age(last_time, now) if last_time else first
    count = obj.get("count") or obj.get("deprecatedCount") or 1
    series = obj.get("series")
    if series:
        last, count = age(series.get("lastObservedTime"), now), series.get("count") or 0
    target = obj.get("involvedObject") or obj.get("regarding") or {}
    kind, name = target.get("kind", "").lower(), target.get("name", "")
    source = obj.get("source") or obj.get("deprecatedSource") or {}
    reporter = source.get("component") or obj.get("reportingComponent") or obj.get("reportingController") or ""
    where = source.get("host") or obj.get("reportingInstance")
    return [
        last,
        obj.get("type", ""),
        obj.get("reason", ""),
        f"{kind}/{name}" if name else kind,
        target.get("fieldPath", ""),
        f"{reporter}, {where}" if where else reporter,
        (obj.get("message") or obj.get("note") or "").strip(),
        first,
        count,
        name_of(obj),
    ]


def _quota(obj: Manifest, now: dt.datetime) -> Cells:
    hard, used = part(obj, "status", "hard"), part(obj, "status", "used")
    requests: list[str] = []
    limits: list[str] = []
    for name in sorted(hard):
        where = limits if name.startswith("limits.") else requests
        where.append(f"{name}: {used.get(name, '0')}/{hard[name]}")
    return [name_of(obj), created(obj, now), ", ".join(requests), ", ".join(limits)]


def _binding(obj: Manifest, now: dt.datetime) -> Cells:
    role, subjects = part(obj, "roleRef"), obj.get("subjects") or ()

    def named(kind: str) -> str:
        return ", ".join(item.get("name", "") for item in subjects if item.get("kind") == kind)

    accounts = ", ".join(
        f"{item.get('namespace', '')}/{item.get('name', '')}"
        for item in subjects
        if item.get("kind") == "ServiceAccount"
    )
    return [
        name_of(obj),
        f"{role.get('kind', '')}/{role.get('name', '')}",
        created(obj, now),
        named("User"),
        named("Group"),
        accounts,
    ]


def _disruption_budget(obj: Manifest, now: dt.datetime) -> Cells:
    spec = part(obj, "spec")
    allowed = part(obj, "status").get("disruptionsAllowed") or 0
    least, most = (str(spec[name]) if name in spec else "N/A" for name in ("minAvailable", "maxUnavailable"))
    return [name_of(obj), least, most, allowed, created(obj, now)]


def _lease(obj: Manifest, now: dt.datetime) -> Cells:
    return [name_of(obj), part(obj, "spec").get("holderIdentity", ""), created(obj, now)]


def _flow_schema(obj: Manifest, now: dt.datetime) -> Cells:
    spec = part(obj, "spec")
    dangling = next(
        (item.get("status") for item in part(obj, "status").get("conditions") or () if item.get("type") == "Dangling"),
        "?",
    )
    return [
        name_of(obj),
        part(spec, "priorityLevelConfiguration").get("name", ""),
        spec.get("matchingPrecedence") or 0,
        part(spec, "distinguisherMethod").get("type") or "<none>",
        created(obj, now),
        dangling,
    ]


def _priority_level(obj: Manifest, now: dt.datetime) -> Cells:
    spec, limited = part(obj, "spec"), part(obj, "spec", "limited")
    queuing = part(limited, "limitResponse", "queuing")
    shares = limited.get("nominalConcurrencyShares", "<none>")
    queues = [queuing.get(name) or "<none>" for name in ("queues", "handSize", "queueLengthLimit")]
    return [name_of(obj), spec.get("type", ""), shares, *queues, created(obj, now)]


def _autoscaler(obj: Manifest, now: dt.datetime) -> Cells:
    spec, status = part(obj, "spec"), part(obj, "status")
    target = part(spec, "scaleTargetRef")
    least = spec.get("minReplicas")
    return [
        name_of(obj),
        f"{target.get('kind', '')}/{target.get('name', '')}",
        _metrics(spec, status),
        UNSET if least is None else str(least),
        spec.get("maxReplicas") or 0,
        status.get("currentReplicas") or 0,
        created(obj, now),
    ]


def _metrics(spec: Manifest, status: Manifest) -> str:
    wanted = spec.get("metrics")
    if wanted is None:
        percent = spec.get("targetCPUUtilizationPercentage")
        if percent is None:
            return NONE
        current = status.get("currentCPUUtilizationPercentage")
        return f"{UNKNOWN if current is None else f'{current}%'}/{percent}%"
    if not wanted:
        return NONE
    current_metrics = status.get("currentMetrics") or []
    texts = []
    for index, metric in enumerate(wanted[:_MOST]):
        current = current_metrics[index] if index < len(current_metrics) else {}
        texts.append(_metric(metric, current))
    more = f" + {len(wanted) - _MOST} more..." if len(wanted) > _MOST else ""
    return ", ".join(texts) + more


def _metric(metric: Manifest, current: Manifest) -> str:
    kind = metric.get("type", "")
    source = _BY_SOURCE.get(kind)
    if source is None:
        return "<unknown type>"
    wanted, have = part(metric, source), part(current, source)
    target, value = part(wanted, "target"), part(have, "current")
    average = target.get("averageValue") or wanted.get("targetAverageValue")
    if average is not None:
        shown = value.get("averageValue") or have.get("currentAverageValue") or UNKNOWN
        return f"{shown}/{average}{' (avg)' if kind in ('External', 'Object') else ''}"
    if kind in ("Resource", "ContainerResource"):
        percent = target.get("averageUtilization", wanted.get("targetAverageUtilization"))
        used = value.get("averageUtilization", have.get("currentAverageUtilization"))
        return f"{UNKNOWN if used is None else f'{used}%'}/{'<auto>' if percent is None else f'{percent}%'}"
    wanted_value = target.get("value") or wanted.get("targetValue") or ""
    return f"{value.get('value') or have.get('currentValue') or UNKNOWN}/{wanted_value}"


CONFIG: Final[dict[str, Cell]] = {
    "configmaps": _config_map,
    "secrets": _secret,
    "serviceaccounts": _service_account,
    "events": _event,
    "events.events.k8s.io": _event,
    "resourcequotas": _quota,
    "rolebindings.rbac.authorization.k8s.io": _binding,
    "clusterrolebindings.rbac.authorization.k8s.io": _binding,
    "horizontalpodautoscalers.autoscaling": _autoscaler,
    "poddisruptionbudgets.policy": _disruption_budget,
    "leases.coordination.k8s.io": _lease,
    "flowschemas.flowcontrol.apiserver.k8s.io": _flow_schema,
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io": _priority_level,
}
