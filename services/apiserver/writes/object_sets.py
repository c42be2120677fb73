"""Writes of several objects as one: each is admitted as if the others were there, then all are stored or none.

Watches see all of a set or nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from schemas.manifest import Manifest
from services.apiserver.core import status_errors as status
from services.apiserver.core.audit import Audit
from services.apiserver.core.request_context import Call
from services.apiserver.core.status_errors import ApiError
from services.apiserver.kinds.kind_model import Kind
from services.apiserver.store.store_port import (
    MOST_SET_BYTES,
    MOST_SET_OBJECTS,
    Conflict,
    Entry,
    Key,
    Reads,
    Store,
    StoreTooLarge,
    StoreUnavailable,
    Watch,
    encode_value,
)
from services.apiserver.writes.object_writes import Objects, store_error

UNSET: Final = ("", "0", None)


class Pending(Reads):
    """A store in which the objects of a set are written that are not stored yet; nothing reaches what is below."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.writes: dict[Key, tuple[Manifest, int]] = {}
        self._entries: dict[Key, Entry] = {}

    @property
    def revision(self) -> int:
        """Revision of the latest stored write."""
        return self._store.revision

    def get(self, key: Key) -> Entry | None:
        """The object as the set leaves it."""
        return self._entries.get(key) or self._store.get(key)

    def list(self, group: str, resource: str, namespace: str = "", start: str = "") -> Iterable[Entry]:
        """Stored objects; what compares objects of one kind sees those that are stored."""
        return self._store.list(group, resource, namespace, start)

    def list_at(self, group: str, resource: str, namespace: str, revision: int, start: str = "") -> Iterable[Entry]:
        """Stored objects as of a revision."""
        return self._store.list_at(group, resource, namespace, revision, start)

    def count(self, group: str, resource: str, namespace: str = "", revision: int = 0, start: str = "") -> int:
        """How many stored objects there are, or were as of a revision."""
        return self._store.count(group, resource, namespace, revision, start)

    def watch(self, group: str, resource: str, revision: int) -> Watch:
        """Events of stored objects."""
        return self._store.watch(group, resource, revision)

    async def put(self, key: Key, obj: Manifest, expected: int) -> Entry:
        """Take in a write; raises Conflict for one that the store would refuse."""
        stored = self._store.get(key)
        actual = 0 if stored is None else stored.revision
        if key in self.writes or actual != expected:
            raise Conflict(key, expected, actual)
        self.writes[key] = obj, expected
        entry = self._entries[key] = Entry(key, encode_value(obj), expected, obj)
        return entry


class ChangeSets:
    """Writes sets through the same path as single objects."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def kind_of(self, item: object) -> Kind:
        """The served kind of a member; raises ApiError."""
        if not isinstance(item, dict) or not isinstance(item.get("metadata"), dict):
            raise status.bad_request("an item is an object with apiVersion, kind and metadata")
        kind = self._objects.registry.by_api_version(str(item.get("apiVersion")), str(item.get("kind")))
        if kind is None or kind.virtual:
            raise status.bad_request(f'no kind "{item.get("kind")}" is served in version "{item.get("apiVersion")}"')
        if kind.resource.namespaced and not item["metadata"].get("namespace"):
            raise status.bad_request("metadata.namespace: Required value")
        if not item["metadata"].get("name"):
            raise status.bad_request("metadata.name: Required value: a set names its objects")
        return kind

    async def write(self, items: Sequence[Manifest], call: Call) -> list[Manifest]:
        """Store all objects or none; those with a resourceVersion are replaced, the others are created.

        Raises ApiError, which names the object, for the first that is refused.
        """
        if len(items) > MOST_SET_OBJECTS:
            raise _too_large(f"{len(items)} objects in one change set, at most {MOST_SET_OBJECTS} are allowed")
        store = self._objects.store
        pending = Pending(store)
        # What is computed here is stored later, and recorded then.
        objects = Objects(
            pending,  # type: ignore[arg-type]  # everything that creations and updates use
            self._objects.registry,
            self._objects.admission,
            self._objects.ownership,
            Audit(None),
        )
        objects.allocate = self._objects.allocate
        objects.aside = self._objects.aside
        made: list[tuple[Kind, Entry]] = []
        for number, item in enumerate(items):
            try:
                made.append(await self._one(objects, item, call))
            except ApiError as error:
                raise _named(error, number, item) from None
        writes = [(key, obj, expected) for key, (obj, expected) in pending.writes.items()]
        size = sum(len(encode_value(obj)) for _, obj, _ in writes)
        if size > MOST_SET_BYTES:
            raise _too_large(f"{size} bytes in one change set, at most {MOST_SET_BYTES} are allowed")
        if call.dry_run:
            return [kind.from_store(entry.obj) for kind, entry in made]
        before = {key: store.get(key) for key in pending.writes}
        try:
            stored = {entry.key: entry for entry in await store.put_all(writes)} if writes else {}
        except Conflict as error:
            kind = next(kind for kind, entry in made if entry.key == error.key)
            raise status.conflict(kind.resource, error.key.name, status.MODIFIED) from None
        except (StoreUnavailable, StoreTooLarge) as error:
            raise store_error(error) from error
        for key, entry in stored.items():
            old = before[key]
            self._objects.audit.write(call, "create" if old is None else "update", entry, old)
        return [kind.from_store(stored.get(entry.key, entry).obj) for kind, entry in made]

    async def _one(self, objects: Objects, item: Manifest, call: Call) -> tuple[Kind, Entry]:
        kind = self.kind_of(item)
        obj = objects.decode(kind, item, None, call)
        metadata = obj["metadata"]
        name, space = metadata["name"], metadata.get("namespace") or ""
        # A dry run takes the whole path but the last step.
        inner = Call(call.user, verb=call.verb, manager=call.manager, validation=call.validation)
        inner.warnings = call.warnings
        if metadata.get("resourceVersion") in UNSET:
            inner.verb = "create"
            outcome = await objects.create(kind, space, obj, inner)
        else:
            inner.verb = "update"
            outcome = await objects.update(kind, space, name, lambda _: obj, inner)
        if not isinstance(outcome, Entry):
            raise status.bad_request("the last finalizer of a deleted object cannot be removed in a change set")
        return kind, outcome


def _named(error: ApiError, number: int, item: object) -> ApiError:
    """The error with the object that it is about."""
    metadata = item.get("metadata") if isinstance(item, dict) else None
    name = metadata.get("name") if isinstance(metadata, dict) else ""
    kind = item.get("kind") if isinstance(item, dict) else ""
    error.message = f"items[{number}] ({kind} {name}): {error.message}; nothing of the change set was stored"
    return error


def _too_large(text: str) -> ApiError:
    return ApiError(413, "RequestEntityTooLarge", f"Request entity too large: {text}")
