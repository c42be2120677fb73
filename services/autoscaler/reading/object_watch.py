"""Watches one kind of the control plane, of which every object matters as it stands."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

import msgspec
from msgspec import Raw, Struct

from schemas.keys import PolicyKey
from schemas.manifest import Manifest
from services._kit.concurrency.supervision import Supervised, supervise
from services._kit.kube.client import KubeClient, resource_path
from services._kit.kube.list_watch import Decoded, Reflector, known_uid

_RETRY_SECONDS: Final = 2.0


class Watched(Struct, frozen=True, eq=False):
    """One object: `spec` is its text with sorted fields, `status` what it shows now."""

    uid: str
    generation: int
    spec: Raw
    metadata: Manifest
    status: Manifest
    reference: Manifest
    """The target that its spec names."""

    @property
    def fields(self) -> Manifest:
        """Its spec, decoded with every call."""
        found: Manifest = msgspec.json.decode(self.spec)
        return found


class ObjectWatch:
    """The objects of a kind by key; `changed` hears of those whose spec or labels are others, and of those gone."""

    def __init__(
        self,
        control: KubeClient,
        group_version: tuple[str, str],
        plural: str,
        kind: str,
        changed: Callable[[PolicyKey], None],
    ) -> None:
        group, version = group_version
        self.objects: dict[PolicyKey, Watched] = {}
        self._kind = kind
        self._changed = changed
        path = resource_path(group, version, plural)
        self._reflector = Reflector(control, path, self, Decoded(), api_version=f"{group}/{version}", kind=kind)
        self._task: Supervised = supervise(f"watch:{plural}", self._run)

    @property
    def synced(self) -> bool:
        """Whether a complete list was read."""
        return self._reflector.synced.is_set()

    @property
    def trouble(self) -> str:
        """Why the objects are not known; empty once they are."""
        if self.synced:
            return ""
        return f"{self._kind} objects were not listed yet: {self._reflector.trouble or 'it has just begun'}"

    async def close(self) -> None:
        """Stop watching."""
        await self._task.close()

    async def _run(self) -> None:
        while True:
            await self._reflector.run()
            # The definition is not there, or is gone: what it held is gone only once it is served again without it.
            self._reflector.list_again()
            await asyncio.sleep(_RETRY_SECONDS)

    def listed(self, objects: list[Manifest]) -> None:
        """Take a complete list."""
        found = {self._key(manifest): manifest for manifest in objects}
        gone = [key for key in self.objects if key not in found]
        for key in gone:
            del self.objects[key]
        for key, manifest in found.items():
            self._take(key, manifest)
        self._tell(gone)

    def changed(self, kind: str, manifest: Manifest) -> None:
        """Take one change."""
        key = self._key(manifest)
        if kind != "DELETED":
            self._take(key, manifest)
            return
        before = self.objects.get(key)
        known_uid({"metadata": before.metadata} if before is not None else None, manifest)
        if self.objects.pop(key, None) is not None:
            self._tell((key,))

    def _take(self, key: PolicyKey, manifest: Manifest) -> None:
        metadata = manifest["metadata"]
        found = Watched(
            uid=str(metadata.get("uid") or ""),
            generation=int(metadata.get("generation") or 0),
            spec=Raw(msgspec.json.encode(manifest.get("spec") or {}, order="sorted")),
            metadata={
                "uid": metadata.get("uid"),
                "labels": metadata.get("labels") or {},
                "annotations": metadata.get("annotations") or {},
            },
            status=manifest.get("status") or {},
            reference=(manifest.get("spec") or {}).get("scaleTargetRef") or {},
        )
        before, self.objects[key] = self.objects.get(key), found
        if before is None or (before.uid, before.spec, before.metadata) != (found.uid, found.spec, found.metadata):
            self._tell((key,))

    def _key(self, manifest: Manifest) -> PolicyKey:
        metadata = manifest["metadata"]
        return PolicyKey(self._kind, str(metadata.get("namespace") or ""), str(metadata["name"]))

    def _tell(self, keys: Iterable[PolicyKey]) -> None:
        for key in keys:
            self._changed(key)
