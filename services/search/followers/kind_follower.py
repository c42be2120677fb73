"""Follows one kind of one member: reads its objects into the index, and shows a list only when it is complete."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog
from msgspec import Raw, Struct

from services._kit.base import answer_limits as limits
from services._kit.base.pacing import Backoff
from services._kit.concurrency.supervision import Supervised, supervise
from services._kit.identity.member_gate import MemberGate
from services._kit.kube.answers.shapes import check_manifest, manifest_of
from services._kit.kube.api import BadAnswer
from services._kit.kube.client import ApiError, KubeClient, resource_path
from services._kit.kube.list_watch import Reflector
from services.search.index.member_index import Shelf
from services.search.index.member_part import OVERHEAD, MemberPart, Stored, key_of
from services.search.registries.member_facts import Gvr

log = structlog.get_logger("search")

RETRY_SECONDS: Final = 5.0
"""Until a kind is asked for again that the member says it does not serve."""
_FORBIDDEN: Final = Backoff(5.0, 120.0, (0.8, 1.0))
"""Pauses after a member said that search may not read a kind."""
_LONGEST_NAME: Final = 253


class Seen(Struct, frozen=True, gc=False):
    """An object as it comes from a member."""

    key: str
    version: str
    stored: Stored


class _Reading:
    """Packs what a reflector sees; a list that takes too much is refused as a whole."""

    def __init__(self, shelf: Shelf, cluster: str, most_bytes: int) -> None:
        self._shelf = shelf
        self._cluster = cluster
        self._most = most_bytes
        self._listed = 0
        self.listing = False

    def begin(self) -> None:
        """Count what is kept of a list."""
        self._listed, self.listing = 0, True

    def read(self, raw: Raw, api_version: str, kind: str) -> Seen:
        """Decode it, and pack it without the bookkeeping of field owners."""
        manifest = manifest_of(raw, limits.in_force().object_values)
        manifest.setdefault("apiVersion", api_version)
        manifest.setdefault("kind", kind)
        check_manifest(manifest, kind)
        metadata = manifest["metadata"]
        namespace, name = metadata.get("namespace") or "", metadata["name"]
        if len(name) > _LONGEST_NAME or len(namespace) > _LONGEST_NAME:
            raise BadAnswer(f"an object has a name of {max(len(name), len(namespace))} characters")
        stored = self._shelf.pack(self._cluster, manifest)
        key = key_of(namespace, name)
        if self.listing:
            self._listed += len(stored.data) + len(key) + OVERHEAD
            if self._listed > self._most:
                raise BadAnswer(f"its {kind} objects take more than {self._most} bytes (FLEETLOG_KIND_BYTES)")
        return Seen(key, str(metadata.get("resourceVersion") or ""), stored)

    def version(self, found: Seen) -> str:
        """As it was read."""
        return found.version


class KindFollower:
    """Keeps one part of the index in step until it is closed; the part stays until it is removed there."""

    def __init__(
        self,
        cluster: str,
        gvr: Gvr,
        kind: str,
        shelf: Shelf,
        client: KubeClient,
        gate: MemberGate,
        most_bytes: int,
        on_access: Callable[[], None],
    ) -> None:
        self.refused = 0
        """Objects that were not kept because there was no room for them."""
        self.forbidden = ""
        """What the member answered when it refused the kind; empty while it permits it."""
        self._on_access = on_access
        """Called when that changed, and after the first list."""
        self._cluster = cluster
        self._gvr = gvr
        self._kind = kind
        self._shelf = shelf
        self._client = client
        self._gate = gate
        self._most = most_bytes
        self._part: MemberPart | None = None
        self._reading = _Reading(shelf, cluster, most_bytes)
        self._version = ""
        self.stale = False
        self._refusals = 0
        self._reflector = Reflector(
            client,
            resource_path(gvr.group, gvr.version, gvr.resource),
            self,
            self._reading,
            api_version=gvr.api_version,
            kind=kind,
            gate=self,
            on_trouble=self._fell_silent,
        )
        self._task: Supervised = supervise(f"follow:{cluster}/{gvr}", self._run)

    @property
    def trouble(self) -> str:
        """Why it is not in step, once that has lasted for a while."""
        return self._reflector.outage.trouble

    @property
    def synced(self) -> bool:
        """Whether a list of this member was complete since the start."""
        return self._part is not None

    async def close(self) -> None:
        """Stop following."""
        await self._task.close()
        self._shelf.fell_silent(self._cluster, "it is not followed at the moment")

    async def _run(self) -> None:
        while True:
            await self._reflector.run()
            log.info("kind_not_served", cluster=self._cluster, kind=str(self._gvr))
            self._shelf.fell_silent(self._cluster, "it says that it does not serve the kind")
            self._reflector.list_again()
            await asyncio.sleep(RETRY_SECONDS)

    def listed(self, objects: list[Seen]) -> Awaitable[None]:
        """Take a complete list; the part of before is shown until it is taken."""
        return self._take(objects)

    async def _take(self, objects: list[Seen]) -> None:
        part = self._shelf.new_part(self._cluster, self._kind)
        part.version = self._version

        def put(seen: Seen) -> None:
            part.put(seen.key, seen.stored)

        try:
            await self._client.share.each(objects, put)
        except BaseException:
            part.clear()
            raise
        self._reading.listing = False
        first, self._part = self._part is None, part
        self._shelf.show(part)
        if first:
            self._on_access()

    def changed(self, kind: str, found: Seen) -> None:
        """Take one change."""
        part = self._part
        if part is None:
            return
        part.version = found.version or part.version
        if kind == "DELETED":
            self._shelf.drop(part, found.key, found.stored)
        elif part.bytes > self._most and found.key not in part.objects:
            self.refused += 1
        else:
            self._shelf.put(part, found.key, found.stored)

    async def opened(self) -> None:
        """Lists are always worth their request."""

    def saw(self, version: str, last: object = None) -> None:
        """Note up to where the member was read."""
        if self._part is not None:
            self._part.version = version
            self._shelf.reached(self._part)

    def bad_answer(self) -> None:
        """The reflector tries again by itself."""

    async def admits(self, objects: list[Seen], version: str) -> bool:
        """A list counts unless it is a stranger's."""
        self._version = version
        return await self._gate.admits(objects, version)

    def moment(self) -> int:
        """A number for the present moment, for `vouches`."""
        return self._gate.moment()

    async def vouches(self, opened: int) -> bool:
        """A watch that was open at a moment counts unless it is a stranger's."""
        vouched = await self._gate.vouches(opened)
        if vouched:
            self._shelf.heard(self._cluster)
            if self.forbidden:
                # A list alone is no proof: where it is permitted, the watch need not be.
                self.forbidden, self._refusals = "", 0
                self._on_access()
        return vouched

    def _fell_silent(self, why: Exception) -> float:
        """Until it is heard again, those who follow it have to know; how long to wait at least."""
        self._shelf.fell_silent(self._cluster, (str(why) or type(why).__name__)[:300])
        if not isinstance(why, ApiError) or why.status != 403:
            self._refusals = 0
            return 0.0
        # Members record every refusal: until someone grants the right, they are asked seldom.
        self._refusals += 1
        if str(why) != self.forbidden:
            self.forbidden = str(why)
            self._on_access()
        return _FORBIDDEN.pause(self._refusals)
