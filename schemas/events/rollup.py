"""Facts about summed status: what all clusters together report of one object."""

from __future__ import annotations

from msgspec import UNSET, Raw, Struct, UnsetType

from schemas.envelope import Event
from schemas.keys import ObjectKey


class ClusterStatusItem(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One cluster's share of the summed status; `status` in JSON as the member reports it.

    `problem` is why what it reports does not count, with the field; `message` is why the copy is not what it should be.
    """

    cluster: str
    applied: bool = False
    message: str = ""
    health: str = "Unknown"
    status: Raw | UnsetType = UNSET
    problem: str = ""


class Cleared(Struct, frozen=True, omit_defaults=True):
    """A cluster whose copy is gone, as a direct eviction asked; `since` is the creation time of its task."""

    cluster: str
    since: float = 0.0


class StatusRolledUp(Event, frozen=True, kw_only=True, omit_defaults=True, tag="StatusRolledUp.v1"):
    """The aggregated status of a binding; `closed` is true once the binding ended and every copy is gone.

    `cleared` are the clusters under direct eviction that hold no copy any more. `since` is when `fully_applied` became
    what it is, 0: by this fact.
    """

    key: ObjectKey
    uid: str
    items: tuple[ClusterStatusItem, ...] = ()
    fully_applied: bool = False
    observed_position: int = 0
    closed: bool = False
    cleared: tuple[Cleared, ...] = ()
    since: float = 0.0


RollupEvent = StatusRolledUp
