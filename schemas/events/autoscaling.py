"""Facts about autoscaling: what was read of metrics, what was decided by it, which rules of schedules have fired."""

from __future__ import annotations

from msgspec import Raw, Struct

from schemas.envelope import Event
from schemas.keys import ObjectKey, PolicyKey


class PodReading(Struct, frozen=True, omit_defaults=True):
    """Sums over pods of the samples of one metric, in thousandths; the same sums always give the same proposal.

    `ready`, `unready` and `missing` count pods, the last those without a sample. `sampled` are the samples that count,
    `matched` those of a pod with a request. `requested` are the requests of `matched`; `missing_fallback` is what pods
    without a sample are assumed to use where replicas would go down.
    """

    ready: int = 0
    unready: int = 0
    missing: int = 0
    sampled: int = 0
    matched: int = 0
    usage: int = 0
    requested: int = 0
    unready_requested: int = 0
    missing_requested: int = 0
    missing_fallback: int = 0


class MetricReading(Struct, frozen=True, omit_defaults=True):
    """What was read for one metric of an autoscaler: sums over pods, or the value of an object in thousandths.

    `serving` counts ready pods, None where there is no pod; `problem` says why nothing is known.
    """

    pods: PodReading | None = None
    value: int | None = None
    serving: int | None = None
    problem: str = ""


class ClusterScale(Struct, frozen=True, omit_defaults=True):
    """What one cluster holds of the target: replicas asked for, and replicas that exist.

    `away` says why nothing is known of it; then it is not counted.
    """

    cluster: str
    replicas: int = 0
    existing: int = 0
    away: str = ""


class TimedReplicas(Struct, frozen=True, omit_defaults=True):
    """A recommendation and when it held last, or a change and when it was made; seconds since 1970."""

    replicas: int
    at: float


class ScalingCondition(Struct, frozen=True, omit_defaults=True):
    """One condition of an autoscaler; `since` is when its status turned, in seconds since 1970."""

    type: str
    status: str
    reason: str
    message: str
    since: float = 0.0


class ReplicasRecommended(Event, frozen=True, kw_only=True, omit_defaults=True, tag="ReplicasRecommended.v1"):
    """What a FederatedHPA decided, with everything that it decided from: the same fact always gives the same replicas.

    `spec` is that of the FederatedHPA at `generation`. `current` are the replicas of the template, `desired` those that
    it should have; `write` is how that went: empty where nothing was to be written, `asked` until the answer is there,
    `done`, or why it failed. `readings` are in the order of the metrics of the spec. `recommendations` are those of the
    stabilization window before this one, which is `recommended`; `ups` and `downs` are changes that rates count.
    `window` and `tolerance` are the installation's defaults; `scaled_at` is the last change, 0: there was none.
    """

    key: PolicyKey
    uid: str
    spec: Raw
    generation: int = 0
    target: ObjectKey | None = None
    current: int = 0
    desired: int = 0
    recommended: int | None = None
    metric: str = ""
    reason: str = ""
    write: str = ""
    scales: tuple[ClusterScale, ...] = ()
    readings: tuple[MetricReading, ...] = ()
    recommendations: tuple[TimedReplicas, ...] = ()
    ups: tuple[TimedReplicas, ...] = ()
    downs: tuple[TimedReplicas, ...] = ()
    conditions: tuple[ScalingCondition, ...] = ()
    window: float = 300.0
    tolerance: float = 0.1
    scaled_at: float = 0.0


class AutoscalerReleased(Event, frozen=True, kw_only=True, omit_defaults=True, tag="AutoscalerReleased.v1"):
    """The FederatedHPA of this uid is gone: nothing is remembered for it."""

    key: PolicyKey
    uid: str


class RuleRun(Struct, frozen=True, omit_defaults=True):
    """One run of a rule: when it was due, when it was carried out, and what it set; `problem` where it set nothing."""

    scheduled: float
    executed: float
    replicas: int | None = None
    least: int | None = None
    most: int | None = None
    problem: str = ""


class RuleProgress(Struct, frozen=True, omit_defaults=True):
    """One rule of a schedule: when it is due next, what it ran last (`last`, 0: never) and whether that is under way.

    Runs go from new to old. `rule` is its text in the spec, `problem` says why it cannot be run.
    """

    name: str
    rule: Raw
    due: float | None = None
    last: float = 0.0
    running: bool = False
    successes: tuple[RuleRun, ...] = ()
    failures: tuple[RuleRun, ...] = ()
    problem: str = ""


class ScheduleAdvanced(Event, frozen=True, kw_only=True, omit_defaults=True, tag="ScheduleAdvanced.v1"):
    """How far the rules of a CronFederatedHPA are; a rule that runs is on the log before its target is changed."""

    key: PolicyKey
    uid: str
    target: Raw
    generation: int = 0
    rules: tuple[RuleProgress, ...] = ()


class ScheduleReleased(Event, frozen=True, kw_only=True, omit_defaults=True, tag="ScheduleReleased.v1"):
    """The CronFederatedHPA of this uid is gone: none of its rules runs any more."""

    key: PolicyKey
    uid: str


AutoscalingEvent = ReplicasRecommended | AutoscalerReleased | ScheduleAdvanced | ScheduleReleased
