"""Reads the first document of a YAML text, event by event, into JSON values.

A text comes from users and is read in a service that all of them share: nothing here recurses, and how deep a document
is nested and how much its aliases stand for is bounded.
"""

import math
from base64 import b64decode
from typing import Any, Final

import yaml

from services._rules.kubernetes.document_bounds import MOST_VALUES
from services._rules.kubernetes.yaml_scalars import Scalar, is_moment, key_text, resolve, whole_of

DEEPEST: Final = 100
MOST_BY_ALIASES: Final = 100_000
"""Values that all aliases of a document may stand for together."""

_STANDARD: Final = "tag:yaml.org,2002:"
_TYPES: Final[dict[str, type | tuple[type, ...]]] = {
    "bool": bool,
    "int": int,
    "float": (int, float),
    "null": type(None),
    "timestamp": str,
}
_NO_KEY: Final = object()
_MERGE: Final = object()


class YamlReadingError(ValueError):
    """A text that is no YAML with a JSON form; the message is the reason and the position."""


def read(text: str) -> Any:
    """The first document as JSON values, None where there is none. Raises YamlReadingError."""
    try:
        return parse(text)
    except yaml.YAMLError as problem:
        raise YamlReadingError(f"the text is no YAML: {problem}") from None


def parse(text: str, deepest: int = DEEPEST) -> Any:
    """The same; raises YAMLError for a text that is no YAML, YamlReadingError for one without a JSON form."""
    reader = _Reader(deepest)
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.DocumentEndEvent):
            break
        reader.take(event)
    return reader.root


class _Open:
    """A collection that is being read: its value so far, how many values it stands for, the key that waits for one."""

    __slots__ = ("anchor", "key", "size", "value")

    def __init__(self, value: dict[str, Any] | list[Any], anchor: str | None) -> None:
        self.value = value
        self.anchor = anchor
        self.size = 1
        self.key: Any = _NO_KEY


class _Reader:
    def __init__(self, deepest: int) -> None:
        self.root: Any = None
        self._deepest = deepest
        self._open: list[_Open] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._by_aliases = 0
        self._left = MOST_VALUES

    def take(self, event: Any) -> None:
        """Take in one event."""
        self._left -= 1
        if self._left < 0:
            raise YamlReadingError(f"the text is YAML with more than {MOST_VALUES} values")
        if isinstance(event, yaml.ScalarEvent):
            value = _scalar(event)
            if self._wants_key():
                self._key(value, event, merges=event.value == "<<" and _may_merge(event))
            else:
                value = _json_of(value, event)
                self._put(value, 1, event)
            if event.anchor is not None:
                self._anchors[event.anchor] = (value, 1)
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event)
        elif isinstance(event, yaml.CollectionStartEvent):
            if self._wants_key():
                raise _wrong("a key is no text, number or boolean", event)
            if len(self._open) >= self._deepest:
                raise YamlReadingError(f"the text is YAML that is nested deeper than {self._deepest} levels")
            # Tags of collections mean nothing here.
            self._open.append(_Open({} if isinstance(event, yaml.MappingStartEvent) else [], event.anchor))
        elif isinstance(event, yaml.CollectionEndEvent):
            done = self._open.pop()
            if done.anchor is not None:
                self._anchors[done.anchor] = (done.value, done.size)
            self._put(done.value, done.size, event)

    def _wants_key(self) -> bool:
        return bool(self._open) and self._open[-1].key is _NO_KEY and type(self._open[-1].value) is dict

    def _alias(self, event: Any) -> None:
        if any(above.anchor == event.anchor for above in self._open):
            raise YamlReadingError(f"the text is YAML in which *{event.anchor} stands inside of itself")
        if event.anchor not in self._anchors:
            raise _wrong(f"*{event.anchor} stands for nothing that came before", event)
        value, size = self._anchors[event.anchor]
        self._by_aliases += size
        if self._by_aliases > MOST_BY_ALIASES:
            raise YamlReadingError(f"the text is YAML whose aliases stand for more than {MOST_BY_ALIASES} values")
        if self._wants_key():
            self._key(value, event)
        else:
            self._put(value, size, event)

    def _key(self, value: Any, event: Any, *, merges: bool = False) -> None:
        name = None if isinstance(value, dict | list) else key_text(value)
        if name is None:
            raise _wrong("a key is no text, number or boolean", event)
        self._open[-1].key = _MERGE if merges else name

    def _put(self, value: Any, size: int, event: Any) -> None:
        if not self._open:
            self.root = value
            return
        above = self._open[-1]
        above.size += size
        if isinstance(above.value, list):
            above.value.append(value)
            return
        key, above.key = above.key, _NO_KEY
        if key is not _MERGE:
            above.value[key] = value
            return
        # Keys that stand before give way, those behind win; of several mappings the first wins.
        parts = value if isinstance(value, list) else [value]
        if not all(isinstance(part, dict) for part in parts):
            raise _wrong("<< takes a mapping or a list of mappings", event)
        for part in reversed(parts):
            above.value.update(part)


def _may_merge(event: Any) -> bool:
    return bool(event.implicit[0]) if event.tag is None else bool(event.tag == f"{_STANDARD}merge")


def _scalar(event: Any) -> Scalar:
    tag, text = event.tag, str(event.value)
    if tag is None:
        return resolve(text) if event.implicit[0] else text
    name = tag.removeprefix(_STANDARD)
    if name == "binary":
        try:
            return b64decode("".join(text.splitlines()), validate=True).decode(errors="replace")
        except ValueError:
            raise _wrong("!!binary with what is no base64", event) from None
    if tag == name or name not in _TYPES:
        # A text, or a value with a tag of some application, which counts as if the tag were not there.
        return text
    value, expected = resolve(text), _TYPES[name]
    if (
        not isinstance(value, expected)
        or (isinstance(value, bool) and expected is not bool)
        or (name == "timestamp" and not is_moment(text))
    ):
        raise _wrong(f"{text!r} is no {name}", event)
    return value


def _json_of(value: Scalar, event: Any) -> Scalar:
    if not isinstance(value, float):
        return value
    if not math.isfinite(value):
        raise _wrong(f"{event.value} has no JSON form", event)
    whole = whole_of(value)
    return value if whole is None else whole


def _wrong(what: str, event: Any) -> YamlReadingError:
    mark = event.start_mark
    return YamlReadingError(f"the text is no YAML: {what} (line {mark.line + 1}, column {mark.column + 1})")
