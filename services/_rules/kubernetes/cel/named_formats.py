"""The formats that expressions check texts by: what is wrong with a text, and the size of the pattern that finds it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

import msgspec

from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation.string_formats import checker

Check = Callable[[str], list[str]]

_UUID_PATTERN: Final = 70
_BASE64_PATTERN: Final = 84
_TIME_PATTERN: Final = 71
_URL_PATTERN: Final = 1103


class NamedFormat(msgspec.Struct, frozen=True):
    """A format: what keeps a text from having it, and the characters of the pattern that its cost is counted with."""

    check: Check
    pattern: int


def uri_problem(text: str) -> str:
    """Return why a text is no absolute URL or path; empty for one that is."""
    try:
        parts = urlsplit(text)
        parts.port  # noqa: B018 - reading it checks it
    except ValueError as error:
        return str(error)
    if not text:
        return 'parse "": empty url'
    if not (parts.scheme or text.startswith("/")) or any(sign <= " " for sign in text):
        return f'parse "{text}": invalid URI for request'
    return ""


def _prefix(check: Check) -> Check:
    return lambda text: check(names.as_prefix(text))


def _uri(text: str) -> list[str]:
    problem = uri_problem(text)
    return [problem] if problem else []


def _known(name: str, problem: str) -> Check:
    check = checker(name)
    assert check is not None
    return lambda text: [] if check(text) else [problem]


FORMATS: Final = {
    "dns1123Label": NamedFormat(names.label, 30),
    "dns1123Subdomain": NamedFormat(names.subdomain, 60),
    "dns1035Label": NamedFormat(names.dns1035, 30),
    "qualifiedName": NamedFormat(names.qualified, 60),
    "dns1123LabelPrefix": NamedFormat(_prefix(names.label), 30),
    "dns1123SubdomainPrefix": NamedFormat(_prefix(names.subdomain), 60),
    "dns1035LabelPrefix": NamedFormat(_prefix(names.dns1035), 30),
    "labelValue": NamedFormat(names.label_value, 40),
    "uri": NamedFormat(_uri, _URL_PATTERN),
    "uuid": NamedFormat(_known("uuid", "does not match the UUID format"), _UUID_PATTERN),
    "byte": NamedFormat(_known("byte", "invalid base64"), _BASE64_PATTERN),
    "date": NamedFormat(_known("date", "invalid date"), _TIME_PATTERN),
    "datetime": NamedFormat(_known("datetime", "invalid datetime"), _TIME_PATTERN),
}
"""All formats by the names that expressions use."""
