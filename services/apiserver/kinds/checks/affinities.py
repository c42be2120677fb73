"""Checks of node selectors, affinities, label selectors and spread constraints."""

from __future__ import annotations

from schemas.manifest import Manifest
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation import object_metadata as meta
from services._rules.kubernetes.validation.field_errors import (
    FieldError,
    Raw,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def label_selector(value: Manifest | None, field: str) -> list[FieldError]:
    """Return what is wrong with a label selector."""
    if value is None:
        return []
    found = meta.labels(value.get("matchLabels") or {}, f"{field}.matchLabels")
    for index, item in enumerate(value.get("matchExpressions") or []):
        place = f"{field}.matchExpressions[{index}]"
        operator, values = item.get("operator", ""), item.get("values") or []
        if operator in ("In", "NotIn"):
            if not values:
                found.append(required(f"{place}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                found.append(forbidden(f"{place}.values", text))
        else:
            found.append(invalid(f"{place}.operator", operator, "not a valid selector operator"))
        key = item.get("key", "")
        found += [invalid(f"{place}.key", key, text) for text in names.qualified(key)]
    return found


def node_selector(value: Manifest, field: str) -> list[FieldError]:
    """Return what is wrong with a node selector."""
    terms = value.get("nodeSelectorTerms") or []
    if not terms:
        return [required(f"{field}.nodeSelectorTerms", "must have at least one node selector term")]
    found: list[FieldError] = []
    for index, term in enumerate(terms):
        found += _term(term, f"{field}.nodeSelectorTerms[{index}]")
    return found


def _term(term: Manifest, field: str) -> list[FieldError]:
    found: list[FieldError] = []
    for index, item in enumerate(term.get("matchExpressions") or []):
        found += _requirement(item, f"{field}.matchExpressions[{index}]")
    for index, item in enumerate(term.get("matchFields") or []):
        place = f"{field}.matchFields[{index}]"
        if item.get("operator") not in ("In", "NotIn"):
            found.append(invalid(f"{place}.operator", item.get("operator", ""), "not a valid selector operator"))
        elif len(item.get("values") or []) != 1:
            text = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            found.append(required(f"{place}.values", text))
        if item.get("key") != "metadata.name":
            found.append(invalid(f"{place}.key", item.get("key", ""), "not a valid field selector key"))
    return found


def _requirement(item: Manifest, field: str) -> list[FieldError]:
    found: list[FieldError] = []
    operator, values = item.get("operator", ""), item.get("values") or []
    if operator in ("In", "NotIn"):
        if not values:
            found.append(required(f"{field}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            found.append(
                forbidden(f"{field}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
            )
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            found.append(required(f"{field}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'"))
    else:
        found.append(invalid(f"{field}.operator", operator, "not a valid selector operator"))
    key = item.get("key", "")
    return [*found, *(invalid(f"{field}.key", key, text) for text in names.qualified(key))]


def affinity(value: Manifest, field: str) -> list[FieldError]:
    """Return what is wrong with a pod's affinity."""
    found: list[FieldError] = []
    node = value.get("nodeAffinity") or {}
    if REQUIRED in node:
        found += node_selector(node[REQUIRED], f"{field}.nodeAffinity.{REQUIRED}")
    for index, item in enumerate(node.get(PREFERRED) or []):
        place = f"{field}.nodeAffinity.{PREFERRED}[{index}]"
        found += _weight(item, place)
        found += _term(item.get("preference") or {}, f"{place}.preference")
    for name in ("podAffinity", "podAntiAffinity"):
        terms = value.get(name) or {}
        for index, item in enumerate(terms.get(REQUIRED) or []):
            found += _pod_term(item, f"{field}.{name}.{REQUIRED}[{index}]")
        for index, item in enumerate(terms.get(PREFERRED) or []):
            place = f"{field}.{name}.{PREFERRED}[{index}]"
            found += _weight(item, place)
            found += _pod_term(item.get("podAffinityTerm") or {}, f"{place}.podAffinityTerm")
    return found


def _weight(item: Manifest, field: str) -> list[FieldError]:
    weight = item.get("weight", 0)
    return [] if 1 <= weight <= 100 else [invalid(f"{field}.weight", weight, "must be in the range 1-100")]


def _pod_term(item: Manifest, field: str) -> list[FieldError]:
    found = label_selector(item.get("labelSelector"), f"{field}.labelSelector")
    for name in item.get("namespaces") or []:
        found += [invalid(f"{field}.namespace", name, text) for text in names.label(name)]
    key = item.get("topologyKey", "")
    if not key:
        found.append(required(f"{field}.topologyKey", "can not be empty"))
    return [*found, *(invalid(f"{field}.topologyKey", key, text) for text in names.qualified(key))]


def spread(items: list[Manifest], field: str) -> list[FieldError]:
    """Return what is wrong with topology spread constraints."""
    found: list[FieldError] = []
    seen: set[tuple[str, str]] = set()
    for index, item in enumerate(items):
        place = f"{field}[{index}]"
        skew, key, action = item.get("maxSkew", 0), item.get("topologyKey", ""), item.get("whenUnsatisfiable", "")
        if skew <= 0:
            found.append(invalid(f"{place}.maxSkew", skew, "must be greater than zero"))
        if not key:
            found.append(required(f"{place}.topologyKey", "can not be empty"))
        if action not in ("DoNotSchedule", "ScheduleAnyway"):
            found.append(not_supported(f"{place}.whenUnsatisfiable", action, ("DoNotSchedule", "ScheduleAnyway")))
        if (key, action) in seen:
            found.append(duplicate(f"{place}.{{topologyKey, whenUnsatisfiable}}", Raw(f"{{{key}, {action}}}")))
        seen.add((key, action))
        found += label_selector(item.get("labelSelector"), f"{place}.labelSelector")
    return found
