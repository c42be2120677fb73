"""ValidatingAdmissionPolicies and their bindings: defaults, and the rules of their fields and expressions."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from schemas.manifest import Manifest
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation.field_errors import (
    Errors,
    duplicate,
    forbidden,
    invalid,
    required,
)
from services._rules.kubernetes.validation.field_rules import (
    Rules,
    apply,
    choice,
    distinct,
    each,
    inside,
    listed,
    repeated,
    text,
)
from services._rules.kubernetes.validation.status_fields import CONDITIONS
from services.apiserver.kinds.builtin import BuiltinKind
from services.apiserver.kinds.checks.affinities import label_selector
from services.apiserver.kinds.checks.expressions import is_identifier, match_conditions, policy_expressions
from services.apiserver.kinds.groups.admission import ADMISSION_RULE

REASONS: Final = ("Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized")
ACTIONS: Final = ("Audit", "Deny", "Warn")
_NOTHING_TO_DO: Final = "validations or auditAnnotations must contain at least one item"


_RULE: Final = (
    *ADMISSION_RULE,
    each(
        "resourceNames",
        lambda name, path: [invalid(path, name, one) for one in names.path_segment(name)],
        distinct(lambda name: name, lambda name, path: duplicate(path, name)),
    ),
)
_MATCH: Final = (
    inside("namespaceSelector", label_selector),
    inside("objectSelector", label_selector),
    each("resourceRules", *_RULE),
    each("excludeResourceRules", *_RULE),
    choice("matchPolicy", ("Equivalent", "Exact")),
)
_MATCH_DEFAULTS: Final[dict[str, Any]] = {
    "matchPolicy": "Equivalent",
    "namespaceSelector": {},
    "objectSelector": {},
    "resourceRules[]": {"scope": "*"},
    "excludeResourceRules[]": {"scope": "*"},
}


def _param_kind(reference: Manifest, field: str) -> Errors:
    given, kind, place = reference.get("apiVersion") or "", reference.get("kind") or "", f"{field}.apiVersion"
    group, _, version = given.rpartition("/")
    if not given:
        yield required(place)
    elif given.count("/") > 1:
        yield invalid(place, given, f"unexpected GroupVersion string: {given}")
    else:
        if group and (problems := names.subdomain(group)):
            yield invalid(place, group, ",".join(problems))
        if problems := names.dns1035(version):
            yield invalid(place, version, ",".join(problems))
    if not kind:
        yield required(f"{field}.kind")
    elif problems := names.dns1035(kind.lower()):
        text = f"may have mixed case, but should otherwise match: {','.join(problems)}"
        yield invalid(f"{field}.kind", kind, text)


def _constraints(match: Manifest | None, field: str) -> Errors:
    if match is None:
        yield required(field)
        return
    yield from apply(_MATCH, match, field)
    if not match.get("resourceRules"):
        yield required(f"{field}.resourceRules")


def _variables(spec: Manifest, field: str) -> Errors:
    for index, variable in enumerate(spec.get("variables") or ()):
        path, name = f"{field}.variables[{index}]", variable.get("name") or ""
        if not name.strip():
            yield required(f"{path}.name", "name is not specified")
        elif not is_identifier(name):
            yield invalid(f"{path}.name", name, "name is not a valid CEL identifier")
        if not (variable.get("expression") or "").strip():
            yield required(f"{path}.expression", "expression is not specified")


def _breaks(value: str) -> bool:
    return "\n" in value.strip() or "\r" in value.strip()


def _validation(item: Manifest, path: str) -> Errors:
    expression, message = item.get("expression") or "", item.get("message") or ""
    if not expression.strip():
        yield required(f"{path}.expression", "expression is not specified")
    if message and not message.strip():
        yield invalid(f"{path}.message", message, "message must be non-empty if specified")
    elif _breaks(message):
        yield invalid(f"{path}.message", message, "message must not contain line breaks")
    elif _breaks(expression) and not message:
        yield required(f"{path}.message", "message must be specified if expression contains line breaks")
    if item.get("reason") is not None:
        yield from choice("reason", REASONS)(item, path)


def _policy(policy: Manifest, _: str) -> Errors:
    spec, field = policy.get("spec") or {}, "spec"
    yield from choice("failurePolicy", ("Fail", "Ignore"), need="")(spec, field)
    if spec.get("paramKind") is not None:
        yield from _param_kind(spec["paramKind"], f"{field}.paramKind")
    yield from _constraints(spec.get("matchConstraints"), f"{field}.matchConstraints")
    yield from match_conditions(spec.get("matchConditions") or [], f"{field}.matchConditions")
    yield from _variables(spec, field)
    validations, annotations = spec.get("validations") or [], spec.get("auditAnnotations") or []
    if not validations and not annotations:
        yield required(f"{field}.validations", _NOTHING_TO_DO)
        yield required(f"{field}.auditAnnotations", _NOTHING_TO_DO)
    for index, item in enumerate(validations):
        yield from _validation(item, f"{field}.validations[{index}]")
    name, again = policy["metadata"].get("name", ""), set(repeated(item.get("key", "") for item in annotations))
    for index, item in enumerate(annotations):
        path, key = f"{field}.auditAnnotations[{index}]", item.get("key") or ""
        # The audit log knows an annotation by the name of its policy and the key.
        for problem in names.qualified(f"{name}/{key}"):
            yield invalid(f"{path}.key", key, problem)
        if index in again:
            yield duplicate(f"{path}.key", key)
        if not (item.get("valueExpression") or "").strip():
            yield required(f"{path}.valueExpression", "valueExpression is not specified")
    for expression in policy_expressions(spec):
        yield from msgspec.structs.replace(expression, field=f"{field}.{expression.field}").errors()


class Policy(BuiltinKind):
    """admissionregistration.k8s.io ValidatingAdmissionPolicy."""

    generation = True
    unconditional_update = False
    defaults = {"spec": {"failurePolicy": "Fail", "matchConstraints?": _MATCH_DEFAULTS}}
    rules: Rules = (_policy,)
    status_rules = (CONDITIONS,)


def _param_ref(ref: Manifest, field: str) -> Errors:
    named, selected = bool(ref.get("name")), ref.get("selector") is not None
    if named and selected:
        yield forbidden(f"{field}.name", "name and selector are mutually exclusive")
        yield forbidden(f"{field}.selector", "name and selector are mutually exclusive")
    elif not named and not selected:
        yield required(field, "one of name or selector must be specified")
    yield from (invalid(f"{field}.name", ref["name"], one) for one in names.path_segment(ref.get("name") or ""))
    if selected:
        yield from label_selector(ref["selector"], f"{field}.selector")
    yield from choice("parameterNotFoundAction", ("Deny", "Allow"), need="")(ref, field)


def _actions(spec: Manifest, field: str) -> Errors:
    actions = spec.get("validationActions") or []
    if not actions:
        yield required(f"{field}.validationActions")
    if "Deny" in actions and "Warn" in actions:
        text = (
            "must not contain both Deny and Warn (repeating the same validation failure information in the API "
            "response and headers serves no purpose)"
        )
        yield invalid(f"{field}.validationActions", actions, text)


class Binding(BuiltinKind):
    """admissionregistration.k8s.io ValidatingAdmissionPolicyBinding."""

    generation = True
    unconditional_update = False
    defaults = {"spec": {"matchResources?": _MATCH_DEFAULTS}}
    rules: Rules = (
        inside(
            "spec",
            text("policyName", names.subdomain, need=""),
            inside("paramRef", _param_ref),
            inside("matchResources", *_MATCH),
            each(
                "validationActions",
                listed(ACTIONS),
                distinct(lambda action: action, lambda action, path: duplicate(path, action)),
            ),
            _actions,
            absent={},
        ),
    )
