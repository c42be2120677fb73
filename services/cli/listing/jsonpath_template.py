"""Evaluates kubectl's JSONPath templates: text, `{fields}`, `{range}` … `{end}` (docs/sources.md#commands)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from services._rules.kubernetes.jsonpath import Find, JSONPathError, compile_path

_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r"}
_RANGE: Final = re.compile(r"range\s+(.+)", re.DOTALL)
_Part = Callable[[Any, Any], Iterator[str]]
"""From the whole value and the present one to texts."""


class Template:
    """A template that is ready to use; raises JSONPathError for a text that is none."""

    def __init__(self, text: str) -> None:
        self._parts = _parsed(list(_tokens(text)), text)

    def filled(self, value: Any) -> str:
        """The text that the template makes of a value."""
        return "".join(text for part in self._parts for text in part(value, value))


def relaxed(text: str) -> str:
    """A path as people write it for a column or an order (`metadata.name`, `.metadata.name`) as a template."""
    stripped = text.strip()
    if stripped.startswith("{") and stripped.endswith("}"):
        return stripped
    return f"{{{stripped if stripped.startswith(('.', '[')) else f'.{stripped}'}}}"


def compiled(text: str) -> Find:
    """What finds values at a path that people wrote; raises JSONPathError."""
    return compile_path(relaxed(text))


def _tokens(text: str) -> Iterator[tuple[bool, str]]:
    """Texts outside of braces (False) and expressions inside (True), in order."""
    at = 0
    while at < len(text):
        begin = text.find("{", at)
        if begin < 0:
            yield False, text[at:]
            return
        if begin > at:
            yield False, text[at:begin]
        end = _closing(text, begin)
        yield True, text[begin + 1 : end].strip()
        at = end + 1


def _closing(text: str, begin: int) -> int:
    quote = ""
    for index in range(begin + 1, len(text)):
        char = text[index]
        if quote:
            if char == quote and text[index - 1] != "\\":
                quote = ""
        elif char in "'\"":
            quote = char
        elif char == "}":
            return index
    raise JSONPathError("unclosed action: a brace is not closed")


def _parsed(tokens: list[tuple[bool, str]], text: str) -> list[_Part]:
    """The parts of a template, loops nested."""
    stack: list[tuple[Find | None, list[_Part]]] = [(None, [])]
    for inside, token in tokens:
        if not inside:
            stack[-1][1].append(_literal(token))
        elif loop := _RANGE.fullmatch(token):
            stack.append((compile_path(_rooted(loop.group(1))), []))
        elif token == "end":
            find, parts = stack.pop()
            if find is None:
                raise JSONPathError("not in range, nothing to end")
            stack[-1][1].append(_loop(find, parts))
        else:
            stack[-1][1].extend(_expressions(token))
    if len(stack) > 1:
        raise JSONPathError(f"range without {{end}} in {text!r}")
    return stack[0][1]


def _expressions(token: str) -> Iterator[_Part]:
    """The expressions of one pair of braces: quoted texts and paths, one after the other."""
    for piece in _pieces(token):
        if piece[:1] in "'\"" and piece[-1:] == piece[:1] and len(piece) > 1:
            yield _literal(re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), piece[1:-1]))
        else:
            yield _path(compile_path(_rooted(piece)), piece.startswith("$"))


def _pieces(token: str) -> Iterator[str]:
    """Words of an expression; brackets and quotes hold theirs together."""
    depth, quote, begin = 0, "", 0
    for index, char in enumerate(token):
        if quote:
            if char == quote and token[index - 1] != "\\":
                quote = ""
        elif char in "'\"":
            quote = char
        elif char in "[(":
            depth += 1
        elif char in "])":
            depth -= 1
        elif char.isspace() and depth == 0:
            if token[begin:index].strip():
                yield token[begin:index].strip()
            begin = index
    if token[begin:].strip():
        yield token[begin:].strip()


def _rooted(path: str) -> str:
    stripped = path.strip()
    return stripped if stripped.startswith((".", "[", "$", "@")) else f".{stripped}"


def _literal(text: str) -> _Part:
    return lambda _, __: iter((text,))


def _path(find: Find, from_root: bool) -> _Part:
    """Values at a path, with a blank between them."""
    return lambda root, here: iter((" ".join(map(shown, find(root if from_root else here))),))


def _loop(find: Find, parts: list[_Part]) -> _Part:
    return lambda root, here: (text for item in find(here) for part in parts for text in part(root, item))


def shown(value: Any) -> str:
    """A value as kubectl prints it: texts as they are, objects and lists as JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()
