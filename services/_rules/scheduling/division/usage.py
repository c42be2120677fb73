"""Resource usage of a binding, and whether its size or a request triggers rescheduling (docs/sources.md#scheduling)."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from services._rules.kubernetes import quantity
from services._rules.kubernetes.pod_resources import add_to
from services._rules.kubernetes.quantity import Quantity


def resource_usage(spec: Mapping[str, Any]) -> dict[str, Quantity]:
    """Resources that a binding spec occupies on all its clusters together; nothing-amounts are left out.

    A workload of several components occupies one full set per cluster. Raises quantity.QuantityError.
    """
    clusters: Sequence[Mapping[str, Any]] = spec.get("clusters") or ()
    components: Sequence[Mapping[str, Any]] = spec.get("components") or ()
    total: dict[str, Quantity] = {}
    if components:
        for component in components:
            factor = int(component.get("replicas") or 0) * len(clusters)
            _add_requests(total, component.get("replicaRequirements"), factor)
    else:
        _add_requests(total, spec.get("replicaRequirements"), sum(int(item.get("replicas") or 0) for item in clusters))
    return {name: amount for name, amount in total.items() if not amount.is_zero()}


def _add_requests(total: dict[str, Quantity], requirements: Mapping[str, Any] | None, factor: int) -> None:
    if factor == 0 or not requirements:
        return
    requests = requirements.get("resourceRequest") or {}
    add_to(total, {name: quantity.parse(text) * factor for name, text in requests.items()})


def replicas_changed(
    replicas: int,
    scheduling_type: str | None,
    clusters: Sequence[int],
    components: bool = False,
    several_templates: bool = False,
) -> bool:
    """Whether the replicas on the target clusters no longer add up to what the workload asks for.

    `scheduling_type` is None without replicaScheduling; `clusters` are the replicas per target; `several_templates` is
    the gate MultiplePodTemplatesScheduling.
    """
    if scheduling_type is None:
        return False
    if several_templates and components and not clusters:
        return True
    if scheduling_type == "Duplicated":
        return any(count != replicas for count in clusters)
    return scheduling_type == "Divided" and sum(clusters) != replicas


def reschedule_requested(triggered_at: str | datetime | None, last_scheduled: str | datetime | None) -> bool:
    """Whether a reschedule was asked for after the last success; raises ValueError for a text that is no time."""
    if not triggered_at or not last_scheduled:
        return False
    return moment(triggered_at) > moment(last_scheduled)


def moment(text: str | datetime) -> datetime:
    """Instant of an RFC 3339 text; raises ValueError naming the text."""
    if isinstance(text, datetime):
        return text
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is not a time: write it like 2026-01-02T15:04:05Z") from error
