"""Facts about bindings: the request to place an object, and its end."""

from __future__ import annotations

from msgspec import UNSET, Raw, Struct, UnsetType

from schemas.envelope import Event
from schemas.keys import ObjectKey, PolicyKey


class PolicyRef(Struct, frozen=True, omit_defaults=True):
    """The policy that claimed a template, with its permanent id.

    `generation` is the policy's when it last changed the request. `unselected`: in this generation it selects the
    template no longer; its claim ends when the policy changes.
    """

    key: PolicyKey
    id: str = ""
    generation: int = 0
    unselected: bool = False


class RescheduleRequest(Struct, frozen=True, omit_defaults=True):
    """Who asked for a fresh schedule at the spec's `rescheduleTriggeredAt`: names of WorkloadRebalancers, sorted.

    `generation` is that of the binding in which it was asked for.
    """

    by: tuple[str, ...] = ()
    generation: int = 0


class BindingRequested(Event, frozen=True, kw_only=True, omit_defaults=True, tag="BindingRequested.v1"):
    """Place this object: `spec` is the ResourceBinding spec in JSON, without `clusters` and eviction tasks.

    `uid` is the template's; `generation` grows by one with every change of `spec`. `everywhere` asks for a copy in
    every member without scheduling (namespaces). `workload`: whether the object has replicas to divide. `reason` tells
    why the policy is another than before; empty when it is the same. `frozen`: copies rendered for that generation or
    an earlier one stay as they are where nothing asks for them, and `everywhere` adds none.

    `dependencies` are the references to what the object needs beside it, in JSON, as its interpreter gave them, and
    `requires` the objects that they resolve to; they change without a new generation. An `attached` binding belongs to
    no policy and is not scheduled: the object runs where those run that require it. `contradictions` are fields of
    `spec` on which those disagree.
    """

    key: ObjectKey
    uid: str
    api_version: str
    kind: str
    spec: Raw
    generation: int = 1
    policy: PolicyRef | None = None
    everywhere: bool = False
    replicas: int = 0
    workload: bool = False
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    created_at: float = 0.0
    reason: str = ""
    reschedule: RescheduleRequest | None = None
    frozen: int = 0
    dependencies: Raw | UnsetType = UNSET
    requires: tuple[ObjectKey, ...] = ()
    attached: bool = False
    contradictions: tuple[str, ...] = ()


class BindingReleased(Event, frozen=True, kw_only=True, omit_defaults=True, tag="BindingReleased.v1"):
    """Nothing asks for this object in any cluster any more."""

    key: ObjectKey
    uid: str
    reason: str = ""


BindingEvent = BindingRequested | BindingReleased
