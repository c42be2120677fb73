"""Answers one request from the compact view of one member: how many further replicas fit on its nodes.

Whoever holds such a view can answer: the estimator for push members, an agent for its own.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

import msgspec
from msgspec import Struct

from services._rules.estimation import Demand, demand_of
from services._rules.estimation_nodes import estimate_replicas
from services._rules.estimation_rooms import MemberRooms

Manifest = dict[str, Any]

NO_OPINION: Final = -1
_KEPT: Final = 512


class Requirements(Struct, frozen=True):
    """What one replica needs of a node, with a digest by which equal ones are known."""

    digest: str
    demand: Demand | None
    claim: Manifest | None


def requirements_of(spec: Manifest) -> Requirements:
    """Requirements in a binding's spec; raises quantity.QuantityError."""
    wanted = spec.get("replicaRequirements")
    digest = hashlib.sha256(msgspec.json.encode(wanted, order="deterministic")).hexdigest()[:16]
    if wanted is None:
        return Requirements(digest, None, None)
    return Requirements(digest, demand_of(wanted.get("resourceRequest")), wanted.get("nodeClaim"))


class Answers:
    """Answers from one view, each worked out once per version of the view."""

    def __init__(self, rooms: MemberRooms) -> None:
        self.rooms = rooms
        self._known: dict[str, tuple[int, int]] = {}

    def replicas(self, wanted: Requirements) -> int:
        """Further replicas that fit, NO_OPINION before both lists were seen (reference 02 §5.5).

        Raises msgspec.ValidationError where the tolerations cannot be read.
        """
        if not self.rooms.complete:
            return NO_OPINION
        version, count = self._known.get(wanted.digest, (-1, 0))
        if version != self.rooms.version:
            version = self.rooms.version
            count = estimate_replicas(self.rooms.nodes(), wanted.demand, wanted.claim).value
            if len(self._known) >= _KEPT:
                self._known.clear()
            self._known[wanted.digest] = (version, count)
        return count
