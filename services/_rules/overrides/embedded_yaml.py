"""YAML documents inside a text field: read and written the way Kubernetes tools do, as YAML 1.1 with sorted keys.

A document comes from users and is changed in a service that all of them share: how deep it is nested and how much its
aliases may stand for is bounded before anything is made of it.
"""

import math
from base64 import b64decode
from collections.abc import Callable
from functools import cmp_to_key
from typing import Any, Final

import yaml

from services._rules.overrides.embedded_json import EmbeddedTextError
from services._rules.overrides.yaml_scalars import (
    BEYOND_WHOLE,
    LEAST_WHOLE,
    Scalar,
    float_text,
    is_moment,
    key_text,
    needs_quotes,
    resolve,
    whole_of,
)

DEEPEST: Final = 100
MOST_BY_ALIASES: Final = 100_000
"""Values that all aliases of a document may stand for together."""

_PLAIN: Final = "plain"
_QUOTED: Final = "quoted"
_STANDARD: Final = "tag:yaml.org,2002:"
_TYPES: Final[dict[str, type | tuple[type, ...]]] = {
    "bool": bool,
    "int": int,
    "float": (int, float),
    "null": type(None),
    "timestamp": str,
}
_END_MARK: Final = "\n...\n"


def changed(text: str, change: Callable[[Any], Any]) -> str:
    """The text with a change applied to the document in it. Raises EmbeddedTextError and what the change raises."""
    document = load(text)
    if not isinstance(document, dict | list):
        raise EmbeddedTextError("the text is YAML, but neither a mapping nor a list")
    return dump(change(document))


def load(text: str) -> Any:
    """The first document of a YAML text as JSON values. Raises EmbeddedTextError."""
    try:
        _check_bounds(text)
        loader = _Loader(text)
        try:
            return _value(loader.get_node()) if loader.check_node() else None
        finally:
            loader.dispose()
    except yaml.YAMLError as problem:
        raise EmbeddedTextError(f"the text is no YAML: {problem}") from None


def dump(document: Any) -> str:
    """A JSON value as YAML in block style, keys sorted. Raises EmbeddedTextError where it is nested too deeply."""
    try:
        text = str(yaml.dump(document, Dumper=_Dumper, default_flow_style=False, allow_unicode=True, sort_keys=False))
    except RecursionError:
        raise EmbeddedTextError("what is to be written is nested too deeply") from None
    return text.removesuffix("...\n") if text.endswith(_END_MARK) else text


def _check_bounds(text: str) -> None:
    """Raises EmbeddedTextError where a document is nested too deeply or grows too much by its aliases."""
    # Every level begins with one of these, so that most documents need no closer look.
    if "*" not in text and sum(map(text.count, "[{-:?")) <= DEEPEST:
        return
    loader = _Loader(text)
    try:
        _Bounds().check(loader)
    finally:
        loader.dispose()


class _Bounds:
    """Walks the events of the first document without recursion; `_open` has anchor and size of what is not closed."""

    def __init__(self) -> None:
        self._open: list[tuple[str | None, int]] = []
        self._sizes: dict[str, int] = {}
        self._by_aliases = 0

    def check(self, loader: Any) -> None:
        while loader.check_event():
            event = loader.get_event()
            if isinstance(event, yaml.DocumentEndEvent):
                return
            if isinstance(event, yaml.CollectionStartEvent):
                if len(self._open) >= DEEPEST:
                    raise EmbeddedTextError(f"the text is YAML that is nested deeper than {DEEPEST} levels")
                self._open.append((event.anchor, 1))
            elif isinstance(event, yaml.CollectionEndEvent):
                self._close(*self._open.pop())
            elif isinstance(event, yaml.ScalarEvent):
                self._close(event.anchor, 1)
            elif isinstance(event, yaml.AliasEvent):
                self._alias(str(event.anchor))

    def _close(self, anchor: str | None, size: int) -> None:
        if anchor is not None:
            self._sizes[anchor] = size
        if self._open:
            above, total = self._open[-1]
            self._open[-1] = (above, total + size)

    def _alias(self, anchor: str) -> None:
        if any(above == anchor for above, _ in self._open):
            raise EmbeddedTextError(f"the text is YAML in which *{anchor} stands inside of itself")
        size = self._sizes.get(anchor, 1)
        self._by_aliases += size
        if self._by_aliases > MOST_BY_ALIASES:
            raise EmbeddedTextError(f"the text is YAML whose aliases stand for more than {MOST_BY_ALIASES} values")
        self._close(None, size)


class _Loader(yaml.CSafeLoader):
    """Reads texts into nodes; the tags of those without one say whether they were quoted."""

    def resolve(self, kind: Any, _: Any, implicit: Any) -> str:
        return "" if kind is not yaml.ScalarNode else _PLAIN if implicit[0] else _QUOTED


def _value(node: Any) -> Any:
    if isinstance(node, yaml.ScalarNode):
        value = _scalar(node)
        if isinstance(value, float):
            if not math.isfinite(value):
                raise _wrong(f"{node.value} has no JSON form", node)
            whole = whole_of(value)
            return value if whole is None else whole
        return value
    # Tags of collections mean nothing here.
    if isinstance(node, yaml.SequenceNode):
        return [_value(entry) for entry in node.value]
    return _mapping(node)


