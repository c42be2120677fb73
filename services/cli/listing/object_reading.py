"""Asks the control plane and members for objects of one kind, all at once; one that fails does not hurt the others."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from schemas.manifest import Manifest
from services._kit.kube.api import BadAnswer
from services._kit.kube.client import JSON, ApiError, ApiResource, Unreachable, resource_path
from services.cli.common.running import Failed
from services.cli.listing.answer_shapes import checked
from services.cli.listing.listing_options import Query
from services.cli.listing.merged_tables import TABLE
from services.cli.members.clusters import Endpoint

CHUNK: Final = "500"
_EXPIRED: Final = 410
_NO_WAY: Final = (502, 503, 504)


class Asked(Struct, frozen=True):
    """One kind to read everywhere, and the names wanted of it (none: all)."""

    resource: ApiResource
    names: tuple[str, ...]
    word: str
    namespace: str = ""
    """Where the objects say that they are; empty: where the command looks."""


class Found(Struct, frozen=True):
    """What one endpoint answered about one kind."""

    endpoint: Endpoint
    answers: tuple[Manifest, ...] = ()
    troubles: tuple[str, ...] = ()


async def ask(endpoints: Sequence[Endpoint], asked: Asked, namespace: str, query: Query) -> list[Found]:
    """What every endpoint answers, in their order; raises Failed for a question that makes no sense."""
    if asked.names and asked.resource.namespaced and not namespace:
        raise Failed("a resource cannot be retrieved by name across all namespaces; drop -A, or give -n")
    return await asyncio.gather(*(_ask(endpoint, asked, namespace, query) for endpoint in endpoints))


def path_of(asked: Asked, namespace: str) -> str:
    """The collection that is asked for."""
    resource = asked.resource
    return resource_path(resource.group, resource.version, resource.name, namespace if resource.namespaced else "")


def selectors_of(query: Query) -> dict[str, str]:
    """What selects objects of a collection."""
    given = {"labelSelector": query.selector, "fieldSelector": query.field_selector}
    return {name: value for name, value in given.items() if value}


def accepted(query: Query) -> str:
    """The form that answers are to have."""
    return TABLE if query.readable else JSON


def prefix_of(endpoint: Endpoint) -> str:
    """How errors of an endpoint begin."""
    return "" if endpoint.control else f"cluster({endpoint.name}): "


def trouble_of(endpoint: Endpoint, error: ApiError | Unreachable, asked: Asked | None = None) -> str:
    """What went wrong with an endpoint, as kubectl words it."""
    prefix = prefix_of(endpoint)
    if isinstance(error, BadAnswer):
        return f"error: {prefix}the answer cannot be used: {error}"
    if isinstance(error, Unreachable) or error.status in _NO_WAY:
        return f"error: {prefix}basic connection test failed, check authorization or network: {_reason(error)}"
    # A server without the kind answers in words of its own, never with the Status of an object that is missing.
    if asked is not None and error.status == 404 and (error.reason != "NotFound" or not asked.names):
        return f"error: {prefix}the server doesn't have a resource type {asked.word!r}"
    return f"Error from server ({error.reason or error.status}): {prefix}{error.message or error}"


async def _ask(endpoint: Endpoint, asked: Asked, namespace: str, query: Query) -> Found:
    path = path_of(asked, namespace)
    # Only with the object itself a row can be sorted by any field.
    table = {"includeObject": "Object"} if query.readable and query.sort_by else {}
    answers: list[Manifest] = []
    troubles: list[str] = []
    for name in asked.names or ("",):
        try:
            if name:
                answers.append(
                    checked(await endpoint.client.get(f"{path}/{name}", accept=accepted(query), params=table))
                )
            else:
                answers += await _list(endpoint, path, {**table, **selectors_of(query)}, accepted(query))
        except (ApiError, Unreachable) as error:
            absent = isinstance(error, ApiError) and error.status == 404
            if not (query.ignore_not_found and absent):
                troubles.append(trouble_of(endpoint, error, asked))
    return Found(endpoint, tuple(answers), tuple(troubles))


async def read_all(endpoint: Endpoint, path: str, params: Mapping[str, str]) -> list[Manifest]:
    """The objects of a whole collection; raises as clients do."""
    return [item for chunk in await _list(endpoint, path, params, JSON) for item in chunk.get("items") or ()]


async def _list(endpoint: Endpoint, path: str, params: Mapping[str, str], accept: str) -> list[Manifest]:
    """A whole collection, chunk by chunk; at once where the chunks have become too old."""
    asked = {**params, "limit": CHUNK}
    chunks: list[Manifest] = []
    while True:
        try:
            chunk = checked(await endpoint.client.get(path, accept=accept, params=asked))
        except ApiError as error:
            if error.status != _EXPIRED or "continue" not in asked:
                raise
            return [checked(await endpoint.client.get(path, accept=accept, params=params))]
        chunks.append(chunk)
        more = (chunk.get("metadata") or {}).get("continue")
        if not more:
            return chunks
        asked["continue"] = more


def _reason(error: ApiError | Unreachable) -> str:
    return error.message or error.reason if isinstance(error, ApiError) else str(error)
