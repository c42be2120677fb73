"""Checks of node selectors, affinities, label selectors and spread constraints."""

from __future__ import annotations

from schemas.manifest import Manifest
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation import object_metadata as meta
from services._rules.kubernetes.validation.field_errors import (
    Errors,
    FieldError,
    Raw,
    duplicate,
    forbidden,
    invalid,
    required,
)
from services._rules.kubernetes.validation.field_rules import (
    Check,
    apply,
    choice,
    distinct,
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


def _field_requirement(item: Manifest, field: str) -> Errors:
    if item.get("operator") not in ("In", "NotIn"):
        yield invalid(f"{field}.operator", item.get("operator", ""), "not a valid selector operator")
    elif len(item.get("values") or []) != 1:
        message = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        yield required(f"{field}.values", message)
    if item.get("key") != "metadata.name":
        yield invalid(f"{field}.key", item.get("key", ""), "not a valid field selector key")


_TERM = (
    each("matchExpressions", _requirement(*_SETS, "Gt", "Lt")),
    each("matchFields", _field_requirement),
)
NODE_SELECTOR = (
    needed("nodeSelectorTerms", detail="must have at least one node selector term"),
    each("nodeSelectorTerms", *_TERM),
)
_WEIGHT = number("weight", 1, 100, "must be in the range 1-100", absent=0)
_POD_TERM = (
    inside("labelSelector", label_selector),
    every("namespaces", formed(names.label), shown_as="namespace"),
    needed("topologyKey", detail="can not be empty"),
    text("topologyKey", names.qualified, blank=True),
)
_POD_AFFINITY = (
    each(REQUIRED, *_POD_TERM),
    each(PREFERRED, _WEIGHT, inside("podAffinityTerm", *_POD_TERM, absent={})),
)
AFFINITY = (
    inside(
        "nodeAffinity",
        inside(REQUIRED, *NODE_SELECTOR),
        each(PREFERRED, _WEIGHT, inside("preference", *_TERM)),
    ),
    inside("podAffinity", *_POD_AFFINITY),
    inside("podAntiAffinity", *_POD_AFFINITY),
)


def _spread_key(item: Manifest) -> tuple[str, str]:
    return (item.get("topologyKey", ""), item.get("whenUnsatisfiable", ""))


def _spread_twice(item: Manifest, field: str) -> FieldError:
    return duplicate(f"{field}.{{topologyKey, whenUnsatisfiable}}", Raw(f"{{{', '.join(_spread_key(item))}}}"))


SPREAD = (
    number("maxSkew", 1, detail="must be greater than zero", absent=0),
    needed("topologyKey", detail="can not be empty"),
    choice("whenUnsatisfiable", _ACTIONS, blank=True),
    distinct(_spread_key, _spread_twice),
    inside("labelSelector", label_selector),
)