def _scalar(node: Any) -> Scalar:
    tag, text = node.tag, str(node.value)
    if tag == _PLAIN:
        return resolve(text)
    name = tag.removeprefix(_STANDARD)
    if name == "binary":
        try:
            return b64decode("".join(text.splitlines()), validate=True).decode(errors="replace")
        except ValueError:
            raise _wrong("!!binary with what is no base64", node) from None
    # Texts, and values with a tag of some application, which count as if the tag were not there.
    if tag in (_QUOTED, name) or name not in _TYPES:
        return text
    value, expected = resolve(text), _TYPES[name]
    if (
        not isinstance(value, expected)
        or (isinstance(value, bool) and expected is not bool)
        or (name == "timestamp" and not is_moment(text))
    ):
        raise _wrong(f"{text!r} is no {name}", node)
    return value


def _mapping(node: Any) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in node.value:
        if isinstance(key, yaml.ScalarNode) and key.value == "<<" and key.tag in (_PLAIN, f"{_STANDARD}merge"):
            _merge(value, result)
            continue
        name = key_text(_scalar(key)) if isinstance(key, yaml.ScalarNode) else None
        if name is None:
            raise _wrong("a key is no text, number or boolean", key)
        result[name] = _value(value)
    return result


def _merge(node: Any, into: dict[str, Any]) -> None:
    """Takes members over where they stand: keys before give way, keys behind win. The first of a list wins."""
    parts = node.value if isinstance(node, yaml.SequenceNode) else [node]
    if not all(isinstance(part, yaml.MappingNode) for part in parts):
        raise _wrong("<< takes a mapping or a list of mappings", node)
    for part in reversed(parts):
        into.update(_mapping(part))


def _wrong(what: str, node: Any) -> yaml.YAMLError:
    return yaml.constructor.ConstructorError(None, None, what, node.start_mark)


class _Dumper(yaml.CSafeDumper):
    """Writes texts plain where that reads back as the same text, else in double quotes, or as a block if multi-line."""

    def resolve(self, kind: Any, value: Any, implicit: Any) -> str:
        if kind is yaml.ScalarNode:
            # The tag that the value comes with: nothing has to be said about it.
            return _STANDARD + (_NAMES[type(resolve(value))] if implicit[0] else "str")
        return str(super().resolve(kind, value, implicit))  # type: ignore[no-untyped-call]

    def ignore_aliases(self, _: Any) -> bool:
        return True


_NAMES: Final = {bool: "bool", int: "int", float: "float", type(None): "null", str: "str"}


def _represent_text(dumper: Any, text: str) -> Any:
    style = "|" if "\n" in text else '"' if needs_quotes(text) else None
    return dumper.represent_scalar(f"{_STANDARD}str", text, style=style)


def _represent_number(dumper: Any, value: float) -> Any:
    whole = whole_of(value) if isinstance(value, float) else value
    if whole is not None and LEAST_WHOLE <= whole < BEYOND_WHOLE:
        return dumper.represent_scalar(f"{_STANDARD}int", str(whole))
    try:
        text = float_text(float(value))
    except OverflowError:
        raise EmbeddedTextError("a number is beyond all that YAML readers understand") from None
    return dumper.represent_scalar(f"{_STANDARD}float", text)


def _represent_mapping(dumper: Any, mapping: dict[str, Any]) -> Any:
    items = [(key, mapping[key]) for key in sorted(mapping, key=_natural)]
    return dumper.represent_mapping(f"{_STANDARD}map", items, flow_style=False if items else None)


def _compare(one: str, other: str) -> int:
    """Natural order: other characters, then numbers by value, then letters."""
    for position, (left, right) in enumerate(zip(one, other, strict=False)):
        if left == right:
            continue
        if left.isalpha() or right.isalpha():
            if left.isalpha() and right.isalpha():
                return -1 if left < right else 1
            return -1 if right.isalpha() else 1
        return _compare_numbers(one, other, position)
    return len(one) - len(other)


def _compare_numbers(one: str, other: str, position: int) -> int:
    start = 0
    if "0" in (one[position], other[position]):
        # Within a number a zero counts, at its beginning it does not.
        before = position - 1
        while before >= 0 and one[before].isdecimal():
            if one[before] != "0":
                start = 1
                break
            before -= 1
    (left, left_end), (right, right_end) = (_number_at(text, position, start) for text in (one, other))
    if left != right:
        return -1 if left < right else 1
    if left_end != right_end:
        return left_end - right_end
    return -1 if one[position] < other[position] else 1


def _number_at(text: str, position: int, start: int) -> tuple[int, int]:
    number, end = start, position
    while end < len(text) and text[end].isdecimal():
        # Long ones overflow there, and the order of keys with it.
        number = (number * 10 + ord(text[end]) - ord("0") + 2**63) % 2**64 - 2**63
        end += 1
    return number, end


_natural: Final = cmp_to_key(_compare)

_Dumper.add_representer(str, _represent_text)
_Dumper.add_representer(int, _represent_number)
_Dumper.add_representer(float, _represent_number)
_Dumper.add_representer(dict, _represent_mapping)
