"""What is wrong with base64 text and with times, in the words of the recorded server's decoder."""

from __future__ import annotations

import re
from typing import Any

_ALPHABET = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
# Element of the layout -> what it matches.
_TIME = (
    ("2006", "[0-9]{4}"),
    ("-", "-"),
    ("01", "0[1-9]|1[0-2]"),
    ("-", "-"),
    ("02", "0[1-9]|[12][0-9]|3[01]"),
    ("T", "T"),
    ("15", "[01][0-9]|2[0-3]"),
    (":", ":"),
    ("04", "[0-5][0-9]"),
    (":", ":"),
    ("05", "[0-5][0-9]"),
)
_ZONE = ("Z07:00", r"Z|[+-][0-9]{2}:[0-9]{2}")
_FRACTION = (".000000", r"\.[0-9]{6}")


def base64_problem(text: str) -> str:
    """Return what keeps the text from being padded base64; empty when nothing does."""
    filled = 0
    for index, char in enumerate(text):
        if char in "\r\n":
            continue
        if char == "=":
            rest = text[index:].replace("\r", "").replace("\n", "")
            if filled < 2 or rest not in ("=" * (4 - filled),):
                return f"illegal base64 data at input byte {index if filled < 2 else len(text)}"
            return ""
        if char not in _ALPHABET:
            return f"illegal base64 data at input byte {index}"
        filled = (filled + 1) % 4
    return f"illegal base64 data at input byte {len(text) - filled}" if filled else ""


def time_problem(value: Any, *, micro: bool) -> str:
    """Return what keeps the value from being an RFC 3339 time; `micro` demands six digits of a second."""
    if not isinstance(value, str):
        kinds = {bool: "bool", list: "array", dict: "object"}
        return f"json: cannot unmarshal {kinds.get(type(value), 'number')} into Go value of type string"
    elements = (*_TIME, _FRACTION, _ZONE) if micro else (*_TIME, _ZONE)
    layout = "".join(name for name, _ in elements)
    rest = value
    for name, pattern in elements:
        match = re.match(pattern, rest)
        if match is None and name == "Z07:00" and (fraction := re.match(r"\.[0-9]+", rest)):
            # A fraction of a second is taken although the layout has none.
            rest = rest[fraction.end() :]
            match = re.match(pattern, rest)
        if match is None:
            return f'parsing time "{value}" as "{layout}": cannot parse "{rest}" as "{name}"'
        rest = rest[match.end() :]
    return f'parsing time "{value}": extra text: {rest}' if rest else ""
