"""Tries a kubeconfig: whether a Kubernetes API server answers to it, and which cluster that is."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from schemas.manifest import Manifest
from services._kit.kube.client import ApiError, KubeClient, Unreachable
from services.cli.attachments.diagnosis import Source, expired, trouble
from services.cli.common.control_plane import client_of, read_kubeconfig
from services.cli.common.running import Failed, JoinRefused
from services.cli.members.join import access_of_kubeconfig
from services.cli.members.member_account import MemberAccess, cluster_id

SECONDS: Final = 6.0
"""How long a server has to answer both questions."""


class _Groups(Struct, tag_field="kind", tag="APIGroupList"):
    """What only a Kubernetes API server answers at /apis."""

    groups: list[Any]


class Usable(Struct, frozen=True, kw_only=True):
    """A server that answers: how, and the uid of its kube-system namespace (empty where it has none)."""

    source: Source
    kubeconfig: Manifest
    access: MemberAccess
    identity: str


class Unusable(Exception):
    """A kubeconfig cannot be used; the message names it, what was tried, and what to do."""


async def examine(path: Path, seconds: float = SECONDS) -> Usable:
    """Try the current context of a kubeconfig; raises Unusable within `seconds`."""
    try:
        kubeconfig = read_kubeconfig(path)
    except Failed as error:
        raise Unusable(str(error)) from None
    source, access = _described(path, kubeconfig)
    if why := expired(access, datetime.now(UTC)):  # noqa: TID251 - a command
        raise Unusable(f"{source}: {why}")
    try:
        async with asyncio.timeout(seconds):
            client = await client_of(path, kubeconfig, "")
            try:
                identity = await _identity(client)
            finally:
                await client.close()
    except Failed as error:
        raise Unusable(str(error)) from None
    except (ApiError, Unreachable, TimeoutError, msgspec.MsgspecError, OSError, ValueError, KeyError) as error:
        raise Unusable(f"{source}: {trouble(error, access, seconds)}") from None
    return Usable(source=source, kubeconfig=kubeconfig, access=access, identity=identity)


def _described(path: Path, kubeconfig: Manifest) -> tuple[Source, MemberAccess]:
    """What the current context names; raises Unusable."""
    context = str(kubeconfig.get("current-context") or "")
    try:
        access = access_of_kubeconfig(kubeconfig)
    except JoinRefused:
        names = ", ".join(str(entry.get("name")) for entry in kubeconfig.get("contexts") or ()) or "none"
        raise Unusable(
            f"kubeconfig {path}: its current-context {context!r} leads to no context, cluster or user in it "
            f"(contexts: {names}); choose one with `kubectl config use-context --kubeconfig {path}`"
        ) from None
    except (KeyError, TypeError, AttributeError) as error:
        raise Unusable(f"kubeconfig {path}: {error} is missing or malformed; write the file again") from None
    except OSError as error:
        raise Unusable(
            f"kubeconfig {path}: {error.filename}, which it names, cannot be read: {error.strerror}"
        ) from None
    except ValueError as error:
        raise Unusable(f"kubeconfig {path}: certificate, key or authority cannot be read: {error}") from None
    entry = next(entry["context"] for entry in kubeconfig["contexts"] if entry.get("name") == context)
    return Source(path=str(path), context=context, server=access.endpoint, user=str(entry.get("user"))), access


async def _identity(client: KubeClient) -> str:
    msgspec.json.decode(await client.request("GET", "/apis"), type=_Groups)
    try:
        return await cluster_id(client)
    except ApiError as error:
        if error.status == 404 and error.reason == "NotFound":
            return ""
        raise
