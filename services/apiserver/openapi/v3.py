"""OpenAPI v3: one document per group and version, and the index over them."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from services.apiserver.kinds.registry import Registry
from services.apiserver.openapi import paths
from services.apiserver.openapi.definitions import Definitions, Schema

ROOT = "#/components/schemas/"


def key(group: str, version: str) -> str:
    """Return the name of a group and version in the index: api/v1 or apis/group/version."""
    return f"apis/{group}/{version}" if group else f"api/{version}"


def fingerprint(body: bytes) -> str:
    """Return the hash by which clients cache a document."""
    return hashlib.sha512(body).hexdigest()[:64].upper()


def index(documents: dict[str, bytes]) -> dict[str, Any]:
    """Return the index over encoded documents by their key."""
    return {
        "paths": {
            name: {"serverRelativeURL": f"/openapi/v3/{name}?hash={fingerprint(body)}"}
            for name, body in sorted(documents.items())
        }
    }


def document(registry: Registry, group: str, version: str, release: str) -> dict[str, Any] | None:
    """Return the document of one group and version; None when it is not served."""
    kinds = registry.in_group_version(group, version)
    if not kinds:
        return None
    definitions = Definitions(ROOT, version=3)
    definitions.add_all(kinds)
    found: dict[str, Any] = {}
    for operation in paths.operations(kinds):
        item = found.setdefault(operation.path, {})
        item[operation.method] = _operation(operation, definitions.schemas)
        if operation.variables:
            item["parameters"] = [
                {"in": "path", "name": name, "required": True, "schema": {"type": "string"}}
                for name in operation.variables
            ]
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": release},
        "paths": {name: found[name] for name in sorted(found)},
        "components": {"schemas": {name: definitions.schemas[name] for name in sorted(definitions.schemas)}},
    }


def encode(value: dict[str, Any]) -> bytes:
    """Return a document as JSON."""
    return msgspec.json.encode(value)


def _operation(operation: paths.Operation, known: dict[str, Schema]) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": "OK"}
    if operation.answer in known:
        answer["content"] = {"application/json": {"schema": {"$ref": ROOT + operation.answer}}}
    result: dict[str, Any] = {
        "operationId": operation.operation_id,
        "responses": {"200": answer},
        **paths.extensions(operation),
    }
    if operation.query:
        result["parameters"] = [
            {"in": "query", "name": name, "schema": {"type": kind, "uniqueItems": True}}
            for name, kind in operation.query
        ]
    if operation.body in known:
        media = operation.patch_media if operation.method == "patch" else ("*/*",)
        schema = {"schema": {"$ref": ROOT + operation.body}}
        result["requestBody"] = {"content": dict.fromkeys(media, schema)}
        if operation.method != "delete":
            result["requestBody"]["required"] = True
    return result
