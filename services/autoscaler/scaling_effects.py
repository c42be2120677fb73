"""What a decision about a FederatedHPA is made from, and what it asks to be done."""

from __future__ import annotations

from msgspec import Raw, Struct

from schemas.events.autoscaling import ClusterScale, MetricReading
from schemas.keys import ObjectKey, PolicyKey
from schemas.manifest import Manifest
from services._rules.autoscaling.scaling_conditions import ABLE_TO_SCALE
from services._rules.decision import Decision
from services._rules.kubernetes.event_objects import Note


class Refusal(Struct, frozen=True):
    """Why nothing can be decided: the condition's reason, that of the Event, and the words of both."""

    reason: str
    event: str
    message: str
    condition: str = ABLE_TO_SCALE


class Round(Struct, frozen=True):
    """What a round read for one FederatedHPA; `refusal` where that ended early.

    `least_zero` lets it go down to no replicas. `window` and `tolerance` are the installation's defaults, `held` is
    when the last recommendation was confirmed (0: not since the start).
    """

    key: PolicyKey
    uid: str
    spec: Raw
    generation: int
    target: ObjectKey | None = None
    current: int = 0
    scales: tuple[ClusterScale, ...] = ()
    readings: tuple[MetricReading, ...] = ()
    refusal: Refusal | None = None
    least_zero: bool = False
    window: float = 300.0
    tolerance: float = 0.1
    held: float = 0.0
    kinds: tuple[str, ...] = ()
    """Types of the metrics that were read."""


class Rescale(Struct, frozen=True):
    """Write the replicas of a target, if it still has those that were decided from."""

    key: PolicyKey
    target: ObjectKey
    before: int
    replicas: int
    reason: str


class Verify(Struct, frozen=True):
    """Find out whether replicas were written that were asked for: who asked has ended, or had no answer."""

    key: PolicyKey
    target: ObjectKey
    replicas: int


class WriteStatus(Struct, frozen=True):
    """Write the status of a FederatedHPA of this uid."""

    key: PolicyKey
    uid: str
    status: Manifest


class Tell(Struct, frozen=True):
    """Record an Event."""

    note: Note


class Outcome(Struct, frozen=True):
    """How a `Rescale` went, or what a `Verify` found; `problem` is empty where it was done."""

    replicas: int
    problem: str = ""


class ScalingDecision(Decision, frozen=True, kw_only=True):
    """A decision of a round; `action` is for metrics: scale_up, scale_down or none, `error` spec, internal or none."""

    action: str = "none"
    error: str = "none"
