"""Feature gates by Karmada's names, with its defaults but for one, and how a setting turns them on and off.

Source: docs/sources.md#feature-gates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Final

_BETA: Final[Mapping[str, bool]] = {
    "ContextualLogging": True,
    "ControllerPriorityQueue": True,
    "CustomizedClusterResourceModeling": True,
    "Failover": False,
    "GracefulEviction": True,
    "LoggingBetaOptions": True,
    "PropagateDeps": True,
}
# All of them are off unless asked for, but for those that cost nothing while no object asks for them.
_ALPHA: Final = (
    "FederatedQuotaEnforcement",
    "LoggingAlphaOptions",
    "MultiClusterService",
    "MultiplePodTemplatesScheduling",
    "PriorityBasedScheduling",
    "PropagationPolicyPreemption",
    "ResourceQuotaEstimate",
    "SchedulingOvercommitProtection",
    "StatefulFailoverInjection",
    "WorkloadAffinity",
)
_ALPHA_ON: Final = frozenset({"MultiClusterService"})
_DEFAULT_OF_ALPHA: Final = {name: name in _ALPHA_ON for name in _ALPHA}
DEFAULTS: Final[Mapping[str, bool]] = dict(sorted({**_BETA, **_DEFAULT_OF_ALPHA}.items()))
# Gates of one stage; a gate that is named itself goes before them, wherever it stands.
STAGES: Final[Mapping[str, Iterable[str]]] = {"AllAlpha": _ALPHA, "AllBeta": tuple(_BETA)}
_KNOWN: Final = (*DEFAULTS, *STAGES)
_TRUTH: Final = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}


class FeatureGateError(ValueError):
    """A gate that does not exist, or that is neither on nor off."""


def feature_gates(entries: Iterable[str]) -> dict[str, bool]:
    """All gates after entries such as `Failover=true`; raises FeatureGateError naming the entry that is wrong."""
    asked: dict[str, bool] = {}
    for entry in entries:
        name, _, text = (part.strip() for part in entry.partition("="))
        if name not in _KNOWN:
            near = get_close_matches(name, _KNOWN, 1)
            raise FeatureGateError(
                f"feature gate {name!r} does not exist{f'; did you mean {near[0]}?' if near else ''}"
            )
        if text.lower() not in _TRUTH:
            raise FeatureGateError(f"feature gate {entry!r}: write {name}=true or {name}=false")
        asked[name] = _TRUTH[text.lower()]
    gates = dict(DEFAULTS)
    for stage, members in STAGES.items():
        if stage in asked:
            gates.update(dict.fromkeys(members, asked.pop(stage)))
    return gates | asked
