"""Admission by ResourceQuotas: what a namespace has no room for is refused, and what it takes is written down first.

The usage in the status of a quota is raised before the object is stored, by one write at a time in each namespace and
only over the revision that was compared: two writes cannot both take the last of it. What is refused or fails after
that stays counted until the quota is measured again, as in Kubernetes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from schemas.manifest import Manifest
from services._rules.kubernetes.quota_charges import Charge, Refused, charges
from services.apiserver.admission.chain import Attributes, forbidden, nothing
from services.apiserver.core import status_errors as status
from services.apiserver.store.store_port import Conflict, Entry, Event, Key, Store, StoreTooLarge, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

QUOTAS: Final = ("", "resourcequotas")
_UPDATED: Final = frozenset({"/services", "/persistentvolumeclaims"})
"""Kinds whose updates may take more than the object took before."""
_FREE: Final = frozenset({"/events", "events.k8s.io/events"})
_PENDING_SECONDS: Final = 30.0
_MOST_PENDING: Final = 1000
"""Above so many, those whose time is over are looked for at every charge."""
_ATTEMPTS: Final = 16


class ResourceQuotas:
    """The last plugin of the chain: it charges only what every other one admitted."""

    operations = frozenset({"CREATE", "UPDATE"})

    def __init__(self, store: Store) -> None:
        self._store = store
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}
        self._admitted: dict[Key, tuple[float, Manifest]] = {}
        """Charged and on their way into the store, with the moment by which they are there or were refused."""
        store.listen(self._on_event)

    def _on_event(self, event: Event) -> None:
        if self._admitted:
            self._admitted.pop(event.entry.key, None)

    mutate = nothing

    async def validate(self, attributes: Attributes) -> None:
        """Charge an object to the quotas of its namespace; raises ApiError 403 where one has no room."""
        kind, namespace = attributes.kind, attributes.namespace
        if attributes.new is None or attributes.subresource or not kind.resource.namespaced or kind.virtual:
            return
        if attributes.operation == "UPDATE" and kind.store_key not in _UPDATED:
            return
        if kind.store_key in _FREE or not self._store.count(*QUOTAS, namespace):
            return
        async with self.alone(namespace):
            for _ in range(_ATTEMPTS):
                if await self._charge(attributes):
                    return
        raise status.conflict(kind.resource, attributes.name, "the quotas of the namespace change all the time")

    def _quotas(self, namespace: str) -> Iterator[Entry]:
        return iter(self._store.list(*QUOTAS, namespace))

    async def _charge(self, attributes: Attributes) -> bool:
        """Charge once; returns False when a quota was written in between."""
        kind, new = attributes.kind, attributes.new
        assert new is not None
        entries = {entry.key.name: entry for entry in self._quotas(attributes.namespace)}
        try:
            found = charges(
                [entry.obj for entry in entries.values()],
                kind.resource.group,
                kind.resource.plural,
                new,
                attributes.old,
            )
        except Refused as error:
            raise forbidden(attributes, str(error)) from error
        if attributes.call.dry_run or not found:
            return True
        key = Key(kind.store_group, kind.resource.plural, attributes.namespace, attributes.name)
        if attributes.operation == "CREATE":
            # Before the usage rises: who measures it meanwhile has to count this object.
            if len(self._admitted) >= _MOST_PENDING:
                self._expire()
            self._admitted[key] = time.monotonic() + _PENDING_SECONDS, new
        try:
            await self._write(found, entries)
        except Conflict:
            self._admitted.pop(key, None)
            return False
        except (StoreUnavailable, StoreTooLarge) as error:
            self._admitted.pop(key, None)
            raise status.unavailable(f"the usage of a quota cannot be stored: {error}") from error
        return True

    async def _write(self, found: list[Charge], entries: dict[str, Entry]) -> None:
        writes = [
            ((entry := entries[one.quota["metadata"]["name"]]).key, {**entry.obj, "status": one.status}, entry.revision)
            for one in found
        ]
        if len(writes) == 1:
            await self._store.put(*writes[0])
        else:
            await self._store.put_all(writes)

    @asynccontextmanager
    async def alone(self, namespace: str) -> AsyncIterator[None]:
        """One charge at a time in a namespace; a lock lives for as long as it is wanted."""
        lock, wanted = self._locks.get(namespace) or (asyncio.Lock(), 0)
        self._locks[namespace] = lock, wanted + 1
        try:
            async with lock:
                yield
        finally:
            lock, wanted = self._locks[namespace]
            if wanted == 1:
                del self._locks[namespace]
            else:
                self._locks[namespace] = lock, wanted - 1

    def on_the_way(self, group: str, plural: str, namespace: str) -> dict[Key, Manifest]:
        """Objects of a resource that were charged and are not stored yet."""
        self._expire()
        wanted = (group, plural, namespace)
        return {key: obj for key, (_, obj) in self._admitted.items() if key[:3] == wanted}

    def _expire(self) -> None:
        """Forget what never got into the store."""
        now = time.monotonic()
        self._admitted = {key: waiting for key, waiting in self._admitted.items() if waiting[0] > now}
