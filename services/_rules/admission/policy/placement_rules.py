"""Rules for the parts that policies share: affinities, placement, spread constraints, failover.

Source: docs/sources.md#admission.
"""

from collections.abc import Mapping
from typing import Any, Final

from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation.field_errors import FieldError, each, invalid, not_supported

Part = Mapping[str, Any]

_FIELD_KEYS: Final = ("provider", "region", "zone")
_FIELD_OPERATORS: Final = ("In", "NotIn")
_TOLERATION_OPERATORS: Final = ("", "Exists", "Equal")
GRACEFUL: Final = ("Gracefully", "Graciously")


def field_selector(affinity: Part | None, field: str) -> list[FieldError]:
    """A cluster affinity's field selector: known keys and operators; the first bad expression is reported."""
    selector = (affinity or {}).get("fieldSelector") or {}
    for expression in selector.get("matchExpressions") or ():
        key, operator = expression.get("key") or "", expression.get("operator") or ""
        if key not in _FIELD_KEYS:
            return [invalid(f"{field}.fieldSelector", selector, f"key {key!r} must be provider, region or zone")]
        if operator not in _FIELD_OPERATORS:
            return [invalid(f"{field}.fieldSelector", selector, f"operator {operator!r} must be In or NotIn")]
    return []


def placement(value: Part, field: str) -> list[FieldError]:
    """All rules of a placement."""
    found: list[FieldError] = []
    affinity, terms = value.get("clusterAffinity"), value.get("clusterAffinities") or []
    if affinity is not None and terms:
        found.append(
            invalid(field, value, "clusterAffinities cannot be set together with clusterAffinity: remove one of them")
        )
    found += field_selector(affinity, f"{field}.clusterAffinity")
    found += _terms(terms, value.get("replicaScheduling"), f"{field}.clusterAffinities")
    found += _spread(value.get("spreadConstraints") or [], f"{field}.spreadConstraints")
    found += _workload_affinity(value.get("workloadAffinity") or {}, f"{field}.workloadAffinity")
    for position, toleration in enumerate(value.get("clusterTolerations") or ()):
        operator = toleration.get("operator") or ""
        if operator in ("Lt", "Gt"):
            place = f"{field}.clusterTolerations[{position}].operator"
            found.append(not_supported(place, operator, _TOLERATION_OPERATORS))
    return found


def failover(value: Part, propagate_deps: bool, field: str) -> list[FieldError]:
    """All rules of a failover behaviour; the application part needs dependencies to be propagated."""
    found: list[FieldError] = []
    application = value.get("application")
    if application is not None:
        if not propagate_deps:
            found.append(invalid("spec.propagateDeps", False, "must be true where spec.failover.application is set"))
        found += _application(application, f"{field}.application")
    cluster = value.get("cluster") or {}
    return found + _preservation(cluster.get("statePreservation"), f"{field}.cluster.statePreservation")


def _application(value: Part, field: str) -> list[FieldError]:
    found: list[FieldError] = []
    seconds = (value.get("decisionConditions") or {}).get("tolerationSeconds")
    if seconds is not None and seconds < 0:
        place = f"{field}.decisionConditions.tolerationSeconds"
        found.append(invalid(place, seconds, "must be greater than or equal to 0"))
    grace, graceful = value.get("gracePeriodSeconds"), value.get("purgeMode") in GRACEFUL
    place = f"{field}.gracePeriodSeconds"
    if grace is not None and not graceful:
        found.append(invalid(place, grace, "only takes effect when purgeMode is Gracefully: set that, or remove this"))
    if grace is None and graceful:
        found.append(invalid(place, None, "must be set when purgeMode is Gracefully"))
    if grace is not None and grace <= 0:
        found.append(invalid(place, grace, "must be greater than 0"))
    return found + _preservation(value.get("statePreservation"), f"{field}.statePreservation")


