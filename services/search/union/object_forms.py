"""The form in which a client wants objects: as they are, as their metadata only, or as rows of a table."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from schemas.manifest import Manifest
from services._kit.base.answer_limits import in_force
from services._kit.kube.answers.shapes import manifest_of
from services._kit.kube.api import BadAnswer
from services.apiserver.core.status_errors import bad_request
from services.apiserver.reads.negotiation import Form
from services.apiserver.tables.build import built_in_printer
from services.apiserver.tables.human import age
from services.apiserver.tables.printer import AGE, NAME, Cells, Printer, name_of, table
from services.search.registries.member_facts import Gvr
from services.search.union.provenance_marks import metadata_of

_encode: Final = msgspec.json.Encoder().encode
_INCLUDES: Final = ("", "Metadata", "Object", "None")
_WITH_COLUMNS: Final = frozenset({Gvr("", "v1", "pods"), Gvr("", "v1", "nodes")})
_UNREADABLE_CELLS: Final = (TypeError, KeyError, AttributeError, IndexError, ValueError, OverflowError)
"""What the cells of an object raise whose fields have types that they never have."""


def _plain_cells(obj: Manifest, now: dt.datetime) -> Cells:
    return [name_of(obj), age((obj.get("metadata") or {}).get("creationTimestamp"), now)]


_PLAIN: Final = Printer((NAME, AGE), _plain_cells)


class ListEnds(msgspec.Struct, frozen=True):
    """What surrounds the parts of a list: `head` up to its metadata, `opening` after it, and then `]}`."""

    head: bytes
    opening: bytes


class ObjectForms:
    """One request's form for objects of one resource; raises ApiError 400 for an `includeObject` that is none."""

    def __init__(self, gvr: Gvr, form: Form, include: str, now: Callable[[], dt.datetime]) -> None:
        self.form = form
        if form.view == "Table" and include not in _INCLUDES:
            raise bad_request(f"includeObject: {include[:60]!r} is none of Metadata, Object, None")
        self._include = include
        self._now = now
        self._printer = built_in_printer(gvr.resource) if gvr in _WITH_COLUMNS else _PLAIN
        self._columns = True

    def single(self, raw: bytes) -> bytes:
        """One object; raises BadAnswer."""
        if self.form.view == "Table":
            return self._table(raw, columns=True)
        return self._partial(raw) if self.form.view else raw

    def part(self, raw: bytes) -> bytes:
        """One item of a list; raises BadAnswer."""
        if self.form.view == "Table":
            return _encode(self._rows([self._decoded(raw)], columns=False)["rows"][0])
        return self._partial(raw) if self.form.view else raw

    def ends(self, kind: str, api_version: str) -> ListEnds:
        """What surrounds the parts of a list of a kind; where it is not known, clients get a list of anything."""
        meta = f"meta.k8s.io/{self.form.version}"
        if self.form.view == "Table":
            columns = _encode(self._rows([], columns=True)["columnDefinitions"])
            return ListEnds(_named("Table", meta), b',"columnDefinitions":' + columns + b',"rows":[')
        if self.form.view:
            return ListEnds(_named("PartialObjectMetadataList", meta), b',"items":[')
        return ListEnds(_named(kind or "List", api_version or "v1"), b',"items":[')

    def event(self, kind: str, raw: bytes) -> bytes:
        """One line of a watch; the first one of a table has its columns. Raises BadAnswer."""
        if self.form.view == "Table":
            shown, self._columns = self._table(raw, columns=self._columns), False
        else:
            shown = self._partial(raw) if self.form.view else raw
        return _line(kind, shown)

    def bookmark(self, kind: str, api_version: str, version: str, annotations: Mapping[str, str]) -> bytes:
        """The line that names a version and nothing else."""
        metadata: Manifest = {"resourceVersion": version, "creationTimestamp": None}
        if annotations:
            metadata["annotations"] = annotations
        shown: Manifest = {"kind": kind, "apiVersion": api_version, "metadata": metadata}
        if self.form.view:
            shown["apiVersion"] = f"meta.k8s.io/{self.form.version}"
            shown["kind"] = "Table" if self.form.view == "Table" else "PartialObjectMetadata"
        if self.form.view == "Table":
            shown |= {"columnDefinitions": None, "rows": []}
        return _line("BOOKMARK", _encode(shown))

    def _table(self, raw: bytes, *, columns: bool) -> bytes:
        obj = self._decoded(raw)
        version = (obj.get("metadata") or {}).get("resourceVersion") or ""
        head: Manifest = {"kind": "Table", "apiVersion": f"meta.k8s.io/{self.form.version}"}
        return _encode({**head, "metadata": {"resourceVersion": version}, **self._rows([obj], columns=columns)})

    def _rows(self, objects: Sequence[Manifest], *, columns: bool) -> Manifest:
        now = self._now()
        try:
            return table(self._printer, list(objects), self._include, self.form.version, columns, now)
        except _UNREADABLE_CELLS:
            # A member may send anything; its row says nothing but the name.
            blank = msgspec.structs.replace(self._printer, cells=self._blank, conditions=None)
            return table(blank, list(objects), self._include, self.form.version, columns, now)

    def _blank(self, obj: Manifest, now: dt.datetime) -> list[Any]:
        return [name_of(obj), *("<invalid>" for _ in self._printer.columns[1:])]

    @staticmethod
    def _decoded(raw: bytes) -> Manifest:
        found = manifest_of(raw, in_force().object_values)
        if not isinstance(found.get("metadata"), dict):
            raise BadAnswer("an object has no metadata")
        return found

    def _partial(self, raw: bytes) -> bytes:
        head = _named("PartialObjectMetadata", f"meta.k8s.io/{self.form.version}")
        return head + b',"metadata":%s}' % bytes(metadata_of(raw))


def _line(kind: str, shown: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (kind.encode(), shown)


def _named(kind: str, api_version: str) -> bytes:
    return b'{"kind":%s,"apiVersion":%s' % (_encode(kind), _encode(api_version))
