"""Facts about evictions: which clusters an object has to leave, and when it has left."""

from __future__ import annotations

from msgspec import Struct

from schemas.envelope import Event
from schemas.events.placement import TargetCluster
from schemas.keys import ObjectKey


class EvictionTask(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One cluster to leave; fields as a binding's gracefulEvictionTasks (docs/sources.md#failover).

    `removed`: a copy to be removed directly is gone; until then no copy is written anywhere.
    """

    from_cluster: str
    reason: str
    producer: str
    purge_mode: str = ""
    message: str = ""
    replicas: int | None = None
    grace_period_seconds: int | None = None
    suppress_deletion: bool | None = None
    created_at: float = 0.0
    clusters_before: tuple[str, ...] = ()
    preserved_state: dict[str, str] = {}
    removed: bool = False


class Postponed(Struct, frozen=True):
    """A cluster that the object has to leave and cannot be moved out of yet, and what that waits for."""

    cluster: str
    reason: str


class EvictionRequested(Event, frozen=True, kw_only=True, omit_defaults=True, tag="EvictionRequested.v1"):
    """The object must leave the clusters of `tasks`; all tasks in force are listed.

    `left` are the clusters of tasks that just ended while others go on; `unseen` those that ended before and that no
    placement has been decided in view of. `returned` are the clusters that need not be left any more, with the replicas
    they had: they hold the object again until a placement is decided in view of it. `postponed` are those whose task
    waits for something. `changes` counts the facts that changed the tasks of this uid.
    """

    key: ObjectKey
    uid: str
    tasks: tuple[EvictionTask, ...]
    left: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()
    returned: tuple[TargetCluster, ...] = ()
    postponed: tuple[Postponed, ...] = ()
    changes: int = 0


class EvictionFinished(Event, frozen=True, kw_only=True, omit_defaults=True, tag="EvictionFinished.v1"):
    """No eviction of this object is under way; `left` are the clusters of the tasks that just ended.

    `unseen` are clusters it left before and that no placement has been decided in view of. `returned` and `changes` as
    above.
    """

    key: ObjectKey
    uid: str
    left: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()
    returned: tuple[TargetCluster, ...] = ()
    changes: int = 0


EvictionEvent = EvictionRequested | EvictionFinished
