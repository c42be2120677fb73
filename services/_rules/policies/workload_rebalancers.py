"""What the status of a WorkloadRebalancer says, and when the object goes (docs/sources.md#rebalancing)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from msgspec import Struct

from schemas.manifest import Manifest

SUCCESSFUL: Final = "Successful"
FAILED: Final = "Failed"
NOT_FOUND: Final = "ReferencedBindingNotFound"
_NAMED: Final = 3
"""Missing workloads that a message names."""
_LONGEST: Final = 100


class Workload(Struct, frozen=True, rename="camel"):
    """One object to schedule again; its binding is found without the apiVersion."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    namespace: str = ""

    @property
    def order(self) -> str:
        """What the entries of a status are sorted by."""
        return f"{self.api_version} {self.kind} {self.namespace} {self.name}"

    def __str__(self) -> str:
        name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {name}"[:_LONGEST]


class Observed(Struct, frozen=True):
    """What came of one workload; no `result` while that is open."""

    workload: Workload
    result: str = ""
    reason: str = ""


class _Spec(Struct, rename="camel"):
    workloads: list[Workload] | None = None
    ttl_seconds_after_finished: int | None = None


class _Status(Struct, rename="camel"):
    observed_workloads: list[Observed] | None = None
    observed_generation: int = 0
    finish_time: str | None = None


class Rebalancer(Struct, frozen=True):
    """A WorkloadRebalancer as it stands; times are RFC 3339, in seconds."""

    name: str
    created: str
    generation: int
    workloads: tuple[Workload, ...]
    ttl: int | None
    observed: tuple[Observed, ...]
    observed_generation: int
    finish_time: str

    @property
    def entries(self) -> list[Observed]:
        """The workloads of spec and status, sorted: what succeeded stays, what failed goes with its workload."""
        wanted = dict.fromkeys(self.workloads)
        kept = {item.workload: item for item in self.observed if item.workload in wanted or item.result == SUCCESSFUL}
        found = [*kept.values(), *(Observed(workload) for workload in wanted if workload not in kept)]
        return sorted(found, key=lambda item: item.workload.order)

    def ends_at(self) -> float | None:
        """When the object is to be deleted, in seconds since 1970; None for never, or not yet known."""
        if self.ttl is None or not self.finish_time or self.observed_generation != self.generation:
            return None
        return datetime.fromisoformat(self.finish_time).timestamp() + self.ttl


def rebalancer_of(manifest: Manifest) -> Rebalancer:
    """Read a WorkloadRebalancer; raises msgspec.ValidationError naming the field."""
    metadata = manifest["metadata"]
    spec = msgspec.convert(manifest.get("spec") or {}, _Spec)
    status = msgspec.convert(manifest.get("status") or {}, _Status)
    return Rebalancer(
        name=str(metadata["name"]),
        created=str(metadata.get("creationTimestamp") or ""),
        generation=int(metadata.get("generation", 0)),
        workloads=tuple(spec.workloads or ()),
        ttl=spec.ttl_seconds_after_finished,
        observed=tuple(status.observed_workloads or ()),
        observed_generation=status.observed_generation,
        finish_time=status.finish_time or "",
    )


def judged(entries: Iterable[Observed], outcome_of: Callable[[Workload], str]) -> list[Observed]:
    """The entries with the results that are there now; a result that was reached is final.

    `outcome_of` answers SUCCESSFUL, FAILED, or nothing while it is open.
    """
    found = []
    for item in entries:
        result = item.result or outcome_of(item.workload)
        reason = item.reason or (NOT_FOUND if result == FAILED else "")
        found.append(item if result == item.result else Observed(item.workload, result, reason))
    return found


def status_of(seen: Rebalancer, entries: list[Observed], now: float) -> dict[str, Any] | None:
    """The status to write, finished now unless results are missing; None where the present one says the same."""
    if list(seen.observed) == entries and seen.observed_generation == seen.generation:
        return None
    finished = all(item.result for item in entries)
    return {
        "observedWorkloads": [_entry(item) for item in entries],
        "observedGeneration": seen.generation,
        "finishTime": datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if finished else None,
    }


def _entry(item: Observed) -> dict[str, Any]:
    workload = item.workload
    named = {"apiVersion": workload.api_version, "kind": workload.kind, "name": workload.name}
    if workload.namespace:
        named["namespace"] = workload.namespace
    told = {"result": item.result, "reason": item.reason}
    return {"workload": named, **{name: value for name, value in told.items() if value}}


def outcome_words(seen: Rebalancer) -> str:
    """What came of a finished object in words; empty while it is not finished."""
    if not seen.finish_time or seen.observed_generation != seen.generation:
        return ""
    counts = Counter(item.result for item in seen.observed)
    asked = f"a new schedule asked for {counts[SUCCESSFUL]} of {len(seen.observed)} workloads"
    missing = missing_words(seen.observed)
    return f"{asked}; {missing}" if missing else asked


def missing_words(observed: Iterable[Observed]) -> str:
    """The workloads without binding, the first ones by name; empty where there are none."""
    missing = [item.workload for item in observed if item.result == FAILED]
    if not missing:
        return ""
    named = ", ".join(str(workload) for workload in missing[:_NAMED])
    more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
    return f"{NOT_FOUND}: {named}{more}"
