"""Answers to requests under /openapi, encoded once per state of the registry."""

from __future__ import annotations

import msgspec

from services.apiserver.kinds.registry import Registry
from services.apiserver.openapi import documents, proto

# What the recorded server calls its JSON form.
V2_JSON = "text/plain; charset=utf-8"


class Document(msgspec.Struct, frozen=True):
    """An encoded document with its media type."""

    body: bytes
    media: str


class OpenApi:
    """The OpenAPI documents of one registry; `release` is the version that they name."""

    def __init__(self, registry: Registry, release: str = "v1.36.0") -> None:
        self._registry = registry
        self._release = release
        self._generation = -1
        self._cache: dict[str, Document] = {}
        self._groups: dict[str, tuple[object, bytes]] = {}

    def find(self, path: str, accept: str = "") -> Document | None:
        """Return the document at a path under /openapi in the form that the Accept header asks for."""
        if self._generation != self._registry.generation:
            self._cache.clear()
            self._generation = self._registry.generation
        name = path.strip("/")
        if name == "openapi/v2":
            return self._v2(protobuf=_wants_protobuf(accept))
        if name == "openapi/v3":
            return self._index()
        if name.startswith("openapi/v3/"):
            return self._group(name.removeprefix("openapi/v3/"))
        return None

    def _put(self, key: str, body: bytes, media: str) -> Document:
        found = Document(body, media)
        self._cache[key] = found
        return found

    def _v2(self, *, protobuf: bool) -> Document:
        key = "v2.proto" if protobuf else "v2"
        if key not in self._cache:
            document = documents.v2(self._registry, self._release)
            if protobuf:
                return self._put(key, proto.encode(document), proto.MEDIA_TYPE)
            return self._put(key, msgspec.json.encode(document), V2_JSON)
        return self._cache[key]

    def _index(self) -> Document:
        if "v3" not in self._cache:
            bodies = {}
            for group, version, _, _ in self._registry.group_versions():
                name = documents.key(group, version)
                found = self._group(name)
                if found is not None:
                    bodies[name] = found.body
            return self._put("v3", msgspec.json.encode(documents.index(bodies)), "application/json")
        return self._cache["v3"]

    def _group(self, name: str) -> Document | None:
        parts = name.split("/")
        if len(parts) == 2 and parts[0] == "api":
            group, version = "", parts[1]
        elif len(parts) == 3 and parts[0] == "apis":
            group, version = parts[1], parts[2]
        else:
            return None
        key = f"v3/{name}"
        if key not in self._cache:
            # A new custom kind changes the registry, but not the documents of the other groups.
            kinds = tuple(self._registry.in_group_version(group, version))
            kept = self._groups.get(name)
            if kept is not None and kept[0] == kinds:
                return self._put(key, kept[1], "application/json")
            document = documents.v3(self._registry, group, version, self._release)
            if document is None:
                self._groups.pop(name, None)
                return None
            body = msgspec.json.encode(document)
            self._groups[name] = (kinds, body)
            return self._put(key, body, "application/json")
        return self._cache[key]


def _wants_protobuf(accept: str) -> bool:
    for part in accept.split(","):
        media, _, parameters = part.strip().partition(";")
        if media.startswith("application/com.github.proto-openapi.spec.v2"):
            return True
        if media in ("application/json", "*/*", "application/*") and "q=0" not in parameters:
            return False
    return False
