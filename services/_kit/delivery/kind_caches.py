"""Watches and caches the managed objects of every kind that one cluster is given."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import structlog
from msgspec import Raw

from schemas.keys import ObjectKey
from schemas.manifest import Manifest
from services._kit.concurrency.supervision import supervise
from services._kit.concurrency.tasks import set_within
from services._kit.delivery.live_objects import Cache, Live, Place, Unclaimed
from services._kit.kube.answers.exchange import bare
from services._kit.kube.client import ApiError, ApiResource, BadAnswer, KubeClient, Unreachable, resource_path
from services._kit.kube.list_watch import AsBytes, Gatekeeper, Kept, Reflector
from services._rules.constants import LABEL_TRUE, MANAGED_LABEL

log = structlog.get_logger("delivery.kinds")

SYNC_SECONDS: Final = 2.0
"""How long callers wait for the first list of a kind before they ask why there is none."""
_DIGITS: Final = 20


class UnknownKind(Exception):
    """The cluster does not serve a kind (yet); the message names it."""


class _Given(AsBytes):
    """Objects that the cluster was given works for; of others that bear our mark it is only known that they exist."""

    def __init__(self, kind: Kind, cache: Cache) -> None:
        self._kind = kind
        self._cache = cache
        self._listed = 0
        self._listing = False

    def begin(self) -> None:
        """A list begins: what is read of it is not counted in the cache before it is complete."""
        self._listed, self._listing = 0, True
        self._kind.list_begins()

    def complete(self) -> None:
        """The list is complete."""
        self._listed, self._listing = 0, False

    def read(self, raw: Raw, api_version: str, kind: str) -> Kept | None:
        """An object, with its bytes where they can be kept."""
        kept = super().read(raw, api_version, kind)
        if kept is None:
            return None
        place = (kept.namespace, kept.name)
        if not self._kind.is_given(place):
            self._kind.not_given(place)
            return None
        if not self._cache.fits(len(kept.data), beside=self._listed):
            return Kept(*place, kept.version, b"")
        if self._listing:
            self._listed += len(kept.data)
        return kept


class Kind:
    """One kind of one cluster: its URL, and the live objects that bear our mark and that it was given works for."""

    def __init__(
        self,
        client: KubeClient,
        resource: ApiResource,
        on_change: Callable[[ObjectKey], None],
        is_given: Callable[[ObjectKey], bool],
        cache: Cache,
        gate: Gatekeeper[Kept] | None = None,
    ) -> None:
        self.resource = resource
        self.live = Live(cache)
        self._on_change = on_change
        self._is_given = is_given
        self._watched = 0  # the newest version that the watch delivered since the last list
        self._unclaimed = Unclaimed()
        self._listed_unclaimed = Unclaimed()
        self._settled = asyncio.Event()
        path = resource_path(resource.group, resource.version, resource.name)
        selector = {"labelSelector": f"{MANAGED_LABEL}={LABEL_TRUE}"}
        self._reading = _Given(self, cache)
        self._reflector = Reflector(
            client,
            path,
            self,
            self._reading,
            params=selector,
            api_version=resource.api_version,
            kind=resource.kind,
            gate=gate,
        )
        self._path = path
        self._task = supervise(f"watch:{path}", self._follow, returns=True)

    async def _follow(self) -> None:
        await self._reflector.run()
        self._settled.set()
        # Later callers ask whether the kind is served; these objects have to be requeued here.
        for place in self.live.places():
            self._on_change(self._key(place))

    def list_again(self) -> None:
        """Compare what is known with a new list."""
        if self.ended:
            return
        self._task.cancel()
        self._reflector.list_again()
        self._task = supervise(f"watch:{self._path}", self._follow, returns=True)

    def path(self, namespace: str, name: str = "") -> str:
        """URL path of the collection or of an object."""
        resource = self.resource
        return resource_path(resource.group, resource.version, resource.name, namespace, name)

    @property
    def ended(self) -> bool:
        """Whether the kind is not served any more."""
        return self._task.done

    async def synced(self) -> None:
        """Return once a complete list was seen.

        Raises UnknownKind when the kind turns out not to be served, and Unreachable or ApiError with the reason when
        it cannot be listed for a while: other kinds do not wait for it.
        """
        while not self._settled.is_set():
            # Callers after the first failure do not wait for the next one.
            self._raise_trouble()
            await set_within(self._settled, SYNC_SECONDS)
        if not self._reflector.synced.is_set():
            raise UnknownKind(f"{self.resource.api_version} {self.resource.kind} is not served")

    def _raise_trouble(self) -> None:
        match self._reflector.trouble:
            case None:
                return
            case BadAnswer() | ApiError() as trouble:
                text = f"{self.resource.kind} cannot be listed: {trouble}"
                raise ApiError(503, "ServiceUnavailable", text) from trouble
            case trouble:
                raise Unreachable(str(trouble)) from trouble

    def is_given(self, place: Place) -> bool:
        """Whether there is a work for an object."""
        return self._is_given(self._key(place))

    def list_begins(self) -> None:
        """Objects without works are counted from here on."""
        self._listed_unclaimed = Unclaimed()

    def not_given(self, place: Place) -> None:
        """An object of the cluster bears our mark, and there is no work for it (yet)."""
        self.live.drop(place)
        self._unclaimed.add(place)
        self._listed_unclaimed.add(place)

    def has_to_be_read(self, place: Place) -> bool:
        """Whether an object that is not among the live ones may be in the cluster nevertheless."""
        return place not in self.live and (self.live.is_elsewhere(place) or place in self._unclaimed)

    def was_read(self, place: Place, manifest: Manifest | None) -> None:
        """Take what is in the cluster now of an object that had to be read; None: nothing."""
        self._unclaimed.discard(place)
        if manifest is None:
            self.live.drop(place)
            return
        kept, before = Kept.of(manifest), self.live.version(place)
        if before is None or _is_newer(kept.version, before):
            self.live.keep(kept)

    def _key(self, place: Place) -> ObjectKey:
        return ObjectKey(self.resource.group, self.resource.name, *place)

    def listed(self, objects: list[Kept]) -> None:
        """A complete list of our objects of the kind."""
        touched = self.live.places()
        self.live.clear()
        for kept in objects:
            self.live.keep(kept)
        self._watched = 0
        self._reading.complete()
        self._unclaimed = self._listed_unclaimed
        if self._unclaimed.count:
            log.warning(
                "objects_without_work", path=self.path(""), count=self._unclaimed.count, some=self._unclaimed.some()
            )
        self._settled.set()
        for place in touched | self.live.places():
            self._on_change(self._key(place))

    def changed(self, kind: str, found: Kept) -> None:
        """One change of one of our objects."""
        place = (found.namespace, found.name)
        self._watched = max(self._watched, _number(found.version))
        before = self.live.version(place)
        if before is not None and not _is_newer(found.version, before):
            return  # The echo of our own write, or what preceded it.
        if kind == "DELETED":
            self.live.drop(place)
            self._unclaimed.discard(place)
        else:
            self.live.keep(found)
        self._on_change(self._key(place))

    def written(self, manifest: Manifest) -> None:
        """Take the server's answer to a write as the live object, unless the watch was faster and is ahead of it."""
        kept = Kept.of(manifest)
        if 0 < _number(kept.version) <= self._watched:
            return  # The watch delivered this write already, and perhaps a deletion after it.
        before = self.live.version((kept.namespace, kept.name))
        if before is None or _is_newer(kept.version, before):
            self.live.keep(kept)

    def close(self) -> None:
        """Stop following."""
        self._task.cancel()


