"""Validates that an answer has the requested shape; any other is a BadAnswer."""

from __future__ import annotations

from typing import Any, Final, TypeVar

import msgspec
from msgspec import Raw, Struct

from schemas.manifest import Manifest
from services._kit.kube.api import UNREADABLE, BadAnswer

T = TypeVar("T")

_SHOWN: Final = 60


class _Deleted(Struct):
    """A Status, or the object as it was or is being deleted."""

    kind: str
    status: Any = None
    metadata: Any = None


class ObjectMeta(Struct, rename="camel"):
    """The parts of an object's metadata that others rely on, with their types."""

    name: str
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    generation: int | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: list[str] | None = None
    owner_references: list[dict[str, Any]] | None = None


_metadata: Final = msgspec.json.Decoder(ObjectMeta)
_manifest: Final = msgspec.json.Decoder(dict[str, Any])
_deleted: Final = msgspec.json.Decoder(_Deleted)


def readable(decoder: msgspec.json.Decoder[T], data: bytes | Raw, what: str) -> T:
    """What a decoder makes of an answer; raises BadAnswer naming what was expected and what is wrong."""
    try:
        return decoder.decode(data)
    except UNREADABLE as error:
        # Without the text itself, which may be that of a Secret.
        raise BadAnswer(f"it is not {what}: {error}") from error


def manifest_of(data: bytes | Raw, most_values: int, what: str = "an object") -> Manifest:
    """A decoded JSON object; raises BadAnswer, also where it has more values than may be decoded."""
    if len(memoryview(data)) > most_values:
        text = bytes(memoryview(data))
        values = text.count(b",") + text.count(b"[") + text.count(b"{")
        if values > most_values:
            raise BadAnswer(f"it has about {values} values, more than {most_values}")
    return readable(_manifest, data, what)


def check_metadata(data: bytes | Raw) -> ObjectMeta:
    """The metadata of an object; raises BadAnswer where its parts have wrong types or it names nothing."""
    found = readable(_metadata, data, "an object's metadata")
    if not found.name:
        raise BadAnswer("an object has no metadata.name")
    return found


def check_deletion(data: bytes, name: str, uid: str = "") -> None:
    """Raise BadAnswer where a successful answer to DELETE is neither a Status of success nor about that object."""
    found = readable(_deleted, data, "an answer to a deletion")
    if found.kind == "Status":
        if found.status != "Success":
            raise BadAnswer("it is a success whose Status says otherwise")
        return
    try:
        metadata = msgspec.convert(found.metadata, ObjectMeta)
    except msgspec.ValidationError as error:
        raise BadAnswer(f"it is neither a Status nor an object: {error}") from error
    if metadata.name != name or (uid and metadata.uid != uid):
        raise BadAnswer(f"it is about {found.kind[:_SHOWN]} {metadata.name[:_SHOWN]} and not about what was deleted")


def check_manifest(manifest: Manifest, kind: str = "", named: ObjectMeta | None = None) -> None:
    """Raise BadAnswer where a decoded object is of another kind, or its metadata (unless `named`) has wrong types."""
    api_version, found = manifest.get("apiVersion"), manifest.get("kind")
    if not isinstance(api_version, str) or not isinstance(found, str):
        raise BadAnswer("apiVersion or kind of an object is no text")
    if kind and found != kind:
        raise BadAnswer(f"an object is of kind {found[:_SHOWN]} and not {kind}")
    if named is not None:
        return
    try:
        metadata = msgspec.convert(manifest.get("metadata"), ObjectMeta)
    except msgspec.ValidationError as error:
        raise BadAnswer(f"it is not an object's metadata: {error}") from error
    if not metadata.name:
        raise BadAnswer("an object has no metadata.name")
