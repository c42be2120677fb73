"""Builds the Kubernetes Event about a template status that cannot be aggregated (docs/sources.md#status)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from schemas.events.rollup import ClusterStatusItem
from schemas.events.template import TemplateChanged
from services._rules.interpreter import InterpretError, InterpretLater, Operation
from services._rules.kubernetes.event_objects import Note

REASON: Final = "AggregateStatusFailed"
COMPONENT: Final = "resource-binding-status-controller"
NOT_COUNTED_WORDS: Final = "The reports of some clusters do not count, and the others are summed without them"
_LONGEST: Final = 1024
_MOST_NAMED: Final = 5


def unsummed(template: TemplateChanged, problem: InterpretError) -> Note:
    """The Event about an interpreter that gave no status."""
    said = str(problem).rstrip(".")
    kind = f"{template.api_version} {template.kind}"
    after = (
        f"what interprets {kind} is asked again after a pause"
        if isinstance(problem, InterpretLater)
        else f"correct what interprets {kind}; it is asked again then, and when members report again"
    )
    rest = f". The status stays as it was; {after}"
    message = f"{Operation.AGGREGATE}: {said[: _LONGEST - len(rest) - len(Operation.AGGREGATE) - 2]}{rest}"
    return _warning(template, message)


def uncounted_words(items: Sequence[ClusterStatusItem]) -> str:
    """The message of the Event about reports that do not count; the same as long as the same fields are wrong."""
    named = [f"cluster {item.cluster}: {_steady(item.problem)}" for item in items[:_MOST_NAMED]]
    if len(items) > _MOST_NAMED:
        named.append(f"and {len(items) - _MOST_NAMED} more clusters")
    return f"{NOT_COUNTED_WORDS}; {'; '.join(named)}"[:_LONGEST]


def _steady(problem: str) -> str:
    """A reason without the value that was reported: a member that reports another one each time adds nothing new."""
    field, colon, why = problem.partition(": ")
    _, comma, expected = why.partition(", ")
    return f"{field}: {expected}" if colon and comma and why.startswith("is ") else problem


def left_out(template: TemplateChanged, reasons: Mapping[str, str]) -> Note:
    """The Event about clusters whose reports keep a status from being summed; the reasons by cluster."""
    named = [f"cluster {cluster}: {why}" for cluster, why in list(reasons.items())[:_MOST_NAMED]]
    if len(reasons) > _MOST_NAMED:
        named.append(f"and {len(reasons) - _MOST_NAMED} more clusters")
    return _warning(template, f"{NOT_COUNTED_WORDS}; {'; '.join(named)}"[:_LONGEST])


def refused(template: TemplateChanged, problem: Exception) -> Note:
    """The Event about a status that the control plane does not take."""
    return _warning(template, f"The control plane refuses the summed status: {problem}"[:_LONGEST])


def _warning(template: TemplateChanged, message: str) -> Note:
    key = template.key
    return Note(key, template.uid, template.api_version, template.kind, REASON, message, COMPONENT, warning=True)
