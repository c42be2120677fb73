"""Proposes replicas for one metric: from what its pods or its object read, towards its target.

`current` are the replicas of the template; `calibration` is the share of them that the clusters report, by which
what was counted in clusters is brought back to replicas of the template. Source: docs/sources.md#autoscaling.
"""

from __future__ import annotations

import math
from typing import Final

from msgspec import Struct

from schemas.events.autoscaling import PodReading
from services._rules.autoscaling.pod_readings import NO_PODS, MetricError

NO_MATCH: Final = "no metrics returned matched known pods"
_MOST: Final = (1 << 31) - 1


class Scope(Struct, frozen=True):
    """What every proposal starts from; tolerances are shares of the target, up and down."""

    current: int
    calibration: float = 1.0
    tolerance_up: float = 0.1
    tolerance_down: float = 0.1

    def near(self, ratio: float) -> bool:
        """Whether a ratio of value to target is close enough to leave the replicas as they are."""
        return -self.tolerance_down <= ratio - 1.0 <= self.tolerance_up

    def template(self, replicas: float) -> int:
        """Replicas of the template for so many in clusters."""
        return whole(replicas / self.calibration) if self.calibration else self.current


class Proposal(Struct, frozen=True):
    """Replicas that one metric asks for; `average` is its present value for reports, `utilization` in percent."""

    replicas: int
    average: int
    utilization: int | None = None


def whole(replicas: float) -> int:
    """Replicas, rounded up, within what a replica field can hold."""
    return min(math.ceil(replicas), _MOST) if math.isfinite(replicas) else _MOST


def by_utilization(reading: PodReading, target: int, scope: Scope) -> Proposal:
    """Towards a share of the requests, in percent. Raises MetricError when no pod has sample and request."""

    def share(usage: int, requested: int) -> int:
        if not requested:
            raise MetricError(NO_MATCH)
        return usage * 100 // requested

    present = share(reading.usage, reading.requested)
    ratio, average = present / target, reading.usage // reading.matched
    if (ratio <= 1.0 or not reading.unready) and not reading.missing:
        return Proposal(_settled(scope, ratio, reading.ready), average, present)
    usage, requested, pods = reading.usage, reading.requested, reading.sampled
    if reading.missing and ratio != 1.0:
        usage += reading.missing_fallback if ratio < 1.0 else 0
        requested, pods = requested + reading.missing_requested, pods + reading.missing
    if reading.unready and ratio > 1.0:
        requested, pods = requested + reading.unready_requested, pods + reading.unready
    return Proposal(_cautious(scope, ratio, share(usage, requested) / target, pods), average, present)


def by_average(reading: PodReading, target: int, scope: Scope) -> Proposal:
    """Towards a value for each pod."""
    average = reading.usage // reading.sampled
    ratio = average / target
    if not reading.missing and (ratio <= 1.0 or not reading.unready):
        return Proposal(_settled(scope, ratio, reading.ready), average)
    pods = reading.sampled + reading.missing + (reading.unready if ratio > 1.0 else 0)
    usage = reading.usage + (reading.missing * target if ratio < 1.0 else 0)
    return Proposal(_cautious(scope, ratio, usage // pods / target, pods), average)


def by_value(value: int, target: int, serving: int | None, scope: Scope) -> Proposal:
    """Towards a value of one object; `serving` counts ready pods, None where there is no pod at all.

    Raises MetricError in that case, unless there are no replicas.
    """
    ratio = value / target
    if not scope.current:
        return Proposal(whole(ratio), value)
    if scope.near(ratio):
        return Proposal(scope.current, value)
    if serving is None:
        raise MetricError(f"unable to calculate ready pods: {NO_PODS}")
    return Proposal(scope.template(ratio * serving), value)


def by_value_per_pod(value: int, target: int, replicas: int, scope: Scope) -> Proposal:
    """Towards a value of one object divided by its pods; `replicas` are those that clusters report as existing.

    Within the tolerance the clusters' replicas are brought to those of the template once, beyond it twice, as users of
    Karmada know it.
    """
    wanted = replicas
    if not replicas or not scope.near(value / (target * replicas)):
        wanted = scope.template(value / target)
    return Proposal(scope.template(wanted), whole(value / replicas) if replicas else value)


def by_external_per_pod(value: int, target: int, replicas: int, scope: Scope) -> Proposal:
    """Towards a value outside of the cluster divided by pods; without a replica, by what the value asks for."""
    wanted = scope.current
    if not replicas or not scope.current or not scope.near(value / (target * replicas)):
        wanted = whole(value / target)
    return Proposal(wanted, whole(value / replicas) if replicas else value)


def _settled(scope: Scope, ratio: float, ready: int) -> int:
    return scope.current if scope.near(ratio) else scope.template(ratio * ready)


def _cautious(scope: Scope, before: float, ratio: float, pods: int) -> int:
    """Replicas once pods without a sample are assumed to work against the change."""
    if scope.near(ratio) or (before < 1.0 < ratio) or (ratio < 1.0 < before):
        return scope.current
    found = scope.template(ratio * pods)
    backwards = found > scope.current if ratio < 1.0 else found < scope.current
    return scope.current if backwards and ratio != 1.0 else found
