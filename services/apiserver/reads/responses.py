"""Turning stored objects into response bytes: single objects, lists and watch events, in every form."""

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, ClassVar

import msgspec

from schemas.manifest import Manifest
from services.apiserver.core.status_errors import bad_request
from services.apiserver.kinds.kind_model import Kind
from services.apiserver.reads.negotiation import Form
from services.apiserver.store.store_port import Entry, Event

_encode = msgspec.json.Encoder().encode
TableOf = Callable[[Kind, list[Manifest], str, str, bool], Manifest]
"""(kind, objects, includeObject, meta version, columns wanted) -> Table without metadata."""


class View:
    """How one request sees objects of one kind: version, form and Table options."""

    WORDS: ClassVar = ("ADDED", "MODIFIED", "DELETED")
    fetches: ClassVar[bool] = False
    """Whether entries have to be loaded before they are encoded; what the store of the API server holds is complete."""

    def __init__(self, kind: Kind, form: Form, query: dict[str, str], table: TableOf) -> None:
        self.kind = kind
        self.form = form
        self.include = query.get("includeObject", "")
        if form.view == "Table" and self.include not in ("", "Metadata", "Object", "None"):
            raise bad_request(
                f'Unable to convert to Table as requested: includeObject: Invalid value: "{self.include}": must be '
                "'Metadata', 'Object', 'None', or empty"
            )
        self._table = table
        self._plain = not form.view

    @cached_property
    def _forms(self) -> list[str]:
        resource, form = self.kind.resource, self.form
        shape = f"{resource.group}/{resource.version}|{form.view}|{form.version}"
        return [f"{number}{shape}" for number in range(len(self.WORDS))]

    @cached_property
    def _prefix(self) -> bytes:
        resource = self.kind.resource
        return b'{"kind":%s,"apiVersion":%s,' % (_encode(resource.kind), _encode(resource.api_version))

    async def load(self, entries: Sequence[Entry]) -> None:
        """Fetch what the next entries to encode consist of."""

    def _object(self, entry: Entry, *, once: bool = False) -> Manifest:
        """An object in the kind's version; `once`: it is read for this answer only."""
        return self.kind.from_store(entry.look() if once else entry.obj)

    # -- single objects

    def encoded(self, outcome: Entry | Manifest) -> bytes:
        """JSON of one object."""
        if self._plain:
            if isinstance(outcome, Entry):
                if self.kind.shown_as_stored:
                    return outcome.raw
                stored = outcome.look()
                obj = self.kind.from_store(stored)
                return outcome.raw if obj is stored else _encode(obj)
            return _encode(outcome)
        return _encode(self.shown(self._object(outcome) if isinstance(outcome, Entry) else outcome))

    def shown(self, obj: Manifest, *, columns: bool = True) -> Manifest:
        """One object (in the kind's version) in this form."""
        if self.form.view == "Table":
            table = self._table(self.kind, [obj], self.include, self.form.version, columns)
            meta = obj.get("metadata") or {}
            return self._meta("Table", {k: meta[k] for k in ("selfLink", "resourceVersion") if k in meta}) | table
        if self.form.view.startswith("Partial"):
            return self._meta("PartialObjectMetadata", obj["metadata"])
        return obj

    def _meta(self, kind: str, metadata: Manifest) -> Manifest:
        """The beginning of an object of meta.k8s.io."""
        return {"kind": kind, "apiVersion": f"meta.k8s.io/{self.form.version}", "metadata": metadata}

    # -- lists

    def parts(self, entries: Iterable[Entry]) -> list[bytes]:
        """What a list in this form holds of entries: JSON of rows, of metadata or of objects."""
        if self._plain:
            return self._items(entries)
        objects = [self._object(e, once=True) for e in entries]
        if self.form.view == "Table":
            rows = self._table(self.kind, objects, self.include, self.form.version, False)["rows"]
            return [_encode(row) for row in rows or ()]
        return [_encode(self._meta("PartialObjectMetadata", obj["metadata"])) for obj in objects]

    def list_ends(self, meta: Manifest, *, empty: bool) -> tuple[bytes, bytes]:
        """What a list in this form has before its parts, which commas separate, and after them."""
        resource, kind = self.kind.resource, self.kind
        if self.form.view == "Table":
            table = self._table(kind, [], self.include, self.form.version, True)
            head: Manifest = {**self._meta("Table", meta), **table, "rows": table["rows"] if empty else []}
        elif self.form.view.startswith("Partial"):
            head = {**self._meta("PartialObjectMetadataList", meta), "items": None if empty else []}
        else:
            if kind.custom:
                meta = {"continue": "", **meta}
            name = resource.list_kind or resource.kind + "List"
            head = {"kind": name, "apiVersion": resource.api_version, "metadata": meta, "items": []}
        text = _encode(head)
        return (text[:-2], b"]}") if text.endswith(b"[]}") else (text, b"")

    def whole_list(self, entries: Sequence[Entry], meta: Manifest) -> bytes:
        """JSON of a list of few entries."""
        head, tail = self.list_ends(meta, empty=not entries)
        return head + b",".join(self.parts(entries)) + tail

    def _items(self, entries: Iterable[Entry]) -> list[bytes]:
        """Items of a list; those of built-in kinds do not repeat kind and apiVersion."""
        kind, prefix, whole = self.kind, self._prefix, self.kind.custom
        cut, as_stored = len(prefix), self.kind.shown_as_stored
        out = []
        for entry in entries:
            raw = entry.raw
            if not raw.startswith(prefix):
                stored = entry.look()
                obj = kind.from_store(stored)
                if obj is not stored:
                    raw = _encode({"kind": obj["kind"], "apiVersion": obj["apiVersion"], **obj})
                    if not raw.startswith(prefix):
                        raw = prefix + _encode({k: v for k, v in obj.items() if k not in ("kind", "apiVersion")})[1:]
            elif whole and not as_stored:
                stored = entry.look()
                obj = kind.from_store(stored)
                if obj is not stored:
                    raw = _encode(obj)
            out.append(raw if whole else b"{" + raw[cut:])
        return out

    # -- watch events

    def event(self, event: Event, kind_of: int, *, columns: bool = False) -> bytes:
        """The frame of an event: 0 added, 1 modified, 2 deleted."""
        if self.form.view != "Table":
            return event.frame(self._forms[kind_of], lambda: self._frame(self.WORDS[kind_of], event.entry))
        return _line(self.WORDS[kind_of], _encode(self.shown(self._object(event.entry), columns=columns)))

    def left(self, prev: Entry, revision: int, *, columns: bool = False) -> bytes:
        """The frame of an object that left the selection: its last matching state at the revision of the change."""
        old = self._object(prev)
        old = {**old, "metadata": {**old["metadata"], "resourceVersion": str(revision)}}
        return _line("DELETED", _encode(self.shown(old, columns=columns)))

    def initial(self, entry: Entry, *, columns: bool) -> bytes:
        """The frame of an object that existed when the watch began."""
        if self._plain:
            return self._frame("ADDED", entry)
        return _line("ADDED", _encode(self.shown(self._object(entry, once=True), columns=columns)))

    def _frame(self, word: str, entry: Entry) -> bytes:
        return _line(word, self.encoded(entry))

    def bookmark(self, revision: int, annotations: dict[str, str] | None = None) -> bytes:
        """A bookmark frame."""
        meta: dict[str, Any] = {"resourceVersion": str(revision), "creationTimestamp": None}
        if annotations:
            meta["annotations"] = annotations
        resource = self.kind.resource
        obj: Manifest = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": meta}
        if self.form.view.startswith("Partial"):
            obj = self._meta("PartialObjectMetadata", meta)
        elif self.form.view == "Table":
            obj = self._meta("Table", {"resourceVersion": str(revision)}) | {"columnDefinitions": None, "rows": []}
        return _line("BOOKMARK", _encode(obj))


def _line(word: str, body: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (word.encode(), body)


def error_frame(status: Manifest) -> bytes:
    """The last frame of a watch that cannot go on."""
    return _line("ERROR", _encode(status))
