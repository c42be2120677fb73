"""The FullyApplied condition of a binding, and the messages of its aggregated status (docs/sources.md#status)."""

from collections.abc import Collection
from typing import Final

from msgspec import Struct

from schemas.events.rollup import ClusterStatusItem


class Applied(Struct, frozen=True):
    """The FullyApplied condition without its time."""

    status: str
    reason: str
    message: str


FULLY_APPLIED: Final = Applied("True", "FullyAppliedSuccess", "All works have been successfully applied")
NOT_FULLY_APPLIED: Final = Applied(
    "False", "FullyAppliedFailed", "Failed to apply all works, see status.aggregatedStatus for details"
)

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
