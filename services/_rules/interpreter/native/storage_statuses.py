"""Folds the statuses of members into that of a PersistentVolume or its claim (reference 03 §4.7)."""

from typing import Final

from schemas.manifest import Manifest
from services._rules.interpreter.common.shape_checks import check_object
from services._rules.interpreter.native.workload_statuses import Items, reports, with_status

# The first phase that some member reports is the template's.
_VOLUME_PHASES: Final = ("Failed", "Pending", "Available", "Bound", "Released")


def aggregate_volume(obj: Manifest, items: Items) -> Manifest:
    """Takes the gravest phase of the members; one that has not reported counts as Pending."""
    check_object("PersistentVolume", obj)
    phases = {member.get("phase") or "" for _, member in reports("PersistentVolume", items)}
    if any(item.get("status") is None for item in items or ()):
        phases.add("Pending")
    phase = next((phase for phase in _VOLUME_PHASES if phase in phases), "")
    return with_status(obj, {"phase": phase} if phase else {})


def aggregate_claim(obj: Manifest, items: Items) -> Manifest:
    """Bound where every member reports it, Lost where one does, otherwise the last other phase."""
    check_object("PersistentVolumeClaim", obj)
    phase = "Bound"
    for _, member in reports("PersistentVolumeClaim", items):
        reported = member.get("phase") or ""
        if reported == "Lost":
            phase = "Lost"
            break
        if reported != "Bound":
            phase = reported
    return with_status(obj, {"phase": phase} if phase else {})
