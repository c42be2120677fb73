"""Brings a recommended number of replicas into what is allowed now: stabilization, rates, least and most replicas.

Source: docs/sources.md#autoscaling.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from services._rules.autoscaling.scaling_conditions import ABLE_TO_SCALE, SCALING_LIMITED, Condition
from services._rules.kubernetes.quantity import NANO, QuantityError, parse

_IN_RANGE: Final = ("DesiredWithinRange", "the desired count is within the acceptable range")
_TOO_FEW: Final = ("TooFewReplicas", "the desired replica count is less than the minimum replica count")
_TOO_MANY: Final = ("TooManyReplicas", "the desired replica count is more than the maximum replica count")
_UP_LIMIT: Final = ("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate")
_DOWN_LIMIT: Final = ("ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate")
_READY: Final = ("ReadyForNewScale", "recommended size matches current size")
_HIGHER: Final = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
)
_LOWER: Final = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
)
_FACTOR: Final = 2
_LEAST_RISE: Final = 4


class Timed(Struct, frozen=True):
    """A number of replicas and when it held last: a recommendation, or a change."""

    replicas: int
    at: float


class Policy(Struct, frozen=True):
    """A rate: so many pods, or percent of the replicas, within `period` seconds."""

    percent: bool
    value: int
    period: float


class Direction(Struct, frozen=True):
    """The rules of one direction; `window` in seconds, `select` is Max, Min or Disabled."""

    window: float
    select: str
    policies: tuple[Policy, ...]
    tolerance: float | None = None


class Behavior(Struct, frozen=True):
    """The rules of both directions."""

    up: Direction
    down: Direction


class Ask(Struct, frozen=True):
    """What was recommended (`desired`) at `now`, and what is remembered; `window` is the default one for going down.

    Recommendations and changes go from old to new, or in any order.
    """

    current: int
    desired: int
    least: int
    most: int
    now: float
    window: float
    behavior: Behavior | None = None
    recommendations: Sequence[Timed] = ()
    ups: Sequence[Timed] = ()
    downs: Sequence[Timed] = ()


class Allowed(Struct, frozen=True):
    """Replicas that may be set now, and the two conditions that say why."""

    replicas: int
    conditions: tuple[Condition, Condition]


def read_behavior(behavior: Mapping[str, Any], window: float) -> Behavior:
    """The rules of a spec whose defaults were filled in; `window` is the default one for going down."""
    return Behavior(_direction(behavior.get("scaleUp") or {}, 0.0), _direction(behavior.get("scaleDown") or {}, window))


def _direction(rules: Mapping[str, Any], window: float) -> Direction:
    given = rules.get("stabilizationWindowSeconds")
    return Direction(
        window=window if given is None else float(given),
        select=rules.get("selectPolicy") or "Max",
        policies=tuple(
            Policy(item.get("type") == "Percent", int(item.get("value") or 0), float(item.get("periodSeconds") or 0))
            for item in rules.get("policies") or ()
        ),
        tolerance=tolerance_of(rules.get("tolerance")),
    )


def allow(ask: Ask) -> Allowed:
    """What may be set now."""
    stable, why = _stabilized(ask) if ask.behavior is None else _stabilized_both(ask, ask.behavior)
    limited, limit = _limited(ask, stable) if ask.behavior is None else _limited_rate(ask, ask.behavior, stable)
    return Allowed(
        limited,
        (
            Condition(ABLE_TO_SCALE, "True", *why),
            Condition(SCALING_LIMITED, "True" if limited != stable else "False", *limit),
        ),
    )


def remember(recommendations: Iterable[Timed], desired: int, now: float, longest: float) -> tuple[Timed, ...]:
    """Recommendations with a new one, which takes the place of the last that is older than `longest` seconds."""
    return _kept(recommendations, Timed(desired, now), now - longest)


def longest_window(behavior: Behavior | None, window: float) -> float:
    """Seconds for which recommendations matter; `window` is the default one for going down."""
    return window if behavior is None else max(behavior.up.window, behavior.down.window)


def scaled(events: Iterable[Timed], change: int, now: float, direction: Direction) -> tuple[Timed, ...]:
    """Changes of one direction with a new one, which takes the place of the last that no policy looks at any more."""
    longest = max((policy.period for policy in direction.policies), default=0.0)
    return _kept(events, Timed(change, now), now - longest)


def _kept(items: Iterable[Timed], new: Timed, cutoff: float) -> tuple[Timed, ...]:
    kept = list(items)
    old = next((place for place in reversed(range(len(kept))) if kept[place].at < cutoff), None)
    if old is None:
        return (*kept, new)
    kept[old] = new
    return tuple(kept)


def _stabilized(ask: Ask) -> tuple[int, tuple[str, str]]:
    cutoff = ask.now - ask.window
    stable = max((ask.desired, *(item.replicas for item in ask.recommendations if item.at >= cutoff)))
    return stable, _HIGHER if stable != ask.desired else _READY


def _stabilized_both(ask: Ask, behavior: Behavior) -> tuple[int, tuple[str, str]]:
    def since(window: float) -> list[int]:
        return [item.replicas for item in ask.recommendations if item.at > ask.now - window]

    lower = min((ask.desired, *since(behavior.up.window)))
    upper = max((ask.desired, *since(behavior.down.window)))
    stable = min(max(ask.current, lower), upper)
    if stable == ask.desired:
        return stable, _READY
    return stable, _LOWER if ask.desired >= ask.current else _HIGHER


def _limited(ask: Ask, stable: int) -> tuple[int, tuple[str, str]]:
    rise = max(_FACTOR * ask.current, _LEAST_RISE)
    most, why = (rise, _UP_LIMIT) if ask.most > rise else (ask.most, _TOO_MANY)
    if stable < ask.least:
        return ask.least, _TOO_FEW
    return (most, why) if stable > most else (stable, _IN_RANGE)


def _limited_rate(ask: Ask, behavior: Behavior, stable: int) -> tuple[int, tuple[str, str]]:
    if stable > ask.current:
        rise = max(_reach(behavior.up, ask, up=True), ask.current)
        most, why = (rise, _UP_LIMIT) if ask.most > rise else (ask.most, _TOO_MANY)
        if stable > most:
            return most, why
    elif stable < ask.current:
        fall = min(_reach(behavior.down, ask, up=False), ask.current)
        least, why = (fall, _DOWN_LIMIT) if ask.least < fall else (ask.least, _TOO_FEW)
        if stable < least:
            return least, why
    return stable, _IN_RANGE


def _reach(rules: Direction, ask: Ask, *, up: bool) -> int:
    """The furthest that the policies of a direction let replicas go now."""
    if rules.select == "Disabled" or not rules.policies:
        return ask.current
    reached = [_step(policy, ask, up=up) for policy in rules.policies]
    return max(reached) if up == (rules.select != "Min") else min(reached)


def _step(policy: Policy, ask: Ask, *, up: bool) -> int:
    cutoff = ask.now - policy.period
    added = sum(item.replicas for item in ask.ups if item.at > cutoff)
    removed = sum(item.replicas for item in ask.downs if item.at > cutoff)
    start = ask.current - added + removed
    if not policy.percent:
        return start + policy.value if up else start - policy.value
    return math.ceil(start * (1 + policy.value / 100)) if up else int(start * (1 - policy.value / 100))


def tolerance_of(amount: Any) -> float | None:
    """A share of the target within which replicas stay; None where none is given that can be read."""
    try:
        return None if amount is None else max(parse(amount).nano, 0) / NANO
    except QuantityError:
        return None
