"""What the containers of a pod take together."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from schemas.manifest import Manifest

Amount = TypeVar("Amount", bound=Any)


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
