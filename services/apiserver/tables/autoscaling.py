"""The table row of a HorizontalPodAutoscaler: present and wanted values of its metrics, in every API version."""

import datetime as dt
from typing import Final

from schemas.manifest import Manifest
from services.apiserver.tables.human import NONE, UNKNOWN, UNSET, age
from services.apiserver.tables.printer import Cells, name_of, part

_MOST: Final = 2
_BY_SOURCE: Final = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}


def autoscaler(obj: Manifest, now: dt.datetime) -> Cells:
    """Return the cells of one autoscaler."""
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
        age(obj["metadata"].get("creationTimestamp"), now),
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
