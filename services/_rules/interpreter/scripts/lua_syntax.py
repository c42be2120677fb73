"""Validates that a text is a Lua 5.1 chunk (with goto and empty statements), before it is stored as a script.

Only the syntax is checked, nothing runs. One function per rule of the grammar.
"""

import re
from typing import Final

_KEYWORDS: Final = frozenset(
    {
        "and",
        "break",
        "do",
        "else",
        "elseif",
        "end",
        "false",
        "for",
        "function",
        "goto",
        "if",
        "in",
        "local",
        "nil",
        "not",
        "or",
        "repeat",
        "return",
        "then",
        "true",
        "until",
        "while",
    }
)
_TOKEN: Final = re.compile(
    r"""(?P<space>[ \t\r\n\f\v]+|--(?!\[=*\[)[^\n]*)
    |(?P<comment>--\[(?P<level>=*)\[)
    |(?P<long>\[(?P<depth>=*)\[)
    |(?P<number>0[xX][0-9a-fA-F]+|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<string>"(?:[^"\\\n]|\\(?:.|\n))*"|'(?:[^'\\\n]|\\(?:.|\n))*')
    |(?P<symbol>\.\.\.|\.\.|::|==|~=|<=|>=|[-+*/%^\#<>=(){}\[\];:,.])""",
    re.VERBOSE | re.ASCII,
)
_BINARY: Final = frozenset(["+", "-", "*", "/", "%", "^", "..", "==", "~=", "<", "<=", ">", ">=", "and", "or"])
_UNARY: Final = frozenset(("not", "-", "#"))
_BLOCK_END: Final = frozenset(("end", "else", "elseif", "until", ""))
# Beyond this a script is an attempt to exhaust the reader.
_DEEPEST: Final = 180


class LuaSyntaxError(ValueError):
    """A text that is no Lua chunk; the message names the line and what was found there."""


def problem(script: str) -> str | None:
    """What keeps a script from being a Lua chunk, or nothing."""
    try:
        _Parser(_tokens(script)).chunk()
    except LuaSyntaxError as error:
        return str(error)
    return None


def _tokens(script: str) -> list[tuple[str, str, int]]:
    """Kind, text and line of every token, the end being an empty symbol."""
    found: list[tuple[str, str, int]] = []
    position, line = 0, 1
    if script.startswith("#"):
        position = script.find("\n") if "\n" in script else len(script)
    while position < len(script):
        token = _TOKEN.match(script, position)
        if token is None:
            what = "unfinished string" if script[position] in "\"'" else f"unexpected {script[position]!r}"
            raise LuaSyntaxError(f"line {line}: {what}")
        kind, end = token.lastgroup or "", token.end()
        if token["comment"] is not None or token["long"] is not None:
            kind = "space" if token["comment"] is not None else "string"
            closing = f"]{token['level'] or token['depth'] or ''}]"
            end = script.find(closing, end) + len(closing)
            if end < len(closing):
                raise LuaSyntaxError(f"line {line}: {closing} is missing")
        text = script[position:end]
        if kind == "name" and text in _KEYWORDS:
            kind = "keyword"
        if kind != "space":
            found.append((kind, text, line))
        line += text.count("\n")
        position = end
    return [*found, ("symbol", "", line)]


