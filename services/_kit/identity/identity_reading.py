"""Reads the identity of a Kubernetes endpoint: the uid of its namespace kube-system and the revision of its store."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection
from typing import Final

import msgspec
from msgspec import Struct

from services._kit.kube.client import ApiError, KubeClient, Unreachable, resource_path
from services._rules.absence.endpoint_identity import Reading, Sighting

NAMESPACE: Final = "kube-system"
_LIMIT_SECONDS: Final = 10.0
_SAYS_NOTHING: Final = frozenset({401, 403, 404, 405, 410})
"""Answers after which it is plain that the identity cannot be read; others may differ the next time."""


class _Meta(Struct, frozen=True):
    uid: str = ""
    resource_version: str = msgspec.field(name="resourceVersion", default="")


class _Namespace(Struct, frozen=True):
    metadata: _Meta = _Meta()


class _Object(Struct):
    metadata: _Meta = _Meta()


class _Namespaces(Struct):
    metadata: _Meta = _Meta()
    items: list[_Namespace] | None = None


_decoder = msgspec.json.Decoder(_Namespaces)
_object = msgspec.json.Decoder(_Object)


async def read_identity(client: KubeClient) -> Reading:
    """Read the identity of an endpoint in one request.

    A list of one namespace answers with the store's own revision too, which a single object does not. Raises
    Unreachable when there is no usable answer; an endpoint that hides its identity has a reading without uid.
    """
    params = {"fieldSelector": f"metadata.name={NAMESPACE}"}
    path = resource_path("", "v1", "namespaces")
    try:
        answer = _decoder.decode(await client.request("GET", path, params=params, timeout=_LIMIT_SECONDS))
    except ApiError as error:
        if error.status in _SAYS_NOTHING:
            problem = f"namespace {NAMESPACE} cannot be read: {error}"
            return Reading("", problem=problem, forbidden=error.status == 403)
        raise Unreachable(f"namespace {NAMESPACE}: {error}") from error
    except msgspec.MsgspecError as error:
        raise Unreachable(f"namespace {NAMESPACE}: the answer is no list of namespaces: {error}") from error
    uid = next((item.metadata.uid for item in answer.items or () if item.metadata.uid), "")
    version = answer.metadata.resource_version
    revision = int(version) if version.isdecimal() else 0
    if not uid:
        return Reading("", revision, f"there is no namespace {NAMESPACE}")
    return Reading(uid, revision)


async def read_afresh(client: KubeClient, newest: Collection[Sighting]) -> Reading:
    """The same over a new connection: one that was open before may lead to where the address led then.

    The objects that were seen last are looked at, too.
    """
    await client.close()
    try:
        reading = await read_identity(client)
        if reading.uid:
            versions = await asyncio.gather(*(_version(client, seen.path) for seen in newest))
            older = any(version < seen.version for version, seen in zip(versions, newest, strict=True))
            reading = msgspec.structs.replace(reading, older=older)
        return reading
    finally:
        await client.close()


async def _version(client: KubeClient, path: str) -> float:
    """The resourceVersion of an object; endless where it says nothing: the object may be gone, or hidden."""
    try:
        answer = _object.decode(await client.request("GET", path, timeout=_LIMIT_SECONDS))
    except ApiError as error:
        if error.status in _SAYS_NOTHING:
            return math.inf
        raise Unreachable(f"{path}: {error}") from error
    except msgspec.MsgspecError as error:
        raise Unreachable(f"{path}: the answer is no object: {error}") from error
    version = answer.metadata.resource_version
    return int(version) if version.isdecimal() else math.inf
