"""OpenAPI v2 and v3 of what the gateway serves: kinds and paths; specs and statuses are open objects."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from typing import Final

from schemas.manifest import Manifest
from services.gateway.protocol.served_resources import GROUP, RESOURCES, VERSIONS, Resource
from services.gateway.views.view_shapes import encode

_INFO: Final = {"title": "Fleetlog gateway", "version": "v1"}
_OPEN: Final[Manifest] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_LIST_PARAMETERS: Final = (
    "allowWatchBookmarks:boolean",
    "continue:string",
    "fieldSelector:string",
    "labelSelector:string",
    "limit:integer",
    "resourceVersion:string",
    "resourceVersionMatch:string",
    "sendInitialEvents:boolean",
    "timeoutSeconds:integer",
    "watch:boolean",
)


def _name(resource: Resource) -> str:
    return f"io.karmada.work.{resource.version}.{resource.kind}"


def _schema(resource: Resource, prefix: str) -> Manifest:
    what = {
        "Work": "What one member cluster shall hold, and what was seen there.",
    }.get(resource.kind, "Where an object runs: what was asked, what was decided and what the clusters report.")
    return {
        "type": "object",
        "description": f"{what} A projection of the log: it cannot be written.",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"$ref": f"{prefix}io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"},
            "spec": _OPEN,
            "status": _OPEN,
        },
        "x-kubernetes-group-version-kind": [_kind(resource)],
    }


def _kind(resource: Resource) -> Manifest:
    return {"group": GROUP, "kind": resource.kind, "version": resource.version}


def _list_schema(resource: Resource, prefix: str) -> Manifest:
    return {
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"$ref": f"{prefix}io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"},
            "items": {"type": "array", "items": {"$ref": prefix + _name(resource)}},
        },
        "x-kubernetes-group-version-kind": [{**_kind(resource), "kind": f"{resource.kind}List"}],
    }


def _definitions(resources: list[Resource], prefix: str) -> Manifest:
    found: Manifest = {
        "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta": _OPEN,
        "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta": _OPEN,
    }
    for resource in resources:
        found[_name(resource)] = _schema(resource, prefix)
        found[f"{_name(resource)}List"] = _list_schema(resource, prefix)
    return found


def _parameters(names: tuple[str, ...], where: str, *, v3: bool) -> list[Manifest]:
    found = []
    for item in names:
        name, _, kind = item.partition(":")
        entry: Manifest = {"name": name, "in": where}
        if where == "path":
            entry["required"] = True
        entry |= {"schema": {"type": kind}} if v3 else {"type": kind, "uniqueItems": True}
        found.append(entry)
    return found


def _paths(resources: list[Resource], prefix: str, *, v3: bool) -> Manifest:
    paths: Manifest = {}
    for resource in resources:
        base = f"/apis/{GROUP}/{resource.version}"
        inside = f"{base}/namespaces/{{namespace}}/{resource.plural}" if resource.namespaced else ""
        one = f"{inside or f'{base}/{resource.plural}'}/{{name}}"
        for path, action in ((f"{base}/{resource.plural}", "list"), (inside, "list"), (one, "get")):
            if path:
                placeholders = tuple(f"{name}:string" for name in ("namespace", "name") if f"{{{name}}}" in path)
                paths[path] = _operation(resource, path, action, placeholders, prefix, v3=v3)
    return paths


def _operation(
    resource: Resource, path: str, action: str, placeholders: tuple[str, ...], prefix: str, *, v3: bool
) -> Manifest:
    schema = {"$ref": prefix + _name(resource) + ("List" if action == "list" else "")}
    answer: Manifest = {"description": "OK"}
    answer |= {"content": {"application/json": {"schema": schema}}} if v3 else {"schema": schema}
    scope = "Namespaced" if "{namespace}" in path else "AllNamespaces" if resource.namespaced else ""
    operation: Manifest = {
        "tags": [f"{GROUP}_{resource.version}"],
        "operationId": f"{action}{scope}{resource.kind}{resource.version}",
        "responses": {"200": answer},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": _kind(resource),
    }
    if not v3:
        operation["produces"] = ["application/json"]
    if action == "list":
        operation["parameters"] = _parameters(_LIST_PARAMETERS, "query", v3=v3)
    found: Manifest = {"get": operation}
    if placeholders:
        found["parameters"] = _parameters(placeholders, "path", v3=v3)
    return found


@cache
def v2() -> bytes:
    """The document at /openapi/v2."""
    prefix = "#/definitions/"
    return encode(
        {
            "swagger": "2.0",
            "info": _INFO,
            "paths": _paths(list(RESOURCES), prefix, v3=False),
            "definitions": _definitions(list(RESOURCES), prefix),
        }
    )


@cache
def v3_index() -> bytes:
    """The document at /openapi/v3: where the others are."""
    paths = {}
    for version in VERSIONS:
        digest = sha256(v3(version) or b"").hexdigest()[:32].upper()
        path = f"apis/{GROUP}/{version}"
        paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest}"}
    return encode({"paths": paths})


@cache
def v3(version: str) -> bytes | None:
    """The document of one version; None for a version that is not served."""
    resources = [resource for resource in RESOURCES if resource.version == version]
    if not resources:
        return None
    prefix = "#/components/schemas/"
    return encode(
        {
            "openapi": "3.0.0",
            "info": _INFO,
            "paths": _paths(resources, prefix, v3=True),
            "components": {"schemas": _definitions(resources, prefix)},
        }
    )
