"""The channel protocol of remote commands: versions, the byte in front of each message, and the status at the end."""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final

import msgspec

STDIN, STDOUT, STDERR, ERROR, RESIZE = range(5)
CLOSE: Final = 255
"""Channel of version 5 on which an end of one of the others is told."""
V5, V4 = "v5.channel.k8s.io", "v4.channel.k8s.io"
_NUMBERS: Final = ("v5.", "v4.", "v3.", "v2.", "")
BINARY: Final = tuple(f"{number}channel.k8s.io" for number in _NUMBERS)
TEXT: Final = tuple(f"{number}base64.channel.k8s.io" for number in _NUMBERS[1:])
VERSIONS: Final = (*BINARY, *TEXT, "")
"""Subprotocols of WebSocket, the best first; a client may also name none."""
_TEXTS: Final = frozenset(TEXT)
_WITH_STATUS: Final = frozenset({V5, V4, "v4.base64.channel.k8s.io"})


class BadFrame(ValueError):
    """A message that is none of the protocol; the text says why."""


class Size(msgspec.Struct, frozen=True):
    """The size of a terminal, as clients send it."""

    width: int = msgspec.field(name="Width", default=80)
    height: int = msgspec.field(name="Height", default=24)


def chosen(offered: list[str]) -> str | None:
    """The version to speak with a client that offers these; None where there is none in common."""
    wanted = [name for name in offered if name] or [""]
    return next((name for name in VERSIONS if name in wanted), None)


def is_text(version: str) -> bool:
    """Whether messages are text, with bytes in base64."""
    return version in _TEXTS


def framed(version: str, channel: int, data: bytes) -> bytes:
    """A message for one channel."""
    return b"%d" % channel + base64.b64encode(data) if is_text(version) else bytes((channel,)) + data


def unframed(version: str, message: bytes) -> tuple[int, bytes]:
    """Channel and bytes of a message; raises BadFrame."""
    if not message:
        raise BadFrame("a message without a channel")
    if not is_text(version):
        return message[0], message[1:]
    if not message[:1].isdigit():
        raise BadFrame("a text message that does not begin with the number of its channel")
    try:
        return int(message[:1]), base64.b64decode(message[1:], validate=True)
    except binascii.Error as e:
        raise BadFrame(f"a text message that is no base64: {e}") from None


def size_of(data: bytes) -> Size:
    """The size that a message on the resize channel tells; raises BadFrame."""
    try:
        size = msgspec.json.decode(data[:1024], type=Size)
    except msgspec.MsgspecError as e:
        raise BadFrame(f"a size of a terminal that cannot be read: {e}") from None
    return Size(min(max(size.width, 1), 65535), min(max(size.height, 1), 65535))


def final(version: str, code: int, problem: str = "") -> bytes:
    """What is sent on the error channel at the end: a Status from version 4 on, before that a text for a failure."""
    status: dict[str, Any] = {"metadata": {}, "status": "Success"}
    if problem:
        status = {"metadata": {}, "status": "Failure", "message": problem, "reason": "InternalError", "code": 500}
    elif code:
        text = problem = f"command terminated with non-zero exit code: exit status {code}"
        causes = [{"reason": "ExitCode", "message": str(code)}]
        status = {"metadata": {}, "status": "Failure", "message": text, "reason": "NonZeroExitCode"}
        status["details"] = {"causes": causes}
    return msgspec.json.encode(status) if version in _WITH_STATUS else problem.encode()
