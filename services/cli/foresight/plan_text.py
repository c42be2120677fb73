"""Prints a plan: tables, diffs and the line of the blast radius for people, or one document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeVar

import msgspec

from schemas.plan import BlastRadius, Plan, PlannedManifest, PlannedPlacement
from services.cli.common.printing import table

T = TypeVar("T")
_SIGNS: Final = {"created": "+", "changed": "~", "deleted": "-", "unchanged": "="}


def document(plan: Plan) -> dict[str, Any]:
    """A plan as a document; its fields are those of `Plan` in schemas/plan.py."""
    return {"kind": "Plan", "apiVersion": "fleetlog/v1", **msgspec.to_builtins(plan), "changes": plan.changes}


def text(plan: Plan, show: str = "placements", limit: int = 0) -> str:
    """A plan for people; at most `limit` rows of each table and diffs (0: all)."""
    parts = [_objects(plan)]
    if plan.bindings:
        rows = [(item.object, item.change, item.before or "-", item.after or "-") for item in plan.bindings]
        headers = ("binding", "change", "policy before", "policy after")
        parts.append(table(headers, _first(rows, limit)) + _rest(rows, limit, "bindings"))
    if plan.placements:
        placed = [(item.object, _where(item.before), _after(item)) for item in plan.placements]
        parts.append(
            table(("placement", "before", "after"), _first(placed, limit)) + _rest(placed, limit, "placements")
        )
    if plan.manifests:
        parts.append(_manifests(plan.manifests, show, limit))
    if plan.notes:
        parts.append("".join(f"Note: {note}\n" for note in plan.notes))
    parts.append(radius(plan))
    return "\n".join(parts)


def _objects(plan: Plan) -> str:
    lines = []
    for item in plan.objects:
        name = f"{item.namespace}/{item.name}" if item.namespace else item.name
        lines.append(f"{_SIGNS[item.change]} {item.kind} {name}: {item.change if not item.problem else 'refused'}\n")
        if item.problem:
            lines.append(f"    {item.problem}\n")
        if item.guard:
            lines.append(f"    Guard: {item.guard}\n")
    return "".join(lines)


def _manifests(manifests: Sequence[PlannedManifest], show: str, limit: int) -> str:
    rows = [(item.object, item.cluster, item.change, _remark(item)) for item in manifests]
    found = (
        ""
        if show == "manifests"
        else (table(("copy", "cluster", "change", "remark"), _first(rows, limit)) + _rest(rows, limit, "copies"))
    )
    if show == "placements":
        return found
    diffs = [item.diff for item in manifests if item.diff]
    shown = _first(diffs, limit)
    without = sum(not item.diff for item in manifests)
    more = (
        f"{without} more copies without a diff: they go, are withheld, or --limit leaves them out.\n" if without else ""
    )
    return (found + "\n" if found else "") + "\n".join(shown) + more


def _remark(item: PlannedManifest) -> str:
    if item.problem:
        return item.problem
    return "content withheld: a Secret" if item.withheld else "-"


def radius(plan: Plan) -> str:
    """The blast radius as one line."""
    if not plan.changes:
        return "Nothing would change.\n"
    found: BlastRadius = plan.radius
    if not found.workloads:
        return "Blast radius: no workload would move or change.\n"
    replicas = [
        f"{count:,} {_plural(count, 'replica')} {verb if count != 1 else verb + 's'}"
        for count, verb in ((found.moved, "move"), (found.started, "start"), (found.stopped, "stop"))
        if count
    ]
    copies = [f"{found.copies:,} {'copies' if found.copies != 1 else 'copy'} of manifests"] if found.copies else []
    left = [f"{found.orphaned:,} left without a policy (copies stay)"] if found.orphaned else []
    parts = [
        f"{found.workloads:,} {_plural(found.workloads, 'workload')}",
        f"{found.clusters:,} {_plural(found.clusters, 'cluster')}",
        *copies,
        *replicas,
        *left,
    ]
    return f"Blast radius: {', '.join(parts)}.\n"


def _plural(count: int, word: str) -> str:
    return word if count == 1 else f"{word}s"


def _where(clusters: dict[str, int | None]) -> str:
    return (
        " ".join(name if count is None else f"{name}={count}" for name, count in sorted(clusters.items())) or "nowhere"
    )


def _after(item: PlannedPlacement) -> str:
    return f"{_where(item.after)} ({item.failure})" if item.failure else _where(item.after)


def _first(items: Sequence[T], limit: int) -> Sequence[T]:
    return items[:limit] if limit else items


def _rest(items: Sequence[object], limit: int, what: str) -> str:
    left = len(items) - limit
    return f"... and {left:,} more {what}; --limit 0 prints all\n" if limit and left > 0 else ""