class _Parser:
    """Reads the tokens of one chunk; `loops` and `varargs` are those around the current place."""

    def __init__(self, tokens: list[tuple[str, str, int]]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0
        self._loops = 0
        self._varargs = True

    def chunk(self) -> None:
        self._block()
        if self._text():
            raise self._unexpected()

    def _kind(self) -> str:
        return self._tokens[self._at][0]

    def _text(self) -> str:
        kind, text, _ = self._tokens[self._at]
        return text if kind in ("symbol", "keyword") else f"<{kind}>"

    def _take(self, *wanted: str) -> bool:
        if self._text() in wanted and self._text():
            self._at += 1
            return True
        return False

    def _need(self, wanted: str) -> None:
        if not self._take(wanted):
            raise self._unexpected(wanted)

    def _unexpected(self, wanted: str = "") -> LuaSyntaxError:
        _, text, line = self._tokens[self._at]
        found = repr(text) if text else "the end"
        expected = f", {wanted!r} was expected" if wanted else ""
        return LuaSyntaxError(f"line {line}: {found} does not fit here{expected}")

    def _name(self) -> None:
        if self._kind() != "name":
            raise self._unexpected("a name")
        self._at += 1

    def _names(self) -> None:
        self._name()
        while self._take(","):
            self._name()

    def _block(self) -> None:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise LuaSyntaxError(f"line {self._tokens[self._at][2]}: nested too deeply")
        while self._text() not in _BLOCK_END:
            if self._take(";"):
                continue
            if self._take("return"):
                if self._text() not in _BLOCK_END and self._text() != ";":
                    self._expressions()
                self._take(";")
                break
            if self._text() == "break":
                if not self._loops:
                    raise self._unexpected()
                self._take("break")
                self._take(";")
                break
            self._statement()
        self._depth -= 1

    def _body(self) -> None:
        """A block that ends with `end`."""
        self._block()
        self._need("end")

    def _loop(self) -> None:
        self._loops += 1
        self._body()
        self._loops -= 1

    def _statement(self) -> None:
        if self._take("do"):
            self._body()
        elif self._take("while"):
            self._expression()
            self._need("do")
            self._loop()
        elif self._take("repeat"):
            self._loops += 1
            self._block()
            self._loops -= 1
            self._need("until")
            self._expression()
        elif self._take("if"):
            self._if()
        elif self._take("for"):
            self._for()
        elif self._take("function"):
            self._name()
            while self._take("."):
                self._name()
            if self._take(":"):
                self._name()
            self._function()
        elif self._take("local"):
            self._local()
        elif self._take("goto"):
            self._name()
        elif self._take("::"):
            self._name()
            self._need("::")
        else:
            self._call_or_assignment()

    def _if(self) -> None:
        self._expression()
        self._need("then")
        self._block()
        while self._take("elseif"):
            self._expression()
            self._need("then")
            self._block()
        if self._take("else"):
            self._block()
        self._need("end")

    def _for(self) -> None:
        self._name()
        if self._take("="):
            self._expression()
            self._need(",")
            self._expression()
            if self._take(","):
                self._expression()
        else:
            if self._take(","):
                self._names()
            self._need("in")
            self._expressions()
        self._need("do")
        self._loop()

    def _local(self) -> None:
        if self._take("function"):
            self._name()
            self._function()
            return
        self._names()
        if self._take("="):
            self._expressions()

    def _function(self) -> None:
        """Parameters and body; loops outside do not count inside."""
        loops, varargs = self._loops, self._varargs
        self._loops, self._varargs = 0, False
        self._need("(")
        if not self._take(")"):
            while not self._take("..."):
                self._name()
                if not self._take(","):
                    break
            else:
                self._varargs = True
            self._need(")")
        self._body()
        self._loops, self._varargs = loops, varargs

    def _call_or_assignment(self) -> None:
        what = self._prefixed()
        if what == "call":
            return
        while what == "place" and self._take(","):
            what = self._prefixed()
        if what != "place":
            raise self._unexpected()
        self._need("=")
        self._expressions()

    def _prefixed(self) -> str:
        """A name or parenthesis with what follows it; returns whether it is a call, a place, or only a value."""
        if self._take("("):
            self._expression()
            self._need(")")
            what = "value"
        else:
            self._name()
            what = "place"
        while True:
            if self._take("."):
                self._name()
                what = "place"
            elif self._take("["):
                self._expression()
                self._need("]")
                what = "place"
            elif self._take(":"):
                self._name()
                if not self._arguments():
                    raise self._unexpected("(")
                what = "call"
            elif self._arguments():
                what = "call"
            else:
                return what

    def _arguments(self) -> bool:
        if self._kind() == "string":
            self._at += 1
            return True
        if self._text() == "{":
            self._table()
            return True
        if self._text() != "(":
            return False
        if self._tokens[self._at][2] != self._tokens[self._at - 1][2]:
            line = self._tokens[self._at][2]
            raise LuaSyntaxError(f"line {line}: '(' on a new line could be a call or a new statement")
        self._take("(")
        if not self._take(")"):
            self._expressions()
            self._need(")")
        return True

    def _expressions(self) -> None:
        self._expression()
        while self._take(","):
            self._expression()

    def _expression(self) -> None:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise LuaSyntaxError(f"line {self._tokens[self._at][2]}: nested too deeply")
        while True:
            while self._take(*_UNARY):
                pass
            self._operand()
            if not self._take(*_BINARY):
                break
        self._depth -= 1

    def _operand(self) -> None:
        if self._kind() in ("number", "string") or self._text() in ("nil", "true", "false"):
            self._at += 1
        elif self._text() == "...":
            if not self._varargs:
                raise self._unexpected()
            self._at += 1
        elif self._text() == "{":
            self._table()
        elif self._take("function"):
            self._function()
        else:
            self._prefixed()

    def _table(self) -> None:
        self._need("{")
        while not self._take("}"):
            if self._take("["):
                self._expression()
                self._need("]")
                self._need("=")
            elif self._kind() == "name" and self._tokens[self._at + 1][1] == "=":
                self._at += 2
            self._expression()
            if not self._take(",", ";"):
                self._need("}")
                break
