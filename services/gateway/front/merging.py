"""Merges the gateway's kinds into the discovery documents of a control plane; no I/O."""

from __future__ import annotations

from typing import Any

from schemas.manifest import Manifest
from services._rules.kubernetes.content_negotiation import clauses
from services.apiserver.kinds.registry import Registry
from services.apiserver.reads.negotiation import AGGREGATED
from services.gateway.views.view_shapes import GROUP


def discovery_accept(accept: str) -> str:
    """The part of an Accept header that asks for JSON: what is to be added to has to be read."""
    kept = [
        ";".join([media, *(f"{name}={value}" for name, value in parameters.items())])
        for media, parameters in clauses(accept)
        if media == "application/json"
    ]
    return ",".join(kept) or "application/json"


def with_group(document: Manifest, registry: Registry) -> Manifest:
    """The document at /apis, aggregated or not, with the gateway's group instead of one of the same name.

    Any other document is returned as it is. Raises KeyError, TypeError and AttributeError for one that is malformed.
    """
    if document.get("kind") == "APIGroupList":
        groups = [group for group in document.get("groups") or () if group["name"] != GROUP]
        return {**document, "groups": [*groups, *registry.api_group_list()["groups"]]}
    if document.get("kind") == AGGREGATED:
        version = str(document["apiVersion"]).rpartition("/")[2]
        items = [item for item in document.get("items") or () if item["metadata"]["name"] != GROUP]
        return {**document, "items": [*items, *registry.aggregated(core=False, version=version)["items"]]}
    return document


def with_paths(document: Manifest, own: Manifest) -> Manifest:
    """The document at /openapi/v3 with the gateway's paths."""
    paths: dict[str, Any] = {
        path: place for path, place in (document.get("paths") or {}).items() if not path.startswith(f"apis/{GROUP}")
    }
    return {**document, "paths": {**paths, **own["paths"]}}
