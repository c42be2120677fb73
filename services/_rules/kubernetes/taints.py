"""Which taints of a cluster or a node a list of tolerations tolerates, and for how long."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct, field

# Effects that keep work away; PreferNoSchedule is advice only.
REPELLING: Final = frozenset({"NoSchedule", "NoExecute"})


class Taint(Struct, frozen=True, rename="camel"):
    """A mark on a cluster or node that repels what does not tolerate it."""

    key: str = ""
    effect: str = ""
    value: str = ""
    time_added: str | None = None

    def __str__(self) -> str:
        """`key=value:effect`, without the value when there is none."""
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


class Toleration(Struct, frozen=True, rename="camel"):
    """Permission to stay in spite of matching taints, for `toleration_seconds` or without limit."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = field(default=None)


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether one toleration covers one taint; an empty effect or key covers all of them."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in ("", "Equal") and toleration.value == taint.value


def first_untolerated(
    taints: Sequence[Taint], tolerations: Sequence[Toleration], effects: frozenset[str] = REPELLING
) -> Taint | None:
    """The first taint with one of `effects` that no toleration covers, or None."""
    for taint in taints:
        if taint.effect in effects and not any(tolerates(item, taint) for item in tolerations):
            return taint
    return None


def matching_tolerations(
    taints: Sequence[Taint], tolerations: Sequence[Toleration]
) -> tuple[bool, tuple[Toleration, ...]]:
    """Whether every taint is covered, and for each taint in order the first toleration that covers it.

    When some taint is not covered the second part is empty.
    """
    used = []
    for taint in taints:
        found = next((item for item in tolerations if tolerates(item, taint)), None)
        if found is None:
            return False, ()
        used.append(found)
    return True, tuple(used)


def outstayed(taints: Sequence[Taint], tolerations: Sequence[Toleration], now: datetime) -> Taint | None:
    """The first NoExecute taint that is tolerated, but no longer; None where some is not covered at all.

    Raises ValueError as `seconds_left`.
    """
    driving = [taint for taint in taints if taint.effect == "NoExecute"]
    tolerated, used = matching_tolerations(driving, tolerations)
    if not tolerated:
        return None
    return next((taint for taint in driving if seconds_left([taint], used, now) == 0.0), None)


def seconds_left(taints: Sequence[Taint], tolerations: Sequence[Toleration], now: datetime) -> float | None:
    """Seconds until the first of the tolerations in use runs out: 0 for at once, None for never.

    A toleration runs for its seconds from the moment a taint it covers was added; a taint without that moment does not
    count. Raises ValueError for a moment that is no RFC 3339 time. Source: docs/sources.md#failover.
    """
    if not taints:
        return None
    if not tolerations:
        return 0.0
    ends = [
        (datetime.fromisoformat(taint.time_added) - now).total_seconds() + item.toleration_seconds
        for item in tolerations
        if item.toleration_seconds is not None
        for taint in taints
        if taint.time_added is not None and tolerates(item, taint)
    ]
    return max(min(ends), 0.0) if ends else None
