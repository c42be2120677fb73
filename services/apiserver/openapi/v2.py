"""The OpenAPI v2 document of all served kinds, as a dict."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from services.apiserver.kinds.registry import Registry
from services.apiserver.openapi import paths
from services.apiserver.openapi.definitions import Definitions, Schema

ROOT = "#/definitions/"
MEDIA = ["application/json", "application/yaml"]


def document(registry: Registry, version: str, *, validates: bool = True) -> dict[str, Any]:
    """Return the document; `version` is the server's, such as v1.20.2.

    Unless it states that the server `validates` fields on request, clients do so themselves, as with old servers.
    """
    kinds = list(registry.all())
    definitions = Definitions(ROOT, version=2)
    definitions.add_all(kinds)
    found: dict[str, Any] = {
        "/apis/": {"get": _plain("getAPIVersions")},
        "/version/": {"get": _plain("getCodeVersion")},
    }
    for operation in paths.operations(kinds):
        if not validates:
            query = tuple(item for item in operation.query if item[0] != "fieldValidation")
            operation = replace(operation, query=query)
        found.setdefault(operation.path, {})[operation.method] = _operation(operation, definitions.schemas)
    for name, item in found.items():
        variables = [part[1:-1] for part in name.split("/") if part.startswith("{")]
        if variables:
            item["parameters"] = [
                {"in": "path", "name": variable, "required": True, "type": "string"} for variable in variables
            ]
    return {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": version},
        "paths": {name: found[name] for name in sorted(found)},
        "definitions": {name: definitions.schemas[name] for name in sorted(definitions.schemas)},
    }


def _plain(operation_id: str) -> dict[str, Any]:
    return {"operationId": operation_id, "produces": MEDIA, "responses": {"200": {"description": "OK"}}}


def _operation(operation: paths.Operation, known: dict[str, Schema]) -> dict[str, Any]:
    parameters: list[dict[str, Any]] = []
    if operation.body in known:
        schema = {"$ref": ROOT + operation.body}
        optional = operation.method == "delete"
        parameters.append({"in": "body", "name": "body", **({} if optional else {"required": True}), "schema": schema})
    parameters += [{"in": "query", "name": name, "type": kind} for name, kind in operation.query]
    answer: dict[str, Any] = {"description": "OK"}
    if operation.answer in known:
        answer["schema"] = {"$ref": ROOT + operation.answer}
    result: dict[str, Any] = {
        "operationId": operation.operation_id,
        "consumes": list(operation.patch_media) if operation.method == "patch" else ["*/*"],
        "produces": MEDIA,
        "responses": {"200": answer},
        **paths.extensions(operation),
    }
    if parameters:
        result["parameters"] = parameters
    return result
