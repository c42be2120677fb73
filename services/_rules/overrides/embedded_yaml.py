"""YAML documents inside a text field: read and written the way Kubernetes tools do, as YAML 1.1 with sorted keys."""

from collections.abc import Callable
from functools import cmp_to_key
from typing import Any, Final

import yaml

from services._rules.kubernetes.yaml_reading import YamlReadingError, read
from services._rules.kubernetes.yaml_scalars import (
    BEYOND_WHOLE,
    LEAST_WHOLE,
    float_text,
    needs_quotes,
    resolve,
    whole_of,
)
from services._rules.overrides.embedded_json import EmbeddedTextError

_STANDARD: Final = "tag:yaml.org,2002:"
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
        return read(text)
    except YamlReadingError as problem:
        raise EmbeddedTextError(str(problem)) from None


def dump(document: Any) -> str:
    """A JSON value as YAML in block style, keys sorted. Raises EmbeddedTextError where it is nested too deeply."""
    try:
        text = str(yaml.dump(document, Dumper=_Dumper, default_flow_style=False, allow_unicode=True, sort_keys=False))
    except RecursionError:
        raise EmbeddedTextError("what is to be written is nested too deeply") from None
    return text.removesuffix("...\n") if text.endswith(_END_MARK) else text


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
