"""Words of conditions: FullyApplied of a binding, Dispatching of a work; and of the aggregated status.

Source: docs/sources.md#status.
"""

from collections.abc import Collection
from typing import Final

from msgspec import Struct

from schemas.events.rollup import ClusterStatusItem


class Words(Struct, frozen=True):
    """A condition without its type and time."""

    status: str
    reason: str
    message: str


FULLY_APPLIED: Final = Words("True", "FullyAppliedSuccess", "All works have been successfully applied")
NOT_FULLY_APPLIED: Final = Words(
    "False", "FullyAppliedFailed", "Failed to apply all works, see status.aggregatedStatus for details"
)

NOWHERE: Final = "no cluster is chosen for it"
"""Why an object that is placed nowhere is not fully applied."""

DISPATCHING: Final = Words("True", "Dispatching", "Work is being dispatched to member clusters.")
SUSPENDED: Final = Words("False", "SuspendDispatching", "Work dispatching is in a suspended state.")

FAILED_SUMMARY: Final = "Failed to apply all manifests (0/1): "
"""How the message of a work whose only manifest could not be applied begins."""

NOT_YET: Final = "waiting for the cluster to report"
"""What is said of a cluster that said nothing yet of its copy."""

NOT_COUNTED: Final = "the reported status is not counted: "
"""What the reason begins with for which the status of a cluster is left out of the sum."""


def fully_applied(expected: Collection[str], items: Collection[ClusterStatusItem]) -> bool:
    """Whether every expected cluster, and no other, has applied the object as it was rendered last."""
    return (
        bool(expected)
        and len(items) == len(expected)
        and all(item.applied and not item.message and item.cluster in expected for item in items)
    )
