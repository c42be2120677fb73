"""Observations: what the executor or an agent saw in a member cluster (stream OBSERVED)."""

from __future__ import annotations

from msgspec import UNSET, Raw, Struct, UnsetType

from schemas.endpoints import ServiceSlice
from schemas.envelope import Event
from schemas.keys import ObjectKey


class Drift(Struct, frozen=True, omit_defaults=True):
    """One field that was changed in a member and put back; values are not recorded.

    `field` is spelled as in messages of API servers (`.spec.replicas`), `.` for an object that was gone. `manager`,
    `operation` (Apply, Update) and `at` (seconds since 1970) are of the last writer by the member's managed fields;
    empty where those do not name one.
    """

    field: str
    manager: str = ""
    operation: str = ""
    at: float = 0.0


class WorkObserved(Event, frozen=True, kw_only=True, omit_defaults=True, tag="WorkObserved.v1"):
    """The state of one object in one cluster.

    `work_seq` is the position of the work fact acted upon; `applied`: whether the member holds its manifest;
    `absent` that the member holds nothing (or nothing of ours). `reason` and `message` explain a failure.
    `drift` names what was changed in the member and put back by this operation.
    `status` is the reflected status, `health` one of Healthy, Unhealthy, Unknown. `since` is when `applied` became what
    it is, 0: with this report. `endpoints` are those of the Service that the object exports; unset of other objects.
    """

    cluster: str
    key: ObjectKey
    uid: str
    work_seq: int = 0
    digest: str = ""
    applied: bool = False
    absent: bool = False
    reason: str = ""
    message: str = ""
    health: str = "Unknown"
    status: Raw | UnsetType = UNSET
    endpoints: tuple[ServiceSlice, ...] | UnsetType = UNSET
    member_uid: str = ""
    member_generation: int = 0
    operation: str = ""
    drift: tuple[Drift, ...] = ()
    at: float = 0.0
    since: float = 0.0


ObservedEvent = WorkObserved
