"""What is wrong with a JSON text, in the words of the parser that API servers read documents inside of objects with."""

from __future__ import annotations

import re
from typing import Any

import msgspec

_SPACE = " \t\r\n"
_LITERALS = {"n": "null", "t": "true", "f": "false"}
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_ESCAPES = '"\\/bfnrtu'
_ENDED = "unexpected end of JSON input"
_TYPES = {list: "array", str: "string", bool: "bool", int: "number", float: "number"}


class _Problem(Exception):
    """What is wrong with the text; its argument is the message."""


def json_object_problem(text: bytes) -> str:
    """Return what keeps the text from being a JSON object; empty when it is one, or null."""
    try:
        value: Any = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return json_problem(text.decode(errors="replace"))
    if value is None or isinstance(value, dict):
        return ""
    return f"json: cannot unmarshal {_TYPES[type(value)]} into Go value of type map[string]interface {{}}"


def json_problem(text: str) -> str:
    """Return the first thing wrong with a text that is no JSON; empty when nothing is found.

    The text is read without recursion: what is open is a stack of the characters that opened it.
    """
    try:
        _Scanner(text).document()
    except _Problem as problem:
        return str(problem)
    return ""


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.place = 0

    def peek(self) -> str:
        """The next character that is no space; raises _Problem at the end of the text."""
        while self.place < len(self.text) and self.text[self.place] in _SPACE:
            self.place += 1
        if self.place == len(self.text):
            raise _Problem(_ENDED)
        return self.text[self.place]

    def refuse(self, where: str) -> _Problem:
        shown = {"'": "\\'", '"': '"'}.get(self.text[self.place], self.text[self.place])
        return _Problem(f"invalid character '{shown}' {where}")

    def document(self) -> None:
        open_: list[str] = []
        while True:
            self.value(open_)
            while open_ and not self.more(open_):
                pass
            if not open_:
                break
        if self.text[self.place :].strip(_SPACE):
            self.peek()
            raise self.refuse("after top-level value")

    def value(self, open_: list[str]) -> None:
        """Read the beginning of a value, going into objects and lists that are not empty."""
        while True:
            char = self.peek()
            if char == "{":
                self.place += 1
                open_.append(char)
                if self.peek() == "}":
                    return
                self.key()
            elif char == "[":
                self.place += 1
                open_.append(char)
                if self.peek() == "]":
                    return
            else:
                self.scalar(char)
                return

    def more(self, open_: list[str]) -> bool:
        """Read what stands behind a value; True when another value follows, False after the end of a list or object."""
        char = self.peek()
        inside_object = open_[-1] == "{"
        if char == ("}" if inside_object else "]"):
            self.place += 1
            open_.pop()
            return False
        if char != ",":
            raise self.refuse("after object key:value pair" if inside_object else "after array element")
        self.place += 1
        if inside_object:
            self.key()
        return True

    def key(self) -> None:
        """Read a key and the colon behind it."""
        if self.peek() != '"':
            raise self.refuse("looking for beginning of object key string")
        self.string()
        if self.peek() != ":":
            raise self.refuse("after object key")
        self.place += 1

    def scalar(self, char: str) -> None:
        literal = _LITERALS.get(char)
        if char == '"':
            self.string()
        elif literal is not None:
            self.literal(literal)
        elif number := _NUMBER.match(self.text, self.place):
            self.place = number.end()
        elif char == "-":
            self.place += 1
            self.peek()
            raise self.refuse("in numeric literal")
        else:
            raise self.refuse("looking for beginning of value")

    def literal(self, literal: str) -> None:
        for wanted in literal:
            if self.place == len(self.text):
                raise _Problem(_ENDED)
            if self.text[self.place] != wanted:
                raise self.refuse(f"in literal {literal} (expecting '{wanted}')")
            self.place += 1

    def string(self) -> None:
        self.place += 1
        while self.place < len(self.text):
            char = self.text[self.place]
            if char == '"':
                self.place += 1
                return
            if char < " ":
                raise _Problem(f"invalid character {_control(char)} in string literal")
            if char == "\\":
                self.place += 1
                if self.place < len(self.text) and self.text[self.place] not in _ESCAPES:
                    raise self.refuse("in string escape code")
            self.place += 1
        raise _Problem(_ENDED)


def _control(char: str) -> str:
    names = {"\n": "'\\n'", "\t": "'\\t'", "\r": "'\\r'"}
    return names.get(char, f"'\\x{ord(char):02x}'")
