"""What may change in an existing pod: images, the deadline, additional tolerations; and its status."""

from __future__ import annotations

from typing import Any

from schemas.manifest import Manifest
from services._rules.kubernetes.validation.field_errors import FieldError, forbidden, invalid
from services._rules.kubernetes.validation.field_rules import apply, each
from services._rules.kubernetes.validation.name_formats import subdomain
from services.apiserver.kinds.checks import pod_specs as pod_checks
from services.apiserver.kinds.checks.containers import IMAGE

SPEC_TEXT = (
    "pod updates may not change fields other than `spec.containers[*].image`, `spec.initContainers[*].image`, "
    "`spec.activeDeadlineSeconds` or `spec.tolerations` (only additions to existing tolerations)"
)
_IMAGES = (each("containers", IMAGE), each("initContainers", IMAGE))


def check(new: Manifest, old: Manifest) -> list[FieldError]:
    """Return what is wrong with an update of a pod."""
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    found = [
        forbidden(f"spec.{name}", "pod updates may not add or remove containers")
        for name in ("containers", "initContainers")
        if len(spec.get(name) or ()) != len(before.get(name) or ())
    ]
    if found:
        return found
    found += apply(_IMAGES, spec, "spec")
    found += _deadline(spec, before)
    found += _tolerations(spec.get("tolerations") or [], before.get("tolerations") or [])
    if not found and _fixed(spec) != _fixed(before):
        found.append(forbidden("spec", f"{SPEC_TEXT}\n{_difference(_fixed(spec), _fixed(before))}"))
    return found


def _deadline(spec: Manifest, before: Manifest) -> list[FieldError]:
    value, previous = spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")
    if value is None:
        if previous is None:
            return []
        text = "must not update from a positive integer to nil value"
        return [invalid("spec.activeDeadlineSeconds", None, text)]
    if not 0 <= value <= pod_checks.MAX_DEADLINE:
        text = f"must be between 0 and {pod_checks.MAX_DEADLINE}, inclusive"
        return [invalid("spec.activeDeadlineSeconds", value, text)]
    if previous is not None and previous < value:
        text = "must be less than or equal to previous value"
        return [invalid("spec.activeDeadlineSeconds", value, text)]
    return []


def _tolerations(items: list[Manifest], before: list[Manifest]) -> list[FieldError]:
    kept = [{key: value for key, value in item.items() if key != "tolerationSeconds"} for item in items]
    found: list[FieldError] = []
    if any({key: value for key, value in old.items() if key != "tolerationSeconds"} not in kept for old in before):
        text = "existing toleration can not be modified except its tolerationSeconds"
        found.append(forbidden("spec.tolerations", text))
    return found + pod_checks.TOLERATIONS({"tolerations": items}, "spec")


def _fixed(spec: Manifest) -> Manifest:
    """The part of a spec that may not change."""
    kept = {key: value for key, value in spec.items() if key not in ("activeDeadlineSeconds", "tolerations")}
    for name in ("containers", "initContainers"):
        if name in kept:
            kept[name] = [{key: value for key, value in item.items() if key != "image"} for item in kept[name] or ()]
    return kept


def _difference(new: Any, old: Any, path: str = "spec") -> str:
    """Name the first changed paths, so that the reader sees what to restore."""
    lines: list[str] = []
    _collect(new, old, path, lines)
    return "changed: " + ", ".join(lines[:5])


def _collect(new: Any, old: Any, path: str, lines: list[str]) -> None:
    if isinstance(new, dict) and isinstance(old, dict):
        for key in sorted({*new, *old}):
            if new.get(key) != old.get(key):
                _collect(new.get(key), old.get(key), f"{path}.{key}", lines)
    elif isinstance(new, list) and isinstance(old, list) and len(new) == len(old):
        for index, (item, before) in enumerate(zip(new, old, strict=True)):
            if item != before:
                _collect(item, before, f"{path}[{index}]", lines)
    else:
        lines.append(path)


def check_status(new: Manifest, old: Manifest) -> list[FieldError]:
    """Return what is wrong with a write to a pod's status."""
    found: list[FieldError] = []
    status = new.get("status") or {}
    if name := status.get("nominatedNodeName"):
        found += [invalid("status.nominatedNodeName", name, text) for text in subdomain(name)]
    policy = (new.get("spec") or {}).get("restartPolicy")
    if policy == "Always":
        return found
    for list_name in ("containerStatuses", "initContainerStatuses"):
        running = {item.get("name"): item.get("state") or {} for item in status.get(list_name) or ()}
        for item in (old.get("status") or {}).get(list_name) or ():
            ended = (item.get("state") or {}).get("terminated")
            if ended is None or (policy == "OnFailure" and ended.get("exitCode", 0) != 0):
                continue
            state = running.get(item.get("name"))
            if state is not None and "terminated" not in state:
                text = "may not be transitioned to non-terminated state"
                found.append(forbidden(f"status.{list_name}", text))
    return found
