"""Applies the LimitRanges of a namespace to what is created there: defaults for containers, then the bounds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from schemas.manifest import Manifest
from services._rules.kubernetes.pod_resources import pod_sum
from services._rules.kubernetes.quantity import Quantity, QuantityError, parse

Amounts = dict[str, Quantity]

ANNOTATION: Final = "kubernetes.io/limit-ranger"


def apply_defaults(pod: Manifest, ranges: Iterable[Manifest]) -> None:
    """Give the containers of a pod the requests and limits they do not name, and note in an annotation which."""
    notes: list[str] = []
    for item in _limits(ranges, "Container"):
        for field, singular in (("containers", "container"), ("initContainers", "init container")):
            for container in pod["spec"].get(field) or ():
                notes += _fill(container, item, singular)
    if notes:
        annotations = pod["metadata"].setdefault("annotations", {})
        annotations[ANNOTATION] = "LimitRanger plugin set: " + "; ".join(notes)


def pod_violations(pod: Manifest, ranges: Iterable[Manifest]) -> list[str]:
    """What a pod asks for beyond the bounds for containers and pods, one sentence each."""
    ranges = list(ranges)
    spec = pod["spec"]
    found: list[str] = []
    for item in _limits(ranges, "Container"):
        for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
            found += _violations(item, _amounts(container, "requests"), _amounts(container, "limits"))
    for item in _limits(ranges, "Pod"):
        found += _violations(item, pod_amounts(spec, "requests"), pod_amounts(spec, "limits"))
    return found


def claim_violations(claim: Manifest, ranges: Iterable[Manifest]) -> list[str]:
    """What a PersistentVolumeClaim asks for beyond the bounds, one sentence each."""
    asked = _amounts(claim["spec"], "requests")
    found: list[str] = []
    for item in _limits(ranges, "PersistentVolumeClaim"):
        for name, bound in _parsed(item.get("min")).items():
            found += _too_little(item["type"], name, bound, asked, {})
        for name, bound in _parsed(item.get("max")).items():
            if name in asked and bound < asked[name]:
                found.append(f"maximum {name} usage per {item['type']} is {bound}, but request is {asked[name]}")
    return found


def _limits(ranges: Iterable[Manifest], kind: str) -> Iterator[Manifest]:
    for one in ranges:
        yield from (item for item in (one.get("spec") or {}).get("limits") or () if item.get("type") == kind)


def _fill(container: Manifest, item: Manifest, singular: str) -> Iterator[str]:
    resources = container.setdefault("resources", {})
    for field, source, said in (("requests", "defaultRequest", "request"), ("limits", "default", "limit")):
        present = resources.get(field) or {}
        added = {name: value for name, value in (item.get(source) or {}).items() if name not in present}
        if added:
            resources[field] = {**present, **added}
            yield f"{', '.join(sorted(added))} {said} for {singular} {container.get('name', '')}"


def _violations(item: Manifest, requests: Amounts, limits: Amounts) -> list[str]:
    kind = item["type"]
    found: list[str] = []
    for name, bound in _parsed(item.get("min")).items():
        found += _too_little(kind, name, bound, requests, limits)
    for name, bound in _parsed(item.get("max")).items():
        found += _too_much(kind, name, bound, requests, limits)
    for name, bound in _parsed(item.get("maxLimitRequestRatio")).items():
        found += _too_far_apart(kind, name, bound, requests, limits)
    return found


def _too_little(kind: str, name: str, bound: Quantity, requests: Amounts, limits: Amounts) -> list[str]:
    start = f"minimum {name} usage per {kind} is {bound}"
    if name not in requests:
        return [f"{start}.  No request is specified"]
    if requests[name] < bound:
        return [f"{start}, but request is {requests[name]}"]
    if name in limits and limits[name] < bound:
        return [f"{start}, but limit is {limits[name]}"]
    return []


def _too_much(kind: str, name: str, bound: Quantity, requests: Amounts, limits: Amounts) -> list[str]:
    start = f"maximum {name} usage per {kind} is {bound}"
    if name not in limits:
        return [f"{start}.  No limit is specified"]
    if bound < limits[name]:
        return [f"{start}, but limit is {limits[name]}"]
    if name in requests and bound < requests[name]:
        return [f"{start}, but request is {requests[name]}"]
    return []


def _too_far_apart(kind: str, name: str, bound: Quantity, requests: Amounts, limits: Amounts) -> list[str]:
    start = f"{name} max limit to request ratio per {kind} is {bound}"
    if name not in requests or requests[name].is_zero():
        return [f"{start}, but no request is specified or request is 0"]
    if name not in limits or limits[name].is_zero():
        return [f"{start}, but no limit is specified or limit is 0"]
    ratio = limits[name].nano / requests[name].nano
    return [f"{start}, but provided ratio is {ratio:.6f}"] if ratio * 10**9 > bound.nano else []


def pod_amounts(spec: Manifest, field: str) -> Amounts:
    """The requests or limits of a pod; a resource that one container leaves open has no sum."""
    return pod_sum(spec, lambda container: _amounts(container, field))


def _amounts(holder: Manifest, field: str) -> Amounts:
    return _parsed((holder.get("resources") or {}).get(field))


def _parsed(values: Manifest | None) -> Amounts:
    found: Amounts = {}
    for name in sorted(values or ()):
        try:
            found[name] = parse((values or {})[name])
        except QuantityError:
            continue  # Validation refuses what is no quantity, with the field's name.
    return found
