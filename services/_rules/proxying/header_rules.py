"""Decides which headers of a request reach a member, which of its answer reach the caller, and who the caller is there.

A header that is in doubt stays behind: what one server reads differently than the next is how requests are smuggled.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from services._rules.kubernetes.rbac.user_names import AUTHENTICATED, UNAUTHENTICATED

Headers = tuple[tuple[str, str], ...]

HOP_BY_HOP: Final = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-authentication-info",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "http2-settings",
    }
)
"""Headers that concern one connection only."""
_OF_CALLERS: Final = frozenset(
    {
        # Credentials, of the caller and for the control plane only.
        *("authorization", "cookie", "cookie2"),
        # What the next server is called and how the connection to it is used.
        *("expect", "host", "forwarded", "via", "alt-used"),
        # What some servers take for another request than the one that was authorized.
        *("x-http-method", "x-http-method-override", "x-method-override", "x-original-url", "x-rewrite-url"),
        *("x-real-ip", "x-client-ip", "x-cluster-client-ip", "true-client-ip", "x-ssl-client-cert"),
    }
)
_BEGINNINGS_OF_CALLERS: Final = ("impersonate-", "x-remote-", "x-forwarded-", "proxy-", "ssl-client-")
_OF_MEMBERS: Final = frozenset(
    {
        # A member speaks for itself, not for the name and the port under which the control plane is reached.
        *("set-cookie", "set-cookie2", "clear-site-data", "strict-transport-security", "public-key-pins"),
        *("alt-svc", "refresh", "service-worker-allowed", "server", "www-authenticate"),
        *("report-to", "nel", "reporting-endpoints"),
    }
)
_BEGINNINGS_OF_MEMBERS: Final = ("access-control-", "proxy-", "x-remote-", "impersonate-")
_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^`|~-]+")
"""A token as HTTP has it, but for the underscore, which some servers read as a dash."""
_BEARER: Final = "base64url.bearer.authorization.k8s.io."
"""The beginning of a WebSocket subprotocol that carries a token."""
_PROTOCOLS: Final = "sec-websocket-protocol"
_LONGEST_VALUE: Final = 8000


class BadIdentity(ValueError):
    """A name of a user or group that cannot be given to a member; the message is for the caller."""


def to_member(headers: Iterable[tuple[str, str]]) -> Headers:
    """The headers of a caller's request that a member may see."""
    given = list(headers)
    named = _named(given)
    return tuple(_passing(given, named | HOP_BY_HOP | _OF_CALLERS, _BEGINNINGS_OF_CALLERS))


def to_caller(headers: Iterable[tuple[str, str]]) -> Headers:
    """The headers of a member's answer that a caller may see."""
    given = list(headers)
    named = _named(given)
    return tuple(_passing(given, named | HOP_BY_HOP | _OF_MEMBERS, _BEGINNINGS_OF_MEMBERS))


def upgrade_of(headers: Iterable[tuple[str, str]]) -> str:
    """The protocol that a request asks its connection to become; empty for plain HTTP."""
    given = [(name.lower(), value) for name, value in headers]
    wanted = [value.strip() for name, value in given if name == "upgrade"]
    asked = any("upgrade" in _words(value) for name, value in given if name == "connection")
    return wanted[0] if asked and len(wanted) == 1 else ""


def identity_headers(user: str, groups: Iterable[str]) -> Headers:
    """The headers that name the caller to a member; raises BadIdentity."""
    _check_name("user", user)
    named = [group for group in groups if group not in (AUTHENTICATED, UNAUTHENTICATED)]
    for group in named:
        _check_name("group", group)
    return (("Impersonate-User", user), *(("Impersonate-Group", group) for group in dict.fromkeys(named)))


def _check_name(what: str, name: str) -> None:
    if not name or name != name.strip() or not name.isprintable() or len(name) > _LONGEST_VALUE:
        # A space at an end is cut off on the way: the member would see another name.
        raise BadIdentity(
            f"your {what} {name[:80]!r} cannot be named to a member: it is empty, or has spaces at its ends"
        )


def _named(headers: Iterable[tuple[str, str]]) -> frozenset[str]:
    """Names that the Connection headers declare to be of this connection only."""
    return frozenset(word for name, value in headers if name.lower() == "connection" for word in _words(value))


def _words(value: str) -> list[str]:
    return [word.strip().lower() for word in value.split(",") if word.strip()]


def _passing(
    headers: Iterable[tuple[str, str]], dropped: frozenset[str], beginnings: tuple[str, ...]
) -> Iterator[tuple[str, str]]:
    for name, value in headers:
        low = name.lower()
        if low in dropped or low.startswith(beginnings) or _NAME.fullmatch(name) is None:
            continue
        if any(ord(letter) < 0x20 and letter != "\t" for letter in value) or "\x7f" in value:
            continue
        if low == _PROTOCOLS:
            kept = [part.strip() for part in value.split(",") if not part.strip().startswith(_BEARER)]
            if not kept:
                continue
            value = ", ".join(kept)
        yield name, value
