"""Writes decoded JSON values the way Go's fmt package does, because API server messages quote them like that."""

from typing import Any


def go_format(value: Any) -> str:
    """Return what Go's %v prints for a decoded JSON value: `map[a:1 b:[x y]]`, `<nil>`, `true`."""
    out: list[str] = []
    _format(value, out)
    return "".join(out)


def _format(value: Any, out: list[str]) -> None:
    match value:
        case None:
            out.append("<nil>")
        case bool():
            out.append("true" if value else "false")
        case dict():
            before = "map["
            for key in sorted(value):
                out.append(f"{before}{key}:")
                before = " "
                _format(value[key], out)
            out.append("]" if value else "map[]")
        case list():
            before = "["
            for item in value:
                out.append(before)
                before = " "
                _format(item, out)
            out.append("]" if value else "[]")
        case float():
            out.append(go_float(value))
        case _:
            out.append(str(value))


def go_syntax(value: Any) -> str:
    """Return what Go's %#v prints for a decoded JSON value: `map[string]interface {}{"a":1}`."""
    out: list[str] = []
    _syntax(value, out)
    return "".join(out)


def _syntax(value: Any, out: list[str]) -> None:
    match value:
        case None:
            out.append("interface {}(nil)")
        case bool():
            out.append("true" if value else "false")
        case str():
            out.append(go_quote(value))
        case dict():
            out.append("map[string]interface {}{")
            between = ""
            for key in sorted(value):
                out.append(f"{between}{go_quote(key)}:")
                between = ", "
                _syntax(value[key], out)
            out.append("}")
        case list():
            out.append("[]interface {}{")
            between = ""
            for item in value:
                out.append(between)
                between = ", "
                _syntax(item, out)
            out.append("}")
        case float():
            out.append(go_float(value))
        case _:
            out.append(str(value))


def go_kind(value: Any) -> str:
    """Return the name of a decoded JSON value's kind in Go."""
    match value:
        case None:
            return "invalid"
        case bool():
            return "bool"
        case str():
            return "string"
        case int():
            return "int64"
        case float():
            return "float64"
        case list():
            return "slice"
        case _:
            return "map"


def go_type(value: Any) -> str:
    """Return the name of a decoded JSON value's type in Go."""
    match value:
        case None:
            return "%!s(<nil>)"
        case dict():
            return "map[string]interface {}"
        case list():
            return "[]interface {}"
        case _:
            return go_kind(value)


def go_text(value: Any) -> str:
    """Return what Go's %s prints for a decoded JSON value: of one that is no text, its type with it."""
    match value:
        case str() | dict() | list():
            return go_format(value)
        case None:
            return "%!s(<nil>)"
        case _:
            return f"%!s({go_kind(value)}={go_format(value)})"


def go_float(value: float) -> str:
    """Return a float as Go's %v prints it: the shortest digits, an exponent below 1e-4 and from 1e21 on."""
    if value == 0:
        return "0"
    if value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    text = repr(value)
    if "e" in text:
        digits, _, exponent = text.partition("e")
        power = int(exponent)
        if 0 <= power < 21:
            return f"{value:f}".rstrip("0").rstrip(".")
        return f"{digits.removesuffix('.0')}e{'-' if power < 0 else '+'}{abs(power):02d}"
    return text


def go_quote(text: str) -> str:
    """Return a text as Go's %q prints it."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    out = ['"']
    for char in text:
        if char in _ESCAPES:
            out.append(_ESCAPES[char])
        elif char.isprintable():
            out.append(char)
        elif ord(char) < 0x80:
            out.append(f"\\x{ord(char):02x}")
        elif ord(char) < 0x10000:
            out.append(f"\\u{ord(char):04x}")
        else:
            out.append(f"\\U{ord(char):08x}")
    out.append('"')
    return "".join(out)


_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\v": "\\v",
}
