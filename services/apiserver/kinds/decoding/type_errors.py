"""The text with which a body of the wrong shape is refused: the trail of types and fields, and the place in the body.

A body is read a second time for this, the way the recorded server's decoder reads: it goes on after the first error,
and every field and type that ends while an error is pending puts its name in front. That decoder cannot step back once
an error is pending, so it loses its way in the next value that is no string, and ends there.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from services.apiserver.kinds.decoding import field_tables as schemas

_SPACE = b" \n\t\r"
_ALPHABET = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
# Element of the layout -> what it matches.
_TIME = (
    ("2006", "[0-9]{4}"),
    ("-", "-"),
    ("01", "0[1-9]|1[0-2]"),
    ("-", "-"),
    ("02", "0[1-9]|[12][0-9]|3[01]"),
    ("T", "T"),
    ("15", "[01][0-9]|2[0-3]"),
    (":", ":"),
    ("04", "[0-5][0-9]"),
    (":", ":"),
    ("05", "[0-5][0-9]"),
)
_ZONE = ("Z07:00", r"Z|[+-][0-9]{2}:[0-9]{2}")
_FRACTION = (".000000", r"\.[0-9]{6}")
_GO_SCALARS = {"s": "string", "b": "bool", "i": "int32", "l": "int64", "d": "float64", "y": "[]uint8"}


def render(name: str, obj: Any, raw: bytes | None, error: schemas.ShapeError) -> str:
    """Return the message for a shape error of an object of the definition; `raw` is the JSON body if there is one."""
    if raw is None or not raw.lstrip().startswith(b"{"):
        raw = msgspec.json.encode(obj, order="sorted")
    reader = _Reader(raw)
    try:
        reader.value(schemas.Field("", "@" + name))
    except IndexError:
        # The body ends before the error was met: return the error of the first reading.
        return str(error)
    return reader.error or str(error)


def _type_name(definition: str) -> str:
    return ".".join(definition.split(".")[-2:])


class _Reader:
    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.head = 0
        self.error = ""
        self.lost = False

    def next(self) -> int:
        while self.raw[self.head] in _SPACE:
            self.head += 1
        self.head += 1
        return self.raw[self.head - 1]

    def report(self, operation: str, message: str) -> None:
        """Note the first error with its surroundings."""
        if self.error:
            return
        start = max(self.head - 10, 0)
        near = self.raw[start : self.head + 10].decode(errors="replace")
        wide = self.raw[max(self.head - 50, 0) : self.head + 50].decode(errors="replace")
        self.error = (
            f"{operation}: {message}, error found in #{self.head - start} byte of ...|{near}|..., "
            f"bigger context ...|{wide}|..."
        )

    def null(self) -> bool:
        if self.next() == ord("n"):
            self.head += 3
            return True
        self.head -= 1
        return False

    def value(self, field: schemas.Field) -> None:
        """Read one value of the field's type."""
        if self.error and field.code != "s":
            self.lost = True
            if field.code == "@":
                self.error = f"{_type_name(field.ref)}.{self.error}"
            return
        if field.code == "@":
            self.struct(field)
        elif field.code == "[":
            self.list(field)
        elif field.code == "{":
            self.map(field)
        elif field.code == "s":
            self.string()
        elif not self.null():
            self.scalar(field)

    def scalar(self, field: schemas.Field) -> None:
        if field.code in "tmqx":
            self.unmarshal(field)
        elif field.code == "y":
            if self.next() != ord('"'):
                self.report("base64Codec", "invalid input")
                return
            self.head -= 1
            if text := _base64_problem(self.string()):
                self.report("decode base64", text)
        elif field.code == "b":
            found = self.next()
            if found not in b"tf":
                self.report("ReadBool", f"expect t or f, but found {chr(found)}")
            else:
                self.head += 3 if found == ord("t") else 4
        elif field.code in "il":
            self.integer(field)
        else:
            self.skip()

    def integer(self, field: schemas.Field) -> None:
        bits = "32" if field.code == "i" else "64"
        found = self.next()
        if found == ord("-"):
            found = self.next()
        if not chr(found).isdigit():
            self.report(f"readUint{bits}", "unexpected character: \ufffd")
            return
        start = self.head - 1
        while chr(self.raw[self.head]).isdigit():
            self.head += 1
        if self.raw[self.head] == ord("."):
            self.report("assertInteger", "can not decode float as int")
        elif int(self.raw[start : self.head]) >= 1 << (int(bits) - 1):
            self.report(f"ReadInt{bits}", "overflow")

    def unmarshal(self, field: schemas.Field) -> None:
        start = self.head
        self.skip()
        value = msgspec.json.decode(self.raw[start : self.head])
        if field.code in "tm":
            text = _time_problem(value, micro=field.code == "m")
        else:
            text = ""
            try:
                schemas.read_scalar(field, value)
            except schemas.ShapeError as error:
                text = error.detail or f"json: cannot unmarshal {_json_type(value)} into Go value of type int32"
        if text:
            self.report("unmarshalerDecoder", text)

    def string(self) -> str:
        found = self.next()
        if found == ord("n"):
            self.head += 3
            return ""
        if found != ord('"'):
            self.report("ReadString", f'expects " or n, but found {chr(found)}')
            return ""
        start = self.head - 1
        while self.raw[self.head] != ord('"'):
            self.head += 2 if self.raw[self.head] == ord("\\") else 1
        self.head += 1
        text: str = msgspec.json.decode(self.raw[start : self.head])
        return text

    def skip(self) -> None:
        """Go over one value of any type."""
        found = self.next()
        if found == ord('"'):
            self.head -= 1
            self.string()
            return
        if found in b"{[":
            depth = 1
            while depth:
                found = self.next()
                if found == ord('"'):
                    self.head -= 1
                    self.string()
                depth += (found in b"{[") - (found in b"}]")
            return
        while self.raw[self.head] not in b",}] \n\t\r":
            self.head += 1

    def members(self, opening: str, closing: str, operation: str, one: Callable[[], None]) -> bool:
        """Read a list or an object member by member; False when there are none, or something else stands here."""
        found = self.next()
        if found == ord("n"):
            self.head += 3
            return False
        if found != ord(opening):
            self.report(operation, f"expect {opening} or n, but found {chr(found)}")
            return False
        if self.next() == ord(closing):
            return False
        self.head -= 1
        separator = ord(",")
        while separator == ord(","):
            one()
            separator = 0 if self.lost else self.next()
        return True

    def key(self, operation: str) -> str:
        """Read the name of a member and the colon behind it."""
        name = self.string()
        if self.next() != ord(":"):
            self.report(operation, "expect : after object field")
        return name

    def struct(self, field: schemas.Field) -> None:
        fields = schemas.definition(field.ref).fields

        def one() -> None:
            inner = fields.get(self.key("ReadObject"))
            if inner is None:
                self.skip()
                return
            self.value(inner)
            if self.error:
                self.error = f"{inner.go_name}: {self.error}"

        if self.members("{", "}", "readObjectStart", one) and self.error:
            self.error = f"{_type_name(field.ref)}.{self.error}"

    def list(self, field: schemas.Field) -> None:
        element = field.element
        assert element is not None
        self.members("[", "]", "decode slice", lambda: self.value(element))
        if self.error:
            inner = _type_name(element.ref) if element.ref else _GO_SCALARS.get(element.code, "interface {}")
            self.error = f"[]{inner}: {self.error}"

    def map(self, field: schemas.Field) -> None:
        element = field.element
        assert element is not None

        def one() -> None:
            self.key("ReadMapCB")
            self.value(element)

        self.members("{", "}", "ReadMapCB", one)


