"""Tests objects that are at hand by the selectors of a request: all labels, of fields only name and namespace."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw

from services._kit.kube.api import UNREADABLE, BadAnswer
from services.apiserver.reads.request_selectors import FieldTerm, field_terms, label_test

_EVALUATED: Final = frozenset({"metadata.name", "metadata.namespace"})


class _Metadata(msgspec.Struct):
    name: str = ""
    namespace: str | None = None
    labels: dict[str, str] | None = None


class _Object(msgspec.Struct):
    metadata: _Metadata


_object: Final = msgspec.json.Decoder(_Object)


class SelectorFilter:
    """The selectors of one request, and the namespaces that count; raises ApiError 400 for selectors that are none."""

    def __init__(self, label: str, field: str, namespaces: frozenset[str] = frozenset()) -> None:
        self.labels = label_test(label)
        """The test of a set of labels; None: any passes."""
        self._fields = field_terms(field)
        self._namespaces = namespaces

    @property
    def evaluable(self) -> bool:
        """Whether all of it can be tested here; otherwise the member has to."""
        return all(term.name in _EVALUATED for term in self._fields)

    def within(self, namespaces: frozenset[str]) -> SelectorFilter:
        """The same for objects of some namespaces only; none means all."""
        found = SelectorFilter("", "", namespaces)
        found.labels, found._fields = self.labels, self._fields
        return found

    def takes(self, raw: bytes | Raw) -> bool:
        """Test an object by everything; raises BadAnswer."""
        if self.labels is None and not self._fields:
            return self.in_scope(raw)
        metadata = self._metadata(raw)
        return (
            self._counts(metadata)
            and (self.labels is None or self.labels(metadata.labels or {}))
            and all(self._matches(term, metadata) for term in self._fields)
        )

    def takes_named(self, namespace: str, name: str, labels: dict[str, str]) -> bool:
        """Test an object by its selectors, of which all can be tested here."""
        if self.labels is not None and not self.labels(labels):
            return False
        metadata = _Metadata(name, namespace)
        return all(self._matches(term, metadata) for term in self._fields)

    def in_scope(self, raw: bytes | Raw) -> bool:
        """Test an object by its namespace only: its member has tested the rest. Raises BadAnswer."""
        return not self._namespaces or self._counts(self._metadata(raw))

    def _counts(self, metadata: _Metadata) -> bool:
        # What has no namespace is in the scope of all registries.
        return not self._namespaces or not metadata.namespace or metadata.namespace in self._namespaces

    @staticmethod
    def _metadata(raw: bytes | Raw) -> _Metadata:
        try:
            return _object.decode(raw).metadata
        except UNREADABLE as error:
            raise BadAnswer(f"it is not an object: {error}") from error

    @staticmethod
    def _matches(term: FieldTerm, metadata: _Metadata) -> bool:
        found = metadata.name if term.name == "metadata.name" else metadata.namespace or ""
        return (found == term.value) == term.equal
