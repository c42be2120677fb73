"""Plays the Deployment controller of a cluster that runs none: what appears is ready at once."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec
from msgspec import Struct

from services._kit.kube.client import MERGE_PATCH, ApiError, KubeClient

_ROOM: Final = 16


class _Metadata(Struct, rename="camel"):
    name: str = ""
    generation: int = 0


class _Spec(Struct, rename="camel"):
    replicas: int = 0


class _Status(Struct, rename="camel"):
    observed_generation: int = 0


class _Deployment(Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


_decode: Final = msgspec.json.Decoder(_Deployment).decode


class Player:
    """Follows the Deployments of one namespace in one cluster, from the present on, and writes their status."""

    def __init__(self, client: KubeClient, path: str) -> None:
        self._client = client
        self._path = path
        self._room = asyncio.Semaphore(_ROOM)
        self._writes: set[asyncio.Task[None]] = set()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Follow."""
        listed = await self._client.get(self._path)
        self._task = asyncio.create_task(self._run(listed["metadata"]["resourceVersion"]))

    async def stop(self) -> None:
        """End, with whatever is being written."""
        tasks = [*self._writes, *([self._task] if self._task is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, version: str) -> None:
        async for events in self._client.watch(self._path, version):
            for event in events:
                if event.type not in ("ADDED", "MODIFIED"):
                    continue
                seen = _decode(event.object)
                if seen.status.observed_generation < seen.metadata.generation:
                    task = asyncio.create_task(self._write(seen))
                    self._writes.add(task)
                    task.add_done_callback(self._writes.discard)

    async def _write(self, seen: _Deployment) -> None:
        number = seen.spec.replicas
        counters = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
        status = {"observedGeneration": seen.metadata.generation, **dict.fromkeys(counters, number)}
        async with self._room:
            try:
                await self._client.patch(f"{self._path}/{seen.metadata.name}/status", {"status": status}, MERGE_PATCH)
            except ApiError as error:
                if error.status != 404:
                    raise
