"""Name formats of Kubernetes (DNS labels, qualified names, config keys) with the texts an API server gives for them."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_KEY = "[-._a-zA-Z0-9]+"
_HEADER = "[-A-Za-z0-9]+"
_DNS1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"

_qualified = re.compile(_QUALIFIED).fullmatch
_key = re.compile(_KEY).fullmatch
_printable = re.compile("[ -<>-~]+").fullmatch
_header = re.compile(_HEADER).fullmatch
_port = re.compile("[-a-z0-9]+").fullmatch
_letter = re.compile("[a-z]").search


def _text(message: str, pattern: str, *examples: str) -> str:
    shown = ",  or ".join(f"'{item}'" for item in examples)
    return f"{message} (e.g. {shown}, regex used for validation is '{pattern}')"


LABEL_TEXT = _text(
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character",
    _LABEL,
    "my-name",
    "123-abc",
)
SUBDOMAIN_TEXT = _text(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character",
    _SUBDOMAIN,
    "example.com",
)
DNS1035_TEXT = _text(
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
    "start with an alphabetic character, and end with an alphanumeric character",
    _DNS1035,
    "my-name",
    "abc-123",
)
WILDCARD_TEXT = _text(
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of "
    "lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character",
    rf"\*\.{_SUBDOMAIN}",
    "*.example.com",
)
_QUALIFIED_MESSAGE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)
_QUALIFIED_TEXT = _text(_QUALIFIED_MESSAGE, _QUALIFIED, "MyName", "my.name", "123-abc")
_VALUE_TEXT = _text(
    f"a valid label must be an empty string or {_QUALIFIED_MESSAGE.removeprefix('must ')}",
    f"({_QUALIFIED})?",
    "MyValue",
    "my_value",
    "12345",
)
_ENV_TEXT = "a valid environment variable name must consist only of printable ASCII characters other than '='"
_KEY_TEXT = _text(
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
    _KEY,
    "key.name",
    "KEY_NAME",
    "key-name",
)
_HEADER_TEXT = _text(
    "a valid HTTP header must consist of alphanumeric characters or '-'",
    _HEADER,
    "X-Header-Name",
)


def _longer(value: str, limit: int) -> list[str]:
    return [f"must be no more than {limit} characters"] if len(value) > limit else []


def _formed(limit: int, pattern: str, text: str) -> Callable[[str], list[str]]:
    match = re.compile(pattern).fullmatch

    def check(value: str) -> list[str]:
        fits = match(value)
        if fits and len(value) <= limit:
            return []
        return [*_longer(value, limit), *([] if fits else [text])]

    return check


label = _formed(63, _LABEL, LABEL_TEXT)
"""Return what keeps the value from being an RFC 1123 label."""
dns1035 = _formed(63, _DNS1035, DNS1035_TEXT)
"""Return what keeps the value from being a DNS-1035 label."""
subdomain = _formed(253, _SUBDOMAIN, SUBDOMAIN_TEXT)
"""Return what keeps the value from being an RFC 1123 subdomain."""
wildcard = _formed(253, rf"\*\.{_SUBDOMAIN}", WILDCARD_TEXT)
"""Return what keeps the value from being a subdomain behind `*.`."""
label_value = _formed(63, f"({_QUALIFIED})?", _VALUE_TEXT)
"""Return what keeps the value from being a label's value."""


def qualified(value: str) -> list[str]:
    """Return what keeps the value from being a qualified name: `name` or `dns.prefix/name`."""
    parts = value.split("/")
    found: list[str] = []
    if len(parts) > 2:
        suffix = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a qualified name {_QUALIFIED_TEXT} {suffix}"]
    name = parts[-1]
    if len(parts) == 2:
        if not parts[0]:
            found.append("prefix part must be non-empty")
        else:
            found.extend(f"prefix part {text}" for text in subdomain(parts[0]))
    if not name:
        found.append("name part must be non-empty")
    elif len(name) > 63:
        found.append("name part must be no more than 63 characters")
    if not _qualified(name):
        found.append(f"name part {_QUALIFIED_TEXT}")
    return found


# The same labels come with every write of an object and of all that is made from it.
@lru_cache(maxsize=8192)
def is_label_key(value: str) -> bool:
    """Return whether the value is a label's key."""
    return not qualified(value)


@lru_cache(maxsize=8192)
def is_label_value(value: str) -> bool:
    """Return whether the value is a label's value."""
    return not label_value(value)


def env_name(value: str) -> list[str]:
    """Return what keeps the value from naming an environment variable, which may have nearly any name."""
    return [] if _printable(value) else [_ENV_TEXT]


def config_key(value: str) -> list[str]:
    """Return what keeps the value from being a key of a ConfigMap or Secret."""
    fits = _key(value)
    if fits and len(value) <= 253 and value[0] != ".":
        return []
    return [*_longer(value, 253), *([] if fits else [_KEY_TEXT]), *_dots(value)]


def http_header(value: str) -> list[str]:
    """Return what keeps the value from naming a header of an HTTP request."""
    return [] if _header(value) else [_HEADER_TEXT]


def _dots(value: str) -> list[str]:
    if value in (".", ".."):
        return [f"must not be '{value}'"]
    return ["must not start with '..'"] if value.startswith("..") else []


def port_name(value: str) -> list[str]:
    """Return what keeps the value from naming a port."""
    found = _longer(value, 15)
    if not _port(value):
        found.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not _letter(value):
        found.append("must contain at least one letter or number (a-z, 0-9)")
    if "--" in value:
        found.append("must not contain consecutive hyphens")
    if value.startswith("-") or value.endswith("-"):
        found.append("must not begin or end with a hyphen")
    return found


_PATH_PART = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_is_path_part = re.compile(_PATH_PART).fullmatch


def path_part(value: str) -> list[str]:
    """Return what keeps the value from being the part of a domain-prefixed path behind the domain."""
    return [] if _is_path_part(value) else [f"Invalid path (regex used for validation is '{_PATH_PART}')"]


def path_segment(value: str) -> list[str]:
    """Return what keeps the value from being one segment of a path (names of RBAC objects)."""
    if value in (".", ".."):
        return [f"may not be '{value}'"]
    return [f"may not contain '{char}'" for char in "/%" if char in value]


def fully_qualified(value: str) -> list[str]:
    """Return what keeps the value from being a name of three segments or more; the texts of its format are joined."""
    if texts := subdomain(value):
        return [",".join(texts)]
    return [] if value.count(".") > 1 else ["should be a domain with at least three segments separated by dots"]


def as_prefix(value: str) -> str:
    """Return a generateName prefix in the form in which it is checked as a name: a letter stands for its end."""
    return f"{value[:-2]}a" if value.endswith("-") and len(value) > 1 else value
