"""YAML documents inside a text field: read and written the way Kubernetes tools do, as YAML 1.1 with sorted keys.

Plain scalars are resolved by the rules of the Go library behind those tools, which differ from PyYAML's: `y` and `n`
are booleans, `0o17` is a number, base-60 numbers and dates are texts that are quoted when written.
"""

import math
import re
from collections.abc import Callable
from datetime import date
from typing import Any, Final

import yaml

from services._rules.overrides.embedded_json import EmbeddedTextError

_TRUE: Final = ("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON")
_FALSE: Final = ("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF")
_NULL: Final = ("", "~", "null", "Null", "NULL")
_WORDS: Final = {
    **dict.fromkeys(_TRUE, True),
    **dict.fromkeys(_FALSE, False),
    **dict.fromkeys(_NULL, None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_BASE_60: Final = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?")
_DATE: Final = re.compile(
    r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})"
    r"(?:(?:[Tt]| )[0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}(?:\.[0-9]+)?(?:Z|[-+][0-9]{2}:[0-9]{2})?)?"
)
_PREFIXED: Final = {"0x": 16, "0o": 8, "0b": 2}
_MERGE: Final = "tag:yaml.org,2002:merge"
_TAGS: Final = {bool: "bool", int: "int", float: "float", type(None): "null", str: "str"}


def changed(text: str, change: Callable[[Any], Any]) -> str:
    """The text with a change applied to the document in it. Raises EmbeddedTextError and what the change raises."""
    document = load(text)
    if not isinstance(document, dict | list):
        raise EmbeddedTextError("the text is YAML, but neither a mapping nor a list")
    return dump(change(document))


def load(text: str) -> Any:
    """The first document of a YAML text as JSON values. Raises EmbeddedTextError."""
    loader = _Loader(text)
    try:
        return loader.get_data() if loader.check_data() else None  # type: ignore[no-untyped-call]
    except yaml.YAMLError as problem:
        raise EmbeddedTextError(f"the text is no YAML: {problem}") from None
    finally:
        loader.dispose()


def dump(document: Any) -> str:
    """A JSON value as YAML in block style, keys sorted."""
    return str(yaml.dump(document, Dumper=_Dumper, default_flow_style=False, allow_unicode=True, sort_keys=False))


def resolve(text: str) -> bool | int | float | str | None:
    """What a plain scalar stands for."""
    if text in _WORDS:
        return _WORDS[text]
    if not text[:1].isascii() or text[0] not in "+-.0123456789":
        return text
    return _number(text)


def _number(text: str) -> int | float | str:
    if _DATE.fullmatch(text):
        return text
    plain = text.replace("_", "")
    sign, digits = (plain[0], plain[1:]) if plain[:1] in ("+", "-") else ("", plain)
    base = _PREFIXED.get(digits[:2].lower(), 8 if digits[:1] == "0" and len(digits) > 1 else 10)
    if digits.isascii() and digits.isalnum():
        try:
            # int() takes no prefixed text with an inner sign, and Go none of more than 64 bits.
            number = int(sign + (digits[2:] if base in (16, 2) or digits[:2].lower() == "0o" else digits), base)
        except ValueError:
            pass
        else:
            if -(2**63) <= number < 2**64:
                return number
    return float(plain) if _FLOAT.fullmatch(plain) else text


class _Loader(yaml.CSafeLoader):
    """Reads scalars by `resolve`, keys as texts, and ignores application tags."""

    def resolve(self, kind: Any, value: Any, implicit: Any) -> str:
        if kind is not yaml.ScalarNode or not implicit[0]:
            return str(super().resolve(kind, value, implicit))  # type: ignore[no-untyped-call]
        if value == "<<":
            return _MERGE
        return f"tag:yaml.org,2002:{_TAGS[type(resolve(value))]}"


def _construct_scalar(loader: Any, node: Any) -> Any:
    value = resolve(loader.construct_scalar(node))
    if isinstance(value, float):
        if not math.isfinite(value):
            raise yaml.constructor.ConstructorError(None, None, f"{node.value} has no JSON form", node.start_mark)
        return int(value) if value.is_integer() and abs(value) < 1e21 else value
    return value


