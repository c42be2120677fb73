"""Admits lists of an endpoint only while the endpoint has its known identity.

Every reflector asks its gate before it lists, before a list counts, and at the first event of a new watch. The
identity is read again for that, once for all concurrent callers, and periodically beside it; a watch needs no reading
of its own where one began after it was open.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from heapq import nlargest
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar
from urllib.parse import quote

import structlog

from schemas.manifest import Manifest
from services._kit.concurrency.supervision import Supervised, supervise
from services._kit.concurrency.tasks import set_within
from services._kit.credentials.kubeconfig import open_kubeconfig
from services._kit.identity.identity_reading import read_afresh
from services._kit.identity.shared_reading import SharedReading
from services._kit.kube.client import KubeClient, Unreachable
from services._kit.kube.list_watch import Kept
from services._rules.absence import absence_guard as absence
from services._rules.absence.absence_guard import Guard
from services._rules.absence.endpoint_identity import Judgement, Reading, Sighting

log = structlog.get_logger("identity")

T = TypeVar("T")
NAME: Final = "control-plane"
PERIOD_SECONDS: Final = 15.0
"""How often the identity is read while it is the right one."""
COLLECTIONS: Final = 6
"""Of so many collections the newest objects are looked at with each reading."""
SIGHTINGS: Final = 3
"""How many objects of a collection are."""
_CONNECTIONS: Final = 2
"""For one reading: each is a TLS handshake, and all of them may be waited for by a change."""
AGAIN_SECONDS: Final = 1.0
"""How often it is read while it is not."""


class Locator(Generic[T]):
    """Tells where objects of a collection (the path of all of its kind) are read, and their resourceVersions."""

    def __init__(self, collection: str, place: Callable[[T], tuple[str, str, str]]) -> None:
        self.collection = collection
        self._group_version, _, self._plural = collection.rpartition("/")
        self._place = place

    def version(self, found: T) -> int:
        """The resourceVersion of an object, 0 when it is no number."""
        version = self._place(found)[2]
        return int(version) if version.isdecimal() else 0

    def sighting(self, found: T) -> Sighting:
        """Where an object is read, and its resourceVersion."""
        namespace, name, _ = self._place(found)
        within = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
        path = f"{self._group_version}{within}/{self._plural}/{quote(name, safe='')}"
        return Sighting(path, self.version(found))


def place_of_kept(found: Kept) -> tuple[str, str, str]:
    """Namespace, name and resourceVersion."""
    return found.namespace, found.name, found.version


def place_of_manifest(found: Manifest) -> tuple[str, str, str]:
    """Namespace, name and resourceVersion."""
    metadata = found["metadata"]
    return metadata.get("namespace") or "", metadata["name"], str(metadata.get("resourceVersion") or "")


class EndpointIdentity:
    """The identity of the control plane's endpoint, judged by a guard; `trusted` is whether its answers count.

    `read` asks it, and looks at the objects that were seen last. `cut` ends all other connections: some of them may
    lead to another endpoint than the one that answers now. `on_reading` is called after each answer.
    """

    def __init__(
        self,
        read: Callable[[Collection[Sighting]], Awaitable[Reading]],
        guard: Guard[Any],
        cut: Callable[[], Awaitable[None]],
        on_reading: Callable[[], None],
    ) -> None:
        self.trusted = True
        self.epoch = 0
        """Rises whenever everything has to be listed again."""
        self.revision = 0
        """Of the endpoint's store when it was read last; 0 when it is no number."""
        self._newest: dict[str, list[Sighting]] = {}
        """The newest objects of each collection. Some are written all the time, some are gone: hence several."""
        self._peak = 0
        """How far the store was before it went back; 0 once it has been as far again."""
        self._read = read
        self._guard = guard
        self._cut = cut
        self._on_reading = on_reading
        self._readings = SharedReading(self._check)
        self._opened = asyncio.Event()
        self._opened.set()
        self._refused = asyncio.Event()
        self._watching: Supervised | None = None

    def start(self) -> None:
        """Read the identity now and then from now on."""
        if self._watching is None:
            self._watching = supervise(f"identity:{NAME}", self._watch)

    async def close(self) -> None:
        """Stop reading."""
        if self._watching is not None:
            await self._watching.close()

    async def opened(self) -> None:
        """Return once the answers of the endpoint count."""
        await self._opened.wait()

    def moment(self) -> int:
        """A number for the present moment, for `check`."""
        return self._readings.moment()

    async def check(self, moment: int = 0) -> bool:
        """Read the identity, unless that was begun since a moment; whether the answers of the endpoint count.

        One reading serves all that wait for it. Raises Unreachable when there is no usable answer.
        """
        await self._readings.since(moment)
        return self.trusted

    def doubt(self, revision: int) -> None:
        """Take in that a list is older than what was seen before: all is listed again."""
        log.warning("list_went_back", endpoint=NAME, revision=revision)
        self.epoch += 1
        absence.doubt(self._guard)
        self._on_reading()

    def sight(self, collection: str, seen: Sighting) -> None:
        """Take in which object of a collection was seen, where it is newer than what was seen before."""
        others = (known for known in self._newest.get(collection, ()) if known.path != seen.path)
        self._newest[collection] = nlargest(SIGHTINGS, (seen, *others), key=attrgetter("version"))

    def _sightings(self) -> list[Sighting]:
        """Of the collections that were written last, the objects that were."""
        recent = nlargest(COLLECTIONS, self._newest.values(), key=lambda seen: seen[0].version)
        return [seen for collection in recent for seen in collection]

    async def _check(self) -> None:
        noted = absence.noted(self._guard)
        reading = await self._read(self._sightings())
        self.revision = reading.revision
        judgement = absence.take_reading(self._guard, reading, noted)
        turned, self.trusted = judgement.trusted != self.trusted, judgement.trusted
        if judgement is not Judgement.SAME:
            # What was seen of another state of the store says nothing about this one.
            self._newest.clear()
        if judgement is Judgement.WENT_BACK:
            self._peak = max(self._peak, noted.revision)
        # The store that was ahead may answer again: a watch from the older version would go through its past.
        ahead = self.trusted and 0 < self._peak <= reading.revision
        if ahead:
            self._peak = 0
        if turned or ahead or judgement is Judgement.WENT_BACK:
            log.warning(
                "identity_judged",
                endpoint=NAME,
                judgement=judgement.value,
                uid=reading.uid,
                revision=reading.revision,
                problem=reading.problem,
            )
            if not self.trusted:
                self._opened.clear()
                self._refused.set()
            # Which connections lead to whom is not known: neither what is listed meanwhile nor what was before counts.
            self.epoch += 1
            await self._cut()
            self.epoch += 1
        if self.trusted:
            self._opened.set()
        self._on_reading()

    async def _watch(self) -> None:
        while True:
            try:
                await self.check()
            except Unreachable as error:
                log.info("identity_not_read", endpoint=NAME, error=str(error))
            self._refused.clear()
            if not self.trusted:
                await asyncio.sleep(AGAIN_SECONDS)
                continue
            await set_within(self._refused, PERIOD_SECONDS)