def _preservation(value: Part | None, field: str) -> list[FieldError]:
    found: list[FieldError] = []
    for position, rule in enumerate((value or {}).get("rules") or ()):
        name = rule.get("aliasLabelName") or ""
        found += each(f"{field}.rules[{position}].aliasLabelName", name, names.qualified(name))
    return found


def _terms(terms: list[Part], division: Part | None, field: str) -> list[FieldError]:
    found: list[FieldError] = []
    seen: set[str] = set()
    for position, term in enumerate(terms):
        place = f"{field}[{position}]"
        name = term.get("affinityName") or ""
        found += each(place, name, names.qualified(name))
        found += field_selector(term, place)
        if name in seen:
            found.append(invalid(field, name, "each affinity term must have a name of its own: rename one"))
        seen.add(name)
        if term.get("overflowAffinities"):
            found += _overflow(term, division, f"{place}.overflowAffinities")
    return found


def _overflow(term: Part, division: Part | None, field: str) -> list[FieldError]:
    found: list[FieldError] = []
    tiers = term["overflowAffinities"]
    if not _divides_dynamically(division or {}):
        found.append(invalid(field, tiers, "can only be used with dynamic weight or aggregated division"))
    if not any(
        (
            term.get("labelSelector") is not None,
            term.get("fieldSelector") is not None,
            term.get("clusterNames"),
            term.get("exclude"),
        )
    ):
        found.append(invalid(field, tiers, "can only be used beside a primary affinity in the same term"))
    seen = {term.get("affinityName") or ""}
    for position, tier in enumerate(tiers):
        place = f"{field}[{position}]"
        name = tier.get("affinityName") or ""
        found += each(f"{place}.affinityName", name, names.qualified(name))
        if name in seen:
            found.append(invalid(f"{place}.affinityName", name, "must be unique and differ from the primary name"))
        seen.add(name)
        found += field_selector(tier, place)
    return found


def _divides_dynamically(division: Part) -> bool:
    if division.get("replicaSchedulingType") != "Divided":
        return False
    preference = division.get("replicaDivisionPreference")
    weights = division.get("weightPreference") or {}
    return preference == "Aggregated" or (preference == "Weighted" and bool(weights.get("dynamicWeight")))


def _spread(constraints: list[Part], field: str) -> list[FieldError]:
    found: list[FieldError] = []
    fields: list[str] = []
    for position, item in enumerate(constraints):
        place = f"{field}[{position}]"
        least, most = item.get("minGroups") or 0, item.get("maxGroups") or 0
        by_field = item.get("spreadByField") or ""
        if by_field:
            fields.append(by_field)
            if item.get("spreadByLabel"):
                found.append(
                    invalid(place, item, "spreadByLabel cannot be set together with spreadByField: remove one of them")
                )
        if least < 0:
            found.append(invalid(place, item, "minGroups must not be negative"))
        if most < 0:
            found.append(invalid(place, item, "maxGroups must not be negative"))
        if 0 < most < least:
            found.append(invalid(place, item, "maxGroups must not be lower than minGroups"))
    found += [
        invalid(field, constraints, f"more than one constraint spreads by {name}: keep one")
        for name in dict.fromkeys(fields)
        if fields.count(name) > 1
    ]
    if fields and "cluster" not in fields:
        found.append(
            invalid(
                field, constraints, "one of the constraints must spread by cluster: add one with spreadByField cluster"
            )
        )
    return found


def _workload_affinity(value: Part, field: str) -> list[FieldError]:
    found: list[FieldError] = []
    keys = []
    for name in ("affinity", "antiAffinity"):
        term = value.get(name)
        if term is not None:
            key = term.get("groupByLabelKey") or ""
            keys.append(key)
            found += each(f"{field}.{name}.groupByLabelKey", key, names.qualified(key))
    if len(keys) == 2 and keys[0] == keys[1]:
        found.append(
            invalid(
                field, value, "affinity and antiAffinity must not use the same groupByLabelKey: change or remove one"
            )
        )
    return found
