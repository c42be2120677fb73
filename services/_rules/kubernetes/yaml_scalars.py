"""What the scalars of embedded YAML stand for, and the texts of numbers and keys, by the rules of Kubernetes' tools.

Those tools resolve plain scalars otherwise than PyYAML: `y` and `n` are booleans, `0o17` is a number, base-60 numbers
and dates are texts that are quoted when written.
"""

import math
import re
import struct
from datetime import date
from decimal import Decimal
from typing import Final, TypeAlias

Scalar: TypeAlias = bool | int | float | str | None

LEAST_WHOLE: Final = -(2**63)
BEYOND_WHOLE: Final = 2**64
"""Whole numbers from LEAST_WHOLE up to, but not including, BEYOND_WHOLE are kept as they are; others become floats."""

_TRUE: Final = ("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON")
_FALSE: Final = ("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF")
_NULL: Final = ("", "~", "null", "Null", "NULL")
_WORDS: Final[dict[str, Scalar]] = {
    **dict.fromkeys(_TRUE, True),
    **dict.fromkeys(_FALSE, False),
    **dict.fromkeys(_NULL, None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_FRACTION: Final = re.compile(r"\.[0-9]+(?:_[0-9]+)*(?:[eE][-+]?[0-9]+(?:_[0-9]+)*)?")
_WHOLE: Final = re.compile(r"(?P<sign>[-+]?)(?:(?P<prefix>0[xXoObB])(?P<digits>[0-9a-fA-F]+)|(?P<plain>[0-9]+))")
_BINARY: Final = re.compile(r"(-?)0b([-+]?)([01]+)")
_BASES: Final = {"0x": 16, "0o": 8, "0b": 2}
_BASE_60: Final = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?")
_MOMENT: Final = re.compile(
    r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})"
    r"(?:(?P<between>[Tt ])([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?:[.,][0-9]+)?(?P<zone>Z|[-+][0-9]{2}:[0-9]{2})?)?"
)
# Of the texts that int() takes, far longer ones than any number of 64 bits.
_LONGEST_WHOLE: Final = 80


def resolve(text: str) -> Scalar:
    """What a plain scalar stands for."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] == ".":
        return _float(text.replace("_", ""), text) if _FRACTION.fullmatch(text) else text
    if text[0] not in "+-0123456789" or is_moment(text):
        return text
    plain = text.replace("_", "")
    whole = _whole(plain)
    return _float(plain, text) if whole is None else whole


def _whole(text: str) -> int | None:
    found = _WHOLE.fullmatch(text)
    if found is not None and len(text) <= _LONGEST_WHOLE:
        if found["prefix"]:
            base, digits = _BASES[found["prefix"].lower()], found["digits"]
        else:
            digits = found["plain"]
            base = 8 if digits[0] == "0" else 10
        return _in_range(found["sign"] + digits, base)
    # Such a number may have its sign inside, too.
    inner = _BINARY.fullmatch(text)
    if inner is not None and not (inner[1] and inner[2]) and len(text) <= _LONGEST_WHOLE:
        return _in_range(inner[1] + inner[2] + inner[3], 2)
    return None


def _in_range(digits: str, base: int) -> int | None:
    try:
        number = int(digits, base)
    except ValueError:
        return None
    return number if LEAST_WHOLE <= number < BEYOND_WHOLE else None


def _float(digits: str, text: str) -> float | str:
    """The number, or the text where it is none or beyond all of them."""
    if _FLOAT.fullmatch(digits) is None:
        return text
    number = float(digits)
    return text if math.isinf(number) else number


def whole_of(value: float) -> int | None:
    """The whole number that the shortest text of a float is, None where it is none or beyond the range."""
    if not value.is_integer():
        return None
    whole = int(Decimal(repr(value)))
    return whole if LEAST_WHOLE <= whole < BEYOND_WHOLE else None


def needs_quotes(text: str) -> bool:
    """Whether a text would be read as something else than this text if it were written plain."""
    return text == "<<" or not isinstance(resolve(text), str) or is_moment(text) or _BASE_60.fullmatch(text) is not None


def is_moment(text: str) -> bool:
    """Whether a text is a date or a moment in one of the spellings that are understood."""
    found = _MOMENT.fullmatch(text)
    if found is None:
        return False
    between, zone = found["between"], found["zone"]
    if between is not None:
        if (between == " ") != (zone is None):
            return False
        if int(found[5]) > 23 or int(found[6]) > 59 or int(found[7]) > 59:
            return False
    try:
        date(int(found[1]), int(found[2]), int(found[3]))
    except ValueError:
        # There is a year 0 elsewhere.
        return found[1] == "0000" and is_moment(f"2000{text[4:]}")
    return True


def float_text(value: float) -> str:
    """Shortest form; with an exponent below 1e-4 and from 1e6."""
    return _shortest(repr(value))


def key_text(value: Scalar) -> str | None:
    """The name that a key becomes, None for what cannot be one."""
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value) if value < 2**63 else None
        case float():
            return _float_key(value)
        case _:
            return value


def _float_key(value: float) -> str:
    """Keys have the precision of 32 bits."""
    if math.isnan(value):
        return ".nan"
    try:
        narrow = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        narrow = math.copysign(math.inf, value)
    if math.isinf(narrow):
        return ".inf" if narrow > 0 else "-.inf"
    for digits in range(1, 9):
        text = f"{narrow:.{digits}g}"
        if struct.unpack("f", struct.pack("f", float(text)))[0] == narrow:
            return _shortest(text)
    return _shortest(f"{narrow:.9g}")


def _shortest(text: str) -> str:
    sign, digits, _ = (number := Decimal(text)).as_tuple()
    power = number.adjusted()
    minus = "-" if sign else ""
    if not any(digits):
        return f"{minus}0"
    if -4 <= power < 6:
        plain = format(abs(number), "f")
        return minus + (plain.rstrip("0").rstrip(".") if "." in plain else plain)
    written = "".join(map(str, digits)).rstrip("0")
    body = written[0] + ("." + written[1:] if len(written) > 1 else "")
    return f"{minus}{body}e{'-' if power < 0 else '+'}{abs(power):02d}"
