"""Writes decoded JSON values the way Go's fmt package does, because API server messages quote them like that."""

from typing import Any


def go_format(value: Any) -> str:
    """Return what Go's %v prints for a decoded JSON value: `map[a:1 b:[x y]]`, `<nil>`, `true`."""
    match value:
        case None:
            return "<nil>"
        case bool():
            return "true" if value else "false"
        case dict():
            return "map[" + " ".join(f"{key}:{go_format(value[key])}" for key in sorted(value)) + "]"
        case list():
            return "[" + " ".join(go_format(item) for item in value) + "]"
        case float():
            return go_float(value)
        case _:
            return str(value)


def go_syntax(value: Any) -> str:
    """Return what Go's %#v prints for a decoded JSON value: `map[string]interface {}{"a":1}`."""
    match value:
        case None:
            return "interface {}(nil)"
        case bool():
            return "true" if value else "false"
        case str():
            return go_quote(value)
        case dict():
            return (
                "map[string]interface {}{"
                + ", ".join(f"{go_quote(key)}:{go_syntax(value[key])}" for key in sorted(value))
                + "}"
            )
        case list():
            return "[]interface {}{" + ", ".join(go_syntax(item) for item in value) + "}"
        case float():
            return go_float(value)
        case _:
            return str(value)


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
