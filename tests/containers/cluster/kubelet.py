"""Kubelets: each runs the pods bound to its node as containers and reports what became of them.

They differ from those of Kubernetes: a container that ended is started again after 1, 2, 4 and up to 10 s; tokens are
not renewed; files of a changed Secret are exchanged at once; a pod of one container has no sandbox.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import structlog

from schemas.manifest import Manifest
from services._kit.kube.client import ApiError, KubeClient, Unreachable
from tests.containers.cluster.pods import RETRY, Engine, Pod

log = structlog.get_logger(__name__)


class Kubelet:
    """Follows the pods of one node."""

    def __init__(self, client: KubeClient, node: str, address: str, engine: Engine, place: Path) -> None:
        self._client = client
        self._node = node
        self._address = address
        self._engine = engine
        self._place = place
        self.pods: dict[str, Pod] = {}
        """By uid."""
        self._ended: set[str] = set()

    async def run(self) -> None:
        """Follow until cancelled; the containers of pods are removed then. Raises what a pod's task raised."""
        async with asyncio.TaskGroup() as group:
            while True:
                try:
                    await self._follow(group)
                except (ApiError, Unreachable) as error:
                    log.warning("pods are listed again", node=self._node, reason=str(error))
                    await asyncio.sleep(RETRY)

    async def changed(self, namespace: str, kind: str, name: str) -> None:
        """A Secret or ConfigMap is another one."""
        for pod in list(self.pods.values()):
            if pod.manifest["metadata"]["namespace"] == namespace:
                try:
                    await pod.files.refresh(kind, name)
                except (ApiError, Unreachable, KeyError) as error:
                    log.warning("files of a pod stay as they are", pod=pod.name, reason=str(error))

    async def _follow(self, group: asyncio.TaskGroup) -> None:
        path = "/api/v1/pods"
        mine = {"fieldSelector": f"spec.nodeName={self._node}"}
        listed = await self._client.get(path, params=mine)
        for pod in listed.get("items") or ():
            self._saw(group, pod)
        version = listed["metadata"]["resourceVersion"]
        async for events in self._client.watch(path, version, params=mine):
            for event in events:
                if event.type in ("ADDED", "MODIFIED"):
                    self._saw(group, msgspec.json.decode(event.object))
                elif event.type == "DELETED" and (
                    gone := self.pods.get(msgspec.json.decode(event.object)["metadata"]["uid"])
                ):
                    gone.doomed.set()

    def _saw(self, group: asyncio.TaskGroup, manifest: Manifest) -> None:
        uid = manifest["metadata"]["uid"]
        if uid in self._ended:
            return
        pod = self.pods.get(uid)
        if pod is None:
            pod = self.pods[uid] = Pod(self._client, self._engine, manifest, self._address, self._place)
            group.create_task(self._lived(uid, pod))
        pod.saw(manifest)

    async def _lived(self, uid: str, pod: Pod) -> None:
        try:
            await pod.live()
        finally:
            self._ended.add(uid)
            del self.pods[uid]
