"""Compares what a plan decided with what was there before: bindings, placements, copies, and the blast radius."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from schemas.events.binding import BindingRequested
from schemas.events.placement import PlacementFailed
from schemas.keys import ObjectKey
from schemas.manifest import Manifest
from schemas.plan import BlastRadius, Plan, PlannedBinding, PlannedManifest, PlannedObject, PlannedPlacement
from services._rules.delivery.work_labels import without_marks
from services._rules.secrets.secret_objects import is_secret_resource
from services.foresight.planning import Copy, Planner
from services.override_renderer.state import Bound, RendererState

LONGEST_DIFF: Final = 400
"""Lines of one diff; the rest is counted."""
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
Show = Callable[[Manifest], str]
"""Writes a manifest as lines of text."""
Clusters = dict[str, int | None]


def plan_of(planner: Planner, objects: Iterable[PlannedObject], show: Show | None = None, most: int = 0) -> Plan:
    """What a planner found out; `show` asks for diffs of manifests, of at most so many (0: of all)."""
    bindings: list[PlannedBinding] = []
    placements: list[PlannedPlacement] = []
    manifests: list[PlannedManifest] = []
    disturbed = orphaned = 0
    members = _members(planner.world.before), _members(planner.world.after)
    for key in sorted(planner.affected):
        before, after = planner.world.before.objects.get(key), planner.world.after.objects.get(key)
        binding = _binding(key, before, after)
        if binding is not None:
            bindings.append(binding)
        placement = _placement(planner, key, members)
        if placement is not None:
            placements.append(placement)
        copies = [*_manifests(key, *planner.copies.get(key, ({}, {})))]
        for item, was, now in copies:
            room = not most or sum(bool(each.diff) for each in manifests) < most
            manifests.append(_with_diff(item, was, now, show) if show is not None and room else item)
        placed = isinstance(before.binding, BindingRequested) if before is not None else False
        lost = binding is not None and binding.change in ("released", "orphaned")
        orphaned += binding is not None and binding.change == "orphaned"
        disturbed += placed and (lost or bool(copies) or (placement is not None and bool(placement.before)))
    return Plan(
        position=planner.world.position,
        at=planner.now,
        radius=msgspec.structs.replace(
            _radius(planner, bindings, placements, manifests), disturbed=disturbed, orphaned=orphaned
        ),
        objects=tuple(objects),
        bindings=tuple(bindings),
        placements=tuple(placements),
        manifests=tuple(manifests),
        notes=tuple(planner.notes),
    )


def _members(state: RendererState) -> list[str]:
    return [name for name, member in state.clusters.items() if not member.deleting]


def _binding(key: ObjectKey, before: Bound | None, after: Bound | None) -> PlannedBinding | None:
    was = before.binding if before is not None else None
    now = after.binding if after is not None else None
    old = was if isinstance(was, BindingRequested) else None
    new = now if isinstance(now, BindingRequested) else None
    if old is None or new is None:
        if old is new:
            return None
        return PlannedBinding(str(key), "released" if new is None else "created", _policy(old), _policy(new))
    if old.policy is not None and new.policy is None:
        return PlannedBinding(str(key), "orphaned", _policy(old))
    if old.spec != new.spec or _policy(old) != _policy(new):
        return PlannedBinding(str(key), "changed", _policy(old), _policy(new))
    return None


def _policy(binding: BindingRequested | None) -> str:
    return str(binding.policy.key) if binding is not None and binding.policy is not None else ""


def _placement(planner: Planner, key: ObjectKey, members: tuple[list[str], list[str]]) -> PlannedPlacement | None:
    sides = planner.world.before, planner.world.after
    before, after = (state.objects.get(key) for state in sides)
    was, now = (_clusters(state, key, known) for state, known in zip(sides, members, strict=True))
    placed = after.placed if after is not None else None
    failure = f"{placed.reason}: {placed.message}" if isinstance(placed, PlacementFailed) else ""
    failed_before = before is not None and isinstance(before.placed, PlacementFailed)
    if was == now and not (failure and not failed_before):
        return None
    return PlannedPlacement(str(key), was, now, planner.why.get(key, ""), failure)


def _clusters(state: RendererState, key: ObjectKey, members: list[str]) -> Clusters:
    if key not in state.objects:
        return {}
    return {target.name: target.replicas for target in state.effective(key, members).targets}


def _manifests(
    key: ObjectKey, before: dict[str, Copy], after: dict[str, Copy]
) -> Iterable[tuple[PlannedManifest, Copy | None, Copy | None]]:
    """The copies that differ."""
    withheld = is_secret_resource(key.group, key.resource)
    for cluster in sorted(before.keys() | after.keys()):
        was, now = before.get(cluster), after.get(cluster)
        if was is not None and now is not None:
            if (was.digest, was.problem) != (now.digest, now.problem):
                item = PlannedManifest(str(key), cluster, "changed", problem=now.problem, withheld=withheld)
                yield item, was, now
        elif now is not None:
            yield PlannedManifest(str(key), cluster, "created", problem=now.problem, withheld=withheld), None, now
        elif was is not None:
            change = "kept" if was.keep else "removed"
            yield PlannedManifest(str(key), cluster, change, withheld=withheld), was, None  # type: ignore[arg-type]


def _with_diff(item: PlannedManifest, was: Copy | None, now: Copy | None, show: Show) -> PlannedManifest:
    if item.withheld or item.problem:
        return item
    # A copy that goes is not spelled out.
    if now is None:
        return item
    lines = list(
        difflib.unified_diff(
            _lines(was, show),
            _lines(now, show),
            f"{item.object} in {item.cluster}" if was is not None else "/dev/null",
            f"{item.object} in {item.cluster}",
            lineterm="",
        )
    )
    if len(lines) > LONGEST_DIFF:
        lines = [*lines[:LONGEST_DIFF], f"... {len(lines) - LONGEST_DIFF} more lines"]
    return msgspec.structs.replace(item, diff="".join(f"{line}\n" for line in lines))


def _lines(copy: Copy | None, show: Show) -> list[str]:
    if copy is None or not copy.data:
        return []
    manifest: Manifest = msgspec.json.decode(copy.data)
    metadata = manifest["metadata"]
    if metadata.get("labels") is not None and metadata.get("annotations") is not None:
        manifest = without_marks(manifest)
        # It says the same once more, in one line.
        manifest["metadata"]["annotations"].pop(LAST_APPLIED, None)
    return show(manifest).splitlines()


def _radius(
    planner: Planner,
    bindings: list[PlannedBinding],
    placements: list[PlannedPlacement],
    manifests: list[PlannedManifest],
) -> BlastRadius:
    workloads = {item.object for item in bindings} | {item.object for item in placements}
    workloads |= {item.object for item in manifests}
    clusters = {item.cluster for item in manifests}
    moved = started = stopped = 0
    for item in placements:
        names = item.before.keys() | item.after.keys()
        steps = [(item.after.get(name) or 0) - (item.before.get(name) or 0) for name in names]
        gained, lost = sum(step for step in steps if step > 0), -sum(step for step in steps if step < 0)
        moved += min(gained, lost)
        started += max(0, gained - lost)
        stopped += max(0, lost - gained)
        clusters.update(name for name in names if item.before.get(name, -1) != item.after.get(name, -1))
    claimed = {
        key
        for key, bound in planner.world.before.objects.items()
        if isinstance(bound.binding, BindingRequested)
        and bound.binding.policy is not None
        and any(change.key == bound.binding.policy.key for change in planner.changes)
    }
    return BlastRadius(
        workloads=len(workloads),
        clusters=len(clusters),
        moved=moved,
        started=started,
        stopped=stopped,
        copies=len(manifests),
        claimed=len(claimed),
    )
