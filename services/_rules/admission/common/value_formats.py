"""Validates formats of cluster names, JSON pointers and URLs; each check returns what is wrong with a value."""

import re
from typing import Final

from services._rules.kubernetes.validation import name_formats as names

_LONGEST_CLUSTER: Final = 48
_SCHEME: Final = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):")


def cluster_name(value: str) -> list[str]:
    """The name of a cluster: a DNS label of at most 48 characters."""
    if not value:
        return ["a cluster name must not be empty"]
    return names.label(value) if len(value) <= _LONGEST_CLUSTER else ["must be no more than 48 characters"]


def json_pointer(value: str) -> list[str]:
    """A JSON pointer (RFC 6901)."""
    return [] if not value or value.startswith("/") else ["a JSON pointer is empty or starts with '/'"]


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
