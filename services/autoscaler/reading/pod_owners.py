"""Remembers which FederatedHPA selects which pods, and which two of them cannot both scale."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from schemas.keys import PolicyKey

Place = tuple[str, str, str]
"""Cluster, namespace and name of a pod."""


class PodOwners:
    """What the last round of all FederatedHPAs found, and the present one until now.

    A conflict holds from where it is seen until a round of all of them has ended without it.
    """

    def __init__(self) -> None:
        self.known = False
        """Whether a round of all of them has ended: only then a pod without an owner has none."""
        self._owners: dict[Place, PolicyKey] = {}
        self._rivals: dict[PolicyKey, str] = {}
        self._before: dict[PolicyKey, str] = {}
        self._present: Collection[PolicyKey] = ()

    def begin(self, named: Mapping[PolicyKey, str], present: Collection[PolicyKey], everything: bool) -> None:
        """A round begins, of all that are `present` or of some; `named` name a target that another one names."""
        self._present = present
        if everything:
            # A round that broke off has found some conflicts only.
            self._before, self._rivals, self._owners = {**self._before, **self._rivals}, {}, {}
        self._rivals.update(named)

    def take(self, place: Place, key: PolicyKey) -> None:
        """A FederatedHPA selects a pod."""
        owner = self._owners.get(place)
        if owner is None or owner not in self._present:
            self._owners[place] = key
        elif owner != key:
            self._rivals[key], self._rivals[owner] = owner.name, key.name

    def rival(self, key: PolicyKey) -> str | None:
        """The name of another one that selects the same pods, or names the same target."""
        return self._rivals.get(key) or self._before.get(key)

    def end(self, everything: bool) -> None:
        """A round has ended."""
        if everything:
            self._before = {}
            self.known = True
