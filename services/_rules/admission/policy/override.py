"""Defaults and rules of OverridePolicy and ClusterOverridePolicy (docs/sources.md#admission)."""

from collections.abc import Mapping
from typing import Any, Final

from schemas.manifest import Manifest
from services._rules.admission.common import value_formats as formats
from services._rules.admission.policy.placement_rules import field_selector
from services._rules.admission.policy.selector_namespaces import selector_namespaces, with_selector_namespaces
from services._rules.kubernetes.validation import object_metadata as metadata
from services._rules.kubernetes.validation.field_errors import FieldError, each, invalid, required

Part = Mapping[str, Any]

# The deprecated overriders that cannot stand beside overrideRules; fieldOverrider is not among them.
_DEPRECATED: Final = (
    "plaintext",
    "imageOverrider",
    "commandOverrider",
    "argsOverrider",
    "labelsOverrider",
    "annotationsOverrider",
)

_MOVE: Final = "cannot stand beside overrideRules: move it into a rule"


def default(obj: Manifest, namespace: str) -> Manifest:
    """The policy with its namespace in every selector; an empty list of rules counts as none."""
    spec = with_selector_namespaces(dict(obj.get("spec") or {}), namespace)
    if spec.get("overrideRules") == []:
        del spec["overrideRules"]
    return obj | {"spec": spec}


def validate(obj: Manifest, namespaced: bool) -> list[FieldError]:
    """What is wrong with a policy."""
    spec = obj.get("spec") or {}
    found = field_selector(spec.get("targetCluster"), "spec.targetCluster")
    if spec.get("overrideRules") is not None:
        if spec.get("targetCluster") is not None:
            found.append(invalid("spec.targetCluster", spec["targetCluster"], _MOVE))
        overriders = spec.get("overriders") or {}
        if any(overriders.get(name) for name in _DEPRECATED):
            found.append(invalid("spec.overriders", overriders, _MOVE))
    for position, rule in enumerate(spec.get("overrideRules") or ()):
        found += _rule(rule, f"spec.overrideRules[{position}]")
    if namespaced:
        found += selector_namespaces(spec, (obj.get("metadata") or {}).get("namespace") or "")
    return found


def _rule(rule: Part, field: str) -> list[FieldError]:
    found = field_selector(rule.get("targetCluster"), f"{field}.targetCluster")
    overriders = rule.get("overriders") or {}
    field += ".overriders"
    for position, item in enumerate(overriders.get("annotationsOverrider") or ()):
        values = item.get("value") or {}
        found += metadata.annotations(values, f"{field}.annotationsOverrider[{position}].value")
    for position, item in enumerate(overriders.get("labelsOverrider") or ()):
        values = item.get("value") or {}
        found += metadata.labels(values, f"{field}.labelsOverrider[{position}].value")
    for position, item in enumerate(overriders.get("imageOverrider") or ()):
        path = (item.get("predicate") or {}).get("path") or ""
        found += each(f"{field}.imageOverrider[{position}].predicate.path", path, formats.json_pointer(path))
    for position, item in enumerate(overriders.get("fieldOverrider") or ()):
        found += _field(item, f"{field}.fieldOverrider[{position}]")
    return found


def _field(item: Part, field: str) -> list[FieldError]:
    found: list[FieldError] = []
    if item.get("json") and item.get("yaml"):
        found.append(invalid(field, item, "has both json and yaml; a text is one of them: remove the other"))
    elif not item.get("json") and not item.get("yaml"):
        found.append(required(field, "either json or yaml must be set"))
    path = item.get("fieldPath") or ""
    found += each(f"{field}.fieldPath", path, formats.json_pointer(path))
    for name in ("json", "yaml"):
        for position, operation in enumerate(item.get(name) or ()):
            found += _operation(operation, f"{field}.{name}[{position}]")
    return found


def _operation(operation: Part, field: str) -> list[FieldError]:
    path, operator, value = operation.get("subPath") or "", operation.get("operator"), operation.get("value")
    found = each(f"{field}.subPath", path, formats.json_pointer(path))
    if operator in ("add", "replace") and value is None:
        found.append(invalid(f"{field}.value", None, f"must be set to {operator}"))
    if operator == "remove" and value is not None:
        found.append(invalid(f"{field}.value", value, "is not allowed with remove: leave it out"))
    return found
