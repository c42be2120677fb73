"""Lists the parts of Karmada's API that are accepted and stored, but not acted on in this version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

KINDS: Final[Mapping[str, str]] = {
    "CronFederatedHPA": "nothing is scaled by it",
    "FederatedHPA": "nothing is scaled by it",
    "FederatedResourceQuota": "nothing is limited by it, and no ResourceQuota is made in members",
    "MultiClusterIngress": "no route is made of it",
    "MultiClusterService": "no Service is made of it in members",
    "Remedy": "no remedy is carried out",
    "WorkloadRebalancer": "nothing is scheduled anew because of it",
}
"""What does not happen for objects of these kinds."""

_POLICIES: Final = ("PropagationPolicy", "ClusterPropagationPolicy")
_DEPENDENCIES: Final = (
    "spec.propagateDeps is not acted on yet: what the objects need (ConfigMaps, Secrets, …) is not sent along; "
    "select it in a policy, too"
)
_PREEMPTION: Final = (
    "spec.preemption is not acted on yet: objects stay with the policy that claimed them until it is deleted or "
    "selects them no more"
)


def unsupported_fields(kind: str, manifest: Mapping[str, Any]) -> list[str]:
    """What in an object of Karmada's groups, or all of it, will have no effect; one sentence each."""
    if kind in KINDS:
        return [f"{kind} is kept, but not acted on yet: {KINDS[kind]}"]
    spec = manifest.get("spec")
    if kind not in _POLICIES or not isinstance(spec, Mapping):
        return []
    found = []
    if spec.get("propagateDeps") is True:
        found.append(_DEPENDENCIES)
    if spec.get("preemption") == "Always":
        found.append(_PREEMPTION)
    return found
