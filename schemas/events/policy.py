"""Facts about policies: propagation, override and the other policy kinds, one subject per object."""

from __future__ import annotations

from msgspec import Raw

from schemas.envelope import Event
from schemas.keys import PolicyKey


class PolicyChanged(Event, frozen=True, kw_only=True, omit_defaults=True, tag="PolicyChanged.v1"):
    """The full present state of a policy; `manifest` is the object without status and server-side fields.

    `outcome` says in words what came of an object that asks for something once, as a WorkloadRebalancer does.
    """

    key: PolicyKey
    uid: str
    manifest: Raw
    generation: int = 0
    deleting: bool = False
    outcome: str = ""


class PolicyDeleted(Event, frozen=True, kw_only=True, omit_defaults=True, tag="PolicyDeleted.v1"):
    """The policy of this uid is gone; `reason` is the evidence for it."""

    key: PolicyKey
    uid: str
    reason: str = ""


PolicyEvent = PolicyChanged | PolicyDeleted
