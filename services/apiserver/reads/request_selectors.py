"""Label and field selectors of list and watch requests, compiled to a test of decoded objects."""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import msgspec

from schemas.manifest import Manifest
from services._rules.kubernetes.selectors import LabelSelectorError, parse_selector
from services.apiserver.core.status_errors import bad_request
from services.apiserver.kinds.kind_model import Kind
from services.apiserver.reads.field_labels import labels_of
from services.apiserver.store.store_port import Entry

_OPERATORS: Final = ("!=", "==", "=")


class FieldTerm(NamedTuple):
    """One condition of a field selector."""

    name: str
    equal: bool
    value: str


def label_test(text: str) -> Callable[[dict[str, str]], bool] | None:
    """Test of a label set, None when everything matches; raises 400."""
    try:
        selector = parse_selector(text)
    except LabelSelectorError as problem:
        raise bad_request(str(problem)) from None
    return selector.matches if selector.requirements else None


def field_terms(text: str) -> list[FieldTerm]:
    """The conditions of a field selector, sorted; raises 400."""
    return [_term(text, part) for part in sorted(_parts(text)) if part]


def _parts(text: str) -> Iterator[str]:
    """The text cut at commas without a backslash before them."""
    start, escaped = 0, False
    for place, letter in enumerate(text):
        if escaped:
            escaped = False
        elif letter == "\\":
            escaped = True
        elif letter == ",":
            yield text[start:place]
            start = place + 1
    yield text[start:]


def _term(text: str, part: str) -> FieldTerm:
    for place in range(len(part)):
        for operator in _OPERATORS:
            if part.startswith(operator, place):
                value = _unescaped(part[place + len(operator) :])
                return FieldTerm(part[:place], operator != "!=", value)
    raise bad_request(f"invalid selector: '{text}'; can't understand '{part}'")


def _unescaped(value: str) -> str:
    out, escaped = [], False
    for letter in value:
        if escaped:
            if letter not in "\\,=":
                raise bad_request(f"invalid field selector: invalid escape sequence: \\{letter}")
            out.append(letter)
            escaped = False
        elif letter == "\\":
            escaped = True
        elif letter in ",=":
            raise bad_request(f"invalid field selector: unescaped character in value: {ord(letter)}")
        else:
            out.append(letter)
    if escaped:
        raise bad_request("invalid field selector: invalid escape sequence: \\")
    return "".join(out)


def refuse_unreadable(label: str, field: str) -> None:
    """Refuse selectors that are none, whatever the kind; raises 400."""
    label_test(label)
    field_terms(field)


class _Metadata(msgspec.Struct):
    labels: dict[str, str] | None = None


class _Labelled(msgspec.Struct):
    metadata: _Metadata


_labels_of = msgspec.json.Decoder(_Labelled).decode


class Selection:
    """The selectors of one request, ready to test objects of one kind."""

    __slots__ = ("_fields", "_kind", "_labels", "name")

    def __init__(self, kind: Kind, label: str, field: str) -> None:
        self._kind = kind
        self._labels = label_test(label)
        self._fields: list[FieldTerm] = []
        self.name = ""
        """The one name that can match, when a field selector names it."""
        terms = field_terms(field) if field else []
        if terms:
            labels = labels_of(kind)
            for term in terms:
                meant = labels.known.get(term.name)
                if meant is None:
                    raise bad_request(labels.refusal(term.name))
                self._fields.append(term._replace(name=meant))
                if meant == "metadata.name" and term.equal and not self.name:
                    self.name = term.value

    @property
    def everything(self) -> bool:
        """Whether every object matches."""
        return self._labels is None and not self._fields

    def takes(self, entry: Entry) -> bool:
        """Test an entry that is read for this only; of one that is tested by its labels, nothing else is decoded."""
        if self._labels is not None and not self._fields and not self._kind.custom:
            return self._labels(_labels_of(entry.raw).metadata.labels or {})
        return self.matches(self._kind.from_store(entry.look()))

    def matches(self, obj: Manifest) -> bool:
        """Test a decoded object in the kind's version."""
        if self._labels is not None and not self._labels(obj["metadata"].get("labels") or {}):
            return False
        if self._fields:
            values = self._kind.field_selectors(obj)
            return all((values.get(name, "") == value) == equal for name, equal, value in self._fields)
        return True
