"""Watches nodes, pods and quotas of one member and folds them into the state that estimates are made from."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import structlog

from schemas.manifest import Manifest
from services._kit.concurrency.supervision import Supervised, supervise
from services._kit.concurrency.tasks import first_of, set_within
from services._kit.kube.answers.share import Share
from services._kit.kube.client import ApiError, KubeClient, Unreachable, resource_path
from services._kit.kube.list_watch import Decoded, Reading, Reflector
from services._kit.members.pod_fields import CompactObject, Manifests, Nodes, PodsOnNodes
from services._rules.capacity.node_index import MemberRooms
from services._rules.capacity.quota_index import MemberQuotas
from services._rules.capacity.replica_estimate import Picture
from services._rules.capacity.unschedulable_pods import MemberWaiting

log = structlog.get_logger("member_view")

LONGEST_PAUSE_SECONDS: Final = 5.0


class _Nodes:
    def __init__(self, rooms: MemberRooms) -> None:
        self._rooms = rooms

    def listed(self, objects: list[CompactObject]) -> None:
        """Take a complete list of nodes."""
        self._rooms.list_nodes(Manifests(objects))

    def changed(self, kind: str, found: CompactObject) -> None:
        """Take one change of a node."""
        manifest = found.manifest
        if kind == "DELETED":
            self._rooms.drop_node(manifest["metadata"]["name"])
        else:
            self._rooms.put_node(manifest)


class _Pods:
    def __init__(self, picture: Picture, share: Share) -> None:
        self._picture = picture
        self._share = share
        self._takers = (picture.rooms, picture.waiting)

    async def listed(self, objects: list[CompactObject]) -> None:
        """Take a complete list of pods; of thousands a few at once."""
        rooms, waiting = MemberRooms(), MemberWaiting()

        def take(manifest: Manifest) -> None:
            rooms.put_pod(manifest)
            waiting.put_pod(manifest)

        await self._share.each(Manifests(objects), take)
        self._picture.rooms.take_pods_of(rooms)
        self._picture.waiting.take_pods_of(waiting)

    def changed(self, kind: str, found: CompactObject) -> None:
        """Take one change of a pod."""
        manifest = found.manifest
        metadata = manifest["metadata"]
        for taker in self._takers:
            if kind == "DELETED":
                taker.drop_pod(metadata.get("namespace", ""), metadata["name"])
            else:
                taker.put_pod(manifest)


class _Quotas:
    def __init__(self, quotas: MemberQuotas) -> None:
        self._quotas = quotas

    def listed(self, objects: list[Manifest]) -> None:
        """Take a complete list of quotas."""
        self._quotas.list_quotas(objects)

    def changed(self, kind: str, manifest: Manifest) -> None:
        """Take one change of a quota."""
        metadata = manifest["metadata"]
        if kind == "DELETED":
            self._quotas.drop(metadata.get("namespace", ""), metadata["name"])
        else:
            self._quotas.put(manifest)


class MemberView:
    """Keeps `picture` in step with a member from `start` until `close`; `on_change` hears of every batch."""

    def __init__(
        self,
        cluster: str,
        opener: Callable[[], Awaitable[KubeClient]],
        picture: Picture,
        on_change: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._opener = opener
        self._picture = picture
        self._with_quotas = not picture.quotas.known
        self._on_change = on_change
        self._task: Supervised | None = None
        self._again = asyncio.Event()
        self.client: KubeClient | None = None
        """The member while it is followed, for questions that the picture does not answer."""
        self.trouble = "not connected yet"

    def start(self) -> None:
        """Open the member and follow it; what fails is tried again."""
        self._task = supervise(f"view:{self._cluster}", self._run)

    def reconnect(self) -> None:
        """Open the member now, should that have failed: how it is reached is something else from now on."""
        self._again.set()

    async def close(self) -> None:
        """Stop following."""
        if self._task is not None:
            await self._task.close()

    async def _run(self) -> None:
        pause = 0.1
        while True:
            self._again.clear()
            try:
                client = await self._opener()
            except (ApiError, Unreachable, ValueError, OSError) as error:
                self.trouble = str(error)
                log.warning("member_not_opened", cluster=self._cluster, error=self.trouble, retry_in_seconds=pause)
            else:
                self.trouble = ""
                began = asyncio.get_running_loop().time()
                try:
                    await self._follow(client)
                    self.trouble = "the member stopped serving nodes or pods"
                except (ApiError, Unreachable) as error:
                    self.trouble = str(error)
                finally:
                    self.client = None
                    await client.close()
                if asyncio.get_running_loop().time() - began > LONGEST_PAUSE_SECONDS:
                    pause = 0.1
                log.warning("member_not_followed", cluster=self._cluster, error=self.trouble)
            await set_within(self._again, pause)
            pause = 0.1 if self._again.is_set() else min(2 * pause, LONGEST_PAUSE_SECONDS)

    async def _follow(self, client: KubeClient) -> None:
        """All watches; returns when one of the kinds is not served any more."""
        self.client = client
        kinds: list[tuple[str, str, Any, Reading[Any]]] = [
            ("nodes", "Node", _Nodes(self._picture.rooms), Nodes()),
            ("pods", "Pod", _Pods(self._picture, client.share), PodsOnNodes()),
        ]
        if self._with_quotas and await self._shows_quotas(client):
            kinds.append(("resourcequotas", "ResourceQuota", _Quotas(self._picture.quotas), Decoded()))
        reflectors = [
            Reflector(
                client,
                resource_path("", "v1", resource),
                follower,
                reading,
                api_version="v1",
                kind=kind,
                on_batch=self._on_change,
            )
            for resource, kind, follower, reading in kinds
        ]
        await first_of(*(reflector.run() for reflector in reflectors))

    async def _shows_quotas(self, client: KubeClient) -> bool:
        """Whether quotas may be listed; where not, estimates go without them."""
        try:
            await client.request("GET", resource_path("", "v1", "resourcequotas"), params={"limit": "1"})
        except ApiError as error:
            if error.status not in (403, 404):
                raise
            log.warning("quotas_not_shown", cluster=self._cluster, error=str(error))
            self._picture.quotas.refused()
            return False
        return True
