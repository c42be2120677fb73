"""Facts about bindings: the request to place an object, and its end."""

from __future__ import annotations

from msgspec import Raw, Struct

from schemas.envelope import Event
from schemas.keys import ObjectKey, PolicyKey


class PolicyRef(Struct, frozen=True, omit_defaults=True):
    """The policy that claimed a template, with its permanent id and the generation that was applied."""

    key: PolicyKey
    id: str = ""
    generation: int = 0


class BindingRequested(Event, frozen=True, kw_only=True, omit_defaults=True, tag="BindingRequested.v1"):
    """Place this object: `spec` is the ResourceBinding spec in JSON, without `clusters` and eviction tasks.

    `uid` is the template's; `generation` grows by one with every change of `spec`. `everywhere` asks for a copy in
    every member without scheduling (namespaces). `workload`: whether the object has replicas to divide.
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


class BindingReleased(Event, frozen=True, kw_only=True, omit_defaults=True, tag="BindingReleased.v1"):
    """Nothing asks for this object in any cluster any more."""

    key: ObjectKey
    uid: str
    reason: str = ""


BindingEvent = BindingRequested | BindingReleased
