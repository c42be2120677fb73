"""Paths and operations of OpenAPI documents, in a form from which both versions are written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from services.apiserver.kinds.kind_model import Kind, Subresource
from services.apiserver.openapi.definitions import META, name_of

# verb -> (HTTP method, word in the operation id, x-kubernetes-action)
_ITEM = {
    "get": ("get", "read", "get"),
    "update": ("put", "replace", "put"),
    "patch": ("patch", "patch", "patch"),
    "delete": ("delete", "delete", "delete"),
}
_COLLECTION = {
    "list": ("get", "list", "list"),
    "create": ("post", "create", "post"),
    "deletecollection": ("delete", "deleteCollection", "deletecollection"),
}
_SUBRESOURCE = {**_ITEM, "create": ("post", "create", "post"), "delete": ("delete", "delete", "connect")}
WRITES = ("post", "put", "patch")
PATCH_MEDIA = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
LIST_PARAMETERS = (
    ("allowWatchBookmarks", "boolean"),
    ("continue", "string"),
    ("fieldSelector", "string"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("timeoutSeconds", "integer"),
    ("watch", "boolean"),
)
WRITE_PARAMETERS = (("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string"))
DELETE_PARAMETERS = (
    ("dryRun", "string"),
    ("gracePeriodSeconds", "integer"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
)


class Operation(msgspec.Struct, frozen=True):
    """One operation: its path, method, id, what it reads and answers (definition names), and its parameters."""

    path: str
    method: str
    operation_id: str
    action: str
    group: str
    version: str
    kind: str
    body: str
    answer: str
    variables: tuple[str, ...]
    query: tuple[tuple[str, str], ...]
    custom: bool = False
    """Whether a CustomResourceDefinition defines the kind."""

    @property
    def patch_media(self) -> tuple[str, ...]:
        """Forms of a patch: a strategic one needs merge keys, which only built-in kinds have."""
        return tuple(media for media in PATCH_MEDIA if not (self.custom and "strategic" in media))


def title(group: str) -> str:
    """Return a group as operation ids spell it: Core, Apps, RbacAuthorization, ExampleCom."""
    words = (group or "core").removesuffix(".k8s.io").split(".")
    return "".join(word[:1].upper() + word[1:] for word in words)


def operations(kinds: Iterable[Kind]) -> Iterator[Operation]:
    """Iterate over all operations on the kinds."""
    for kind in kinds:
        yield from _of_kind(kind)


def _of_kind(kind: Kind) -> Iterator[Operation]:
    resource = kind.resource
    base = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    scope = "Namespaced" if resource.namespaced else ""
    where = f"{base}/namespaces/{{namespace}}" if resource.namespaced else base
    stem = title(resource.group) + title(resource.version)
    own = name_of(kind)
    in_namespace = ("namespace",) if resource.namespaced else ()
    listed = own.rpartition(".")[0] + "." + (resource.list_kind or f"{resource.kind}List")

    def make(path: str, entry: tuple[str, str, str], name: str, answer: str, variables: tuple[str, ...]) -> Operation:
        method, word, action = entry
        if word == "deleteCollection":
            operation_id = f"delete{stem}Collection{name}"
        else:
            operation_id = f"{word}{stem}{name}"
        query = {"list": LIST_PARAMETERS, "delete": DELETE_PARAMETERS}.get(action, ())
        if method in WRITES:
            query = (*WRITE_PARAMETERS, ("force", "boolean")) if method == "patch" else WRITE_PARAMETERS
        body = own if method in ("post", "put") else ""
        if method == "patch":
            body = META + "Patch"
        if method == "delete":
            body = META + "DeleteOptions"
        return Operation(
            path,
            method,
            operation_id,
            action,
            resource.group,
            resource.version,
            resource.kind,
            body,
            answer,
            variables,
            query,
            kind.custom,
        )

    for verb, entry in _COLLECTION.items():
        if verb in resource.verbs:
            answer = {"list": listed, "create": own}.get(verb, META + "Status")
            yield make(f"{where}/{resource.plural}", entry, f"{scope}{resource.kind}", answer, in_namespace)
    if resource.namespaced and "list" in resource.verbs:
        name = f"{resource.kind}ForAllNamespaces"
        yield make(f"{base}/{resource.plural}", _COLLECTION["list"], name, listed, ())
    variables = ("name", *in_namespace)
    for verb, entry in _ITEM.items():
        if verb in resource.verbs:
            answer = META + "Status" if verb == "delete" else own
            path = f"{where}/{resource.plural}/{{name}}"
            yield make(path, entry, f"{scope}{resource.kind}", answer, variables)
    for item in resource.subresources:
        yield from _of_subresource(
            kind, item, f"{where}/{resource.plural}/{{name}}/{item.name}", stem + scope, variables
        )


def _of_subresource(
    kind: Kind, item: Subresource, path: str, stem: str, variables: tuple[str, ...]
) -> Iterator[Operation]:
    resource = kind.resource
    group = resource.group if item.group is None else item.group
    version = item.version or resource.version
    answer = name_of(kind)
    if item.kind and item.kind != resource.kind:
        answer = f"io.k8s.api.{group.partition('.')[0] or 'core'}.{version}.{item.kind}"
    connect = item.kind.endswith("Options")
    for verb in item.verbs:
        method, word, action = _SUBRESOURCE[verb]
        name = f"{resource.kind}{title(item.name)}"
        if connect:
            yield Operation(
                path,
                method,
                f"connect{stem.removesuffix('Namespaced')}{method.capitalize()}Namespaced{name}"
                if resource.namespaced
                else f"connect{stem}{method.capitalize()}{name}",
                "connect",
                group,
                version,
                item.kind,
                "",
                "",
                variables,
                (),
            )
            continue
        query: tuple[tuple[str, str], ...] = WRITE_PARAMETERS if method in WRITES else ()
        if method == "patch":
            query = (*WRITE_PARAMETERS, ("force", "boolean"))
        body = answer if method in ("post", "put") else META + "Patch" if method == "patch" else ""
        yield Operation(
            path,
            method,
            f"{word}{stem}{name}",
            action,
            group,
            version,
            item.kind or resource.kind,
            body,
            answer,
            variables,
            query,
            kind.custom,
        )


def extensions(operation: Operation) -> dict[str, Any]:
    """Return the marks by which clients find the operation for a kind."""
    gvk = {"group": operation.group, "kind": operation.kind, "version": operation.version}
    return {"x-kubernetes-action": operation.action, "x-kubernetes-group-version-kind": gvk}
