"""Watches the Secrets that Clusters reference: one watch per namespace, which keeps only names and versions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Raw, Struct

from services._kit.base.late_logger import LateLogger
from services._kit.concurrency.supervision import Supervised, supervise
from services._kit.concurrency.tasks import end
from services._kit.kube.answers.shapes import readable
from services._kit.kube.client import ApiError, KubeClient, Unreachable, resource_path
from services._kit.kube.list_watch import Reflector

log = LateLogger("members")

Changed = Callable[[str], None]
"""Hears the version of a Secret, empty when it is gone."""

RETRY_SECONDS: Final = 1.0
REFUSED_SECONDS: Final = 60.0
"""Until a watch is tried again that the control plane does not allow."""


class _Metadata(Struct, rename="camel"):
    name: str
    resource_version: str = ""


class _Head(Struct):
    metadata: _Metadata


_head = msgspec.json.Decoder(_Head)


class _Heads:
    """Of Secrets only what names them: no copy of their content is kept."""

    def begin(self) -> None:
        """Nothing is counted."""

    def read(self, raw: Raw, api_version: str, kind: str) -> _Metadata:
        """Its name and version; raises BadAnswer for what is no Secret."""
        return readable(_head, raw, "a Secret").metadata

    def version(self, found: _Metadata) -> str:
        """As it was read."""
        return found.resource_version


class _Namespace:
    """The watch of one namespace."""

    def __init__(self, control: KubeClient, namespace: str) -> None:
        self.listeners: dict[str, list[Changed]] = {}
        self._control = control
        self._namespace = namespace
        self._path = resource_path("", "v1", "secrets", namespace)
        self._present: set[str] = set()
        self.watch = supervise(f"secrets:{namespace}", self._run)

    async def _run(self) -> None:
        trouble = ""
        while True:
            pause = RETRY_SECONDS
            try:
                await self._control.request("GET", self._path, params={"limit": "1"})
            except (ApiError, Unreachable) as error:
                if isinstance(error, ApiError) and error.status == 403:
                    pause = REFUSED_SECONDS
                if str(error) != trouble:
                    trouble = str(error)
                    log.warning(
                        "secrets_not_watched",
                        namespace=self._namespace,
                        reason=trouble,
                        until="a changed Secret is read when a member refuses the old one",
                    )
            else:
                trouble = ""
                await Reflector(self._control, self._path, self, _Heads(), api_version="v1", kind="Secret").run()
            await asyncio.sleep(pause)

    def listed(self, objects: list[_Metadata]) -> None:
        """A complete list."""
        before, self._present = self._present, {found.name for found in objects}
        for found in objects:
            self._tell(found.name, found.resource_version)
        for name in before - self._present:
            self._tell(name, "")

    def changed(self, kind: str, found: _Metadata) -> None:
        """One change."""
        if kind == "DELETED":
            self._present.discard(found.name)
        else:
            self._present.add(found.name)
        self._tell(found.name, "" if kind == "DELETED" else found.resource_version)

    def _tell(self, name: str, version: str) -> None:
        for listener in list(self.listeners.get(name, ())):
            listener(version)


class SecretWatch:
    """The watches of one service."""

    def __init__(self, control: KubeClient) -> None:
        self._control = control
        self._namespaces: dict[str, _Namespace] = {}

    def subscribe(self, namespace: str, name: str, changed: Changed) -> Callable[[], None]:
        """Call a function with the version of a Secret when it changes, until the returned function is called."""
        watched = self._namespaces.get(namespace)
        if watched is None:
            watched = self._namespaces[namespace] = _Namespace(self._control, namespace)
        watched.listeners.setdefault(name, []).append(changed)

        def forget() -> None:
            left = watched.listeners.get(name, [])
            if changed in left:
                left.remove(changed)
            if not left:
                watched.listeners.pop(name, None)
            if not watched.listeners and self._namespaces.get(namespace) is watched:
                del self._namespaces[namespace]
                watched.watch.cancel()

        return forget

    async def close(self) -> None:
        """Stop watching."""
        watched: list[Supervised] = [namespace.watch for namespace in self._namespaces.values()]
        self._namespaces.clear()
        await end(*(supervised.task for supervised in watched))
