"""Messages between a pool and its worker processes: frames of JSON behind four bytes of length."""

from collections.abc import Sequence
from typing import Any, Final

from msgspec import Raw, Struct
from msgspec.json import Decoder, Encoder

from services._rules.interpreter.common.interpretation import Operation

LENGTH: Final = 4
LARGEST: Final = 8 << 20
"""Bytes of an answer."""
READY: Final = b"\0\0\0\0"


class LuaCall(Struct, frozen=True, array_like=True):
    """One operation to carry out."""

    operation: Operation
    script: str
    arguments: list[Any]


class LuaAnswer(Struct, frozen=True, array_like=True):
    """The result of a call, or what is wrong (an empty text: nothing) and the field it is wrong in."""

    result: Any = None
    wrong: str = ""
    field: str = ""


_encode: Final = Encoder().encode
decode_calls: Final = Decoder(list[LuaCall]).decode
decode_answer: Final = Decoder(LuaAnswer).decode


def encoded(call: LuaCall) -> Raw:
    """A call as it goes into a frame; raises ValueError for arguments that have no JSON form."""
    try:
        return Raw(_encode(call))
    except (TypeError, OverflowError, RecursionError) as problem:
        raise ValueError(str(problem)) from None


def frame(message: Sequence[Raw] | LuaAnswer) -> bytes:
    """A message as it goes over the pipe: calls together, or one answer."""
    body = _encode(message)
    return len(body).to_bytes(LENGTH, "big") + body
