"""What a pool and its worker processes tell each other: frames of JSON behind four bytes of length."""

from typing import Any, Final

from msgspec import Struct
from msgspec.json import Decoder, Encoder

LENGTH: Final = 4
READY: Final = b"\0\0\0\0"


class LuaCall(Struct, frozen=True, array_like=True):
    """One operation to carry out."""

    operation: str
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


def frame(message: list[LuaCall] | LuaAnswer) -> bytes:
    """A message as it goes over the pipe."""
    body = _encode(message)
    return len(body).to_bytes(LENGTH, "big") + body
