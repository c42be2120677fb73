"""String formats of custom resource schemas: which are known, and whether a text has one of them."""

import base64
import binascii
import datetime
import ipaddress
import re
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

_HOSTNAME: Final = re.compile(
    r"(?=.{1,255}\Z)([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*\.?"
)
_EMAIL: Final = re.compile(r"[^@\s]+@[^@\s]+")
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}")
_DATE_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(\.\d+)?([Zz]|[+-]\d\d:?\d\d)")
_DURATION: Final = re.compile(r"[+-]?(0|(\d+(\.\d*)?|\.\d+)\s*[a-zA-Zµμ]+(\s*(\d+(\.\d*)?|\.\d+)\s*[a-zA-Zµμ]+)*)")
_MAC: Final = re.compile(
    r"([0-9a-fA-F]{2}[:-]){5}([0-9a-fA-F]{2}[:-]){0,2}[0-9a-fA-F]{2}|([0-9a-fA-F]{4}\.){2,3}[0-9a-fA-F]{4}"
)
_HEX_COLOR: Final = re.compile(r"#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})")
_RGB_COLOR: Final = re.compile(r"rgb\(\s*(\d{1,3})\s*,\s*(\d{1,3})\s*,\s*(\d{1,3})\s*\)")
_SSN: Final = re.compile(r"\d{3}[- ]?\d{2}[- ]?\d{4}")
_CARD: Final = re.compile(r"\d{12,19}")
_OBJECT_ID: Final = re.compile(r"[0-9a-fA-F]{24}")


def checker(name: str) -> Callable[[str], bool] | None:
    """Return the check of a format, or None for a format that is not known (and therefore not enforced)."""
    return _CHECKS.get(name)


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
    hour, minute, second = (int(part) for part in match.group(2).split(":"))
    return hour < 24 and minute < 60 and second <= 60


def _byte(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _ip(version: int) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            return ipaddress.ip_address(text).version == version
        except ValueError:
            return False

    return check


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
    return bool(parts.scheme or text.startswith("/")) and not re.search(r"\s", text)


def _uuid(version: str = "") -> Callable[[str], bool]:
    def check(text: str) -> bool:
        return _UUID.fullmatch(text) is not None and (not version or text.replace("-", "")[12] == version)

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
    "byte": _byte,
    "cidr": _cidr,
    "creditcard": _card,
    "date": _date,
    "date-time": _date_time,
    "datetime": _date_time,
    "duration": _full(_DURATION),
    "email": _full(_EMAIL),
    "hexcolor": _full(_HEX_COLOR),
    "hostname": _full(_HOSTNAME),
    "ipv4": _ip(4),
    "ipv6": _ip(6),
    "isbn": lambda text: _isbn(10)(text) or _isbn(13)(text),
    "isbn10": _isbn(10),
    "isbn13": _isbn(13),
    "mac": _full(_MAC),
    "password": lambda _: True,
    "rgbcolor": _rgb,
    "ssn": _full(_SSN),
    "uri": _uri,
    "uuid": _uuid(),
    "uuid3": _uuid("3"),
    "uuid4": _uuid("4"),
    "uuid5": _uuid("5"),
}
