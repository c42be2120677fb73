"""What is reported after a scheduling attempt: condition, event text, and whether it is tried again.

Source: docs/sources.md#scheduling.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from services._rules.scheduling.division.weights import TargetCluster
from services._rules.scheduling.scheduling_views import Decision

Reason: TypeAlias = Literal["Success", "Unschedulable", "NoClusterFit", "QuotaExceeded", "SchedulerError"]

SUCCESS_MESSAGE = "Binding has been scheduled successfully."


class SchedulingOutcome(Struct, frozen=True):
    """The Scheduled condition after an attempt, and how the attempt goes on."""

    scheduled: bool
    reason: Reason
    message: str
    # Whether the attempt is repeated without a new trigger.
    retry: bool
    # Whether the new targets (none for a FitError) replace the previous ones.
    replaces_targets: bool


def outcome(decision: Decision) -> SchedulingOutcome:
    """Condition for a decision that was, or could not be, made."""
    match decision.error:
        case None:
            return SchedulingOutcome(True, "Success", SUCCESS_MESSAGE, retry=False, replaces_targets=True)
        case "FitError":
            return SchedulingOutcome(False, "NoClusterFit", decision.message, retry=False, replaces_targets=True)
        case "Unschedulable":
            return SchedulingOutcome(False, "Unschedulable", decision.message, retry=True, replaces_targets=False)
        case "Error":
            return SchedulingOutcome(False, "SchedulerError", decision.message, retry=True, replaces_targets=False)


def success_event(targets: Sequence[TargetCluster], cluster_scoped: bool = False) -> str:
    """Text of the event about a success; the cluster-scoped kind has no colon before the result."""
    result = ", ".join(f"{item.name}:{item.replicas}" for item in targets)
    return f"{SUCCESS_MESSAGE} Result{'' if cluster_scoped else ':'} {{{result}}}"
