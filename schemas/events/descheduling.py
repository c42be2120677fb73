"""Facts about descheduling: replicas that found no node for too long and are taken back from their clusters."""

from __future__ import annotations

from msgspec import Struct

from schemas.envelope import Event
from schemas.keys import ObjectKey


class LoweredCluster(Struct, frozen=True, omit_defaults=True):
    """One cluster and the replicas it is left with; `before` is what it had when this fact was decided."""

    name: str
    replicas: int = 0
    before: int = 0


class ReplicasDescheduled(Event, frozen=True, kw_only=True, omit_defaults=True, tag="ReplicasDescheduled.v1"):
    """The placement at position `placement` holds with fewer replicas in `clusters`, sorted by name.

    All clusters that were lowered since that placement are listed, whichever fact lowered them. Any later placement of
    the object ends it: that was decided in view of it, or of something newer than what was evaluated here. `changes`
    counts such facts of this uid.
    """

    key: ObjectKey
    uid: str
    placement: int
    clusters: tuple[LoweredCluster, ...]
    changes: int = 0


DeschedulingEvent = ReplicasDescheduled
