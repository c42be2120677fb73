"""A built-in kind: its fields come from the field tables; subclasses add defaults, life cycle and checks."""

from __future__ import annotations

from schemas.manifest import Manifest
from services.apiserver.kinds.decoding import field_tables as schemas
from services.apiserver.kinds.decoding import type_errors as decode_message
from services.apiserver.kinds.kind_model import DecodeError, Kind, Resource, Schema

NEWEST = 1 << 30
"""The release of a server that stands for none in particular."""


class BuiltinKind(Kind):
    """A kind whose shape is a definition of the field tables."""

    release: int = NEWEST
    """The minor release whose behaviour is wanted; larger than any for the newest."""

    def __init__(self, resource: Resource, schema_name: str) -> None:
        super().__init__(resource)
        self.schema_name = schema_name

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

    def decode(self, obj: Manifest, raw: bytes | None = None) -> None:
        """Bring a body into canonical form (see `schemas`), unknown fields dropped; raises DecodeError."""
        try:
            schemas.normalise(self.schema_name, obj)
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
        """Reset the status and set the first generation."""
        super().prepare_create(obj)
        if self.has_status and (status := self.empty_status()) is not None:
            obj["status"] = status
