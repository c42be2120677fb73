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
    where = f"{base}/namespaces/{{namespace}}/{resource.plural}" if resource.namespaced else f"{base}/{resource.plural}"
    stem = title(resource.group) + title(resource.version)
    own = name_of(kind)
    in_namespace = ("namespace",) if resource.namespaced else ()
    variables = ("name", *in_namespace)
    listed = own.rpartition(".")[0] + "." + (resource.list_kind or f"{resource.kind}List")
    name = f"{scope}{resource.kind}"
    answers = {"list": listed, "deletecollection": META + "Status", "delete": META + "Status"}
    for verb, entry in _COLLECTION.items():
        if verb in resource.verbs:
            operation_id = f"{entry[1]}{stem}{name}"
            if verb == "deletecollection":
                operation_id = f"delete{stem}Collection{name}"
            yield _operation(kind, where, operation_id, entry, own, answers.get(verb, own), in_namespace)
    if resource.namespaced and "list" in resource.verbs:
        operation_id = f"list{stem}{resource.kind}ForAllNamespaces"
        yield _operation(kind, f"{base}/{resource.plural}", operation_id, _COLLECTION["list"], own, listed, ())
    for verb, entry in _ITEM.items():
        if verb in resource.verbs:
            operation_id = f"{entry[1]}{stem}{name}"
            yield _operation(kind, f"{where}/{{name}}", operation_id, entry, own, answers.get(verb, own), variables)
    for item in resource.subresources:
        yield from _of_subresource(kind, item, f"{where}/{{name}}/{item.name}", stem, variables)


def _of_subresource(
    kind: Kind, item: Subresource, path: str, stem: str, variables: tuple[str, ...]
) -> Iterator[Operation]:
    resource = kind.resource
    scope = "Namespaced" if resource.namespaced else ""
    group = resource.group if item.group is None else item.group
    version = item.version or resource.version
    answer = name_of(kind)
    if item.kind and item.kind != resource.kind:
        answer = f"io.k8s.api.{group.partition('.')[0] or 'core'}.{version}.{item.kind}"
    named = (group, version, item.kind or resource.kind)
    name = f"{scope}{resource.kind}{title(item.name)}"
    for verb in item.verbs:
        method, word, action = _SUBRESOURCE[verb]
        if item.kind.endswith("Options"):
            entry = (method, word, "connect")
            yield _operation(kind, path, f"connect{stem}{method.capitalize()}{name}", entry, "", "", variables, named)
        else:
            yield _operation(
                kind, path, f"{word}{stem}{name}", (method, word, action), answer, answer, variables, named
            )


def _operation(
    kind: Kind,
    path: str,
    operation_id: str,
    entry: tuple[str, str, str],
    body: str,
    answer: str,
    variables: tuple[str, ...],
    named: tuple[str, str, str] | None = None,
) -> Operation:
    """One operation that reads `body` where its method has one; a connection reads and answers nothing."""
    resource = kind.resource
    method, _, action = entry
    query = {"list": LIST_PARAMETERS, "delete": DELETE_PARAMETERS}.get(action, ())
    if action == "connect" or method == "get":
        body = ""
    elif method == "delete":
        body = META + "DeleteOptions"
    elif method == "patch":
        body, query = META + "Patch", (*WRITE_PARAMETERS, ("force", "boolean"))
    else:
        query = WRITE_PARAMETERS
    group, version, shown = named or (resource.group, resource.version, resource.kind)
    return Operation(
        path, method, operation_id, action, group, version, shown, body, answer, variables, query, kind.custom
    )


def extensions(operation: Operation) -> dict[str, Any]:
    """Return the marks by which clients find the operation for a kind."""
    gvk = {"group": operation.group, "kind": operation.kind, "version": operation.version}
    return {"x-kubernetes-action": operation.action, "x-kubernetes-group-version-kind": gvk}
