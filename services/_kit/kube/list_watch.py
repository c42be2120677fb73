"""Lists and watches one kind of one Kubernetes endpoint: a complete list, then its changes, while it is served."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Generic, Protocol, TypeVar

import msgspec
from msgspec import Raw, Struct

from schemas.manifest import Manifest
from services._kit.base import answer_limits as limits
from services._kit.base.late_logger import LateLogger
from services._kit.base.outage import Outage
from services._kit.base.pacing import Backoff
from services._kit.kube.answers.exchange import bare
from services._kit.kube.answers.listing import each_item
from services._kit.kube.answers.shapes import check_manifest, check_metadata, manifest_of, readable
from services._kit.kube.api import PASSING
from services._kit.kube.client import ApiError, BadAnswer, KubeClient, Unreachable, WatchEvent, decode

log = LateLogger("kube_watch")

LONGEST_PAUSE_SECONDS: Final = 5.0
_BACKOFF: Final = Backoff(0.2, LONGEST_PAUSE_SECONDS, (0.6, 1.0))
_SHORT: Final = 1.0
"""A watch that ends sooner (seconds) is not opened again at once."""
_PASSING: Final = PASSING | {403}
"""Refusals that do not concern the version that a watch goes on after."""
_TRIES: Final = 3
"""How often in a row a watch may fail at one version before the kind is listed again."""


class _EventMeta(Struct, frozen=True):
    resource_version: str = msgspec.field(name="resourceVersion", default="")


class _EventObject(Struct):
    metadata: _EventMeta = _EventMeta()
    code: int = 0


_head = msgspec.json.Decoder(_EventObject)
_members = msgspec.json.Decoder(dict[str, Raw])

T = TypeVar("T")


class Kept(Struct, frozen=True):
    """An object as bytes, without the bookkeeping of field owners: a fraction of what it takes decoded."""

    namespace: str
    name: str
    version: str
    data: bytes

    @property
    def manifest(self) -> Manifest:
        """The object, decoded again with every call."""
        return decode(self.data)

    @classmethod
    def of(cls, manifest: Manifest) -> Kept:
        """Keep an object that is decoded already."""
        metadata = {name: value for name, value in manifest["metadata"].items() if name != "managedFields"}
        place = str(metadata.get("namespace", "")), str(metadata["name"])
        data = msgspec.json.encode({**manifest, "metadata": metadata})
        return cls(*place, str(metadata.get("resourceVersion", "")), data)


class Reading(Protocol[T]):
    """What becomes of the objects that a reflector sees."""

    def begin(self) -> None:
        """A list begins: what is read until it is complete belongs to it."""

    def read(self, raw: Raw, api_version: str, kind: str) -> T | None:
        """One object; items of a typed list do not repeat apiVersion and kind. None: it is of no interest.

        Raises BadAnswer for what is no such object.
        """
        ...

    def version(self, found: T) -> str:
        """Its resourceVersion, empty where it has none."""
        ...


class Decoded:
    """Objects as manifests, without the bookkeeping of field owners: half of the size is that."""

    def begin(self) -> None:
        """Nothing is counted."""

    def read(self, raw: Raw, api_version: str, kind: str) -> Manifest:
        """Decode it whole."""
        manifest = manifest_of(raw, limits.in_force().object_values)
        manifest.setdefault("apiVersion", api_version)
        manifest.setdefault("kind", kind)
        check_manifest(manifest, kind)
        manifest["metadata"].pop("managedFields", None)
        return manifest

    def version(self, found: Manifest) -> str:
        """From its metadata."""
        return str(found["metadata"].get("resourceVersion") or "")


class AsBytes:
    """Objects decoded on access: for consumers that follow many thousands."""

    def begin(self) -> None:
        """Nothing is counted."""

    def read(self, raw: Raw, api_version: str, kind: str) -> Kept | None:
        """Decode what names it, and see that the rest can be decoded."""
        members = readable(_members, raw, "an object")
        if "metadata" not in members:
            raise BadAnswer("an object has no metadata")
        named = check_metadata(members["metadata"])
        metadata = readable(_members, members["metadata"], "an object's metadata")
        metadata.pop("managedFields", None)
        whole: dict[str, object] = {"apiVersion": api_version, "kind": kind, **members, "metadata": metadata}
        data = msgspec.json.encode(whole)
        check_manifest(manifest_of(data, limits.in_force().object_values), kind, named)
        return Kept(named.namespace or "", named.name, named.resource_version or "", data)

    def version(self, found: Kept) -> str:
        """As it was read."""
        return found.version


class ListWatcher(Protocol[T]):
    """Receives what a reflector sees, in order."""

    def listed(self, objects: list[T]) -> Awaitable[None] | None:
        """Take a complete, successful list: what is missing from it does not exist. What it returns is awaited."""

    def changed(self, kind: str, found: T) -> None:
        """Take one change: `kind` is ADDED, MODIFIED or DELETED."""


class Gatekeeper(Protocol[T]):
    """Verifies that the endpoint is the one whose lists count (services/_kit/identity)."""

    async def opened(self) -> None:
        """Return once a list is worth its request."""

    def saw(self, version: str, last: T | None = None) -> None:
        """Note the resourceVersion of what counts, and the object that came last with it."""

    def bad_answer(self) -> None:
        """Note that a list or a watch could not be used."""

    async def admits(self, objects: list[T], version: str) -> bool:
        """Whether a complete list that was begun since `opened` counts; raises Unreachable when that is not known."""
        ...

    @property
    def stale(self) -> bool:
        """Whether everything has to be listed again."""
        ...

    def moment(self) -> int:
        """A number for the present moment, for `vouches`."""
        ...

    async def vouches(self, opened: int) -> bool:
        """Whether events of a watch count that was begun since the last list and open at a moment.

        0 is the present one. Raises Unreachable.
        """
        ...


def known_uid(before: Manifest | None, deleted: Manifest) -> None:
    """Have the kind listed again when an object is said to be deleted that is not the one of this name.

    A watch delivers every change in order: the uid is unknown where it comes from another store, or after a gap.
    """
    if before is None:
        return
    known, deleted_uid = before["metadata"].get("uid"), deleted["metadata"].get("uid")
    if known and deleted_uid and known != deleted_uid:
        raise ApiError(410, "Expired", f"the watch tells of a deletion of uid {deleted_uid}, but {known} was known")


class _ListAgain(Exception):
    """What was listed or watched does not count."""


class Reflector(Generic[T]):
    """One list-and-watch loop; after a gap it lists again, and never takes a failed list for an empty one."""

    def __init__(
        self,
        client: KubeClient,
        path: str,
        follower: ListWatcher[T],
        reading: Reading[T],
        *,
        params: Mapping[str, str] | None = None,
        api_version: str = "",
        kind: str = "",
        on_batch: Callable[[], None] | None = None,
        on_gone: Callable[[], Awaitable[None]] | None = None,
        on_trouble: Callable[[Exception], float] | None = None,
        gate: Gatekeeper[T] | None = None,
    ) -> None:
        self._client = client
        self._path = path
        self._follower = follower
        self._reading = reading
        self._params = dict(params or {})
        self._api_version = api_version
        self._kind = kind
        self._on_batch = on_batch
        self._on_gone = on_gone
        self._on_trouble = on_trouble
        """Hears why there is a pause; what it returns is the least that it takes, in seconds."""
        self._said = ""
        self._gate = gate
        self._failures = 0
        self._version = ""
        self._last: T | None = None
        """What the last event of a watch told of, unless that was a deletion or a bookmark."""
        self.trouble: Exception | None = None
        """Why there is no list, or no watch, at the moment."""
        self.skipped = 0
        """Objects that the follower could not take; the log names each."""
        self.synced = asyncio.Event()
        self.outage = Outage()
        """Why nothing is heard, once that has lasted for a while."""

    def list_again(self) -> None:
        """Begin with a list when `run` is called the next time."""
        self._version = ""

    async def run(self) -> None:
        """Follow until cancelled, or until the kind is no longer served (404)."""
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            try:
                if not self._version:
                    self._version = await self._list()
                began = loop.time()
                await self._watch()
                if loop.time() - began >= _SHORT:
                    self._failures = 0
                else:
                    await self._pause(Unreachable("the watch ended at once"))
            except ApiError as error:
                if error.status == 404:
                    if self._on_gone is not None:
                        await self._on_gone()
                    return
                if error.status == 410:
                    await self._too_old(error)
                else:
                    await self._interrupted(error, loop.time() - began, error.status not in _PASSING)
            except _ListAgain:
                self._version = ""
            except BadAnswer as error:
                if self._gate is not None:
                    self._gate.bad_answer()
                await self._interrupted(error, loop.time() - began, self._failures % _TRIES == _TRIES - 1)
            except Unreachable as error:
                await self._interrupted(error, loop.time() - began)
            except Exception as error:
                # A mistake of ours: the kind is listed again, others are not concerned.
                log.exception("watch_failed", path=self._path)
                await self._interrupted(error, loop.time() - began, list_again=True)

    async def _too_old(self, why: ApiError) -> None:
        """List again; a server that refuses the version of its own latest list is not asked without end."""
        listed, self._version = self._version, ""
        if not listed or self._failures:
            await self._pause(why)
        else:
            self._failures = 1

    async def _interrupted(self, why: Exception, seconds: float, list_again: bool = False) -> None:
        """Wait, and where that was a list at least for as long as its failure took us."""
        listing = not self._version
        if list_again:
            self._version = ""
        await self._pause(why, at_least=min(seconds, LONGEST_PAUSE_SECONDS) if listing else 0.0)

    async def _pause(self, why: Exception, at_least: float = 0.0) -> None:
        self._failures += 1
        text = str(why) or type(why).__name__
        self.outage.failed(text[:300])
        # Kept for as long as the trouble lasts: without the frames, and all that they refer to.
        self.trouble = bare(why)
        if self._on_trouble is not None:
            at_least = max(at_least, self._on_trouble(why))
        delay = max(_BACKOFF.pause(self._failures), at_least)
        refusal = text if isinstance(why, ApiError) and why.status == 403 else ""
        if not refusal or refusal != self._said:
            # What is forbidden stays so until someone permits it: it is said once.
            log.warning("watch_interrupted", path=self._path, error=text, retry_in_seconds=round(delay, 3))
        self._said = refusal
        await asyncio.sleep(delay)

    async def _list(self) -> str:
        if self._gate is not None:
            await self._gate.opened()
        objects: list[T] = []

        def take(raw: Raw) -> None:
            found = self._reading.read(raw, self._api_version, self._kind)
            if found is not None:
                objects.append(found)

        self._reading.begin()
        version = await each_item(self._client, self._path, take, self._params)
        if not version:
            raise BadAnswer(
                f"GET {self._path}: the list has no resourceVersion, so that nothing can be watched after it"
            )
        if self._gate is not None and not await self._gate.admits(objects, version):
            raise _ListAgain
        taken = self._follower.listed(objects)
        if taken is not None:
            await taken
        self.trouble = None
        self.synced.set()
        self.outage.over()
        if self._on_batch is not None:
            self._on_batch()
        return version

    async def _watch(self) -> None:
        """Follow the changes after the last version, until the stream ends or has to begin with a list."""
        if self._gate is not None and self._gate.stale:
            raise _ListAgain
        vouched, opened = self._gate is None, 0
        async for events in self._client.watch(self._path, self._version, params=self._params):
            self.outage.over()
            if not events:
                opened = self._gate.moment() if self._gate is not None else 0
                if not self._failures:
                    continue
            if self._gate is not None and (self._gate.stale or not (vouched or await self._gate.vouches(opened))):
                # The address may lead elsewhere since the list; a watch that was broken off could be silent for long.
                raise _ListAgain
            vouched = True
            if not events:
                continue
            await self._client.share.each(events, self._take)
            self._failures = 0
            self.trouble = None
            if self._gate is not None:
                self._gate.saw(self._version, self._last)
            if self._on_batch is not None:
                self._on_batch()
            if not self._version:
                return

    def _take(self, event: WatchEvent) -> None:
        if not self._version:
            return  # What follows an error is not believed.
        if event.type == "ERROR":
            head = readable(_head, event.object, "an error of a watch")
            if head.code != 410:
                log.warning("watch_error", path=self._path, code=head.code)
            self._version = ""
            return
        found = self._last = None
        if event.type != "BOOKMARK":
            found = self._reading.read(event.object, self._api_version, self._kind)
        if found is None:
            head = readable(_head, event.object, "an object")
            self._version = head.metadata.resource_version or self._version
            return
        try:
            self._follower.changed(event.type, found)
        except ApiError:
            raise  # The watch event contradicts the known state.
        except Exception:
            # One object is not understood: the others are.
            self.skipped += 1
            log.exception("object_skipped", path=self._path, event=event.type, skipped=self.skipped)
        self._version = self._reading.version(found) or self._version
        if event.type != "DELETED":
            self._last = found
