"""Reads the path of a request for a member: what is below the proxy's own path, and whether it may run for long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import unquote

from msgspec import Struct

METHODS: Final = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})
"""Methods that are carried to members."""
LASTING: Final = frozenset({"attach", "exec", "log", "portforward", "proxy"})
"""Subresources whose requests may run for long."""
_ROUNDS: Final = 3
"""How often a path may have been encoded for it to be looked through."""
_FALSE: Final = frozenset({"", "0", "false", "False", "FALSE", "f", "F"})


class BadPath(ValueError):
    """A path that is not carried on; the message is for the caller."""


class InnerResource(Struct, frozen=True):
    """What the path of an API server names; empty strings where a part is absent."""

    group: str = ""
    version: str = ""
    namespace: str = ""
    resource: str = ""
    name: str = ""
    subresource: str = ""
    watch: bool = False
    """Whether the path itself asks for a watch, as that of old clients does."""


def inner_path(raw: str, segments: int) -> str:
    """The raw path below the first `segments` segments of a raw path; raises BadPath for one that leads elsewhere."""
    inner = "/" + "/".join(raw.split("/")[1 + segments :]).lstrip("/")
    check_path(inner)
    return inner


def check_path(path: str) -> None:
    """Refuse a raw path that an endpoint could read as another one; raises BadPath."""
    if not path.isascii() or not path.isprintable() or " " in path:
        raise BadPath("the path holds characters that have to be percent-encoded")
    text = path
    for _ in range(_ROUNDS):
        if any(part in (".", "..") for part in text.replace("\\", "/").split("/")):
            raise BadPath("the path must not hold the segments '.' and '..', encoded or not")
        plain = unquote(text)
        if plain == text:
            break
        text = plain
    if any(ord(letter) < 0x20 or ord(letter) == 0x7F for letter in text):
        raise BadPath("the path must not hold control characters, encoded or not")


def inner_resource(path: str) -> InnerResource | None:
    """What a raw path names in an API server; None for one outside of all group versions."""
    parts = [unquote(part) for part in path.split("/")[1:]]
    while parts and not parts[-1]:
        parts.pop()
    match parts:
        case ["api", version, _, *_]:
            return _resource("", version, parts[2:])
        case ["apis", group, version, _, *_]:
            return _resource(group, version, parts[3:])
        case _:
            return None


def _resource(group: str, version: str, parts: Sequence[str]) -> InnerResource:
    watch = parts[0] == "watch" and len(parts) > 1
    if watch:
        parts = parts[1:]
    namespace = ""
    if len(parts) > 2 and parts[0] == "namespaces" and parts[2] not in ("status", "finalize"):
        namespace, parts = parts[1], parts[2:]
    resource, name, subresource = (*parts[:3], "", "", "")[:3]
    return InnerResource(group, version, namespace, resource, name, subresource, watch)


def lasts(method: str, path: str, query: Mapping[str, str], upgrade: str) -> bool:
    """Whether a request may run for long: a watch, a stream of a pod, or a connection that becomes another one."""
    if upgrade:
        return True
    found = inner_resource(path)
    if found is None:
        return False
    if found.subresource in LASTING:
        return True
    return watches(method, path, query)


def watches(method: str, path: str, query: Mapping[str, str]) -> bool:
    """Whether a request is for a watch of objects."""
    found = inner_resource(path)
    return found is not None and method in ("GET", "HEAD") and (found.watch or query.get("watch", "") not in _FALSE)
