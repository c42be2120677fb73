"""Turning stored objects into response bytes: single objects, lists and watch events, in every form."""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from schemas.manifest import Manifest
from services.apiserver.core.status_errors import bad_request
from services.apiserver.kinds.kind_model import Kind
from services.apiserver.reads.negotiation import Form
from services.apiserver.store.store_port import Entry, Event

_encode = msgspec.json.Encoder().encode
_TYPES = ("ADDED", "MODIFIED", "DELETED")
TableOf = Callable[[Kind, list[Manifest], str, str, bool], Manifest]
"""(kind, objects, includeObject, meta version, columns wanted) -> Table without metadata."""


def is_custom(kind: Kind) -> bool:
    """Whether the kind is defined by a CustomResourceDefinition."""
    return kind.custom


class View:
    """How one request sees objects of one kind: version, form and Table options."""

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
        resource = kind.resource
        shape = f"{resource.group}/{resource.version}|{form.view}|{form.version}"
        self._forms = [f"{number}{shape}" for number in range(len(_TYPES))]
        self._prefix = b'{"kind":%s,"apiVersion":%s,' % (_encode(resource.kind), _encode(resource.api_version))
        self._plain = not form.view

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
        obj = self.kind.from_store(outcome.obj) if isinstance(outcome, Entry) else outcome
        return _encode(self.shown(obj))

    def shown(self, obj: Manifest, *, columns: bool = True, listed: bool = False) -> Manifest:
        """One object (in the kind's version) in this form."""
        if self.form.view == "Table":
            table = self._table(self.kind, [obj], self.include, self.form.version, columns)
            meta = obj.get("metadata") or {}
            head = {"kind": "Table", "apiVersion": f"meta.k8s.io/{self.form.version}"}
            shown = {k: meta[k] for k in ("selfLink", "resourceVersion") if k in meta}
            return {**head, "metadata": shown, **table}
        if self.form.view.startswith("Partial"):
            return self._partial(obj)
        return obj

    def _partial(self, obj: Manifest) -> Manifest:
        return {
            "kind": "PartialObjectMetadata",
            "apiVersion": f"meta.k8s.io/{self.form.version}",
            "metadata": obj["metadata"],
        }

    # -- lists

    def list_bytes(self, entries: Iterable[Entry], meta: Manifest) -> bytes:
        """JSON of a list."""
        resource, kind = self.kind.resource, self.kind
        if self.form.view == "Table":
            objects = [kind.from_store(e.look()) for e in entries]
            head = {"kind": "Table", "apiVersion": f"meta.k8s.io/{self.form.version}", "metadata": meta}
            return _encode({**head, **self._table(kind, objects, self.include, self.form.version, True)})
        if self.form.view.startswith("Partial"):
            items = [self._partial(kind.from_store(e.look())) for e in entries]
            name = {"kind": "PartialObjectMetadataList", "apiVersion": f"meta.k8s.io/{self.form.version}"}
            return _encode({**name, "metadata": meta, "items": items})
        if is_custom(kind):
            meta = {"continue": "", **meta}
        head_bytes = b'{"kind":%s,"apiVersion":%s,"metadata":%s,"items":[' % (
            _encode(resource.list_kind or resource.kind + "List"),
            _encode(resource.api_version),
            _encode(meta),
        )
        return head_bytes + b",".join(self._items(entries)) + b"]}"

    def _items(self, entries: Iterable[Entry]) -> list[bytes]:
        """Items of a list; those of built-in kinds do not repeat kind and apiVersion."""
        kind, prefix, whole = self.kind, self._prefix, is_custom(self.kind)
        cut = len(prefix)
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
            elif whole:
                stored = entry.look()
                obj = kind.from_store(stored)
                if obj is not stored:
                    raw = _encode(obj)
            out.append(raw if whole else b"{" + raw[cut:])
        return out

    # -- watch events

    def event(self, event: Event, kind_of: int, obj: Manifest | None = None) -> bytes:
        """The frame of an event: 0 added, 1 modified, 2 deleted; `obj` replaces the object shown."""
        if obj is None and self.form.view != "Table":
            return event.frame(self._forms[kind_of], lambda: self._frame(_TYPES[kind_of], event.entry))
        shown = self.kind.from_store(event.entry.obj) if obj is None else obj
        return _line(_TYPES[kind_of], _encode(self.shown(shown, columns=False)))

    def initial(self, entry: Entry, *, columns: bool) -> bytes:
        """The frame of an object that existed when the watch began."""
        if self._plain:
            return self._frame("ADDED", entry)
        shown = self.shown(self.kind.from_store(entry.look()), columns=columns)
        return _line("ADDED", _encode(shown))

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
            obj = self._partial(obj)
        elif self.form.view == "Table":
            shown = {"resourceVersion": str(revision)}
            obj = {
                "kind": "Table",
                "apiVersion": f"meta.k8s.io/{self.form.version}",
                "metadata": shown,
                "columnDefinitions": None,
                "rows": [],
            }
        return _line("BOOKMARK", _encode(obj))


def _line(word: str, body: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (word.encode(), body)


def error_frame(status: Manifest) -> bytes:
    """The last frame of a watch that cannot go on."""
    return _line("ERROR", _encode(status))
