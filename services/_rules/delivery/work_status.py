"""Folds the reports of an object's Works into its binding: aggregated items and the FullyApplied condition.

Reference 03 §1.3 (clusters a binding occupies) and §4.5 (aggregation). All objects are manifests.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from msgspec import Struct

from services._rules.names import NameFormatError, cluster_of_execution_namespace

Manifest: TypeAlias = dict[str, Any]
Item: TypeAlias = dict[str, Any]


class StatusError(Exception):
    """Works that cannot be folded; the message names the Work and what is wrong with it."""


def assemble_work_status(works: Iterable[Manifest], reference: Manifest) -> list[Item]:
    """Aggregated status items of the Works that carry the referenced object, sorted by cluster.

    `reference` names the object (apiVersion, kind, namespace, name). Works that are being deleted do not count. Raises
    StatusError for a Work that does not hold the object or is not in an execution namespace.
    """
    items = []
    for work in works:
        metadata = work.get("metadata") or {}
        if metadata.get("deletionTimestamp") is not None:
            continue
        ordinal = _ordinal(work, reference)
        items.append(_item(_cluster(metadata), work.get("status") or {}, ordinal, reference))
    return sorted(items, key=lambda item: str(item["clusterName"]))


def _cluster(metadata: Manifest) -> str:
    namespace = str(metadata.get("namespace") or "")
    try:
        return cluster_of_execution_namespace(namespace)
    except NameFormatError as problem:
        raise StatusError(f"Work {namespace}/{metadata.get('name')}: {problem}") from None


def _ordinal(work: Manifest, reference: Manifest) -> int:
    """Index of the referenced object among a Work's manifests."""
    manifests = ((work.get("spec") or {}).get("workload") or {}).get("manifests") or ()
    wanted = tuple(reference.get(name) or "" for name in ("apiVersion", "kind", "namespace", "name"))
    for ordinal, manifest in enumerate(manifests):
        metadata = manifest.get("metadata") or {}
        found = (
            manifest.get("apiVersion") or "",
            manifest.get("kind") or "",
            metadata.get("namespace") or "",
            metadata.get("name") or "",
        )
        if found == wanted:
            return ordinal
    metadata = work.get("metadata") or {}
    raise StatusError(
        f"Work {metadata.get('namespace')}/{metadata.get('name')}: holds no {wanted[1]} {wanted[2]}/{wanted[3]}; "
        "an override that renames the object breaks its status"
    )


def _item(cluster: str, status: Manifest, ordinal: int, reference: Manifest) -> Item:
    item: Item = {"clusterName": cluster, "applied": False, "health": "Unknown"}
    applied = next((c for c in status.get("conditions") or () if c.get("type") == "Applied"), None)
    if applied is None or applied.get("status") != "True":
        if applied is not None and applied.get("message"):
            item["appliedMessage"] = applied["message"]
        return item
    item["applied"] = True
    for entry in status.get("manifestStatuses") or ():
        if _identifies(entry.get("identifier") or {}, ordinal, reference):
            if entry.get("status") is not None:
                item["status"] = entry["status"]
            item["health"] = entry.get("health") or ""
            break
    return item


def _identifies(identifier: Manifest, ordinal: int, reference: Manifest) -> bool:
    group, _, version = str(reference.get("apiVersion") or "").rpartition("/")
    return (identifier.get("ordinal") or 0) == ordinal and all(
        (identifier.get(name) or "") == value
        for name, value in (
            ("group", group),
            ("version", version),
            ("kind", reference.get("kind") or ""),
            ("namespace", reference.get("namespace") or ""),
            ("name", reference.get("name") or ""),
        )
    )


class Applied(Struct, frozen=True):
    """The FullyApplied condition without its time."""

    status: str
    reason: str
    message: str


FULLY_APPLIED: Final = Applied("True", "FullyAppliedSuccess", "All works have been successfully applied")
NOT_FULLY_APPLIED: Final = Applied(
    "False", "FullyAppliedFailed", "Failed to apply all works, see status.aggregatedStatus for details"
)

FAILED_SUMMARY: Final = "Failed to apply all manifests (0/1): "
"""How the message of a work whose only manifest could not be applied begins."""

NOT_YET: Final = "waiting for the cluster to report"
"""What is said of a cluster that said nothing yet of its copy."""

NOT_COUNTED: Final = "the reported status is not counted: "
"""What the reason begins with for which the status of a cluster is left out of the sum."""


def existing_clusters(spec: Mapping[str, Any]) -> set[str]:
    """Clusters that hold a copy of a binding's object: scheduled, required by others, or leaving but not at once."""
    clusters = {str(target["name"]) for target in spec.get("clusters") or ()}
    for snapshot in spec.get("requiredBy") or ():
        clusters.update(str(target["name"]) for target in snapshot.get("clusters") or ())
    for task in spec.get("gracefulEvictionTasks") or ():
        if not _at_once(task):
            clusters.add(str(task["fromCluster"]))
    return clusters


def direct_purge_clusters(spec: Mapping[str, Any]) -> set[str]:
    """Clusters whose copy goes before the object may start elsewhere."""
    return {str(task["fromCluster"]) for task in spec.get("gracefulEvictionTasks") or () if _at_once(task)}


def _at_once(task: Mapping[str, Any]) -> bool:
    return task.get("purgeMode") in ("Directly", "Immediately")


def fully_applied(expected: set[str], items: Iterable[Item] | None) -> Applied:
    """Whether every expected cluster, and no other, has applied the object."""
    reported = list(items or ())
    complete = (
        bool(expected)
        and len(reported) == len(expected)
        and all(item.get("applied") and item.get("clusterName") in expected for item in reported)
    )
    return FULLY_APPLIED if complete else NOT_FULLY_APPLIED
