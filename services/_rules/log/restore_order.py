"""Orders the services while a log is restored: nothing is delivered before everything was compared, in order.

A restored log may be older than the control plane and the members. The detector and the cluster monitor compare it with
the control plane first; the scheduler decides with their facts in view, the renderer with the scheduler's. Only then is
the newest work of every object the desired one, and delivery begins.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct, field

from schemas.codec import Known
from schemas.events.restore import RestoreCompared, RestoreReleased, RestoreStarted
from schemas.shard_groups import WHOLE, ShardGroup, groups_of
from services._rules.absence.absence_guard import Guard

BEFORE: Final[Mapping[str, tuple[str, ...]]] = {
    "detector": (),
    "cluster_monitor": (),
    "scheduler": ("detector", "cluster_monitor"),
    "override_renderer": ("detector", "cluster_monitor", "scheduler"),
}
"""Services that compare, each with those that compare before it."""
AT_THE_END: Final = frozenset({"failover", "descheduler", "autoscaler", "networking"})
"""Services that decide nothing before all have compared: what they go by is the state of members, which is outdated."""


class Restoring(Struct):
    """The restore that stands on the log, and how far it is; `position` is that of its RestoreStarted, 0 for none."""

    position: int = 0
    started: RestoreStarted | None = None
    released: bool = False
    compared: set[str] = field(default_factory=set)

    def take(self, seq: int, event: Known) -> None:
        """Take in an event of a subject `restore.*`; what speaks of an earlier restore changes nothing."""
        match event:
            case RestoreStarted():
                self.position, self.started, self.released = seq, event, False
                self.compared.clear()
            case RestoreReleased() if event.restore == self.position:
                self.released = True
            case RestoreCompared() if event.restore == self.position:
                self.compared.add(event.service)
            case _:
                return

    @property
    def missing(self) -> tuple[str, ...]:
        """Services that have not compared yet, in their order; empty when nothing is restored."""
        if not self.position or self.released:
            return ()
        return tuple(name for name in BEFORE if name not in self.compared)

    @property
    def holds(self) -> bool:
        """Whether delivery waits."""
        return bool(self.missing)

    def may_decide(self, service: str) -> bool:
        """Whether a service may decide already."""
        missing = self.missing
        if service in AT_THE_END:
            return not missing
        return not any(name in missing for name in BEFORE.get(service, ()))

    def is_due(self, service: str, group: ShardGroup = WHOLE) -> bool:
        """Whether it is the turn of this service to compare, or of this shard group of it.

        The first group compares last: with it, the service has compared.
        """
        written = self.started is not None and not self.started.writing
        if not written or service not in self.missing or not self.may_decide(service):
            return False
        if group.index:
            return group.named(service) not in self.compared
        return all(other.named(service) in self.compared for other in groups_of(group.count)[1:])

    @property
    def words(self) -> str:
        """What delivery waits for, for people; empty when it does not wait."""
        if self.started is None or not self.missing:
            return ""
        if self.started.writing:
            return (
                f"{self.started.reason} (RestoreStarted at position {self.position}): nothing is delivered before the "
                "command is done; if it was interrupted, run it again"
            )
        return (
            f"{self.started.reason or 'a restore'} (RestoreStarted at position {self.position}): nothing is delivered "
            f"until it is compared with the control plane; missing: {', '.join(self.missing)}"
        )


def absence_in_doubt(guard: Guard[Any]) -> str:
    """Why what a control plane lacks cannot be compared with the log; empty when it can.

    Delivered meanwhile, works of objects that are missing and held would bring back what may have been deleted.
    """
    if guard.held is not None:
        return guard.held.message
    if not guard.trusted:
        return "the identity of the control plane has not been read yet"
    if guard.count or guard.doubted:
        return f"{guard.count} objects are missing from the control plane and held: fleetlog confirm-absence"
    return ""