def _json_type(value: Any) -> str:
    names = {bool: "bool", str: "string", list: "array", dict: "object"}
    return names.get(type(value), "number")


def _base64_problem(text: str) -> str:
    """Return what keeps the text from being padded base64; empty when nothing does."""
    filled = 0
    for index, char in enumerate(text):
        if char in "\r\n":
            continue
        if char == "=":
            rest = text[index:].replace("\r", "").replace("\n", "")
            if filled < 2 or rest not in ("=" * (4 - filled),):
                return f"illegal base64 data at input byte {index if filled < 2 else len(text)}"
            return ""
        if char not in _ALPHABET:
            return f"illegal base64 data at input byte {index}"
        filled = (filled + 1) % 4
    return f"illegal base64 data at input byte {len(text) - filled}" if filled else ""


def _time_problem(value: Any, *, micro: bool) -> str:
    """Return what keeps the value from being an RFC 3339 time; `micro` demands six digits of a second."""
    if not isinstance(value, str):
        return f"json: cannot unmarshal {_json_type(value)} into Go value of type string"
    elements = (*_TIME, _FRACTION, _ZONE) if micro else (*_TIME, _ZONE)
    layout = "".join(name for name, _ in elements)
    rest = value
    for name, pattern in elements:
        match = re.match(pattern, rest)
        if match is None and name == "Z07:00" and (fraction := re.match(r"\.[0-9]+", rest)):
            # A fraction of a second is taken although the layout has none.
            rest = rest[fraction.end() :]
            match = re.match(pattern, rest)
        if match is None:
            return f'parsing time "{value}" as "{layout}": cannot parse "{rest}" as "{name}"'
        rest = rest[match.end() :]
    return f'parsing time "{value}": extra text: {rest}' if rest else ""
