"""Says in a Kubernetes Event why a template does not show what its members report (reference 03 §4.6)."""

from __future__ import annotations

from typing import Final

from schemas.events.template import TemplateChanged
from services._rules.interpreter import AGGREGATE_STATUS, InterpretError, InterpretLater
from services._rules.kube_events import Note

REASON: Final = "AggregateStatusFailed"
_COMPONENT: Final = "resource-binding-status-controller"
_LONGEST: Final = 1024


def unsummed(template: TemplateChanged, problem: InterpretError) -> Note:
    """The Event about an interpreter that gave no status."""
    said = str(problem).rstrip(".")
    kind = f"{template.api_version} {template.kind}"
    after = (
        f"what interprets {kind} is asked again after a pause"
        if isinstance(problem, InterpretLater)
        else f"correct what interprets {kind}; it is asked again then, and when members report anew"
    )
    rest = f". The status stays as it was; {after}"
    message = f"{AGGREGATE_STATUS}: {said[: _LONGEST - len(rest) - len(AGGREGATE_STATUS) - 2]}{rest}"
    return _warning(template, message)


def refused(template: TemplateChanged, problem: Exception) -> Note:
    """The Event about a status that the control plane does not take."""
    return _warning(template, f"The control plane refuses the summed status: {problem}"[:_LONGEST])


def _warning(template: TemplateChanged, message: str) -> Note:
    key = template.key
    return Note(key, template.uid, template.api_version, template.kind, REASON, message, _COMPONENT, warning=True)
