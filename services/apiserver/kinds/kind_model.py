"""What the API server knows of one served kind: its names, fields, defaults, life-cycle rules and checks."""

from __future__ import annotations

from typing import Any

import msgspec

from schemas.manifest import Manifest
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation import object_metadata
from services._rules.kubernetes.validation.field_errors import (
    DecodeError,
    ErrorType,
    FieldError,
    aggregate,
)

__all__ = ["CRUD", "DecodeError", "ErrorType", "FieldError", "Kind", "Manifest", "Resource", "Subresource", "aggregate"]

Schema = dict[str, Any]

CRUD = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
STATUS_VERBS = ("get", "patch", "update")


class Subresource(msgspec.Struct, frozen=True):
    """One subresource; `kind` (with group and version where they differ from the parent's) is what its body is."""

    name: str
    verbs: tuple[str, ...] = STATUS_VERBS
    kind: str = ""
    group: str | None = None
    version: str | None = None


class Resource(msgspec.Struct, frozen=True):
    """The names under which one kind is served in one group and version."""

    group: str
    version: str
    kind: str
    plural: str
    list_kind: str = ""
    singular: str = ""
    short_names: tuple[str, ...] = ()
    namespaced: bool = True
    verbs: tuple[str, ...] = CRUD
    categories: tuple[str, ...] = ()
    subresources: tuple[Subresource, ...] = ()

    @property
    def api_version(self) -> str:
        """`v1` or `group/version`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_resource(self) -> str:
        """`plural` or `plural.group`, as Status messages name a resource."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def subresource(self, name: str) -> Subresource | None:
        """Return the subresource of that name, or None if this kind has none."""
        return next((item for item in self.subresources if item.name == name), None)


