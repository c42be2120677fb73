"""Whether the size of a binding or a request triggers rescheduling (docs/sources.md#scheduling)."""

from collections.abc import Sequence
from datetime import datetime


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
