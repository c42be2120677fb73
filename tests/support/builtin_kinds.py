"""Objects of built-in kinds as the API server makes them of what a client writes."""

from __future__ import annotations

import functools

from schemas.manifest import Manifest
from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.kinds.kind_model import Kind

registry = functools.cache(builtin_registry)
UID = "8a7f6a1e-0000-4000-8000-000000000000"


def kind_of(api_version: str, name: str) -> Kind:
    """A kind by its name."""
    found = registry().by_api_version(api_version, name)
    assert found is not None, f"{api_version} {name} is not served"
    return found


def kind_named(text: str) -> Kind:
    """A kind by version and name, as in `apps/v1 Deployment`."""
    api_version, _, name = text.partition(" ")
    return kind_of(api_version, name)


def created(kind: Kind, body: Manifest) -> Manifest:
    """The body with the defaults and the metadata of a new object; it is named x unless it has a name."""
    metadata = body.setdefault("metadata", {})
    metadata.setdefault("name", "x")
    kind.decode(body)
    if kind.resource.namespaced:
        body["metadata"]["namespace"] = "d"
    kind.default(body)
    body["metadata"]["uid"] = UID
    kind.prepare_create(body)
    return body
