"""Watches the ResourceRegistries of the control plane."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

import msgspec
import structlog

from schemas.manifest import Manifest
from services._kit.concurrency.supervision import Supervised, supervise
from services._kit.kube.client import KubeClient, resource_path
from services._kit.kube.list_watch import Decoded, Reflector
from services.search.registries.wanted_kinds import Registry, registry_of

log = structlog.get_logger("search")

_PATH: Final = resource_path("search.karmada.io", "v1alpha1", "resourceregistries")
_RETRY_SECONDS: Final = 2.0


class RegistryWatch:
    """The registries by name; `changed` is called when any of them is another one."""

    def __init__(self, control: KubeClient, changed: Callable[[], None]) -> None:
        self.registries: dict[str, Registry] = {}
        self._changed = changed
        self._reflector = Reflector(
            control, _PATH, self, Decoded(), api_version="search.karmada.io/v1alpha1", kind="ResourceRegistry"
        )
        self._task: Supervised = supervise("registries", self._run)

    @property
    def trouble(self) -> str:
        """Why they are not known; empty once they are."""
        if self._reflector.synced.is_set():
            return ""
        return f"ResourceRegistries were not listed yet: {self._reflector.trouble or 'it has just begun'}"

    async def close(self) -> None:
        """Stop watching."""
        await self._task.close()

    async def _run(self) -> None:
        while True:
            await self._reflector.run()
            # The definition is gone, or not there yet: nothing is to be read.
            self._reflector.list_again()
            self._reflector.synced.set()
            self._become({})
            await asyncio.sleep(_RETRY_SECONDS)

    def listed(self, objects: list[Manifest]) -> None:
        """Take a complete list."""
        self._become({registry.name: registry for registry in _readable(objects)})

    def changed(self, kind: str, manifest: Manifest) -> None:
        """Take one change."""
        registries = {**self.registries}
        registries.pop(str(manifest["metadata"]["name"]), None)
        if kind != "DELETED":
            registries.update((registry.name, registry) for registry in _readable((manifest,)))
        self._become(registries)

    def _become(self, registries: dict[str, Registry]) -> None:
        if registries or self.registries:
            self.registries = registries
            self._changed()


def _readable(manifests: Iterable[Manifest]) -> Iterable[Registry]:
    """The registries that can be understood; the log names the others."""
    for manifest in manifests:
        try:
            yield registry_of(manifest)
        except (msgspec.ValidationError, ValueError) as error:
            name = manifest["metadata"].get("name")
            log.warning("registry_not_understood", registry=name, reason=str(error))
