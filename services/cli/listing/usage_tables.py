"""Makes tables of what pods and nodes use, from the metrics of many members."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from schemas.manifest import Manifest
from services._rules.kubernetes.quantity import parse
from services.cli.common.printing import aligned

UNKNOWN: Final = "<unknown>"
_MEBI: Final = 1 << 20
_LINE: Final = "________"


class Usage(Struct, frozen=True):
    """What one pod, container or node uses; `cpu` in thousandths of a core, `memory` in bytes."""

    cluster: str
    namespace: str
    name: str
    cpu: int
    memory: int
    container: str = ""
    cpu_of: int = 0
    memory_of: int = 0
    known: bool = True


def usage_of_pod(cluster: str, item: Manifest, *, containers: bool) -> list[Usage]:
    """The usage of a pod, or of each of its containers; raises QuantityError for what is no quantity."""
    metadata = item["metadata"]
    place = cluster, str(metadata.get("namespace") or ""), str(metadata["name"])
    each = [
        Usage(*place, *_amounts(one.get("usage") or {}), container=str(one.get("name") or ""))
        for one in item.get("containers") or ()
    ]
    if containers:
        return each
    return [Usage(*place, sum(one.cpu for one in each), sum(one.memory for one in each))]


def usage_of_node(cluster: str, node: Manifest, metrics: Manifest | None, *, capacity: bool) -> Usage:
    """The usage of a node beside what it offers; raises QuantityError for what is no quantity."""
    offered = (node.get("status") or {}).get("capacity" if capacity else "allocatable") or {}
    used = _amounts((metrics or {}).get("usage") or {})
    total = _amounts(offered)
    name = str(node["metadata"]["name"])
    return Usage(cluster, "", name, *used, cpu_of=total[0], memory_of=total[1], known=metrics is not None)


def _amounts(quantities: Manifest) -> tuple[int, int]:
    cpu, memory = quantities.get("cpu", 0), quantities.get("memory", 0)
    return parse(cpu).milli_value(), parse(memory).value()


def in_order(found: Sequence[Usage], order: str) -> list[Usage]:
    """By the largest `cpu` or `memory`; else by cluster, namespace and name."""
    named = sorted(found, key=lambda one: (one.cluster, one.namespace, one.name, one.container))
    if order == "cpu":
        return sorted(named, key=lambda one: -one.cpu)
    if order == "memory":
        return sorted(named, key=lambda one: -one.memory)
    return named


def pod_table(found: Sequence[Usage], *, namespaces: bool, containers: bool, total: bool, no_headers: bool) -> str:
    """One line for each pod or container, and one with the sum where it is wanted."""
    headers = [
        *(["NAMESPACE"] if namespaces else []),
        *(["POD", "CLUSTER", "NAME"] if containers else ["NAME", "CLUSTER"]),
        *("CPU(cores)", "MEMORY(bytes)"),
    ]
    rows = [
        [
            *([one.namespace] if namespaces else []),
            *([one.name, one.cluster, one.container] if containers else [one.name, one.cluster]),
            *(_cores(one.cpu), _bytes(one.memory)),
        ]
        for one in found
    ]
    if total:
        blank = [""] * (len(headers) - 2)
        sums = _cores(sum(one.cpu for one in found)), _bytes(sum(one.memory for one in found))
        rows += [[*blank, _LINE, _LINE], [*blank, *sums]]
    return aligned(rows if no_headers else [headers, *rows])


def node_table(found: Sequence[Usage], *, no_headers: bool) -> str:
    """One line for each node."""
    rows = [[one.name, one.cluster, *(_node_cells(one) if one.known else [UNKNOWN] * 4)] for one in found]
    headers = ["NAME", "CLUSTER", "CPU(cores)", "CPU%", "MEMORY(bytes)", "MEMORY%"]
    return aligned(rows if no_headers else [headers, *rows])


def _node_cells(one: Usage) -> list[str]:
    return [_cores(one.cpu), _share(one.cpu, one.cpu_of), _bytes(one.memory), _share(one.memory, one.memory_of)]


def _cores(thousandths: int) -> str:
    return f"{thousandths}m"


def _bytes(count: int) -> str:
    return f"{count // _MEBI}Mi"


def _share(part: int, whole: int) -> str:
    return f"{part * 100 // whole}%" if whole else UNKNOWN
