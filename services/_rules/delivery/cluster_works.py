"""Keeps the desired and the last observed state of the objects of one cluster, as executor and agent fold it."""

from __future__ import annotations

from collections.abc import Collection

from msgspec import UNSET, Struct, UnsetType, field
from msgspec.structs import replace

from schemas.envelope import NO_PROVENANCE
from schemas.events.observed import WorkObserved
from schemas.events.work import WorkEvent, WorkRendered, WorkWithdrawn
from schemas.keys import ObjectKey


def remembered(work: WorkEvent, *, manifest: bool) -> WorkEvent:
    """What a projection keeps of a work: not why it was decided; its manifest, which is on the log, only if asked."""
    if manifest or not isinstance(work, WorkRendered) or work.shared:
        return replace(work, provenance=NO_PROVENANCE)
    return replace(work, provenance=NO_PROVENANCE, manifest=UNSET)


def is_cut(work: WorkRendered) -> bool:
    """Whether the manifest of a work stands in the log only."""
    return not work.shared and isinstance(work.manifest, UnsetType)


class ClusterWorks(Struct):
    """One cluster's works with their positions, the last report on each, and the works that were applied before."""

    works: dict[ObjectKey, tuple[WorkEvent, int]] = field(default_factory=dict)
    observed: dict[ObjectKey, WorkObserved] = field(default_factory=dict)
    applied: dict[ObjectKey, WorkRendered] = field(default_factory=dict)

    def take_work(self, event: WorkEvent, seq: int) -> None:
        """A work as it is from position `seq` on; the one before is kept while the cluster holds its manifest."""
        before, seen = self.works.get(event.key), self.observed.get(event.key)
        if before is not None and isinstance(before[0], WorkRendered) and holds(before[0], seen):
            self.applied[event.key] = before[0]
        self.works[event.key] = (event, seq)

    def take_observation(self, event: WorkObserved) -> None:
        """The newest report on an object."""
        self.observed[event.key] = event
        current = self.works.get(event.key)
        if current is not None and isinstance(current[0], WorkRendered) and holds(current[0], event):
            self.applied.pop(event.key, None)

    def unfinished(self) -> list[ObjectKey]:
        """Objects that have to be reconciled after a start: all but those whose withdrawal is confirmed."""
        found = []
        for key, (work, seq) in self.works.items():
            seen = self.observed.get(key)
            gone = seen is not None and seen.absent and seen.uid == work.uid and seen.work_seq >= seq
            if not (gone and isinstance(work, WorkWithdrawn)):
                found.append(key)
        return found

    def of_kinds(self, kinds: Collection[tuple[str, str]]) -> list[ObjectKey]:
        """Objects of some kinds (apiVersion, kind) that are desired in the cluster."""
        return [
            key
            for key, (work, _) in self.works.items()
            if (work.api_version, work.kind) in kinds and isinstance(work, WorkRendered)
        ]

    def forget(self, key: ObjectKey, position: int) -> bool:
        """Drop what is known of an object whose works are gone up to a position; whether anything was.

        A later work stays, also one that withdraws the object again: it has to be carried out first.
        """
        work = self.works.get(key)
        if work is not None and work[1] > position:
            return False
        for known in (self.works, self.observed, self.applied):
            known.pop(key, None)
        return True

    def before(self, key: ObjectKey, current: WorkRendered) -> tuple[WorkRendered | None, str]:
        """The work that was applied before this one as far as it is kept, and its digest; ("" when there is none)."""
        seen = self.observed.get(key)
        if seen is None or not seen.digest or seen.digest == current.digest:
            return None, ""
        return self.applied.get(key), seen.digest


def holds(work: WorkRendered, seen: WorkObserved | None) -> bool:
    """Whether the last report confirms that the cluster holds this very manifest."""
    return seen is not None and seen.applied and seen.digest == work.digest
