"""Feature gates by Karmada's names, with its defaults, and how a setting turns them on and off (reference 03 §9.2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Final

DEFAULTS: Final[Mapping[str, bool]] = {
    "ContextualLogging": True,
    "ControllerPriorityQueue": True,
    "CustomizedClusterResourceModeling": True,
    "Failover": False,
    "FederatedQuotaEnforcement": False,
    "GracefulEviction": True,
    "LoggingAlphaOptions": False,
    "LoggingBetaOptions": True,
    "MultiClusterService": False,
    "MultiplePodTemplatesScheduling": False,
    "PriorityBasedScheduling": True,
    "PropagateDeps": True,
    "PropagationPolicyPreemption": False,
    "ResourceQuotaEstimate": False,
    "SchedulingOvercommitProtection": False,
    "StatefulFailoverInjection": False,
    "WorkloadAffinity": False,
}
_TRUTH: Final = {"true": True, "false": False}


class FeatureGateError(ValueError):
    """A gate that does not exist, or that is neither on nor off."""


def feature_gates(entries: Iterable[str]) -> dict[str, bool]:
    """All gates after entries such as `Failover=true`; raises FeatureGateError naming the entry that is wrong."""
    gates = dict(DEFAULTS)
    for entry in entries:
        name, _, text = (part.strip() for part in entry.partition("="))
        if name not in DEFAULTS:
            near = get_close_matches(name, DEFAULTS, 1)
            raise FeatureGateError(
                f"feature gate {name!r} does not exist{f'; did you mean {near[0]}?' if near else ''}"
            )
        if text.lower() not in _TRUTH:
            raise FeatureGateError(f"feature gate {entry!r}: write {name}=true or {name}=false")
        gates[name] = _TRUTH[text.lower()]
    return gates
