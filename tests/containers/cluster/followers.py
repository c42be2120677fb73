"""Follows every object of a kind in a cluster, for those parts of it that are not pods."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import msgspec

from schemas.manifest import Manifest
from services._kit.kube.client import ApiError, KubeClient, Unreachable

Place = tuple[str, str]
"""Namespace and name."""
Saw = Callable[[Mapping[Place, Manifest], set[Place]], Awaitable[None]]
"""Told all objects that there are, and which of them are not what they were."""


async def follow(kubeconfig: Path, path: str, saw: Saw) -> None:
    """Tell what there is at a path, at first and after every change, until cancelled."""
    client = await KubeClient.from_kubeconfig(kubeconfig)
    try:
        while True:
            try:
                await _followed(client, path, saw)
            except (ApiError, Unreachable):
                await asyncio.sleep(1)
    finally:
        await client.close()


async def _followed(client: KubeClient, path: str, saw: Saw) -> None:
    listed = await client.get(path)
    known = {_place(one): one for one in listed["items"]}
    await saw(known, set(known))
    async for events in client.watch(path, listed["metadata"]["resourceVersion"]):
        changed = set()
        for event in events:
            if event.type not in ("ADDED", "MODIFIED", "DELETED"):
                continue
            one: Manifest = msgspec.json.decode(event.object)
            changed.add(_place(one))
            known.pop(_place(one), None)
            if event.type != "DELETED":
                known[_place(one)] = one
        await saw(known, changed)


def _place(one: Manifest) -> Place:
    return one["metadata"]["namespace"], one["metadata"]["name"]
