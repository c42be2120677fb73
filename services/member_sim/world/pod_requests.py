"""What a pod takes from a node, and what a node has, as whole numbers: cpu in thousandths, the rest in units."""

from contextlib import suppress
from typing import Any

from schemas.manifest import Manifest
from services._rules.kubernetes.pod_resources import add_to, node_units, pod_sum
from services._rules.kubernetes.quantity import QuantityError, parse


def amounts(quantities: dict[str, Any] | None) -> dict[str, int]:
    """Return the quantities rounded up; 0 for what is no quantity (the API server refuses those)."""
    found = dict.fromkeys(quantities or (), 0)
    for name, quantity in (quantities or {}).items():
        with suppress(QuantityError):
            found[name] = node_units(name, parse(quantity))
    return found


def pod_requests(spec: Manifest) -> dict[str, int]:
    """Return a pod's requests, with its overhead and as one pod."""
    total = pod_sum(spec, _requests, sidecars=True)
    add_to(total, {"pods": 1})
    add_to(total, amounts(spec.get("overhead")))
    return total


def _requests(container: Manifest) -> dict[str, int]:
    resources = container.get("resources") or {}
    # A limit without a request counts as the request, as the API server's defaulting has it.
    return amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})
