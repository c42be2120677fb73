"""Validates formats of names, labels, addresses and URLs; each check returns the problem, nothing for a valid value."""

import ipaddress
import re
from collections.abc import Callable, Mapping
from typing import Final

from services._rules.kubernetes.selectors import valid_label_key, valid_label_value

Check = Callable[[str], list[str]]

_LABEL: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")
_DNS1035: Final = re.compile(r"[a-z](?:[-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_PORT_NAME: Final = re.compile(r"(?!.*--)[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")
_SCHEME: Final = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):")
_ANNOTATIONS_LIMIT: Final = 256 * 1024


def dns_label(value: str) -> list[str]:
    """A DNS label (RFC 1123) of at most 63 characters."""
    return [*_longer(value, 63), *_unless(_LABEL, value, "a DNS label has lower-case letters, digits and inner '-'")]


def dns1035_label(value: str) -> list[str]:
    """A DNS label (RFC 1035): as above, starting with a letter."""
    return [
        *_longer(value, 63),
        *_unless(_DNS1035, value, "a service name has lower-case letters, digits, inner '-', a letter at the start"),
    ]


def dns_subdomain(value: str) -> list[str]:
    """DNS labels with dots between, at most 253 characters."""
    return [
        *_longer(value, 253),
        *_unless(_SUBDOMAIN, value, "a DNS subdomain has lower-case letters, digits, '-' and '.', inside of it"),
    ]


def wildcard_subdomain(value: str) -> list[str]:
    """A DNS subdomain after `*.`."""
    if not value.startswith("*.") or _SUBDOMAIN.fullmatch(value[2:]) is None:
        return ["a wildcard is '*.' followed by a DNS subdomain"]
    return _longer(value, 253)


def cluster_name(value: str) -> list[str]:
    """The name of a cluster: a DNS label of at most 48 characters."""
    if not value:
        return ["a cluster name must not be empty"]
    return [*_longer(value, 48), *_unless(_LABEL, value, "a cluster name has lower-case letters, digits and inner '-'")]


def label_key(value: str) -> list[str]:
    """A key of a label: [DNS subdomain/]name."""
    return [] if valid_label_key(value) else ["a key reads [DNS subdomain/]name, with a name of at most 63 characters"]


def label_value(value: str) -> list[str]:
    """A value of a label, which may be empty."""
    return [] if valid_label_value(value) else ["at most 63 letters, digits, '-', '_' and '.', the last three inside"]


def path_segment(value: str) -> list[str]:
    """A name that can be part of a URL path."""
    if value in (".", ".."):
        return [f"may not be {value!r}"]
    return [f"may not contain {character!r}" for character in "/%" if character in value]


def port_name(value: str) -> list[str]:
    """A name of a port: at most 15 lower-case letters, digits and inner '-', with at least one letter."""
    problems = _longer(value, 15)
    if _PORT_NAME.fullmatch(value) is None or not any(character.isalpha() for character in value):
        problems.append("a port name has lower-case letters, digits and single inner '-', and at least one letter")
    return problems


def ip_address(value: str) -> list[str]:
    """An IPv4 or IPv6 address."""
    try:
        address = ipaddress.ip_address(value)
    except ValueError:
        return ["must be an IP address"]
    return ["must be an IP address without zone"] if getattr(address, "scope_id", None) else []


def json_pointer(value: str) -> list[str]:
    """A JSON pointer (RFC 6901)."""
    return [] if not value or value.startswith("/") else ["a JSON pointer is empty or starts with '/'"]


def labels(values: Mapping[str, str]) -> list[str]:
    """Keys and values of labels."""
    problems = []
    for key, value in values.items():
        problems += [f"key {key!r}: {problem}" for problem in label_key(key)]
        problems += [f"value {value!r}: {problem}" for problem in label_value(value or "")]
    return problems


def annotations(values: Mapping[str, str]) -> list[str]:
    """Keys and total size of annotations."""
    problems = [f"key {key!r}: {problem}" for key in values for problem in label_key(key.lower())]
    size = sum(len(key.encode()) + len((value or "").encode()) for key, value in values.items())
    if size > _ANNOTATIONS_LIMIT:
        problems.append(f"all annotations together have more than {_ANNOTATIONS_LIMIT} bytes")
    return problems


class Url:
    """The parts of a URL that rules check; `error` is set where the text is no URL."""

    __slots__ = ("error", "fragment", "host", "path", "query", "scheme", "user")

    def __init__(self, text: str) -> None:
        self.error = self.scheme = self.user = self.host = self.path = self.query = self.fragment = ""
        if any(ord(character) < 0x20 or ord(character) == 0x7F for character in text):
            self.error = "has control characters"
            return
        rest, _, self.fragment = text.partition("#")
        found = _SCHEME.match(rest)
        if found:
            self.scheme, rest = found[1].lower(), rest[found.end() :]
        elif ":" in rest.partition("/")[0]:
            self.error = "needs a scheme such as https:// before its host"
            return
        rest, _, self.query = rest.partition("?")
        if not rest.startswith("//"):
            self.path = rest
            return
        authority, slash, path = rest[2:].partition("/")
        self.path = slash + path
        self.user, at, self.host = authority.rpartition("@")
        if at and not self.user:
            self.user = "@"
        port = self.host.rpartition("]")[2].partition(":")[2] if "]" in self.host else self.host.partition(":")[2]
        if port and not (port.isascii() and port.isdigit()):
            self.error = f"has port {port!r}, which is no number"
        elif " " in self.host:
            self.error = "has a space in its host"


def _longer(value: str, limit: int) -> list[str]:
    return [f"must be no more than {limit} characters"] if len(value.encode()) > limit else []


def _unless(pattern: re.Pattern[str], value: str, rule: str) -> list[str]:
    return [] if pattern.fullmatch(value) else [rule]
