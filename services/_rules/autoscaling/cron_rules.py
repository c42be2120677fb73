"""Settings of the rules of a CronFederatedHPA, and what a rule makes of its target.

Source: docs/sources.md#autoscaling.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

DEFAULT_HISTORY: Final = 3


class RuleSettings(Struct, frozen=True):
    """How a rule is run: whether at all, and how many runs of either outcome are kept."""

    suspended: bool
    successes: int
    failures: int


def rule_settings(rule: Mapping[str, Any]) -> RuleSettings:
    """Settings of a rule with its defaults; a limit of 0 keeps none."""

    def limit(name: str) -> int:
        given = rule.get(name)
        return DEFAULT_HISTORY if given is None else int(given)

    return RuleSettings(
        suspended=bool(rule.get("suspend")),
        successes=limit("successfulHistoryLimit"),
        failures=limit("failedHistoryLimit"),
    )


def limits_of(rule: Mapping[str, Any], spec: Mapping[str, Any]) -> dict[str, int]:
    """The least and most replicas of a FederatedHPA's spec once the rule has fired; only those that are set."""
    wanted = {
        "minReplicas": rule.get("targetMinReplicas", spec.get("minReplicas")),
        "maxReplicas": rule.get("targetMaxReplicas", spec.get("maxReplicas")),
    }
    return {name: value for name, value in wanted.items() if value is not None}
