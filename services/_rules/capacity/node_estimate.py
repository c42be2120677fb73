"""The estimate from the nodes of a member and the pods on them (docs/sources.md#estimators)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct

from schemas.manifest import Manifest
from services._rules.capacity.general_estimate import Assumed, Component, Demand
from services._rules.capacity.packing import Room, count_sets, place_set
from services._rules.kubernetes import quantity, selectors
from services._rules.kubernetes.pod_resources import add_to, is_node_resource, node_units, pod_sum
from services._rules.kubernetes.selectors import LabelSelectorError, Selector
from services._rules.kubernetes.taints import Taint, Toleration, first_untolerated, tolerates

Amounts: TypeAlias = dict[str, int]

UNLIMITED: Final = 2**31 - 1
_CORDONED: Final = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


class Node(Struct, frozen=True):
    """One node: what decides whether pods may go there, and what is left on it."""

    name: str
    labels: dict[str, str]
    taints: tuple[Taint, ...]
    unschedulable: bool
    free: Amounts
    pods: int


class Estimate(Struct, frozen=True):
    """Answer of an estimator; `unschedulable`: the zero is a verdict and not an absence of nodes."""

    value: int
    unschedulable: bool = False


Eligibility: TypeAlias = Callable[[Node], bool]


def units_of(resources: Mapping[str, Any] | None) -> Amounts:
    """Amounts in node units (cpu in milli, all others whole) of the resources that count on nodes, and pods."""
    return {
        name: node_units(name, quantity.parse(text))
        for name, text in (resources or {}).items()
        if name == "pods" or is_node_resource(name)
    }


def finished(pod: Manifest) -> bool:
    """Whether a pod has ended and holds nothing any more."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def pod_request(pod: Manifest) -> Amounts:
    """What a pod holds: per resource the greater of its containers together and each init container, and overhead."""
    spec = pod.get("spec") or {}
    total = pod_sum(spec, requests_of)
    add_to(total, units_of(spec.get("overhead")))
    return total


def requests_of(container: Manifest) -> Amounts:
    """What a container asks for."""
    return units_of((container.get("resources") or {}).get("requests"))


def eligibility(claim: Mapping[str, Any] | None) -> Eligibility:
    """Compiles a node claim into a function that returns whether its pod may run on a node."""
    claim = claim or {}
    wanted: dict[str, str] = claim.get("nodeSelector") or {}
    affinity = claim.get("hardNodeAffinity")
    terms = None if affinity is None else [_term(item) for item in affinity.get("nodeSelectorTerms") or ()]
    tolerations = tuple(msgspec.convert(item, Toleration) for item in claim.get("tolerations") or ())

    def eligible(node: Node) -> bool:
        if any(node.labels.get(key) != value for key, value in wanted.items()):
            return False
        if terms is not None and not any(term(node) for term in terms):
            return False
        if node.unschedulable and not any(tolerates(item, _CORDONED) for item in tolerations):
            return False
        return first_untolerated(node.taints, tolerations) is None

    return eligible


def _term(term: Mapping[str, Any]) -> Eligibility:
    """One alternative of a node affinity; an empty or broken one matches no node."""
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return _nowhere
    try:
        labels_match = Selector(selectors.compile_expressions(expressions, node=True)).matches
        names = [_field(item) for item in fields]
    except LabelSelectorError:
        return _nowhere
    return lambda node: labels_match(node.labels) and all((node.name == name) is wanted for name, wanted in names)


def _field(item: Mapping[str, Any]) -> tuple[str, bool]:
    """A condition on the name of the node: the name, and whether it is wanted or excluded."""
    values: Sequence[str] = item.get("values") or ()
    operator = item.get("operator")
    if item.get("key") != "metadata.name" or len(values) != 1 or operator not in ("In", "NotIn"):
        raise LabelSelectorError(f"matchFields {item!r}: only metadata.name In or NotIn one value can be tested")
    return values[0], operator == "In"


def _nowhere(_: Node) -> bool:
    return False


def estimate_replicas(
    nodes: Sequence[Node],
    demand: Demand | None,
    claim: Mapping[str, Any] | None = None,
    assumed: Sequence[Assumed] = (),
) -> Estimate:
    """Further replicas that fit on the nodes, after assumed workloads have been placed on them."""
    if not nodes:
        return Estimate(0)
    eligible = eligibility(claim)
    rooms = _rooms(nodes, assumed)
    on_node = demand.on_node if demand else ()
    return Estimate(sum(room.fits(on_node) for room, node in zip(rooms, nodes, strict=True) if eligible(node)))


def estimate_components(
    nodes: Sequence[Node], components: Sequence[Component], assumed: Sequence[Assumed] = ()
) -> Estimate:
    """Complete sets of components that fit on the nodes; UNLIMITED where there is nothing to place."""
    if not components:
        return Estimate(UNLIMITED)
    rooms = _rooms(nodes, assumed)
    sets = _count(rooms, nodes, components)
    return Estimate(sets, unschedulable=sets == 0)


def _count(rooms: Sequence[Room], nodes: Sequence[Node], components: Sequence[Component]) -> int:
    return count_sets(rooms, _demands(components), UNLIMITED, _allowed(nodes, components))


def _rooms(nodes: Sequence[Node], assumed: Sequence[Assumed]) -> list[Room]:
    rooms = [Room(dict(node.free), node.pods) for node in nodes]
    for workload in assumed:
        place_set(rooms, _demands(workload.components), _allowed(nodes, workload.components))
    return rooms


def _demands(components: Sequence[Component]) -> list[tuple[int, tuple[tuple[str, int], ...]]]:
    return [(item.replicas, item.demand.on_node if item.demand else ()) for item in components]


def _allowed(nodes: Sequence[Node], components: Sequence[Component]) -> Callable[[int, int], bool]:
    """Which component may run on which node, worked out once for a whole simulation."""
    table = [[eligible(node) for node in nodes] for eligible in (eligibility(item.claim) for item in components)]
    return lambda component, node: table[component][node]