def _number(version: str) -> int:
    """A resourceVersion as a number, 0 when it is none."""
    return int(version) if version.isdecimal() and len(version) <= _DIGITS else 0


def _is_newer(found: str, than: str) -> bool:
    """Whether a version follows another; versions that are no numbers are only compared for equality."""
    ours, theirs = _number(found), _number(than)
    if ours and theirs:
        return ours > theirs
    return found != than


class Kinds:
    """Every kind in use in one cluster; `is_given` returns whether there is a work for an object."""

    def __init__(
        self,
        client: KubeClient,
        on_change: Callable[[ObjectKey], None],
        is_given: Callable[[ObjectKey], bool],
        gate: Gatekeeper[Kept] | None = None,
    ) -> None:
        self._client = client
        self._gate = gate
        self._on_change = on_change
        self._is_given = is_given
        self.cache = Cache(client.limits)
        self._served: dict[tuple[str, str], ApiResource] = {}
        self._left_out: set[str] = set()
        self._kinds: dict[tuple[str, str], Kind] = {}
        self._asking = asyncio.Lock()
        self._asked = 0
        self._refused: ApiError | Unreachable | None = None

    async def of(self, api_version: str, kind: str) -> Kind:
        """A kind, followed from now on; raises UnknownKind, and ApiError or Unreachable from discovery."""
        known = self._kinds.get((api_version, kind))
        if known is not None and not known.ended:
            await known.synced()
            return known
        resource = self._served.get((api_version, kind))
        if resource is None or (known is not None and known.ended):
            await self._discover()
            resource = self._served.get((api_version, kind))
        if resource is None and api_version in self._left_out:
            raise ApiError(
                503, "ServiceUnavailable", f"the cluster does not say at present which kinds of {api_version} it serves"
            )
        if resource is None:
            raise UnknownKind(
                f"the cluster does not serve {api_version} {kind}; propagate its CustomResourceDefinition there first"
            )
        current = self._kinds.get((api_version, kind))
        if current is None or current.ended:
            current = Kind(self._client, resource, self._on_change, self._is_given, self.cache, self._gate)
            self._kinds[api_version, kind] = current
        await current.synced()
        return current

    async def _discover(self) -> None:
        """Discover the kinds the cluster serves; concurrent callers share the answer, or the exception."""
        asked = self._asked
        async with self._asking:
            if self._asked == asked:
                self._refused, left_out = None, set[str]()
                try:
                    found = await self._client.discover(preferred=False, left_out=left_out)
                except (ApiError, Unreachable) as error:
                    self._refused = bare(error)
                else:
                    self._served = {(resource.api_version, resource.kind): resource for resource in found}
                    self._left_out = left_out
                self._asked += 1
        if self._refused is not None:
            raise self._refused

    def list_again(self) -> None:
        """Compare what is known of every kind with a new list."""
        for kind in self._kinds.values():
            kind.list_again()

    def close(self) -> None:
        """Stop following every kind."""
        for kind in self._kinds.values():
            kind.close()
