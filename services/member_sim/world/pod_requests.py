"""What a pod takes from a node, and what a node has, as whole numbers: cpu in thousandths, the rest in units."""

from functools import lru_cache
from typing import Any

from services._rules.kubernetes.quantity import QuantityError, parse


@lru_cache(maxsize=4096)
def _amount(text: str, milli: bool) -> int:
    try:
        quantity = parse(text)
    except QuantityError:
        return 0
    return quantity.milli_value() if milli else quantity.value()


def amount(resource: str, quantity: Any) -> int:
    """Return the quantity rounded up; 0 for what is no quantity (the API server refuses those)."""
    return _amount(str(quantity), resource == "cpu")


def pod_requests(spec: dict[str, Any]) -> dict[str, int]:
    """Return a pod's requests: containers summed, at least the largest init container, plus overhead, and one pod."""
    total: dict[str, int] = {"pods": 1}
    for container in spec.get("containers") or ():
        _add(total, _requests(container))
    largest: dict[str, int] = {}
    for container in spec.get("initContainers") or ():
        wanted = _requests(container)
        if container.get("restartPolicy") == "Always":
            _add(total, wanted)
        else:
            for name, quantity in wanted.items():
                largest[name] = max(largest.get(name, 0), amount(name, quantity))
    for name, quantity in largest.items():
        total[name] = max(total.get(name, 0), quantity)
    _add(total, spec.get("overhead") or {})
    return total


def node_capacity(node: dict[str, Any]) -> dict[str, int]:
    """Return what a node offers to pods."""
    offered = (node.get("status") or {}).get("allocatable") or {}
    return {name: amount(name, quantity) for name, quantity in offered.items()}


def _requests(container: dict[str, Any]) -> dict[str, Any]:
    resources = container.get("resources") or {}
    # A limit without a request counts as the request, as the API server's defaulting has it.
    return {**(resources.get("limits") or {}), **(resources.get("requests") or {})}


def _add(total: dict[str, int], wanted: dict[str, Any]) -> None:
    for name, quantity in wanted.items():
        total[name] = total.get(name, 0) + amount(name, quantity)
