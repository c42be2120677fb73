"""The token with which a client asks for the next page of a list over several clusters."""

from __future__ import annotations

from typing import Final

import msgspec

from services.apiserver.core.status_errors import bad_request
from services.search.union.version_map import VersionMap, packed, read_version, unpacked


class PageToken(msgspec.Struct, frozen=True):
    """Where a list goes on: in which cluster, with which token of that cluster, at which versions."""

    versions: VersionMap
    cluster: str
    member_token: str = ""


class _Written(msgspec.Struct, rename={"member_token": "continue"}):
    rv: str = ""
    cluster: str = ""
    member_token: str = ""


_written: Final = msgspec.json.Decoder(_Written)


def write_page_token(token: PageToken) -> str:
    """The token as text."""
    return packed(msgspec.json.encode(_Written(token.versions.text(), token.cluster, token.member_token)))


def read_page_token(text: str) -> PageToken:
    """The token of a request; raises ApiError 400."""
    raw = unpacked(text)
    try:
        found = _written.decode(raw) if raw is not None else _Written()
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        found = _Written()
    if not found.cluster:
        raise bad_request("continue: the token is not one of this list; begin the list again without it")
    return PageToken(read_version(found.rv), found.cluster, found.member_token)