def _construct_mapping(loader: Any, node: Any) -> Any:
    result: dict[str, Any] = {}
    yield result
    loader.flatten_mapping(node)
    for key_node, value_node in node.value:
        result[_key(loader, key_node)] = loader.construct_object(value_node, deep=True)


def _key(loader: Any, node: Any) -> str:
    key = loader.construct_object(node, deep=True)
    match key:
        case bool():
            return "true" if key else "false"
        case str() | int() | float():
            return str(key)
        case _:
            raise yaml.constructor.ConstructorError(None, None, "a key is not a scalar", node.start_mark)


def _construct_tagged(loader: Any, _: str, node: Any) -> Any:
    """A value with a tag of some application counts as if the tag were not there."""
    if isinstance(node, yaml.ScalarNode):
        return str(node.value)
    if isinstance(node, yaml.SequenceNode):
        return loader.construct_sequence(node, deep=True)
    return {_key(loader, key): loader.construct_object(value, deep=True) for key, value in node.value}


for _name in ("bool", "int", "float", "null"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_name}", _construct_scalar)
_Loader.add_constructor("tag:yaml.org,2002:map", _construct_mapping)
_Loader.add_constructor("tag:yaml.org,2002:timestamp", lambda _, node: str(node.value))
_Loader.add_multi_constructor("!", _construct_tagged)


class _Dumper(yaml.CSafeDumper):
    """Writes texts plain where that reads back as the same text, else in double quotes, or as a block if multi-line."""

    def resolve(self, kind: Any, value: Any, implicit: Any) -> str:
        if kind is yaml.ScalarNode and implicit[0]:
            return f"tag:yaml.org,2002:{_TAGS[type(_written(value))]}"
        return str(super().resolve(kind, value, implicit))  # type: ignore[no-untyped-call]

    def ignore_aliases(self, _: Any) -> bool:
        return True


def _written(text: str) -> bool | int | float | str | None:
    return None if text == "<<" else resolve(text)


def _represent_text(dumper: Any, text: str) -> Any:
    if "\n" in text:
        style = "|"
    elif text == "<<" or not isinstance(resolve(text), str) or _BASE_60.fullmatch(text) or _is_date(text):
        style = '"'
    else:
        style = None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _is_date(text: str) -> bool:
    found = _DATE.fullmatch(text)
    if found is None:
        return False
    try:
        date(int(found[1]), int(found[2]), int(found[3]))
    except ValueError:
        return False
    return True


def _represent_float(dumper: Any, value: float) -> Any:
    if value.is_integer() and abs(value) < 1e21:
        return dumper.represent_int(int(value))
    return dumper.represent_scalar("tag:yaml.org,2002:float", _float_text(value))


def _float_text(value: float) -> str:
    """Shortest form; with an exponent below 1e-4 and from 1e6."""
    shortest = repr(value)
    if 1e-4 <= abs(value) < 1e6:
        return shortest
    power = int(format(value, ".17e").partition("e")[2])
    digits = shortest.partition("e")[0].replace("-", "").replace(".", "").strip("0")
    body = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
    return f"{'-' if value < 0 else ''}{body}e{'-' if power < 0 else '+'}{abs(power):02d}"


def _represent_mapping(dumper: Any, mapping: dict[str, Any]) -> Any:
    items = [(key, mapping[key]) for key in sorted(mapping, key=_sort_key)]
    return dumper.represent_mapping("tag:yaml.org,2002:map", items, flow_style=False if items else None)


def _sort_key(key: str) -> list[tuple[int, int, str]]:
    """Natural order: other characters, then numbers by value, then letters."""
    parts: list[tuple[int, int, str]] = []
    for digits, letter, other in re.findall(r"([0-9]+)|([^\W\d_])|(.)", key, re.DOTALL):
        if digits:
            parts.append((0, int(digits), digits))
        else:
            parts.append((1 if letter else 0, ord(letter or other), ""))
    return parts


_Dumper.add_representer(str, _represent_text)
_Dumper.add_representer(float, _represent_float)
_Dumper.add_representer(dict, _represent_mapping)