class Gate(Generic[T]):
    """The gate of one reflector; `refused` takes lists that do not count, `locate` tells the path of an object.

    Without `locate` the newest objects of this reflector prove nothing about the state of the store.
    """

    def __init__(
        self,
        identity: EndpointIdentity,
        refused: Callable[[list[T]], None] | None = None,
        locate: Locator[T] | None = None,
    ) -> None:
        self._identity = identity
        self._refused = refused
        self._locate = locate
        self._shown = -1
        self._epoch = -1
        self._highest = 0
        self._listed = False
        """Whether nothing was watched since the last list."""

    async def opened(self) -> None:
        """Return once a list is worth its request: when it may count, or to report once what it would have meant."""
        if self._refused is None or self._shown == self._identity.epoch:
            await self._identity.opened()
        if self.stale:
            self._epoch, self._highest = self._identity.epoch, 0

    def saw(self, version: str, last: T | None = None) -> None:
        """Note the resourceVersion of what counts, and the object that came last; numbers of one kind never fall."""
        self._listed = False
        if version.isdecimal():
            self._highest = max(self._highest, int(version))
        if last is not None and self._locate is not None and (seen := self._locate.sighting(last)).version:
            self._identity.sight(self._locate.collection, seen)

    def bad_answer(self) -> None:
        """Nothing to do: the identity of the endpoint is read for each list anyway."""

    async def admits(self, objects: list[T], version: str) -> bool:
        """Whether a list that was begun since `opened` counts; raises Unreachable when that is not known."""
        trusted = await self._identity.check()
        if trusted:
            if self.stale:
                return False
            if version.isdecimal() and int(version) < self._highest:
                # Its store was restored: whatever is missing may have been there.
                self._identity.doubt(int(version))
                return False
            self.saw(version, self._newest_of(objects))
            self._listed = True
            return True
        self._shown = self._identity.epoch
        if self._refused is not None:
            self._refused(objects)
        return False

    def _newest_of(self, objects: list[T]) -> T | None:
        if self._locate is None:
            return None
        return max(objects, key=self._locate.version, default=None)

    @property
    def stale(self) -> bool:
        """Whether everything has to be listed again."""
        return self._epoch != self._identity.epoch

    def moment(self) -> int:
        """A number for the present moment, for `vouches`."""
        return self._identity.moment()

    async def vouches(self, opened: int) -> bool:
        """Whether events of a watch count that was open at a moment; raises Unreachable."""
        if self.stale or not await self._identity.check(opened) or self.stale:
            return False
        # A restored server may accept a version it has not reached, and be silent until it has: only a list shows that.
        return self._listed or not 0 < self._identity.revision < self._highest


class ControlPlaneIdentity(EndpointIdentity):
    """The same, read over a connection of its own."""

    def __init__(self, own: KubeClient, client: KubeClient, guard: Guard[Any], on_reading: Callable[[], None]) -> None:
        super().__init__(partial(read_afresh, own), guard, client.close, on_reading)
        self._own = own

    @classmethod
    async def open(
        cls, kubeconfig: str, client: KubeClient, guard: Guard[Any], on_reading: Callable[[], None]
    ) -> ControlPlaneIdentity:
        """Open the control plane of a kubeconfig; `client` is the one whose lists the guard judges."""
        return cls(await open_kubeconfig(kubeconfig, connections=_CONNECTIONS), client, guard, on_reading)

    async def close(self) -> None:
        """Stop reading, and close the connection."""
        await super().close()
        await self._own.close()
