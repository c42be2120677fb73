"""Resources that a binding uses, by its requests and the clusters it is placed in (docs/sources.md#quota)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from schemas.events.placement import PlacementDecided, PlacementFailed, TargetCluster
from services._rules.kubernetes import quantity
from services._rules.kubernetes.pod_resources import add_to
from services._rules.kubernetes.quantity import Quantity, QuantityError

Amounts = dict[str, Quantity]


class Requests(Struct, frozen=True):
    """What one replica takes, or (`sets`) one set of components, of which every cluster runs one."""

    amounts: Mapping[str, Quantity] = {}
    sets: bool = False

    def on(self, targets: Iterable[TargetCluster]) -> Amounts:
        """What a placement in these clusters uses; nothing-amounts are left out."""
        factor = sum(1 if self.sets else target.replicas or 0 for target in targets)
        if not factor:
            return {}
        return {name: amount * factor for name, amount in self.amounts.items() if not amount.is_zero()}

    def texts(self) -> dict[str, str]:
        """The amounts by resource as text, in a stable order; a fact about a placement names them."""
        return {name: str(self.amounts[name]) for name in sorted(self.amounts)}


NO_REQUESTS: Final = Requests()


def requests_of(spec: Mapping[str, Any]) -> Requests:
    """What a binding's spec asks for per replica or set; raises quantity.QuantityError."""
    components: Sequence[Mapping[str, Any]] = spec.get("components") or ()
    if not components:
        return Requests(_requested(spec.get("replicaRequirements")))
    total: Amounts = {}
    for component in components:
        replicas = int(component.get("replicas") or 0)
        taken = _requested(component.get("replicaRequirements"))
        add_to(total, {name: amount * replicas for name, amount in taken.items()})
    return Requests(total, sets=True)


def readable_requests(spec: Mapping[str, Any] | None) -> Requests:
    """The same for a projection: nothing where there is no spec, or none that can be read."""
    try:
        return requests_of(spec) if spec is not None else NO_REQUESTS
    except (QuantityError, ValueError, TypeError, AttributeError):
        return NO_REQUESTS


def recorded(texts: Mapping[str, str], *, sets: bool) -> Requests:
    """The requests that a fact names; what cannot be read is left out."""
    amounts: Amounts = {}
    for name, text in texts.items():
        try:
            amounts[name] = quantity.parse(text)
        except QuantityError:
            continue
    return Requests(amounts, sets)


def resource_usage(spec: Mapping[str, Any]) -> Amounts:
    """Resources that a binding spec occupies on all its clusters together; nothing-amounts are left out.

    A workload of several components occupies one full set per cluster. Raises quantity.QuantityError.
    """
    clusters: Sequence[Mapping[str, Any]] = spec.get("clusters") or ()
    return requests_of(spec).on(
        TargetCluster(str(item.get("name") or ""), int(item.get("replicas") or 0)) for item in clusters
    )


def is_counted(spec: Mapping[str, Any]) -> bool:
    """Whether a binding's spec asks for replicas or components at all: what has none uses nothing."""
    return bool(spec.get("replicas") or spec.get("replicaRequirements") or spec.get("components"))


def _requested(requirements: Mapping[str, Any] | None) -> Amounts:
    requests = (requirements or {}).get("resourceRequest") or {}
    return {name: quantity.parse(text) for name, text in requests.items()}


def in_force(placed: PlacementDecided | PlacementFailed | None, requests: Requests) -> Requests:
    """What one replica takes by the placement in force, `requests` by the binding: they count once admitted."""
    if placed is None or placed.requests is None:
        return requests
    return recorded(placed.requests, sets=requests.sets)
