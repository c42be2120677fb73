"""Kinds that are answered and never stored: bindings, token reviews, access reviews."""

from __future__ import annotations

from schemas.manifest import Manifest
from services._rules.kubernetes.validation.field_errors import Errors, FieldError, invalid
from services._rules.kubernetes.validation.field_rules import Rules, inside, lookup, refused
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


def _no_metadata(meta: Manifest, path: str) -> list[FieldError]:
    # The server itself fills in uid and creationTimestamp of everything it creates.
    own = {"uid", "creationTimestamp", "managedFields"}
    given = {key: value for key, value in meta.items() if key not in own and value}
    return [invalid(path, given, "must be empty")] if given else []


class AccessReview(Review):
    """authorization.k8s.io SubjectAccessReview."""

    rules: Rules = (inside("spec", *_ATTRIBUTES, _SUBJECT, absent={}), inside("metadata", _no_metadata))

    @property
    def group_kind(self) -> str:
        """The group with a leading dot, as Invalid answers to access reviews name the kind."""
        return f".{self.resource.group}"


class SelfAccessReview(AccessReview):
    """authorization.k8s.io SelfSubjectAccessReview."""

    rules = (inside("spec", *_ATTRIBUTES, absent={}), inside("metadata", _no_metadata))


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
