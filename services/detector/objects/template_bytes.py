"""Stores the objects of the control plane as encoded bytes, which take less memory than decoded ones."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any

import msgspec
from msgspec import Struct

from schemas.keys import ObjectKey
from schemas.manifest import Manifest

_decode = msgspec.json.Decoder(dict[str, Any]).decode
_encode = msgspec.json.Encoder().encode


class _Metadata(Struct, frozen=True):
    labels: dict[str, str] | None = None


class _Labelled(Struct, frozen=True):
    metadata: _Metadata = _Metadata()


_labelled = msgspec.json.Decoder(_Labelled).decode


class Templates(MutableMapping[ObjectKey, Manifest]):
    """Objects by key; each access decodes, so that a caller may change the result."""

    def __init__(self, kept: dict[ObjectKey, bytes] | None = None) -> None:
        self._kept = kept if kept is not None else {}

    def __getitem__(self, key: ObjectKey) -> Manifest:
        return _decode(self._kept[key])

    def labels(self, key: ObjectKey) -> dict[str, str]:
        """The labels of an object, without decoding the rest of it."""
        return _labelled(self._kept[key]).metadata.labels or {}

    def __setitem__(self, key: ObjectKey, manifest: Manifest) -> None:
        self._kept[key] = _encode(manifest)

    def __delitem__(self, key: ObjectKey) -> None:
        del self._kept[key]

    def __contains__(self, key: object) -> bool:
        return key in self._kept

    def __iter__(self) -> Iterator[ObjectKey]:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)
