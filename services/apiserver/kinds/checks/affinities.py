"""Checks of node selectors, affinities, label selectors and spread constraints."""

from __future__ import annotations

from schemas.manifest import Manifest
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation import object_metadata as meta
from services._rules.kubernetes.validation.field_errors import (
    Errors,
    FieldError,
    duplicate,
    forbidden,
    invalid,
    required,
)
from services._rules.kubernetes.validation.field_rules import (
    Check,
    ListCheck,
    Rules,
    apply,
    choice,
    each,
    every,
    formed,
    inside,
    needed,
    number,
    text,
)

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")


def _requirement(*operators: str) -> Check:
    """An expression with one of the operators, their fitting number of values, and a label's key."""

    def check(item: Manifest, field: str) -> list[FieldError]:
        operator, count, found = item.get("operator", ""), len(item.get("values") or ()), []
        if operator not in operators:
            found.append(invalid(f"{field}.operator", operator, "not a valid selector operator"))
        elif operator in ("In", "NotIn"):
            if not count:
                found.append(required(f"{field}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
        elif operator in ("Exists", "DoesNotExist"):
            if count:
                message = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                found.append(forbidden(f"{field}.values", message))
        elif count != 1:
            found.append(required(f"{field}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'"))
        return found + _key(item, field)

    return check


_key = text("key", names.qualified, blank=True)
_SETS = ("In", "NotIn", "Exists", "DoesNotExist")
_LABEL_SELECTOR = (inside("matchLabels", meta.labels), each("matchExpressions", _requirement(*_SETS)))


def label_selector(value: Manifest | None, field: str) -> list[FieldError]:
    """Return what is wrong with a label selector."""
    return apply(_LABEL_SELECTOR, value, field) if value else []


def selects(value: Manifest | None) -> bool:
    """Return whether a label selector asks for anything."""
    return bool(value and (value.get("matchLabels") or value.get("matchExpressions")))


def is_usable(value: Manifest) -> bool:
    """Return whether labels can be compared with a label selector: it is a good one, down to its values."""
    if label_selector(value, ""):
        return False
    wanted = [item for part in value.get("matchExpressions") or () for item in part.get("values") or ()]
    return all(names.is_label_value(item) for item in wanted)


def _field_requirement(item: Manifest, field: str) -> Errors:
    values = item.get("values") or []
    if item.get("operator") not in ("In", "NotIn"):
        yield invalid(f"{field}.operator", item.get("operator", ""), "not a valid selector operator")
    elif len(values) != 1:
        message = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        yield required(f"{field}.values", message)
    if item.get("key") != "metadata.name":
        yield invalid(f"{field}.key", item.get("key", ""), "not a valid field selector key")
        return
    for index, value in enumerate(values):
        yield from [invalid(f"{field}.values[{index}]", value, message) for message in names.subdomain(value)]


def label_values(item: Manifest, field: str) -> list[FieldError]:
    """Return which values of an expression no label can have."""
    return [
        invalid(f"{field}.values[{index}]", value, message)
        for index, value in enumerate(item.get("values") or ())
        for message in names.label_value(value)
    ]


_EXPRESSION = _requirement(*_SETS, "Gt", "Lt")
_FIELDS = each("matchFields", _field_requirement)
_TERM = (each("matchExpressions", _EXPRESSION), _FIELDS)
_NO_TERMS = needed("nodeSelectorTerms", detail="must have at least one node selector term")
NODE_SELECTOR = (_NO_TERMS, each("nodeSelectorTerms", *_TERM))
_NODES_OF_GOOD_VALUES = (
    _NO_TERMS,
    each("nodeSelectorTerms", each("matchExpressions", _EXPRESSION, label_values), _FIELDS),
)
_WEIGHT = number("weight", 1, 100, "must be in the range 1-100", absent=0)


def good_selector(value: Manifest, field: str) -> list[FieldError]:
    """Return what is wrong with a label selector, down to values that no label can have."""
    found = label_selector(value, field)
    for index, item in enumerate(value.get("matchExpressions") or ()):
        found += label_values(item, f"{field}.matchExpressions[{index}]")
    return found


def _label_keys(name: str) -> ListCheck:
    """Rule of labels of the pod itself that a term compares, beside its selector."""

    def check(term: Manifest, path: str) -> list[FieldError]:
        keys, field = term.get(name) or (), f"{path}.{name}"
        if keys and term.get("labelSelector") is None:
            return [forbidden(field, "must not be specified when labelSelector is not set")]
        return [
            invalid(f"{field}[{index}]", key, problem)
            for index, key in enumerate(keys)
            for problem in names.qualified(key)
        ]

    return check


def _compared_twice(term: Manifest, path: str) -> Errors:
    differing = set(term.get("mismatchLabelKeys") or ())
    for index, key in enumerate(term.get("matchLabelKeys") or ()):
        if key in differing:
            text = "exists in both matchLabelKeys and mismatchLabelKeys"
            yield invalid(f"{path}.matchLabelKeys[{index}]", key, text)


_POD_TERM: Rules = (
    inside("labelSelector", good_selector),
    inside("namespaceSelector", good_selector),
    every("namespaces", formed(names.label), shown_as="namespace"),
    needed("topologyKey", detail="can not be empty"),
    text("topologyKey", names.qualified, blank=True),
    _label_keys("matchLabelKeys"),
    _label_keys("mismatchLabelKeys"),
    _compared_twice,
)
_OF_PODS: Rules = (
    each(REQUIRED, *_POD_TERM),
    each(PREFERRED, _WEIGHT, inside("podAffinityTerm", *_POD_TERM, absent={})),
)
AFFINITY: Rules = (
    inside(
        "nodeAffinity",
        inside(REQUIRED, *_NODES_OF_GOOD_VALUES),
        each(PREFERRED, _WEIGHT, inside("preference", *_TERM, absent={})),
    ),
    inside("podAffinity", *_OF_PODS),
    inside("podAntiAffinity", *_OF_PODS),
)


def _spread_key(item: Manifest) -> tuple[str, str]:
    return (item.get("topologyKey", ""), item.get("whenUnsatisfiable", ""))


def _spread_twice(constraints: list[Manifest], path: str) -> Errors:
    """Yield an error for each constraint that a later one repeats."""
    keys = [_spread_key(item) for item in constraints]
    for index, key in enumerate(keys):
        if key in keys[index + 1 :]:
            place = f"{path}[{index}].{{topologyKey, whenUnsatisfiable}}"
            yield duplicate(place, f"{{{', '.join(key)}}}")


def _least_domains(item: Manifest, field: str) -> Errors:
    if (least := item.get("minDomains")) is None:
        return
    if least < 1:
        yield invalid(f"{field}.minDomains", least, "must be greater than zero")
    if (action := item.get("whenUnsatisfiable", "")) != "DoNotSchedule":
        text = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        yield invalid(f"{field}.minDomains", least, text)


SPREAD: Rules = (
    each(
        "topologySpreadConstraints",
        number("maxSkew", 1, detail="must be greater than zero", absent=0),
        needed("topologyKey", detail="can not be empty"),
        choice("whenUnsatisfiable", _ACTIONS, blank=True),
        _least_domains,
        choice("nodeAffinityPolicy", ("Honor", "Ignore")),
        choice("nodeTaintsPolicy", ("Honor", "Ignore")),
        _label_keys("matchLabelKeys"),
        inside("labelSelector", good_selector),
    ),
    inside("topologySpreadConstraints", _spread_twice),
)
"""The rules by which the constraints of spreading in a pod spec are checked."""
