"""Aggregated cluster roles: the rules of all roles that the selectors of one choose."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from schemas.manifest import Manifest
from services._rules.kubernetes.selectors import LabelSelectorError, Matcher, compile_selector


def aggregated_rules(role: Manifest, others: Iterable[Manifest]) -> list[Manifest] | None:
    """The rules that a role should hold, each once, in the order of the names of those chosen.

    None for a role that aggregates nothing, and for one with a selector that cannot be read.
    """
    rule = role.get("aggregationRule")
    if not rule:
        return None
    try:
        chosen = [_matcher(selector) for selector in rule.get("clusterRoleSelectors") or ()]
    except LabelSelectorError:
        return None
    own = role["metadata"]["name"]
    found: list[Manifest] = []
    for other in sorted(others, key=_name):
        labels = other["metadata"].get("labels") or {}
        if _name(other) != own and any(matches(labels) for matches in chosen):
            found += [held for held in other.get("rules") or () if held not in found]
    return found


def _name(role: Manifest) -> str:
    return str(role["metadata"]["name"])


def _matcher(selector: Mapping[str, Any] | None) -> Matcher:
    return compile_selector(selector).matches
