"""The token with which a client asks for the next page of a list: where it goes on, in which revision."""

import base64
import binascii
import posixpath
from typing import Final

import msgspec

from services.apiserver.core.status_errors import bad_request

LATEST: Final = -1
"""The revision of a token that goes on with whatever is present."""
INCONSISTENT: Final = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)
_VERSION: Final = "meta.k8s.io/v1"
_WHERE: Final = "invalid continue token: continue key is not valid: "


class Token(msgspec.Struct, frozen=True):
    """Where a list goes on: `start` is a place as the store's lists know them."""

    revision: int
    start: str


class _Written(msgspec.Struct):
    v: str = ""
    rv: int = 0
    start: str = ""


def write_token(token: Token) -> str:
    """The token as text."""
    raw = msgspec.json.encode(_Written(_VERSION, token.revision, token.start))
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def read_token(text: str) -> Token:
    """The token of a request; raises 400."""
    bad = next((place for place, letter in enumerate(text) if not _in_alphabet(letter)), len(text))
    try:
        raw = base64.urlsafe_b64decode(text.encode() + b"=" * (-len(text) % 4)) if bad == len(text) else None
    except (binascii.Error, UnicodeEncodeError):
        raw = None
    if raw is None:
        raise bad_request(f"{_WHERE}illegal base64 data at input byte {bad}")
    try:
        found = msgspec.json.decode(raw, type=_Written)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise bad_request(_WHERE + _malformed(raw)) from error
    if found.v != _VERSION:
        shown = msgspec.json.encode(found.v).decode()
        raise bad_request(f"{_WHERE}server does not recognize this encoded version {shown}")
    if not found.rv:
        raise bad_request(f"{_WHERE}incorrect encoded start resourceVersion (version {_VERSION})")
    if not found.start:
        raise bad_request(f"{_WHERE}encoded start key empty (version {_VERSION})")
    place = f"/{found.start.removeprefix('/')}"
    if posixpath.normpath(place) != place or found.rv < LATEST or found.rv >= 2**63:
        raise bad_request(_WHERE + found.start)
    return Token(found.rv, place[1:])


def _in_alphabet(letter: str) -> bool:
    return letter.isascii() and (letter.isalnum() or letter in "-_")


def _malformed(raw: bytes) -> str:
    """The text about a token that is no JSON object, by its first character."""
    if not raw:
        return "unexpected end of JSON input"
    first = chr(raw[0]) if raw[0] < 0x80 else raw.decode("utf-8", "replace")[0]
    if first == "\ufffd":
        first = chr(raw[0])
    shown = first if first.isprintable() and first.isascii() else f"\\u{ord(first):04x}"
    return f"invalid character '{shown}' looking for beginning of value"
