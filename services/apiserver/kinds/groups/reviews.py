"""Kinds that are answered and never stored: bindings, token reviews, access reviews."""

from __future__ import annotations

from schemas.manifest import Manifest
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation.field_errors import Errors, FieldError, forbidden, invalid, required
from services._rules.kubernetes.validation.field_rules import (
    ListCheck,
    Rules,
    each,
    inside,
    lookup,
    needed,
    refused,
    text,
)
from services.apiserver.kinds.builtin import BuiltinKind


class Binding(BuiltinKind):
    """core/v1 Binding."""

    virtual = True


class Review(BuiltinKind):
    """TokenReview and SelfSubjectRulesReview."""

    virtual = True

    def prepare_create(self, obj: Manifest) -> None:
        """A review starts without an answer."""
        obj.pop("status", None)


_ATTRIBUTES = (
    refused(
        "nonResourceAttributes",
        "cannot be specified in combination with resourceAttributes",
        lambda spec: "resourceAttributes" in spec and "nonResourceAttributes" in spec,
    ),
    refused(
        "resourceAttributes",
        "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        lambda spec: "resourceAttributes" not in spec and "nonResourceAttributes" not in spec,
        shown="null",
    ),
)
_SUBJECT = refused(
    "user",
    "at least one of user or group must be specified",
    lambda spec: not (spec.get("user") or spec.get("groups")),
    shown="",
)


def _selector(which: str, requirement: ListCheck) -> ListCheck:
    """Rules of a selector in an access review: a text, or requirements, whose operators may be newer than the rules."""

    def check(selector: Manifest, path: str) -> list[FieldError]:
        raw, requirements = selector.get("rawSelector"), selector.get("requirements")
        found = []
        if raw and requirements:
            text = "may not specified at the same time as requirements"
            found.append(invalid(f"{path}.rawSelector", raw, text))
        if not raw and not requirements:
            text = f"when {path} is specified, requirements or rawSelector is required"
            found.append(required(f"{path}.requirements", text))
        return found + each("requirements", requirement, _values)(selector, path)

    return inside(which, check)


def _values(requirement: Manifest, path: str) -> Errors:
    values, field = requirement.get("values"), f"{path}.values"
    match requirement.get("operator"):
        case "In" | "NotIn" if not values:
            yield required(field, "must be specified when `operator` is 'In' or 'NotIn'")
        case "Exists" | "DoesNotExist" if values:
            yield forbidden(field, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
        case _:
            return


_SELECTORS = inside(
    "resourceAttributes",
    _selector("fieldSelector", needed("key", detail="must be specified")),
    _selector("labelSelector", text("key", names.qualified, blank=True)),
)


def _no_metadata(meta: Manifest, path: str) -> list[FieldError]:
    # The server itself fills in uid and creationTimestamp of everything it creates.
    own = {"uid", "creationTimestamp", "managedFields"}
    given = {key: value for key, value in meta.items() if key not in own and value}
    return [invalid(path, given, "must be empty")] if given else []


class AccessReview(Review):
    """authorization.k8s.io SubjectAccessReview."""

    rules: Rules = (inside("spec", *_ATTRIBUTES, _SUBJECT, _SELECTORS, absent={}), inside("metadata", _no_metadata))

    @property
    def group_kind(self) -> str:
        """The group with a leading dot, as Invalid answers to access reviews name the kind."""
        return f".{self.resource.group}"


class SelfAccessReview(AccessReview):
    """authorization.k8s.io SelfSubjectAccessReview."""

    rules = (inside("spec", *_ATTRIBUTES, _SELECTORS, absent={}), inside("metadata", _no_metadata))


def _only_namespace(meta: Manifest, path: str) -> list[FieldError]:
    return _no_metadata({key: value for key, value in meta.items() if key != "namespace"}, path)


def _own_namespace(obj: Manifest, _: str) -> Errors:
    resource, other = (lookup(obj, f"spec.{name}") for name in ("resourceAttributes", "nonResourceAttributes"))
    namespace = (obj.get("metadata") or {}).get("namespace", "")
    if resource is not None and resource.get("namespace", "") != namespace:
        text = "must match metadata.namespace"
        yield invalid("spec.resourceAttributes.namespace", resource.get("namespace", ""), text)
    if other is not None:
        yield invalid("spec.nonResourceAttributes", other, "disallowed on this kind of request")


class LocalAccessReview(AccessReview):
    """authorization.k8s.io LocalSubjectAccessReview."""

    rules = (AccessReview.rules[0], inside("metadata", _only_namespace), _own_namespace)
