"""What is written of an object to a search backend: its document, its index, and the mapping of that. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from schemas.manifest import Manifest

PREFIX: Final = "kubernetes-"
_KEYWORD: Final = {"type": "text", "fields": {"keyword": {"type": "keyword", "ignore_above": 256}}}
_KEPT_ONLY: Final = {"type": "object", "enabled": False}
MAPPING: Final[Manifest] = {
    "settings": {"index": {"number_of_shards": 1, "number_of_replicas": 0}},
    "mappings": {
        "properties": {
            "apiVersion": _KEYWORD,
            "kind": _KEYWORD,
            "metadata": {
                "properties": {
                    "annotations": _KEPT_ONLY,
                    "creationTimestamp": {"type": "date"},
                    "deletionTimestamp": {"type": "date"},
                    "labels": _KEPT_ONLY,
                    "name": _KEYWORD,
                    "namespace": _KEYWORD,
                    "ownerReferences": _KEYWORD,
                    "resourceVersion": _KEYWORD,
                }
            },
            "spec": _KEPT_ONLY,
            "status": _KEPT_ONLY,
        }
    },
}
"""The body that an index is created with (docs/sources.md)."""
_FIELDS: Final = ("name", "namespace", "creationTimestamp", "labels", "annotations", "deletionTimestamp")
_text = msgspec.json.Encoder().encode


class Document(Struct, frozen=True):
    """One object as it is written: `id` is its uid, `version` its resourceVersion (0: it is no number)."""

    id: str
    index: str
    version: int
    body: bytes


def index_of(kind: str) -> str:
    """The index of the documents of a kind."""
    return f"{PREFIX}{kind.lower()}"


def document_of(manifest: Mapping[str, Any]) -> Document | None:
    """The document of an object; None for one without uid, which has no identity."""
    metadata = manifest.get("metadata") or {}
    uid = metadata.get("uid")
    if not uid or not isinstance(uid, str):
        return None
    body = {
        "apiVersion": manifest.get("apiVersion"),
        "kind": manifest.get("kind"),
        "metadata": {name: metadata[name] for name in _FIELDS if metadata.get(name)},
        "spec": _text(manifest.get("spec")).decode(),
        "status": _text(manifest.get("status")).decode(),
    }
    version = str(metadata.get("resourceVersion") or "")
    number = int(version) if version.isdecimal() and len(version) < 19 else 0
    return Document(uid, index_of(str(manifest.get("kind"))), number, msgspec.json.encode(body))
