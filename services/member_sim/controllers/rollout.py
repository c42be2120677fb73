"""How far the ReplicaSets of a Deployment grow, shrink or go in one step of a rollout or a change of size."""

from schemas.manifest import Manifest
from services.member_sim.controllers.deployment_replicasets import (
    DESIRED,
    HISTORY,
    MAXIMUM,
    REVISION,
    Limits,
    Part,
    growth,
    inherited,
    revision_of,
    sizes_of,
)
from services.member_sim.world.world_model import REPLICASETS, Write, key_of, with_metadata


def changes(deployment: Manifest, current: Part | None, old: list[Part], limits: Limits, paused: bool) -> list[Write]:
    """Return the updates of existing ReplicaSets: sizes of this step, annotations, revision."""
    parts = [*old, current] if current is not None else old
    if paused or _resized(parts, limits.replicas):
        sizes = scaled(current, old, limits)
    else:
        sizes = {}
        if current is not None:
            sizes[current.name] = _rolled_up(current, old, limits)
        if current is None or sizes[current.name] == current.wanted:
            sizes |= shrunk(current, old, limits)
    writes = []
    newest = 1 + max((revision_of(part.manifest) for part in old), default=0)
    for part in parts:
        annotations = part.manifest["metadata"].get("annotations") or {}
        wanted = {**annotations}
        if part is current and not paused:
            wanted |= inherited(deployment)
            if revision_of(part.manifest) < newest:
                wanted[REVISION] = str(newest)
                past = annotations.get(REVISION, "")
                if past:
                    wanted[HISTORY] = ",".join(filter(None, (annotations.get(HISTORY), past)))
        size = sizes.get(part.name, part.wanted)
        if part is current or size or part.wanted:
            wanted |= sizes_of(limits)
        updated = part.manifest
        if size != part.wanted:
            updated = {**updated, "spec": {**updated["spec"], "replicas": size}}
        if wanted != annotations:
            updated = with_metadata(updated, annotations=wanted)
        if updated is not part.manifest:
            writes.append(Write("update", key_of(REPLICASETS, part.manifest), updated))
    return writes


def scaled(current: Part | None, old: list[Part], limits: Limits) -> dict[str, int]:
    """Return sizes after a change of replicas: one active set takes all, several share in proportion."""
    active = [part for part in (*old, *([current] if current else [])) if part.wanted]
    if len(active) <= 1:
        only = active[0] if active else current or (old[-1] if old else None)
        return {only.name: limits.replicas} if only is not None else {}
    if current is not None and current.counts.available >= limits.replicas and current.wanted == limits.replicas:
        return {part.name: 0 for part in old}
    total = sum(part.wanted for part in active)
    allowed = limits.replicas + limits.surge if limits.replicas else 0
    missing = allowed - total
    sizes = {}
    left = missing
    # The largest take the largest part; among equals the newest grow first and the oldest shrink first.
    newest_first = missing > 0
    order = sorted(reversed(active) if newest_first else active, key=lambda part: -part.wanted)
    for part in order:
        before = _size_basis(part, total)
        ideal = int(part.wanted * allowed / before + 0.5) - part.wanted
        step = max(min(ideal, left), 0) if missing > 0 else min(max(ideal, left), 0)
        sizes[part.name] = part.wanted + step
        left -= step
    if left:
        first = order[0].name
        sizes[first] = max(sizes[first] + left, 0)
    return sizes


def shrunk(current: Part | None, old: list[Part], limits: Limits) -> dict[str, int]:
    """Return smaller sizes of the old sets: first pods that do not serve, then as many as may be unavailable."""
    if limits.recreate:
        return {part.name: 0 for part in old}
    total = sum(part.wanted for part in old) + (current.wanted if current else 0)
    available = sum(part.counts.available for part in old) + (current.counts.available if current else 0)
    least = limits.replicas - limits.unavailable
    starting_up = max(current.wanted - current.counts.available, 0) if current else 0
    room = total - least - starting_up
    sizes = {part.name: part.wanted for part in old if part.wanted}
    for part in old:
        broken = min(part.wanted - part.counts.available, room)
        if part.wanted and broken > 0:
            sizes[part.name] -= broken
            room -= broken
    serving = min(available - least, room)
    for part in old:
        step = min(sizes.get(part.name, 0), serving)
        if step > 0:
            sizes[part.name] -= step
            serving -= step
    return sizes


def expired(spec: Manifest, old: list[Part]) -> list[Write]:
    """Return the deletions of empty old sets beyond the revision history limit, oldest revisions first."""
    limit = spec.get("revisionHistoryLimit", 10)
    empty = [part for part in old if not part.wanted and not part.counts.active]
    empty.sort(key=lambda part: revision_of(part.manifest))
    return [
        Write("delete", key_of(REPLICASETS, part.manifest), uid=part.manifest["metadata"]["uid"])
        for part in empty[: max(len(old) - limit, 0)]
    ]


def _rolled_up(current: Part, old: list[Part], limits: Limits) -> int:
    if current.wanted > limits.replicas:
        return limits.replicas
    return current.wanted + growth(current.wanted, sum(part.wanted for part in old) + current.wanted, limits)


def _resized(parts: list[Part], replicas: int) -> bool:
    for part in parts:
        desired = (part.manifest["metadata"].get("annotations") or {}).get(DESIRED)
        if part.wanted and desired is not None and desired != str(replicas):
            return True
    return False


def _size_basis(part: Part, total: int) -> int:
    """Return the size of the whole that a part's share was computed for."""
    recorded = (part.manifest["metadata"].get("annotations") or {}).get(MAXIMUM, "")
    return int(recorded) if recorded.isdigit() and int(recorded) else total
