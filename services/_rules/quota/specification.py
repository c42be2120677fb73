"""Reads a FederatedResourceQuota: what it limits, what it assigns to clusters, and what of it cannot be used.

An API server with admission stores no wrong amount. One without may hold any: what cannot be read limits nothing, and
the rest of the quota is in force (docs/sources.md#quota).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Raw, Struct, json

from schemas.manifest import Manifest
from services._rules.kubernetes import quantity
from services._rules.kubernetes.quantity import Quantity, QuantityError

KIND: Final = "FederatedResourceQuota"
API_VERSION: Final = "policy.karmada.io/v1alpha1"
GROUP: Final = "policy.karmada.io"
PLURAL: Final = "federatedresourcequotas"
QUOTAS: Final = "resourcequotas"
_MOST_PROBLEMS: Final = 5


class Assignment(Struct, frozen=True):
    """The share of one cluster: what its ResourceQuota allows; `problem` is why that cannot be used."""

    cluster: str
    hard: Mapping[str, str]
    problem: str = ""


class FederatedQuota(Struct, frozen=True):
    """One quota as it is obeyed; `problems` name every field that is not, and what to do."""

    namespace: str
    name: str
    uid: str
    overall: Mapping[str, Quantity]
    assignments: tuple[Assignment, ...] = ()
    problems: tuple[str, ...] = ()
    deleting: bool = False
    generation: int = 0

    def problem(self) -> str:
        """All problems in one sentence; empty where there are none."""
        more = len(self.problems) - _MOST_PROBLEMS
        return "; ".join((*self.problems[:_MOST_PROBLEMS], *([f"and {more} more"] if more > 0 else [])))


def read_quota(
    namespace: str, name: str, uid: str, text: Raw | bytes, *, deleting: bool = False, generation: int = 0
) -> FederatedQuota:
    """The quota in a manifest; never raises for what a user wrote."""
    manifest: Manifest = json.decode(text)
    problems: list[str] = []
    spec = manifest.get("spec")
    spec = spec if isinstance(spec, dict) else {}
    overall: dict[str, Quantity] = {}
    given = spec.get("overall")
    for resource, written in (given if isinstance(given, dict) else {}).items():
        amount, problem = _amount(f"spec.overall[{resource}]", written)
        if amount is None:
            problems.append(f"{problem}; this resource is not limited until then")
        else:
            overall[resource] = amount
    assignments: dict[str, Assignment] = {}
    listed = spec.get("staticAssignments")
    for position, item in enumerate(listed if isinstance(listed, list) else ()):
        found = _assignment(f"spec.staticAssignments[{position}]", item)
        if found.problem:
            problems.append(found.problem)
        # Of several entries for one cluster the first counts.
        if found.cluster:
            assignments.setdefault(found.cluster, found)
    return FederatedQuota(
        namespace, name, uid, overall, tuple(assignments.values()), tuple(problems), deleting, generation
    )


def _assignment(place: str, item: Any) -> Assignment:
    item = item if isinstance(item, dict) else {}
    cluster = item.get("clusterName")
    if not isinstance(cluster, str) or not cluster:
        return Assignment("", {}, f"{place}.clusterName is empty: name a cluster")
    given, hard = item.get("hard"), {}
    for resource, written in sorted((given if isinstance(given, dict) else {}).items()):
        amount, problem = _amount(f"{place}.hard[{resource}]", written)
        if amount is None:
            return Assignment(cluster, {}, f"{problem}; cluster {cluster} keeps the ResourceQuota that it has")
        hard[resource] = str(amount)
    return Assignment(cluster, hard)


def _amount(place: str, written: Any) -> tuple[Quantity | None, str]:
    try:
        amount = quantity.parse(written)
    except QuantityError as error:
        return None, f"{place}: {error}"
    if amount.nano < 0:
        return None, f"{place}: {amount} is negative; write 0 or more"
    return amount, ""
