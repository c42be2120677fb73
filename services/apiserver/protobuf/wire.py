"""The protobuf wire format: a message as field numbers and raw values."""

from collections.abc import Iterator


class WireError(ValueError):
    """Bytes that are not a protobuf message."""


def varint(data: bytes | memoryview, position: int) -> tuple[int, int]:
    """A variable-length integer and the position after it."""
    value = shift = 0
    while True:
        if position >= len(data) or shift > 63:
            raise WireError("a number is cut off or too long")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7


def fields(data: bytes | memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """(field number, integer or bytes) in order of the message; fixed-width values come as bytes.

    Bytes are views of the message: nothing is copied, however deep messages are nested.
    """
    data = memoryview(data)
    position, end = 0, len(data)
    while position < end:
        tag, position = varint(data, position)
        number, kind = tag >> 3, tag & 7
        if not number:
            raise WireError("a field has the number 0")
        if kind == 0:
            value, position = varint(data, position)
            yield number, value
            continue
        if kind == 2:
            size, position = varint(data, position)
        elif kind == 1:
            size = 8
        elif kind == 5:
            size = 4
        else:
            raise WireError(f"field {number} has the unknown wire type {kind}")
        if position + size > end:
            raise WireError(f"field {number} is cut off")
        yield number, data[position : position + size]
        position += size


def text(value: memoryview) -> str:
    """The string of a field; raises UnicodeDecodeError."""
    return str(value, "utf-8")
