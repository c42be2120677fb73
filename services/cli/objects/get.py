"""The command `karmadactl get`: reads objects of the control plane and of members side by side.

Source: docs/sources.md#commands.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any, Final

from msgspec import Struct

from schemas.manifest import Manifest
from services._kit.kube.client import JSON, ApiError, ApiResource, Unreachable, resource_path
from services.cli.common.control_plane import open_control
from services.cli.common.karmadactl_options import ControlPlaneOptions
from services.cli.common.printing import as_json, as_yaml, ending_of
from services.cli.common.running import Failed, complain, patience
from services.cli.members.clusters import CONTROL_LABEL, Endpoint, clusters, open_members
from services.cli.objects.kind_lookup import discover, find, split_target
from services.cli.objects.merged_tables import TABLE, Look, Part, merged
from services.cli.objects.object_options import Query

SCOPES: Final = ("karmada", "members", "all")
OUTPUTS: Final = ("", "wide", "json", "yaml", "name")
CHUNK: Final = "500"


class Asked(Struct, frozen=True):
    """One kind to read everywhere, and the names wanted of it (none: all)."""

    resource: ApiResource
    names: tuple[str, ...]
    word: str


class Found(Struct, frozen=True):
    """What one endpoint answered about one kind."""

    endpoint: Endpoint
    answers: tuple[Manifest, ...] = ()
    troubles: tuple[str, ...] = ()


def check(query: Query) -> None:
    """Refuse what makes no sense; raises Failed."""
    if query.scope not in ("", *SCOPES):
        raise Failed(f"unsupported operation scope {query.scope!r}; use one of {', '.join(SCOPES)}")
    if query.output not in OUTPUTS:
        raise Failed(f"unsupported output {query.output!r}; use one of {', '.join(filter(None, OUTPUTS))}")
    if query.show_labels and not query.readable:
        raise Failed("--show-labels goes with the usual output and with -o wide only")
    if query.selector and any(names for _, names in split_target(query.words)):
        raise Failed("a selector cannot be combined with names")


def scope_of(query: Query, resource: ApiResource) -> str:
    """Where to look: as asked; else in members for pods, which live nowhere else, and where clusters are named."""
    if query.scope:
        return query.scope
    pods = not resource.group and resource.name == "pods"
    return "members" if query.clusters or pods else "karmada"


async def get(target: ControlPlaneOptions, query: Query) -> int:
    """Print what was asked for; 1 when an endpoint refused or did not answer, 0 otherwise."""
    check(query)
    async with AsyncExitStack() as stack:
        control = await stack.enter_async_context(open_control(target))
        await stack.enter_async_context(patience("asking the clusters"))
        here = Endpoint(CONTROL_LABEL, control.client, control=True)
        members: list[Endpoint] | None = None

        async def away() -> list[Endpoint]:
            nonlocal members
            if members is None:
                listed = await clusters(control.client, query.clusters)
                members = await stack.enter_async_context(open_members(control.client, listed))
            return members

        namespace = "" if query.all_namespaces else query.namespace or control.namespace
        served = await discover(control.client)
        results: list[tuple[Asked, list[Found]]] = []
        for word, names in split_target(query.words):
            resource = await _resource(word, served, query, away)
            scope = scope_of(query, resource)
            endpoints = [here] if scope != "members" else []
            if scope != "karmada":
                endpoints += await away()
            if not endpoints:
                complain("No member clusters found in the control plane.")
                continue
            asked = Asked(resource, names, word)
            found = await asyncio.gather(*(_ask(endpoint, asked, namespace, query) for endpoint in endpoints))
            results.append((asked, found))
        return _print(results, query, namespace)


async def _resource(word: str, served: Sequence[ApiResource], query: Query, away: Any) -> ApiResource:
    """The kind of a word; kinds that only members serve are found there. Raises Failed."""
    try:
        return find(served, word)
    except Failed:
        if query.scope in ("", "karmada") and not query.clusters:
            raise
        for endpoint in await away():
            if endpoint.client is not None:
                try:
                    return find(await discover(endpoint.client), word)
                except (Failed, ApiError, Unreachable):
                    continue
        raise


async def _ask(endpoint: Endpoint, asked: Asked, namespace: str, query: Query) -> Found:
    resource = asked.resource
    if endpoint.client is None:
        return Found(endpoint, troubles=(f"error: cluster({endpoint.name}): {endpoint.trouble}",))
    place = namespace if resource.namespaced else ""
    if asked.names and resource.namespaced and not place:
        raise Failed("a name needs a namespace: drop -A, or give -n")
    path = resource_path(resource.group, resource.version, resource.name, place)
    answers: list[Manifest] = []
    troubles: list[str] = []
    for name in asked.names or ("",):
        try:
            if name:
                answers.append(await endpoint.client.get(f"{path}/{name}", accept=TABLE if query.readable else JSON))
            else:
                answers += await _list(endpoint, path, query)
        except ApiError as error:
            if not (query.ignore_not_found and error.status == 404):
                troubles.append(_refused(endpoint, error, asked))
        except Unreachable as error:
            troubles.append(f"error: {_prefix(endpoint)}does not answer: {error}")
    return Found(endpoint, tuple(answers), tuple(troubles))


async def _list(endpoint: Endpoint, path: str, query: Query) -> list[Manifest]:
    """A whole collection, chunk by chunk."""
    assert endpoint.client is not None
    params = {"limit": CHUNK}
    if query.selector:
        params["labelSelector"] = query.selector
    chunks = []
    while True:
        chunk = await endpoint.client.get(path, accept=TABLE if query.readable else JSON, params=params)
        chunks.append(chunk)
        more = (chunk.get("metadata") or {}).get("continue")
        if not more:
            return chunks
        params["continue"] = more


def _prefix(endpoint: Endpoint) -> str:
    return "" if endpoint.control else f"cluster({endpoint.name}): "


def _refused(endpoint: Endpoint, error: ApiError, asked: Asked) -> str:
    # A server without the kind answers in words of its own, never with the Status of an object that is missing.
    if error.status == 404 and (error.reason != "NotFound" or not asked.names):
        return f"error: {_prefix(endpoint)}the server doesn't have a resource type {asked.word!r}"
    return f"Error from server ({error.reason or error.status}): {_prefix(endpoint)}{error.message or error}"


def _print(results: list[tuple[Asked, list[Found]]], query: Query, namespace: str) -> int:
    troubles = [trouble for _, found in results for one in found for trouble in one.troubles]
    if query.readable:
        text = _tables(results, query)
    elif query.output == "name":
        text = "".join(f"{ending_of(item)}\n" for _, found in results for one in found for item in _items(one))
    else:
        text = _documents(results, query)
    sys.stdout.write(text)
    sys.stdout.flush()
    if not text and not troubles and not query.ignore_not_found and results:
        namespaced = namespace and any(asked.resource.namespaced for asked, _ in results)
        complain(f"No resources found in {namespace} namespace." if namespaced else "No resources found")
    for trouble in troubles:
        complain(trouble)
    return 1 if troubles else 0


def _tables(results: list[tuple[Asked, list[Found]]], query: Query) -> str:
    texts = []
    for asked, found in results:
        resource = asked.resource
        kind = f"{resource.kind.lower()}.{resource.group}".rstrip(".")
        look = Look(
            wide=query.output == "wide",
            namespaces=query.all_namespaces and resource.namespaced,
            labels=query.show_labels,
            label_columns=query.label_columns,
            no_headers=query.no_headers,
            prefix=f"{kind}/" if query.show_kind or len(results) > 1 else "",
            # Pods are never written by policies themselves: the column is of little use for them.
            adoption=query.output == "wide" or resource.group != "" or resource.name != "pods",
        )
        parts = [Part(one.endpoint.name, answer, one.endpoint.control) for one in found for answer in one.answers]
        texts.append(merged(parts, look))
    return "\n".join(filter(None, texts))


def _documents(results: list[tuple[Asked, list[Found]]], query: Query) -> str:
    """One document per cluster: the object itself when one name was asked for, a List otherwise."""
    by_cluster: dict[str, list[Manifest]] = {}
    for _, found in results:
        for one in found:
            by_cluster.setdefault(one.endpoint.name, []).extend(_items(one))
    single = sum(len(asked.names) or 2 for asked, _ in results) == 1
    documents = []
    for items in by_cluster.values():
        if single and items:
            documents.append(items[0])
        elif not single:
            documents.append({"apiVersion": "v1", "items": items, "kind": "List", "metadata": {"resourceVersion": ""}})
    if query.output == "yaml":
        return "---\n".join(map(as_yaml, documents))
    return "".join(map(as_json, documents))


def _items(found: Found) -> list[Manifest]:
    """Objects of answers, each with its own kind, without the bookkeeping of field owners."""
    items = []
    for answer in found.answers:
        if "items" not in answer:
            items.append(answer)
            continue
        kind = str(answer.get("kind", "")).removesuffix("List")
        items += [{"apiVersion": answer.get("apiVersion"), "kind": kind, **item} for item in answer["items"] or ()]
    for item in items:
        item["metadata"].pop("managedFields", None)
    return items
