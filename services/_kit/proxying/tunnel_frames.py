"""Frames of requests that an agent answers over the log's server: their shapes, their bounds, their bytes.

Every frame bears the id of its stream and a number of its own, counted from 0 in each direction.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import Struct

from services._kit.proxying.member_exchange import CHUNK
from services._rules.proxying.request_records import plain

HERE: Final = "here"
"""Last token of the subject of an agent's greetings; streams have ids there."""
GREETING_SECONDS: Final = 5.0
"""How often an agent says that it answers."""
LARGEST: Final = 256 << 10
"""Bytes of one frame."""
MOST_HEADERS: Final = 128
HEADER_BYTES: Final = 64 << 10
PATH_BYTES: Final = 32 << 10
MOST_PARAMETERS: Final = 1000
MOST_GROUPS: Final = 256
NAME_BYTES: Final = 1024
TEXT: Final = 1000
"""Characters of a reason."""
REFUSED: Final = "refused"
UNREACHABLE: Final = "unreachable"
GONE: Final = "gone"
SWITCHING: Final = 101
_ID: Final = re.compile(r"[0-9a-f]{32}")
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE: Final = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*")
_PATH: Final = re.compile(r"/[\x21-\x7e]*")
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class FrameError(Exception):
    """A frame that cannot be, or that breaks the rules of its stream; the text says why."""


class Greeting(Struct, frozen=True, kw_only=True):
    """An agent answers requests: frames to it are answers to this. A `session` lasts as long as its connection.

    With `leaves` it answers no more.
    """

    instance: str
    session: str
    leaves: bool = False


class Frame(Struct, frozen=True, array_like=True, tag_field="kind"):
    """What all frames have: the stream, and how many frames came before in this direction."""

    id: str
    number: int


class Open(Frame, frozen=True, array_like=True, tag="open"):
    """The first frame of a stream: a request, without a body when it is `whole`."""

    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    user: str
    groups: tuple[str, ...]
    upgrade: str = ""
    whole: bool = True


class Head(Frame, frozen=True, array_like=True, tag="head"):
    """The first frame of an answer."""

    status: int
    headers: tuple[tuple[str, str], ...]


class Data(Frame, frozen=True, array_like=True, tag="data"):
    """Bytes of a body, or of an upgraded connection; they use up credit."""

    data: bytes


class End(Frame, frozen=True, array_like=True, tag="end"):
    """No more data comes from this side."""


class Credit(Frame, frozen=True, array_like=True, tag="credit"):
    """So many bytes were taken and may be sent again; 0: the stream is still there."""

    size: int


class Cancel(Frame, frozen=True, array_like=True, tag="cancel"):
    """The stream is over before its end: `why` is one of REFUSED, UNREACHABLE, GONE, `text` is for the caller."""

    why: str
    text: str = ""


AnyFrame = Open | Head | Data | End | Credit | Cancel

_encoder = msgspec.msgpack.Encoder()
_frames: msgspec.msgpack.Decoder[AnyFrame] = msgspec.msgpack.Decoder(AnyFrame)
_greetings = msgspec.msgpack.Decoder(Greeting)


def packed(frame: AnyFrame | Greeting) -> bytes:
    """The bytes of a frame."""
    return _encoder.encode(frame)


def sendable(headers: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Headers as a frame holds them: the HTTP library's own kind of text is none that can be packed."""
    return tuple((str(name), str(value)) for name, value in headers)


def unpacked(data: bytes) -> AnyFrame:
    """The frame behind bytes of the other side; raises FrameError."""
    if len(data) > LARGEST:
        raise FrameError(f"a frame of {len(data)} bytes, at most {LARGEST} are read")
    try:
        frame = _frames.decode(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise FrameError(f"no frame: {str(error)[:200]}") from None
    if isinstance(frame, Data) and not 0 < len(frame.data) <= CHUNK:
        raise FrameError(f"{len(frame.data)} bytes of data in one frame; 1 to {CHUNK} are possible")
    if isinstance(frame, Credit) and frame.size < 0:
        raise FrameError(f"a credit of {frame.size} bytes")
    return frame


def greeting(data: bytes) -> Greeting:
    """The greeting behind bytes of an agent; raises FrameError."""
    if len(data) > NAME_BYTES:
        raise FrameError(f"a greeting of {len(data)} bytes")
    try:
        found = _greetings.decode(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise FrameError(f"no greeting: {str(error)[:200]}") from None
    if not found.session or not found.instance:
        raise FrameError("a greeting without a session or an instance")
    return found


def unsuitable_open(frame: Open) -> str:
    """Why a request cannot be one; empty when it can."""
    if not _ID.fullmatch(frame.id):
        return "its stream has no id"
    if frame.method not in _METHODS:
        return f"{plain(frame.method, 20)!r} is no method that is carried into members"
    if len(frame.path) > PATH_BYTES:
        return f"its path and query have {len(frame.path)} characters, at most {PATH_BYTES} are carried"
    if frame.path.count("&") >= MOST_PARAMETERS:
        return f"its query has more than {MOST_PARAMETERS} parameters"
    if not _PATH.fullmatch(frame.path) or "#" in frame.path:
        return "its path is not encoded"
    if not frame.user:
        return "it has no user"
    if len(frame.groups) > MOST_GROUPS:
        return f"its user is in {len(frame.groups)} groups, at most {MOST_GROUPS} are carried"
    for name in (frame.user, *frame.groups):
        if len(name.encode()) > NAME_BYTES or not _VALUE.fullmatch(name):
            return f"{plain(name, 40)!r} is no name of a user or group that a header can carry"
    if frame.upgrade and not re.fullmatch(r"[A-Za-z0-9./-]{1,40}", frame.upgrade):
        return f"{plain(frame.upgrade, 40)!r} is no protocol"
    return _unsuitable_headers(frame.headers)


def unsuitable_head(frame: Head, upgrade: str) -> str:
    """Why the head of an answer cannot be one; empty when it can."""
    if not 200 <= frame.status <= 599 and not (frame.status == SWITCHING and upgrade):
        return f"its status is {frame.status}"
    return _unsuitable_headers(frame.headers)


def _unsuitable_headers(headers: Iterable[tuple[str, str]]) -> str:
    size = 0
    for count, (name, value) in enumerate(headers, 1):
        size += len(name) + len(value)
        if count > MOST_HEADERS or size > HEADER_BYTES:
            return f"its headers are more than {MOST_HEADERS}, or have more than {HEADER_BYTES} characters"
        if not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(value):
            return f"its header {plain(name, 40)!r} cannot be sent"
    return ""
