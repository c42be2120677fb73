"""Marks objects with the cluster that they come from, and takes the marks off what clients send back.

Everything but the metadata stays the bytes that the member sent, or the client.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Raw

from services._kit.kube.api import UNREADABLE, BadAnswer
from services.search.union.version_map import read_version

CACHED_FROM: Final = "resource.karmada.io/cached-from-cluster"
_fields: Final = msgspec.json.Decoder(dict[str, Raw])
_texts: Final = msgspec.json.Decoder(dict[str, str])
_text: Final = msgspec.json.Decoder(str)
_encode: Final = msgspec.json.Encoder().encode
_NULL: Final = b"null"
_MOST_TEXT: Final = 200


class OtherCluster(Exception):
    """An object that a client sends was read from another cluster than the one that has it now."""


def marked(raw: bytes | Raw, cluster: str, version: str = "") -> bytes:
    """An object with its cluster, and with another resourceVersion unless that is empty; raises BadAnswer."""
    try:
        found = _fields.decode(raw)
        metadata = _part(found, "metadata")
        annotations = _texts.decode(metadata["annotations"]) if _has(metadata, "annotations") else {}
        metadata["annotations"] = Raw(_encode({**annotations, CACHED_FROM: cluster}))
        if version:
            metadata["resourceVersion"] = Raw(_encode(version))
        found["metadata"] = Raw(_encode(metadata))
    except UNREADABLE as error:
        raise BadAnswer(f"it is not an object: {error}") from error
    return _encode(found)


def version_of(raw: bytes | Raw) -> str:
    """The resourceVersion of an object; empty without one. Raises BadAnswer."""
    try:
        metadata = _part(_fields.decode(raw), "metadata")
        return _text.decode(metadata["resourceVersion"]) if _has(metadata, "resourceVersion") else ""
    except UNREADABLE as error:
        raise BadAnswer(f"it is not an object: {error}") from error


def metadata_of(raw: bytes | Raw) -> Raw:
    """The metadata of an object; raises BadAnswer."""
    try:
        return _fields.decode(raw)["metadata"]
    except (*UNREADABLE, KeyError) as error:
        raise BadAnswer(f"it is not an object: {error}") from error


def unmarked(body: bytes, cluster: str) -> bytes:
    """What a client sends for an object, as its cluster expects it.

    What cannot be read, and what carries neither a mark nor a version of a view, is passed on as it is. Raises
    OtherCluster for a version that says nothing about this cluster: without one the member would overwrite anything.
    """
    try:
        found = _fields.decode(body)
        if not _has(found, "metadata"):
            return body
        metadata = _fields.decode(found["metadata"])
        changed = _without_mark(metadata) | _with_member_version(metadata, cluster)
    except UNREADABLE:
        return body
    if not changed:
        return body
    found["metadata"] = Raw(_encode(metadata))
    return _encode(found)


def _without_mark(metadata: dict[str, Raw]) -> bool:
    if not _has(metadata, "annotations"):
        return False
    annotations = _fields.decode(metadata["annotations"])
    if CACHED_FROM not in annotations:
        return False
    del annotations[CACHED_FROM]
    if annotations:
        metadata["annotations"] = Raw(_encode(annotations))
    else:
        del metadata["annotations"]
    return True


def _with_member_version(metadata: dict[str, Raw], cluster: str) -> bool:
    if not _has(metadata, "resourceVersion"):
        return False
    versions = read_version(_text.decode(metadata["resourceVersion"]))
    if versions.empty or versions.zero:
        return False
    version = versions.of(cluster)
    if not version:
        raise OtherCluster(f"its resourceVersion is one of {', '.join(sorted(versions.clusters))[:_MOST_TEXT]}")
    metadata["resourceVersion"] = Raw(_encode(version))
    return True


def _has(found: Mapping[str, Raw], name: str) -> bool:
    value = found.get(name)
    return value is not None and bytes(value) != _NULL


def _part(found: Mapping[str, Raw], name: str) -> dict[str, Raw]:
    return _fields.decode(found[name]) if _has(found, name) else {}
