"""Joins the watches of several clusters to one: whose events carry the versions of all clusters up to then."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import msgspec
from msgspec import Raw

from services._kit.kube.api import UNREADABLE, BadAnswer, WatchEvent, watch_event_decoder
from services.search.union.object_forms import ObjectForms
from services.search.union.provenance_marks import marked, version_of
from services.search.union.selector_filter import SelectorFilter
from services.search.union.version_map import VersionMap

_CHANGES: Final = frozenset({"ADDED", "MODIFIED", "DELETED"})
_INITIAL_END: Final = "k8s.io/initial-events-end"


class _Bookmark(msgspec.Struct):
    annotations: dict[str, str] | None = None


class _BookmarkObject(msgspec.Struct, rename="camel"):
    kind: str = ""
    api_version: str = ""
    metadata: _Bookmark | None = None


_bookmark: Final = msgspec.json.Decoder(_BookmarkObject)


class WatchMerge:
    """What has come of one combined watch; `ended` once a cluster said that its part is over."""

    def __init__(
        self,
        clusters: Collection[str],
        versions: VersionMap,
        forms: ObjectForms,
        *,
        initial: bool = False,
        bookmarks: bool = True,
    ) -> None:
        self._forms = forms
        self._bookmarks = bookmarks
        self._versions = {name: versions.of(name) for name in clusters if versions.of(name) not in ("", "0")}
        self._initial = set(clusters) if initial else set()
        self.ended = False

    def frame(self, cluster: str, line: bytes, scope: SelectorFilter) -> bytes:
        """The line for the client about one line of a cluster's watch; empty for none. Raises BadAnswer."""
        try:
            event = watch_event_decoder.decode(line)
        except UNREADABLE as error:
            raise BadAnswer(f"it is not an event of a watch: {error}") from error
        if event.type in _CHANGES:
            return self._change(cluster, event, scope)
        if event.type == "BOOKMARK":
            return self._at_bookmark(cluster, event.object)
        if event.type != "ERROR":
            raise BadAnswer(f"a watch has no events of type {event.type[:40]!r}")
        self.ended = True
        return b'{"type":"ERROR","object":%s}\n' % bytes(event.object)

    def _change(self, cluster: str, event: WatchEvent, scope: SelectorFilter) -> bytes:
        self._reached(cluster, version_of(event.object))
        if not scope.in_scope(event.object):
            return b""
        return self._forms.event(event.type, marked(event.object, cluster, self._text()))

    def _at_bookmark(self, cluster: str, raw: Raw) -> bytes:
        self._reached(cluster, version_of(raw))
        try:
            found = _bookmark.decode(raw)
        except UNREADABLE as error:
            raise BadAnswer(f"it is not a bookmark: {error}") from error
        annotations = (found.metadata.annotations if found.metadata is not None else None) or {}
        complete = annotations.get(_INITIAL_END) == "true"
        if complete:
            self._initial.discard(cluster)
        if not self._bookmarks:
            return b""
        if self._initial:
            # Clients take it for the end of everything; others still send what they have.
            return b""
        kept = {_INITIAL_END: "true"} if complete else {}
        return self._forms.bookmark(found.kind, found.api_version, self._text(), kept)

    def _reached(self, cluster: str, version: str) -> None:
        if version:
            self._versions[cluster] = version

    def _text(self) -> str:
        return VersionMap(self._versions).text()
