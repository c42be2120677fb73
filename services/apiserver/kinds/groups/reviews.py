"""Kinds that are answered and never stored: bindings, token reviews, access reviews."""

from __future__ import annotations

from schemas.manifest import Manifest
from services._rules.kubernetes.validation.field_errors import FieldError, invalid
from services.apiserver.kinds.builtin import BuiltinKind
from services.apiserver.kinds.kind_model import Resource


class Binding(BuiltinKind):
    """core/v1 Binding."""

    virtual = True


class Review(BuiltinKind):
    """TokenReview and SelfSubjectRulesReview."""

    virtual = True

    def prepare_create(self, obj: Manifest) -> None:
        """A review starts without an answer."""
        obj.pop("status", None)


class AccessReview(Review):
    """authorization.k8s.io SubjectAccessReview."""

    def __init__(self, resource: Resource, schema_name: str) -> None:
        super().__init__(resource, schema_name)
        # Clients see these errors under the name of the group alone.
        self.invalid_kind = f".{resource.group}"

    @property
    def group_kind(self) -> str:
        """The group with a leading dot, as Invalid answers to access reviews name the kind."""
        return self.invalid_kind

    def check(self, obj: Manifest) -> list[FieldError]:
        """There must be one kind of attributes and a subject."""
        return [*self.check_attributes(obj), *_subject(obj), *_no_metadata(obj)]

    @staticmethod
    def check_attributes(obj: Manifest) -> list[FieldError]:
        """There must be exactly one kind of attributes."""
        spec = obj.get("spec") or {}
        resource, other = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
        if resource is not None and other is not None:
            text = "cannot be specified in combination with resourceAttributes"
            return [invalid("spec.nonResourceAttributes", other, text)]
        if resource is None and other is None:
            text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
            return [invalid("spec.resourceAttributes", "null", text)]
        return []


def _subject(obj: Manifest) -> list[FieldError]:
    spec = obj.get("spec") or {}
    if spec.get("user") or spec.get("groups"):
        return []
    return [invalid("spec.user", "", "at least one of user or group must be specified")]


def _no_metadata(obj: Manifest) -> list[FieldError]:
    # The server itself fills in uid and creationTimestamp of everything it creates.
    own = {"uid", "creationTimestamp", "managedFields"}
    given = {key: value for key, value in (obj.get("metadata") or {}).items() if key not in own and value}
    return [invalid("metadata", given, "must be empty")] if given else []


class SelfAccessReview(AccessReview):
    """authorization.k8s.io SelfSubjectAccessReview."""

    def check(self, obj: Manifest) -> list[FieldError]:
        """There must be one kind of attributes."""
        return [*self.check_attributes(obj), *_no_metadata(obj)]


class LocalAccessReview(AccessReview):
    """authorization.k8s.io LocalSubjectAccessReview."""

    def check(self, obj: Manifest) -> list[FieldError]:
        """The attributes must be of the review's own namespace."""
        found = [*self.check_attributes(obj), *_subject(obj)]
        given = dict(obj.get("metadata") or {})
        namespace = given.pop("namespace", "")
        found += _no_metadata({"metadata": given})
        spec = obj.get("spec") or {}
        resource = spec.get("resourceAttributes")
        if resource is not None and resource.get("namespace", "") != namespace:
            text = "must match metadata.namespace"
            found.append(invalid("spec.resourceAttributes.namespace", resource.get("namespace", ""), text))
        if spec.get("nonResourceAttributes") is not None:
            text = "disallowed on this kind of request"
            found.append(invalid("spec.nonResourceAttributes", spec["nonResourceAttributes"], text))
        return found