class Kind:
    """One served kind; built-in kinds and custom kinds override what differs.

    Objects are plain dicts in this kind's version. `default`, `prepare_*` and `prune` change the object given first
    and nothing else; `old` is never changed, and parts of it may be shared with `new`.
    """

    custom: bool = False
    """Defined by a CustomResourceDefinition."""
    generation: bool = False
    """metadata.generation is 1 on create and rises when something outside metadata and status changes."""
    has_status: bool = False
    """A main-resource write keeps the stored status; the status subresource writes only it."""
    create_on_update: bool = False
    """PUT of a missing object creates it."""
    unconditional_update: bool = True
    """PUT without a resourceVersion is allowed."""
    revision_is_checked: bool = False
    """PUT without a resourceVersion is refused by the checks of an update, together with what else is wrong."""
    graceful_delete: bool = False
    """DELETE may leave the object with a deletionTimestamp for a grace period (Pods)."""
    domain_finalizers: bool = False
    """A finalizer that Kubernetes does not define needs a domain and a slash."""
    metadata_checks: tuple[int, int] = (1, 0)
    """How often an update's metadata is checked by the kind itself: as that of an update, as that of a new object."""
    virtual: bool = False
    """Nothing is stored; create answers at once (reviews, bindings)."""
    closing: str = ""
    """Why no new object is taken, as the refusal says it; empty while they are."""
    schema_name: str = ""
    """Name of the OpenAPI definition, such as io.k8s.api.apps.v1.Deployment."""

    def __init__(self, resource: Resource, *, schema: Schema | None = None) -> None:
        self.resource = resource
        self._schema = schema
        self.status_group = resource.group
        self.store_group = resource.group
        self.store_version = resource.version

    @property
    def group_kind(self) -> str:
        """`Kind` or `Kind.group`, as Invalid Status messages name it."""
        return f"{self.resource.kind}.{self.status_group}" if self.status_group else self.resource.kind

    @property
    def store_key(self) -> str:
        """`group/plural` under which objects are stored; all served versions of one kind share it."""
        return f"{self.store_group}/{self.resource.plural}"

    @property
    def schema(self) -> Schema | None:
        """The OpenAPI v3 schema with x-kubernetes-* marks, nested objects in place (shared, not to be changed)."""
        return self._schema

    # Conversion: identity but for apiVersion; kinds with several shapes override both.

    @property
    def shown_as_stored(self) -> bool:
        """Whether `from_store` gives every object back as it is; False where that depends on the object."""
        return False

    def to_store(self, obj: Manifest) -> Manifest:
        """Return the object in the stored version (may be the same dict, may share parts)."""
        return obj

    def from_store(self, obj: Manifest) -> Manifest:
        """Return a stored object in this kind's version (may be the same dict, may share parts)."""
        return obj

    # Reading a request body.

    def decode(self, obj: Manifest, raw: bytes | None = None) -> list[str]:
        """Check the JSON types of all known fields and bring them into canonical form in place; raises DecodeError.

        Built-in kinds also drop unknown fields here, and return their paths in document order. `raw` is the request
        body, if there is one: messages quote the place in it.
        """
        return []

    def unknown_fields(self, obj: Manifest) -> list[str]:
        """Return the paths of fields that the schema does not know, in document order; call before `decode`."""
        return []

    def prune(self, obj: Manifest) -> None:
        """Drop the fields that the schema does not know."""

    # Life cycle.

    def default(self, obj: Manifest) -> None:
        """Fill in defaults."""

    def prepare_create(self, obj: Manifest) -> None:
        """Drop what a client may not set on create (status), set the first generation."""
        if self.has_status:
            obj.pop("status", None)
        if self.generation:
            obj["metadata"]["generation"] = 1

    def prepare_update(self, new: Manifest, old: Manifest) -> None:
        """Keep the status of `old` and raise the generation when something outside metadata and status changed."""
        if self.has_status:
            _keep(new, old, "status")
        self._set_generation(new, old)

    def prepare_status(self, new: Manifest, old: Manifest) -> None:
        """Keep everything of `old` but the status; of the metadata, what the status subresource may write stays new."""
        for name in [key for key in new if key not in ("apiVersion", "kind", "metadata", "status")]:
            if name not in old:
                del new[name]
        for name, value in old.items():
            if name not in ("apiVersion", "kind", "metadata", "status"):
                new[name] = value
        _keep(new["metadata"], old["metadata"], "generation")

    def _set_generation(self, new: Manifest, old: Manifest) -> None:
        _keep(new["metadata"], old["metadata"], "generation")
        if self.generation and self.spec_changed(new, old):
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1

    def spec_changed(self, new: Manifest, old: Manifest) -> bool:
        """Return whether anything outside metadata and status differs."""
        outside = ("apiVersion", "kind", "metadata", "status")
        names = {*new, *old}.difference(outside)
        return any(new.get(name) != old.get(name) for name in names)

    def check_metadata(self, obj: Manifest) -> list[FieldError]:
        """Return what is wrong with the metadata of a new object."""
        return object_metadata.check_create(
            obj["metadata"],
            self.check_name,
            namespaced=self.resource.namespaced,
            domain_finalizers=self.domain_finalizers,
        )

    def check_metadata_update(self, new: Manifest, old: Manifest, *, whole: bool = True) -> list[FieldError]:
        """Return what is wrong with the metadata of an update, server's fields included.

        An update of a subresource, which is not `whole`, is checked as an update only.
        """
        as_update, as_new = self.metadata_checks if whole else (1, 0)
        return object_metadata.check_update(
            new,
            old,
            self.check_name,
            namespaced=self.resource.namespaced,
            domain_finalizers=self.domain_finalizers,
            finalizers_too=not self.custom,
            as_update=as_update,
            as_new=as_new,
        )

    def validate_create(self, obj: Manifest) -> list[FieldError]:
        """Return what is wrong with a new, defaulted object."""
        return self.check(obj)

    def validate_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return what is wrong with replacing `old` by `new` (both defaulted)."""
        return self.check_update(new, old)

    def check(self, obj: Manifest) -> list[FieldError]:
        """Return what is wrong with an object by itself."""
        return []

    def check_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return what is wrong with an update; the same as on create unless overridden."""
        return self.check(new)

    def check_name(self, name: str) -> list[str]:
        """Return what is wrong with the object's name; empty when it is good."""
        return names.subdomain(name)

    def validate_status(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return what is wrong with a write to the status subresource."""
        return []

    def warnings(self, obj: Manifest) -> list[str]:
        """Return texts for `Warning` headers of an accepted write."""
        return []

    def change_warnings(self, new: Manifest, old: Manifest) -> list[str]:
        """Return texts for `Warning` headers of an accepted update; those of a new object unless overridden."""
        return self.warnings(new)

    # Objects of virtual kinds.

    def computed(self, namespace: str, name: str) -> list[Manifest] | None:
        """Return the objects that are made when they are read: of a namespace and a name, of all where one is empty.

        None for kinds whose objects are stored, or only created.
        """
        return None

    # Selection.

    def field_selectors(self, obj: Manifest) -> dict[str, str]:
        """Return the fields that a field selector may name, with this object's values."""
        meta = obj["metadata"]
        if self.resource.namespaced:
            return {"metadata.name": meta["name"], "metadata.namespace": meta.get("namespace", "")}
        return {"metadata.name": meta["name"]}

    def selectable_fields(self) -> frozenset[str]:
        """Return the names that `field_selectors` answers for every object of the kind."""
        return frozenset(self.field_selectors({"metadata": {"name": "", "namespace": ""}}))


def _keep(new: Manifest, old: Manifest, name: str) -> None:
    if name in old:
        new[name] = old[name]
    else:
        new.pop(name, None)
