"""The OpenAPI v2 document of all served kinds, and one v3 document per group and version with the index over them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from services.apiserver.kinds.kind_model import Kind
from services.apiserver.kinds.registry import Registry
from services.apiserver.openapi import paths
from services.apiserver.openapi.definitions import Definitions, Schema

_ROOTS = {2: "#/definitions/", 3: "#/components/schemas/"}
_MEDIA = ["application/json", "application/yaml"]


def key(group: str, version: str) -> str:
    """Return the name of a group and version in the index: api/v1 or apis/group/version."""
    return f"apis/{group}/{version}" if group else f"api/{version}"


def fingerprint(body: bytes) -> str:
    """Return the hash by which clients cache a document."""
    return hashlib.sha512(body).hexdigest()[:64].upper()


def index(documents: dict[str, bytes]) -> dict[str, Any]:
    """Return the index over encoded v3 documents by their key."""
    return {
        "paths": {
            name: {"serverRelativeURL": f"/openapi/v3/{name}?hash={fingerprint(body)}"}
            for name, body in sorted(documents.items())
        }
    }


def v2(registry: Registry, release: str) -> dict[str, Any]:
    """Return the v2 document; `release` is the server's, such as v1.36.2."""
    found, definitions = _parts(2, list(registry.all()))
    found |= {"/apis/": {"get": _plain("getAPIVersions")}, "/version/": {"get": _plain("getCodeVersion")}}
    return {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": release},
        "paths": dict(sorted(found.items())),
        "definitions": definitions,
    }


def v3(registry: Registry, group: str, version: str, release: str) -> dict[str, Any] | None:
    """Return the v3 document of one group and version; None when it is not served."""
    kinds = registry.in_group_version(group, version)
    if not kinds:
        return None
    found, definitions = _parts(3, kinds)
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": release},
        "paths": dict(sorted(found.items())),
        "components": {"schemas": definitions},
    }


def _parts(version: int, kinds: Iterable[Kind]) -> tuple[dict[str, Any], dict[str, Schema]]:
    """Return the paths and the definitions of a document."""
    definitions = Definitions(_ROOTS[version], version=version)
    definitions.add_all(kinds)
    found: dict[str, Any] = {}
    for operation in paths.operations(kinds):
        item = found.setdefault(operation.path, {})
        item[operation.method] = (_v2_operation if version == 2 else _v3_operation)(operation, definitions.schemas)
        if operation.variables:
            text = {"type": "string"} if version == 2 else {"schema": {"type": "string"}}
            item["parameters"] = [
                {"name": name, "in": "path", "required": True, **text} for name in operation.variables
            ]
    return found, dict(sorted(definitions.schemas.items()))


def _plain(operation_id: str) -> dict[str, Any]:
    return {"operationId": operation_id, "produces": _MEDIA, "responses": {"200": {"description": "OK"}}}


def _v2_operation(operation: paths.Operation, known: dict[str, Schema]) -> dict[str, Any]:
    parameters: list[dict[str, Any]] = []
    if operation.body in known:
        schema = {"$ref": _ROOTS[2] + operation.body}
        required = {} if operation.method == "delete" else {"required": True}
        parameters.append({"in": "body", "name": "body", **required, "schema": schema})
    parameters += [{"in": "query", "name": name, "type": kind} for name, kind in operation.query]
    result = _plain(operation.operation_id) | paths.extensions(operation)
    result["consumes"] = list(operation.patch_media) if operation.method == "patch" else ["*/*"]
    if operation.answer in known:
        result["responses"]["200"]["schema"] = {"$ref": _ROOTS[2] + operation.answer}
    if parameters:
        result["parameters"] = parameters
    return result


def _v3_operation(operation: paths.Operation, known: dict[str, Schema]) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": "OK"}
    if operation.answer in known:
        answer["content"] = {"application/json": {"schema": {"$ref": _ROOTS[3] + operation.answer}}}
    result: dict[str, Any] = {
        "operationId": operation.operation_id,
        "responses": {"200": answer},
        **paths.extensions(operation),
    }
    if operation.query:
        result["parameters"] = [
            {"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": True}}
            for name, kind in operation.query
        ]
    if operation.body in known:
        media = operation.patch_media if operation.method == "patch" else ("*/*",)
        schema = {"schema": {"$ref": _ROOTS[3] + operation.body}}
        result["requestBody"] = {"content": dict.fromkeys(media, schema)}
        if operation.method != "delete":
            result["requestBody"]["required"] = True
    return result
