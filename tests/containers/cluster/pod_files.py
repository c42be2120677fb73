"""Directories of a pod's volumes: made before it starts, and written again when a Secret or ConfigMap changes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Protocol

from schemas.manifest import Manifest
from tests.containers.cluster.pod_options import is_shared, memory_options
from tests.containers.cluster.volumes import Content, PodSources, archive


class Unpacker(Protocol):
    """Who makes directories with the owners that files have in pods."""

    def unpack(self, directory: Path, packed: bytes, group: int) -> None:
        """Make a directory that is a group's from an archive, with the owners that stand there."""

    def in_memory(self, name: str, options: str) -> str:
        """Make a volume that containers share in memory, unless it is there; what the engine calls it."""


class PodFiles:
    """The directories of one pod on this machine."""

    def __init__(self, unpacker: Unpacker, place: Path, name: str) -> None:
        self._unpacker = unpacker
        self._place = place
        self._name = name
        self._sources: PodSources | None = None
        self._manifest: Manifest = {}
        self._written: dict[str, Content] = {}
        self.shared: dict[str, str] = {}
        """Volumes of the engine in memory that several containers mount, by what the pod calls them."""

    async def made(self, sources: PodSources, manifest: Manifest) -> dict[str, str]:
        """Make the volumes; by their names where they are, without those in memory of one container only.

        Raises Unsupported and ApiError.
        """
        self._sources, self._manifest = sources, manifest
        places = {}
        for volume in manifest["spec"].get("volumes") or ():
            content = await sources.content(volume)
            if content is not None:
                await self._write(volume, content)
                places[volume["name"]] = str(self._place_of(volume))
            elif is_shared(manifest, volume["name"]):
                name, options = f"{self._name}_{volume['name']}", memory_options(volume)
                self.shared[volume["name"]] = await asyncio.to_thread(self._unpacker.in_memory, name, options)
        return places | self.shared

    async def refresh(self, kind: str, name: str) -> None:
        """Write the volumes again that take from an object whose content changed."""
        if self._sources is None:
            return
        for volume in self._manifest["spec"].get("volumes") or ():
            if (kind, name) not in _referred(volume):
                continue
            content = await self._sources.content(volume)
            if content is not None and content != self._written.get(volume["name"]):
                await self._write(volume, content)

    async def _write(self, volume: Manifest, content: Content) -> None:
        packed = archive(content, self._group)
        await asyncio.to_thread(self._unpacker.unpack, self._place_of(volume), packed, self._group)
        self._written[volume["name"]] = content

    @property
    def _group(self) -> int:
        group: int = (self._manifest["spec"].get("securityContext") or {}).get("fsGroup", 0)
        return group

    def _place_of(self, volume: Manifest) -> Path:
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        space = self._manifest["metadata"]["namespace"]
        return self._place / (f"claims/{space}_{claim}" if claim else f"pods/{self._name}/{volume['name']}")


def _referred(volume: Manifest) -> set[tuple[str, str]]:
    """Kind and name of the objects that a volume takes files from; tokens are not renewed."""
    parts = volume["projected"]["sources"] if "projected" in volume else [volume]
    if any("serviceAccountToken" in part for part in parts):
        return set()
    named = [("secret", part["secret"]) for part in parts if "secret" in part]
    named += [("configMap", part["configMap"]) for part in parts if "configMap" in part]
    return {(kind, one.get("secretName") or one.get("name")) for kind, one in named}
