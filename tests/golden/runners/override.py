"""Replays the recorded overrides."""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from services._rules import overrides
from services._rules.policies.cluster_affinity import facts_of

Case = dict[str, Any]


def _record(applied: Iterable[overrides.Applied]) -> list[Case]:
    return [{"policyName": item.policy_name, "overriders": item.overriders} for item in applied]


def _plain(value: Any) -> Any:
    """Without nulls and empty containers in objects, which mean the same as absent ones."""
    if isinstance(value, dict):
        return {key: plain for key, item in value.items() if (plain := _plain(item)) not in (None, {}, [])}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


def _agree(found: Any, recorded: Any) -> bool:
    return msgspec.json.encode(_plain(found), order="deterministic") == msgspec.json.encode(
        _plain(recorded), order="deterministic"
    )


def check_override(case: Case) -> bool:
    """Whether the case comes out as recorded."""
    cluster_policies = [overrides.compile_policy(item) for item in case.get("clusterOverridePolicies") or ()]
    policies = [overrides.compile_policy(item) for item in case.get("overridePolicies") or ()]
    before = msgspec.json.encode(case["object"])
    try:
        found = overrides.apply(case["object"], facts_of(case["cluster"]), cluster_policies, policies)
    except overrides.OverrideError:
        return "error" in case
    unchanged = msgspec.json.encode(case["object"]) == before
    return (
        "error" not in case
        and unchanged
        and _agree(found.manifest, case["result"])
        and _agree(_record(found.applied_cluster_overrides), case.get("appliedClusterOverrides") or [])
        and _agree(_record(found.applied_overrides), case.get("appliedOverrides") or [])
    )


FILES: dict[str, Callable[[Case], bool | None]] = {"override": check_override}
