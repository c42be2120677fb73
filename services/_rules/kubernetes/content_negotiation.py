"""Reads an Accept header as Kubernetes does: media types by preference, and the view that each asks for."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

JSON: Final = frozenset({"application/json", "*/*", "application/*", "application/vnd.kubernetes.protobuf"})
"""Media types that JSON fulfils: every client that asks for protobuf reads JSON too."""
_VIEWS: Final = frozenset({"Table", "PartialObjectMetadata", "PartialObjectMetadataList"})
_GROUP: Final = "meta.k8s.io"


@lru_cache(maxsize=512)
def clauses(accept: str) -> tuple[tuple[str, Mapping[str, str]], ...]:
    """Media types of a header with their parameters, the preferred first."""
    found: list[tuple[float, int, str, dict[str, str]]] = []
    for position, clause in enumerate(accept.split(",")):
        media, *rest = (part.strip() for part in clause.split(";"))
        parameters = dict(part.partition("=")[::2] for part in rest)
        try:
            quality = float(parameters.pop("q", "1"))
        except ValueError:
            quality = 1.0
        found.append((-quality, position, media, parameters))
    return tuple((media, parameters) for _, _, media, parameters in sorted(found, key=lambda item: item[:2]))


def view_of(parameters: Mapping[str, str]) -> tuple[str, str] | None:
    """View (empty for the object itself) and its version; None where that view is not served."""
    view, version = parameters.get("as", ""), parameters.get("v", "v1")
    if view and (view not in _VIEWS or parameters.get("g", _GROUP) != _GROUP or version not in ("v1", "v1beta1")):
        return None
    return view, version
