"""A built-in kind: its fields, defaults and rules come from tables; subclasses add what is no table."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar, Final

from schemas.manifest import Manifest
from services._rules.kubernetes.validation.field_errors import FieldError
from services._rules.kubernetes.validation.field_rules import Rules, apply, changed, inside, lookup
from services.apiserver.kinds.decoding import field_tables as schemas
from services.apiserver.kinds.decoding import type_errors as decode_message
from services.apiserver.kinds.defaults import Defaults
from services.apiserver.kinds.gated_fields import drop_gated, gated_fields
from services.apiserver.kinds.kind_model import DecodeError, Kind, Resource, Schema

_ANY_FINALIZER: Final = frozenset(
    {
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "apiregistration.k8s.io",
        "coordination.k8s.io",
        "policy",
    }
)
"""Groups whose kinds take finalizers of any qualified name, as custom resources do."""

_ALL_METADATA: Final = ("labels", "annotations", "finalizers", "ownerReferences")
_KEPT_BY_STATUS: Final = {
    "apiextensions.k8s.io/CustomResourceDefinition": _ALL_METADATA,
    "apiregistration.k8s.io/APIService": _ALL_METADATA,
    "apps/Deployment": ("labels",),
    "flowcontrol.apiserver.k8s.io/FlowSchema": _ALL_METADATA,
    "flowcontrol.apiserver.k8s.io/PriorityLevelConfiguration": _ALL_METADATA,
    "storage.k8s.io/VolumeAttachment": _ALL_METADATA,
    # Old kubelets write owner references that break garbage collection.
    "/Pod": ("ownerReferences",),
}
"""Metadata that a write to the status subresource of a kind does not change."""


_METADATA_CHECKS: Final = {
    "/LimitRange": (0, 1),
    "/Node": (1, 2),
    "/PersistentVolume": (1, 2),
    "/PersistentVolumeClaim": (1, 2),
    "/PodTemplate": (1, 0),
    "/Secret": (1, 2),
    "/ServiceAccount": (1, 2),
    "apps/Deployment": (1, 0),
    "autoscaling/HorizontalPodAutoscaler": (1, 0),
    "batch/CronJob": (1, 0),
    "coordination.k8s.io/Lease": (1, 0),
    "discovery.k8s.io/EndpointSlice": (0, 1),
    "extensions/Ingress": (1, 0),
    "networking.k8s.io/Ingress": (1, 0),
    "networking.k8s.io/IngressClass": (1, 0),
    "node.k8s.io/RuntimeClass": (1, 2),
    "policy/PodDisruptionBudget": (0, 0),
    "rbac.authorization.k8s.io/ClusterRole": (1, 2),
    "rbac.authorization.k8s.io/ClusterRoleBinding": (1, 2),
    "rbac.authorization.k8s.io/Role": (1, 2),
    "rbac.authorization.k8s.io/RoleBinding": (1, 2),
    "scheduling.k8s.io/PriorityClass": (1, 0),
    "storage.k8s.io/CSIDriver": (1, 0),
    "storage.k8s.io/CSINode": (0, 2),
}
"""How often kinds check the metadata of an update, where it is not once as an update and once as a new object."""


class BuiltinKind(Kind):
    """A kind whose shape is a definition of the field tables."""

    defaults: ClassVar[Mapping[str, Any]] = {}
    """The table of what defaulting fills in."""
    rules: Rules = ()
    """What an object is checked by, before `spec_rules`."""
    spec_rules: ClassVar[Rules] = ()
    """What the spec is checked by."""
    status_rules: ClassVar[Rules] = ()
    """What the status is checked by in a write to the status subresource."""
    checks_of_new: ClassVar[int] = 1
    """How often clients read what is wrong with a new object; some kinds are checked twice."""
    checks_of_update: ClassVar[int] = 1
    """How often clients read what is wrong with an updated object by itself."""
    fixed: ClassVar[tuple[str, ...]] = ()
    """Paths of fields that an update may not change."""
    selectable: ClassVar[Mapping[str, str]] = {}
    """Paths of fields that a field selector may name beside name and namespace, and what a missing one counts as."""

    def __init__(self, resource: Resource, schema_name: str) -> None:
        super().__init__(resource)
        self.schema_name = schema_name
        self.domain_finalizers = resource.group not in _ANY_FINALIZER and resource.kind != "Event"
        self._kept_by_status = _KEPT_BY_STATUS.get(f"{resource.group}/{resource.kind}", ())
        self.metadata_checks = _METADATA_CHECKS.get(f"{resource.group}/{resource.kind}", (1, 1))
        self._default = Defaults(self.defaults_of(resource))
        self.rules = self.rules_of(resource)

    def prepare_status(self, new: Manifest, old: Manifest) -> None:
        """Keep what writes to the status of this kind do not change."""
        super().prepare_status(new, old)
        for name in self._kept_by_status:
            if name in old["metadata"]:
                new["metadata"][name] = old["metadata"][name]
            else:
                new["metadata"].pop(name, None)

    @classmethod
    def defaults_of(cls, resource: Resource) -> Mapping[str, Any]:  # noqa: ARG003
        """Return the table of defaults of the kind under its names; kinds whose versions differ override this."""
        return cls.defaults

    @classmethod
    def rules_of(cls, resource: Resource) -> Rules:  # noqa: ARG003
        """Return the rules of the kind under its names; kinds whose versions differ override this."""
        return (*cls.rules, inside("spec", *cls.spec_rules, absent={})) if cls.spec_rules else cls.rules

    @cached_property
    def _gated(self) -> tuple[str, ...]:
        return gated_fields(self.store_key)

    @property
    def schema(self) -> Schema | None:
        """The linked schema of the definition (shared, not to be changed)."""
        return schemas.linked(self.schema_name)

    @property
    def shown_as_stored(self) -> bool:
        """Whether this is the stored version, of a kind that has no forms of its own."""
        return self.resource.version == self.store_version and type(self).from_store is BuiltinKind.from_store

    def to_store(self, obj: Manifest) -> Manifest:
        """Return the object under the stored version's name; versions of one shape need no more."""
        if self.resource.version == self.store_version:
            return obj
        return {**obj, "apiVersion": f"{self.store_group}/{self.store_version}"}

    def from_store(self, obj: Manifest) -> Manifest:
        """Return a stored object under this version's name."""
        if self.resource.version == self.store_version:
            return obj
        return {**obj, "apiVersion": self.resource.api_version}

    def decode(self, obj: Manifest, raw: bytes | None = None) -> list[str]:
        """Bring a body into canonical form (see `schemas`), unknown fields dropped; raises DecodeError."""
        try:
            return schemas.normalise(self.schema_name, obj)
        except schemas.ShapeError as error:
            raise DecodeError(decode_message.render(self.schema_name, obj, raw, error)) from None

    def unknown_fields(self, obj: Manifest) -> list[str]:
        """Return the paths of fields that the definition does not have, in document order; call before `decode`."""
        return schemas.unknown_fields(self.schema_name, obj)

    def prune(self, obj: Manifest) -> None:
        """Drop the fields that the definition does not have."""
        schemas.drop_unknown(self.schema_name, obj)

    def empty_status(self) -> Manifest | None:
        """Return the status of a new object; None when the kind leaves it out."""
        status: Manifest | None = schemas.empty(self.schema_name, "status")
        return status

    def prepare_create(self, obj: Manifest) -> None:
        """Reset the status, set the first generation, and drop what is switched off."""
        super().prepare_create(obj)
        if self.has_status and (status := self.empty_status()) is not None:
            obj["status"] = status
        drop_gated(self._gated, obj)

    def prepare_update(self, new: Manifest, old: Manifest) -> None:
        """Keep the status, drop what is switched off, raise the generation."""
        drop_gated(self._gated, new, old)
        super().prepare_update(new, old)

    def default(self, obj: Manifest) -> None:
        """Fill in the table of defaults."""
        self._default(obj)

    def check(self, obj: Manifest) -> list[FieldError]:
        """Return what the rules find wrong with an object by itself."""
        return apply(self.rules, obj)

    def check_metadata(self, obj: Manifest) -> list[FieldError]:
        """Return what is wrong with the metadata of a new object."""
        return super().check_metadata(obj) * self.checks_of_new

    def validate_create(self, obj: Manifest) -> list[FieldError]:
        """Return what is wrong with a new, defaulted object."""
        return self.check(obj) * self.checks_of_new

    def check_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return what is wrong with an object by itself, and which fixed fields changed."""
        return [*self.check(new) * self.checks_of_update, *changed(self.fixed, new, old)]

    def validate_status(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return what the rules of the status find wrong."""
        return apply(self.status_rules, new.get("status") or {}, "status")

    def field_selectors(self, obj: Manifest) -> dict[str, str]:
        """Return name, namespace and the fields of the table."""
        found = super().field_selectors(obj)
        for path, missing in self.selectable.items():
            value = lookup(obj, path)
            shown = str(value).lower() if isinstance(value, bool) else str(value)
            found[path] = missing if value is None else shown
        return found


class PlainWithStatus(BuiltinKind):
    """A kind with a status subresource and a generation, replaced only by name of the resourceVersion."""

    generation = True
    unconditional_update = False
