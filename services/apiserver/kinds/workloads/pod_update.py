"""What may change in an existing pod: images, deadline, tolerations, sizes, containers to look into it, its status."""

from __future__ import annotations

import ipaddress
from typing import Any, Final

from schemas.manifest import Manifest
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation.field_errors import Errors, FieldError, duplicate, forbidden, invalid
from services._rules.kubernetes.validation.field_rules import apply, each
from services._rules.kubernetes.validation.status_fields import parsed
from services.apiserver.kinds.checks import pod_annotations
from services.apiserver.kinds.checks import pod_specs as pod_checks
from services.apiserver.kinds.checks.containers import IMAGE

_OTHERS: Final = "pod updates may not change fields other than"
_ADDITIONS: Final = "`spec.tolerations` (only additions to existing tolerations)"
_SPEC_TEXT: Final = (
    f"{_OTHERS} `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,{_ADDITIONS},"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_IMAGES = (each("containers", IMAGE), each("initContainers", IMAGE))
_FREE: Final = ("activeDeadlineSeconds", "tolerations", "schedulingGates")


def check(new: Manifest, old: Manifest) -> list[FieldError]:
    """Return what is wrong with an update of a pod, besides what is wrong with the pod by itself."""
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    found = _annotations(new, old)
    for name in ("containers", "initContainers"):
        if len(spec.get(name) or ()) != len(before.get(name) or ()):
            return [*found, forbidden(f"spec.{name}", "pod updates may not add or remove containers")]
    found += apply(_IMAGES, spec, "spec")
    deadline, decided = _deadline(spec, before)
    found += deadline
    if decided:
        return found
    found += _tolerations(spec.get("tolerations") or [], before.get("tolerations") or [])
    found += _gates(spec, before)
    kept, kept_before = _fixed(spec), _fixed(before)
    if before.get("terminationGracePeriodSeconds", 0) < 0 and spec.get("terminationGracePeriodSeconds") == 1:
        kept["terminationGracePeriodSeconds"] = before["terminationGracePeriodSeconds"]
    if kept != kept_before:
        found.append(forbidden("spec", f"{_SPEC_TEXT}\n{_difference(kept, kept_before)}"))
    return found


def _annotations(new: Manifest, old: Manifest) -> list[FieldError]:
    values, before = (part["metadata"].get("annotations") or {} for part in (new, old))
    if not values and not before:
        return []
    field = "metadata.annotations"
    found = list(pod_annotations.changed(values, before, field))
    return found + pod_annotations.meaningful(values, new.get("spec") or {}, field)


def _deadline(spec: Manifest, before: Manifest) -> tuple[list[FieldError], bool]:
    """What is wrong with the deadline, and whether nothing else is looked at then."""
    value, previous = spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")
    field = "spec.activeDeadlineSeconds"
    if value is None:
        text = "must not update from a positive integer to nil value"
        return ([] if previous is None else [invalid(field, None, text)], False)
    if not 0 <= value <= pod_checks.MAX_DEADLINE:
        return ([invalid(field, value, f"must be between 0 and {pod_checks.MAX_DEADLINE}, inclusive")], True)
    if previous is not None and previous < value:
        return ([invalid(field, value, "must be less than or equal to previous value")], True)
    return ([], False)


def _tolerations(items: list[Manifest], before: list[Manifest]) -> list[FieldError]:
    kept = [{key: value for key, value in item.items() if key != "tolerationSeconds"} for item in items]
    if any({key: value for key, value in old.items() if key != "tolerationSeconds"} not in kept for old in before):
        text = "existing toleration can not be modified except its tolerationSeconds"
        return [forbidden("spec.tolerations", text)]
    return pod_checks.TOLERATIONS({"tolerations": items}, "spec")


def _gates(spec: Manifest, before: Manifest) -> Errors:
    known = {gate.get("name") for gate in before.get("schedulingGates") or ()}
    for index, gate in enumerate(spec.get("schedulingGates") or ()):
        if gate.get("name") not in known:
            text = f"only deletion is allowed, but found new scheduling gate '{gate.get('name', '')}'"
            yield forbidden(f"spec.schedulingGates[{index}].name", text)


def _fixed(spec: Manifest) -> Manifest:
    """The part of a spec that may not change."""
    kept = {key: value for key, value in spec.items() if key not in _FREE}
    for name in ("containers", "initContainers"):
        if name in kept:
            kept[name] = [{key: value for key, value in item.items() if key != "image"} for item in kept[name] or ()]
    return kept


def _difference(new: Any, old: Any, path: str = "spec") -> str:
    """The first changed paths, so that the reader sees what to restore."""
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


_MIRROR: Final = "kubernetes.io/config.mirror"
_SIZES: Final = ("cpu", "memory")


def _static(pod: Manifest, text: str) -> list[FieldError]:
    return [forbidden("", text)] if _MIRROR in (pod["metadata"].get("annotations") or {}) else []


def check_ephemeral(new: Manifest, old: Manifest) -> list[FieldError]:
    """Return what is wrong with the change of the ephemeral containers of a pod."""
    if found := _static(old, "static pods do not support ephemeral containers"):
        return found
    field = "spec.ephemeralContainers"
    kept = {item.get("name"): item for item in new["spec"].get("ephemeralContainers") or ()}
    for item in old["spec"].get("ephemeralContainers") or ():
        name = item.get("name", "")
        if name not in kept:
            found.append(forbidden(field, f'existing ephemeral containers "{name}" may not be removed'))
        elif kept[name] != item:
            text = f'existing ephemeral containers "{name}" may not be changed'
            found.append(forbidden(field, f"{text}\n{_difference(kept[name], item, field)}"))
    return found


def resized(spec: Manifest, before: Manifest) -> Manifest:
    """The spec before with the resources, and the policies of resizing, of the containers of a new one."""
    found = dict(before)
    for part in ("containers", "initContainers"):
        items = list(before.get(part) or ())
        for index, (item, old) in enumerate(zip(spec.get(part) or (), items, strict=False)):
            if item.get("name") == old.get("name"):
                sizes = {name: item[name] for name in ("resources", "resizePolicy") if name in item}
                rest = {key: value for key, value in old.items() if key not in ("resources", "resizePolicy")}
                items[index] = {**rest, **sizes}
        if items:
            found[part] = items
    return found


def check_resize(new: Manifest, old: Manifest) -> list[FieldError]:
    """Return what is wrong with the change of the sizes of a pod."""
    if found := _static(old, "static pods cannot be resized"):
        return found
    spec, before = new["spec"], old["spec"]
    if (spec.get("os") or {}).get("name") == "windows":
        return [forbidden("spec", "windows pods cannot be resized")]
    for part in ("containers", "initContainers"):
        for index, (item, held) in enumerate(zip(spec.get(part) or (), before.get(part) or (), strict=True)):
            for name in ("requests", "limits"):
                given, had = (set((one.get("resources") or {}).get(name) or ()) for one in (item, held))
                if had - given:
                    text = f"resource {name} cannot be removed"
                    found.append(forbidden(f"spec.{part}[{index}].resources.{name}", text))
    kept, kept_before = _sized(spec), _sized(before)
    if kept != kept_before:
        text = "only cpu and memory resources are mutable"
        found.append(forbidden("spec", f"{text}\n{_difference(kept, kept_before)}"))
    return found


def _sized(spec: Manifest) -> Manifest:
    """The part of a spec that does not change with the size of its containers; those that start it keep theirs."""
    kept = {**spec, "containers": [_without_sizes(item) for item in spec.get("containers") or ()]}
    if initial := spec.get("initContainers"):
        lasting = [_without_sizes(item) if item.get("restartPolicy") == "Always" else item for item in initial]
        kept["initContainers"] = lasting
    return kept


def _without_sizes(container: Manifest) -> Manifest:
    resources = container.get("resources") or {}
    parts = {name: resources.get(name) or {} for name in ("requests", "limits")}
    others = {name: {key: part[key] for key in part if key not in _SIZES} for name, part in parts.items()}
    return {**container, "resources": {**resources, **others}}


def check_status(new: Manifest, old: Manifest) -> list[FieldError]:
    """Return what is wrong with a write to a pod's status."""
    status, before = new.get("status") or {}, old.get("status") or {}
    found = [*_annotations(new, old), *_conditions(status.get("conditions") or [])]
    name = status.get("nominatedNodeName")
    if name and name != before.get("nominatedNodeName"):
        found += [invalid("status.nominatedNodeName", name, text) for text in names.subdomain(name)]
    policy = (old.get("spec") or {}).get("restartPolicy")
    if policy != "Always":
        for part in ("containerStatuses", "initContainerStatuses"):
            found += _ended(status.get(part) or [], before.get(part) or [], policy, f"status.{part}")
    return [*found, *_addresses(status.get("podIPs") or [])]


_OWN_CONDITIONS: Final = ("PodScheduled", "Ready", "Initialized")


def _conditions(conditions: list[Manifest]) -> Errors:
    for index, condition in enumerate(conditions):
        kind = condition.get("type", "")
        if kind not in _OWN_CONDITIONS:
            yield from [invalid(f"metadata.conditions[{index}].Type", kind, text) for text in names.qualified(kind)]


def _ended(statuses: list[Manifest], before: list[Manifest], policy: str | None, field: str) -> Errors:
    """Yield an error for each container that has ended for good and goes on."""
    for index, old in enumerate(before):
        ended = (old.get("state") or {}).get("terminated")
        if ended is None or (policy == "OnFailure" and ended.get("exitCode", 0) != 0):
            continue
        for item in statuses:
            if item.get("name") == old.get("name") and "terminated" not in (item.get("state") or {}):
                yield forbidden(f"{field}[{index}].state", "may not be transitioned to non-terminated state")


def _addresses(addresses: list[Manifest]) -> Errors:
    found = [parsed(item.get("ip", "")) for item in addresses]
    for index, item in enumerate(addresses):
        if found[index] is None:
            text = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
            yield invalid(f"status.podIPs[{index}]", item.get("ip", ""), text)
    if len(found) > 1:
        families = {type(address) for address in found if address is not None}
        if len(found) > 2 or families != {ipaddress.IPv4Address, ipaddress.IPv6Address}:
            yield invalid("status.podIPs", addresses, "may specify no more than one IP for each IP family")
        seen: list[Manifest] = []
        for index, item in enumerate(addresses):
            if item in seen:
                yield duplicate(f"status.podIPs[{index}]", item)
            seen.append(item)
