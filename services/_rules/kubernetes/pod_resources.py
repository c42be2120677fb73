"""What the containers of a pod take together, and the units in which it is compared with what nodes have."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from schemas.manifest import Manifest
from services._rules.kubernetes.quantity import Quantity, from_milli, from_value

Amount = TypeVar("Amount", bound=Any)


def is_extended_resource(name: str) -> bool:
    """Whether a resource name is one that Kubernetes does not define itself, such as nvidia.com/gpu."""
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


def is_node_resource(name: str) -> bool:
    """Whether nodes are compared on this resource: cpu, memory, ephemeral-storage and scalar resources."""
    if name in ("cpu", "memory", "ephemeral-storage"):
        return True
    if name.startswith(("hugepages-", "attachable-volumes-")) or "kubernetes.io/" in name:
        return True
    return is_extended_resource(name)


def node_units(name: str, amount: Quantity) -> int:
    """An amount in the unit in which nodes are compared: cpu in milli, everything else whole."""
    return amount.milli_value() if name == "cpu" else amount.value()


def quantity_of(name: str, units: int) -> Quantity:
    """The quantity of so many units, in the format that is usual for the resource."""
    if name == "cpu":
        return from_milli(units)
    binary = name in ("memory", "ephemeral-storage") or name.startswith("hugepages-")
    return from_value(units, "BinarySI" if binary else "DecimalSI")


def pod_sum(
    spec: Manifest, take: Callable[[Manifest], Mapping[str, Amount]], *, sidecars: bool = False
) -> dict[str, Amount]:
    """Add up by resource what all containers take at once, or one that runs before them where that is more.

    With `sidecars`, an init container that goes on counts beside the containers and beside those after it, as nodes
    count it. Karmada's estimates and the sums of its objects count it as any other init container.
    """
    total: dict[str, Amount] = {}
    going_on: dict[str, Amount] = {}
    before: dict[str, Amount] = {}
    for container in spec.get("containers") or ():
        add_to(total, take(container))
    for container in spec.get("initContainers") or ():
        taken = take(container)
        beside = dict(going_on)
        add_to(beside, taken)
        raise_to(before, beside)
        if sidecars and container.get("restartPolicy") == "Always":
            add_to(total, taken)
            going_on = beside
    raise_to(total, before)
    return total


def add_to(total: dict[str, Amount], more: Mapping[str, Amount]) -> None:
    """Add amounts to a running total."""
    for name, amount in more.items():
        total[name] = total[name] + amount if name in total else amount


def raise_to(total: dict[str, Amount], floor: Mapping[str, Amount]) -> None:
    """Raise a running total to at least these amounts."""
    for name, amount in floor.items():
        if name not in total or total[name] < amount:
            total[name] = amount
