"""Reads an Accept header as Kubernetes does: media types by preference, and the view that each asks for."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

JSON: Final = "application/json"
YAML: Final = "application/yaml"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
OFFERED: Final = (JSON, YAML, PROTOBUF)
"""Media types that every client may ask for. Who asks for protobuf gets JSON, which all of them read."""
_VIEWS: Final = frozenset({"Table", "PartialObjectMetadata", "PartialObjectMetadataList"})
_GROUP: Final = "meta.k8s.io"


class Clause(NamedTuple):
    """One media type of a header with its parameters."""

    media: str
    quality: float
    parameters: Mapping[str, str]

    def before(self, other: Clause) -> bool:
        """Whether this one is tried first: the better one, or the more definite one."""
        own, others = self.media.partition("/"), other.media.partition("/")
        return (
            self.quality > other.quality or (own[0] != "*" and others[0] == "*") or (own[2] != "*" and others[2] == "*")
        )

    def takes(self, media: str) -> bool:
        """Whether a media type fulfils it."""
        kind, _, form = self.media.partition("/")
        return self.media in (media, "*/*") or (form == "*" and kind == media.partition("/")[0])


@lru_cache(maxsize=512)
def clauses(accept: str) -> tuple[Clause, ...]:
    """Media types of a header, in the order in which they are tried."""
    found: list[Clause] = []
    for text in accept.split(","):
        media, *rest = (part.strip() for part in text.split(";"))
        parts = [part.strip() for part in media.split("/")]
        if parts == ["*"]:
            parts = ["*", "*"]
        if len(parts) != 2:
            continue
        parameters = {name.strip(): value.strip() for name, equals, value in map(_cut, rest) if equals}
        clause = Clause("/".join(parts), _quality(parameters.pop("q", "1")), parameters)
        place = len(found)
        while place and clause.before(found[place - 1]):
            place -= 1
        found.insert(place, clause)
    return tuple(found)


def _cut(text: str) -> tuple[str, str, str]:
    return text.partition("=")


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


@lru_cache(maxsize=512)
def names_offered(accept: str, offered: tuple[str, ...] = OFFERED) -> bool:
    """Whether a header names one of the media types in full, or any at all; without one it does."""
    if not accept:
        return True
    named = {text.partition(";")[0].strip() for text in accept.split(",")}
    return not named.isdisjoint({"*/*", *offered})


def view_of(parameters: Mapping[str, str], media: str = JSON) -> tuple[str, str] | None:
    """View (empty for the object itself) and its version; None where that view is not served in the media type."""
    if not parameters.keys() & {"as", "g", "v"}:
        return "", "v1"
    view, version = parameters.get("as", ""), parameters.get("v", "")
    served = view in _VIEWS and parameters.get("g") == _GROUP and version in ("v1", "v1beta1")
    return (view, version) if served and (view != "Table" or media != PROTOBUF) else None
