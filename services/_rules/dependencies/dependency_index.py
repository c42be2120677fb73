"""Inverts what objects require: for each dependency, the clusters of its owners and what they ask for together.

Owners are the objects that require another. Counters make a change of one owner cost as much as it requires, however
many share a dependency, and name a dependency only where what its owners ask for together became something else.

Source: docs/sources.md#dependencies.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct, field

from schemas.events.placement import TargetCluster
from schemas.keys import ObjectKey

CONFLICT_RESOLUTION: Final = "conflictResolution"
PRESERVE: Final = "preserveResourcesOnDeletion"


class Requirement(Struct, frozen=True, gc=False):
    """What one owner requires, the clusters that run it now, and what its policy asks for."""

    requires: tuple[ObjectKey, ...]
    clusters: tuple[str, ...] = ()
    overwrite: bool = False
    preserve: bool = False


class Wanted(Struct, frozen=True, gc=False):
    """What the owners of a dependency ask for together; `contradictions` are the fields on which they disagree."""

    required: bool = False
    overwrite: bool = False
    preserve: bool = False
    contradictions: tuple[str, ...] = ()


UNWANTED: Final = Wanted()


class _Dependency(Struct):
    """Counters of one dependency: owners by cluster, owners that overwrite, owners that preserve."""

    owners: list[ObjectKey] = field(default_factory=list)
    clusters: dict[str, int] = field(default_factory=dict)
    overwrite: int = 0
    preserve: int = 0

    def wanted(self) -> Wanted:
        """What follows from the counters."""
        count = len(self.owners)
        mixed = ((CONFLICT_RESOLUTION, self.overwrite), (PRESERVE, self.preserve))
        contradictions = tuple(name for name, some in mixed if 0 < some < count)
        return Wanted(count > 0, self.overwrite > 0, self.preserve > 0, contradictions)

    def count(self, clusters: Iterable[str], step: int) -> bool:
        """Count one owner more or less in clusters; whether the set of clusters is another one."""
        changed = False
        for name in clusters:
            now = self.clusters.get(name, 0) + step
            if now:
                self.clusters[name] = now
            else:
                del self.clusters[name]
            changed = changed or now == max(step, 0)
        return changed


class DependencyIndex(Struct):
    """The requirements of all owners, and the same inverted; what an object requires of itself does not count."""

    by_owner: dict[ObjectKey, Requirement] = field(default_factory=dict)
    by_dependency: dict[ObjectKey, _Dependency] = field(default_factory=dict)

    def __contains__(self, owner: object) -> bool:
        """Whether an object requires others."""
        return owner in self.by_owner

    def __iter__(self) -> Iterator[ObjectKey]:
        """The dependencies that something requires."""
        return iter(self.by_dependency)

    def requires(self, owner: ObjectKey) -> tuple[ObjectKey, ...]:
        """What an object requires."""
        found = self.by_owner.get(owner)
        return found.requires if found is not None else ()

    def owners(self, dependency: ObjectKey) -> Sequence[ObjectKey]:
        """Who requires an object, sorted; not to be changed."""
        found = self.by_dependency.get(dependency)
        return found.owners if found is not None else ()

    def targets(self, dependency: ObjectKey) -> tuple[TargetCluster, ...]:
        """The clusters that an object is required in, sorted; how many replicas it has there is its own affair."""
        found = self.by_dependency.get(dependency)
        return tuple(TargetCluster(name) for name in sorted(found.clusters)) if found is not None else ()

    def wanted(self, dependency: ObjectKey) -> Wanted:
        """What the owners of an object ask for together."""
        found = self.by_dependency.get(dependency)
        return found.wanted() if found is not None else UNWANTED

    def update(self, owner: ObjectKey, requirement: Requirement | None) -> list[ObjectKey]:
        """Take in what an object requires now (None: nothing); the dependencies whose clusters or wishes changed."""
        before = self.by_owner.get(owner)
        if requirement is not None and not requirement.requires:
            requirement = None
        if before == requirement:
            return []
        if requirement is None:
            del self.by_owner[owner]
        else:
            self.by_owner[owner] = requirement
        old = _distinct(owner, before)
        new = _distinct(owner, requirement)
        moved = [key for key in old if key not in new and self._replace(key, owner, before, None)]
        moved += [key for key in new if self._replace(key, owner, before if key in old else None, requirement)]
        return moved

    def _replace(self, key: ObjectKey, owner: ObjectKey, before: Requirement | None, after: Requirement | None) -> bool:
        """Count one owner's requirement instead of another; whether what is asked for together changed."""
        found = self.by_dependency.get(key)
        if found is None:
            found = self.by_dependency[key] = _Dependency()
        wanted = found.wanted()
        left = before.clusters if before is not None else ()
        came = after.clusters if after is not None else ()
        moved = found.count([name for name in left if name not in came], -1)
        moved = found.count([name for name in came if name not in left], 1) or moved
        for requirement, step in ((before, -1), (after, 1)):
            if requirement is not None:
                found.overwrite += step * requirement.overwrite
                found.preserve += step * requirement.preserve
        if before is None:
            insort(found.owners, owner)
        elif after is None:
            del found.owners[bisect_left(found.owners, owner)]
        if not found.owners:
            del self.by_dependency[key]
        return moved or wanted != found.wanted()


def _distinct(owner: ObjectKey, requirement: Requirement | None) -> dict[ObjectKey, None]:
    found = dict.fromkeys(requirement.requires if requirement is not None else ())
    found.pop(owner, None)
    return found
