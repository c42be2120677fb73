"""String formats of custom resource schemas: which are known, and whether a text has one of them."""

import datetime
import ipaddress
import re
import unicodedata
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

from services._rules.kubernetes.validation import name_formats as names

_ATOM: Final = r"[^\s()<>\[\]:;@\\,.\"]+"
_EMAIL: Final = re.compile(rf"(?:[^<>@]*<)?(?:{_ATOM}(?:\.{_ATOM})*|\"[^\"]*\")@{_ATOM}(?:\.{_ATOM})*>?")
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}")
_DATE_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\d)[Tt](\d\d):(\d\d):(\d\d)(.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_DURATION: Final = re.compile(r"[+-]?(0|((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))+)", re.ASCII)
_DURATION_PART: Final = re.compile(r"\d+\s*([A-Za-zµ]+)", re.ASCII)
_SHORT_UNITS: Final = frozenset({"ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"})
_LONG_UNITS: Final = ("nano", "micro", "milli", "sec", "min", "hour", "day", "week")
_MAC: Final = re.compile(
    r"[0-9a-fA-F]{2}([:-])(?:[0-9a-fA-F]{2}\1){4}(?:(?:[0-9a-fA-F]{2}\1){2}|(?:[0-9a-fA-F]{2}\1){14})?[0-9a-fA-F]{2}"
    r"|(?:[0-9a-fA-F]{4}\.){2}(?:[0-9a-fA-F]{4}\.|(?:[0-9a-fA-F]{4}\.){7})?[0-9a-fA-F]{4}"
)
_BASE64: Final = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})")
_HEX_COLOR: Final = re.compile(r"#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})")
_RGB_COLOR: Final = re.compile(r"rgb\(\s*(0|[1-9]\d{0,2})\s*,\s*(0|[1-9]\d{0,2})\s*,\s*(0|[1-9]\d{0,2})\s*\)")
_SSN: Final = re.compile(r"\d{3}[- ]?\d{2}[- ]?\d{4}")
_SSN_LENGTH: Final = 11  # with both separators
_CARD: Final = re.compile(
    r"4\d{12}(\d{3})?|5[1-5]\d{14}|(222[1-9]|22[3-9]\d|2[3-6]\d\d|27[01]\d|2720)\d{12}|6(011|5\d\d)\d{12}"
    r"|3[47]\d{13}|3(0[0-5]|[68]\d)\d{11}|(2131|1800|35\d{3})\d{11}|6[27]\d{14}",
    re.ASCII,
)
_OBJECT_ID: Final = re.compile(r"[0-9a-fA-F]{24}")


def checker(name: str) -> Callable[[str], bool] | None:
    """Return the check of a format, or None for a format that is not known (and therefore not enforced)."""
    return _CHECKS.get(name.replace("-", ""))


def _date(text: str) -> bool:
    try:
        datetime.date.fromisoformat(text)
    except ValueError:
        return False
    return len(text) == 10


def _date_time(text: str) -> bool:
    match = _DATE_TIME.fullmatch(text)
    if match is None or not _date(match.group(1)):
        return False
    return int(match.group(2)) < 24 and int(match.group(3)) < 60 and int(match.group(4)) < 60


def _duration(text: str) -> bool:
    if _DURATION.fullmatch(text):
        return True
    units = (unit.lower() for unit in _DURATION_PART.findall(text))
    return any(unit in _SHORT_UNITS or unit.startswith(_LONG_UNITS) for unit in units)


def _ip(mark: str) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            ipaddress.ip_address(text)
        except ValueError:
            return False
        return mark in text and "%" not in text

    return check


def _named(sign: str) -> bool:
    return unicodedata.category(sign)[0] in "LS" or ("0" <= sign <= "9")


def _hostname(text: str) -> bool:
    """One label, or several of which the last has letters only; letters and symbols of any script."""
    *labels, last = text.split(".")
    if len(text.encode()) > 255 or any(len(label.encode()) > 63 for label in (*labels, last)):
        return False
    if not labels:
        return bool(last) and _named(last[0]) and all(map(_named, last[1:].removeprefix("-")))
    return (
        len(last) >= 2
        and all(unicodedata.category(sign)[0] == "L" for sign in last)
        and all(label and _named(label[0]) and _named(label[-1]) for label in labels)
        and all(sign == "-" or _named(sign) for label in labels for sign in label)
    )


def _cidr(text: str) -> bool:
    try:
        ipaddress.ip_interface(text)
    except ValueError:
        return False
    return "/" in text


def _uri(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    if any(sign < " " or sign == "\x7f" for sign in text):
        return False
    return text.startswith("/") or (bool(parts.scheme) and " " not in parts.netloc and text[-1:] != ":")


def _uuid(version: str = "") -> Callable[[str], bool]:
    def check(text: str) -> bool:
        if _UUID.fullmatch(text) is None:
            return False
        digits = text.replace("-", "").lower()
        return not version or (digits[12] == version and (version == "3" or digits[16] in "89ab"))

    return check


def _rgb(text: str) -> bool:
    match = _RGB_COLOR.fullmatch(text)
    return match is not None and all(int(part) < 256 for part in match.groups())


def _isbn(length: int) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        digits = re.sub(r"[\s-]", "", text)
        if len(digits) != length or not re.fullmatch(r"\d{9}[\dX]|\d{13}", digits):
            return False
        if length == 10:
            return sum((10 - at) * (10 if digit == "X" else int(digit)) for at, digit in enumerate(digits)) % 11 == 0
        return sum((3 if at % 2 else 1) * int(digit) for at, digit in enumerate(digits)) % 10 == 0

    return check


def _card(text: str) -> bool:
    digits = re.sub(r"[\s-]", "", text)
    if not _CARD.fullmatch(digits):
        return False
    doubled = (int(digit) * (1 + at % 2) for at, digit in enumerate(reversed(digits)))
    return sum(value - 9 if value > 9 else value for value in doubled) % 10 == 0


def _full(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda text: pattern.fullmatch(text) is not None


_CHECKS: Final[dict[str, Callable[[str], bool]]] = {
    "bsonobjectid": _full(_OBJECT_ID),
    "byte": _full(_BASE64),
    "cidr": _cidr,
    "creditcard": _card,
    "date": _date,
    "datetime": _date_time,
    "duration": _duration,
    "email": _full(_EMAIL),
    "hexcolor": _full(_HEX_COLOR),
    "hostname": _hostname,
    "ipv4": _ip("."),
    "ipv6": _ip(":"),
    "isbn": lambda text: _isbn(10)(text) or _isbn(13)(text),
    "isbn10": _isbn(10),
    "isbn13": _isbn(13),
    "k8slongname": lambda text: not names.subdomain(text),
    "k8sshortname": lambda text: not names.label(text),
    "mac": _full(_MAC),
    "password": lambda _: True,
    "rgbcolor": _rgb,
    "ssn": lambda text: len(text) == _SSN_LENGTH and _full(_SSN)(text),
    "uri": _uri,
    "uuid": _uuid(),
    "uuid3": _uuid("3"),
    "uuid4": _uuid("4"),
    "uuid5": _uuid("5"),
}
