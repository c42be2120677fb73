"""Reads command lines of the small shell: quotes, variables, pipes, `;`, `&&`, `||` and a few redirections."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, Literal

from msgspec import Struct

MOST_BYTES: Final = 64 << 10
_MOST_COMMANDS: Final = 1000
_MOST_IN_PIPELINE: Final = 16
MOST_EXPANDED: Final = 1 << 20
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OPERATORS: Final = ("&&", "||", ";", "\n", "|")
_REDIRECTIONS: Final = ("2>/dev/null", "1>/dev/null", ">/dev/null", "</dev/null", "2>&1", "1>&2", ">&2")
_REFUSED: Final = frozenset({"if", "then", "for", "while", "until", "do", "done", "case", "function", "fi", "{", "("})

TOO_LONG: Final = f"a command of more than {MOST_EXPANDED} characters, once its variables are filled in"

Joined = Literal["", ";", "&&", "||"]


class Unreadable(ValueError):
    """A command line that this shell cannot read; the text says why."""


class Piece(Struct, frozen=True):
    """A part of a word: literal text, or the name of a variable."""

    text: str
    variable: bool = False
    quoted: bool = False


Word = tuple[Piece, ...]


class Command(Struct, frozen=True):
    """One command with its redirections."""

    words: tuple[Word, ...]
    redirections: tuple[str, ...] = ()


class Pipeline(Struct, frozen=True):
    """Commands whose outputs are the next one's inputs, and how it is joined to the pipeline before it."""

    commands: tuple[Command, ...]
    joined: Joined = ""


def parse(text: str) -> list[Pipeline]:
    """The pipelines of a command line; raises Unreadable."""
    if len(text) > MOST_BYTES:
        raise Unreadable(f"a command line of {len(text)} characters; {MOST_BYTES} are read at most")
    return _Reader(text).pipelines()


def is_assignment(word: Word) -> bool:
    """Whether a word is NAME=VALUE."""
    if not word or word[0].variable or word[0].quoted:
        return False
    name, equals, _ = word[0].text.partition("=")
    return bool(equals) and _NAME.fullmatch(name) is not None


def expand(word: Word, value_of: Callable[[str], str]) -> list[str]:
    """What a word stands for: one text, or several (or none) where a variable without quotes holds blanks.

    Raises Unreadable where it would be too long.
    """
    size = 0
    found, present = [""], any(piece.quoted or not piece.variable for piece in word)
    for piece in word:
        text = value_of(piece.text) if piece.variable else piece.text
        size += len(text)
        if size > MOST_EXPANDED:
            raise Unreadable(TOO_LONG)
        if not piece.variable or piece.quoted:
            found[-1] += text
            continue
        parts = text.split()
        if parts:
            present = True
            found[-1] += parts[0]
            found += parts[1:]
    return found if present else []


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._place = 0

    def pipelines(self) -> list[Pipeline]:
        found: list[Pipeline] = []
        commands: list[Command] = []
        joined: Joined = ""
        count = 0
        while True:
            command = self._command()
            operator = self._operator()
            if command.words or command.redirections:
                commands.append(command)
                count += 1
            elif operator == "\n":
                # What a pipe or an operator at the end of a line leads to stands on a later one.
                continue
            elif operator in ("|", "&&", "||") or commands or joined in ("&&", "||"):
                raise Unreadable(f'syntax error: unexpected "{operator or "end of line"}"')
            if len(commands) > _MOST_IN_PIPELINE:
                raise Unreadable(f"more than {_MOST_IN_PIPELINE} commands in one pipeline")
            if count > _MOST_COMMANDS:
                raise Unreadable(f"more than {_MOST_COMMANDS} commands in one line")
            if operator == "|":
                continue
            if commands:
                found.append(Pipeline(tuple(commands), joined))
                commands = []
            if not operator:
                return found
            joined = ";" if operator == "\n" else operator  # type: ignore[assignment]  # "|" was handled

    def _operator(self) -> str:
        for operator in _OPERATORS:
            if self._text.startswith(operator, self._place):
                self._place += len(operator)
                return operator
        return ""

    def _command(self) -> Command:
        words: list[Word] = []
        redirections: list[str] = []
        while True:
            self._skip()
            if self._place >= len(self._text) or self._text.startswith(_OPERATORS, self._place):
                return Command(tuple(words), tuple(redirections))
            compact = self._redirection()
            if compact:
                redirections.append(compact)
                continue
            letter = self._text[self._place]
            if letter in "&<>()`":
                raise Unreadable(f'"{letter}" is not simulated; redirections lead to /dev/null or another output only')
            word = self._word()
            if not words and len(word) == 1 and not word[0].quoted and word[0].text in _REFUSED:
                raise Unreadable(f"{word[0].text}: loops, conditions and groups are not simulated")
            words.append(word)

    def _skip(self) -> None:
        text = self._text
        while self._place < len(text):
            if text[self._place] in " \t\r":
                self._place += 1
            elif text.startswith("\\\n", self._place):
                self._place += 2
            elif text[self._place] == "#":
                end = text.find("\n", self._place)
                self._place = len(text) if end < 0 else end
            else:
                return

    def _redirection(self) -> str:
        for known in _REDIRECTIONS:
            operator = known.removesuffix("/dev/null")
            if known == operator and self._text.startswith(known, self._place):
                self._place += len(known)
                return known
            if known != operator and self._text.startswith(operator, self._place):
                start = self._place + len(operator)
                while self._text.startswith(" ", start):
                    start += 1
                if self._text.startswith("/dev/null", start):
                    self._place = start + len("/dev/null")
                    return known
        return ""

    def _word(self) -> Word:
        pieces: list[Piece] = []
        plain = ""
        text = self._text

        def flush(*, quoted: bool = False) -> None:
            nonlocal plain
            if plain or quoted:
                pieces.append(Piece(plain, quoted=quoted))
            plain = ""

        while self._place < len(text) and text[self._place] not in " \t\r\n;|&<>()`":
            letter = text[self._place]
            self._place += 1
            if letter == "\\" and text.startswith("\n", self._place):
                self._place += 1
            elif letter == "\\":
                flush()
                plain = text[self._place : self._place + 1]
                self._place += 1
                flush(quoted=True)
            elif letter == "'":
                flush()
                plain = self._until("'")
                flush(quoted=True)
            elif letter == '"':
                flush()
                pieces += self._double()
            elif letter == "$" and (name := self._variable()):
                flush()
                pieces.append(Piece(name, variable=True))
            else:
                plain += letter
        flush()
        return tuple(pieces)

    def _until(self, end: str) -> str:
        stop = self._text.find(end, self._place)
        if stop < 0:
            raise Unreadable("syntax error: unterminated quoted string")
        found = self._text[self._place : stop]
        self._place = stop + 1
        return found

    def _double(self) -> list[Piece]:
        pieces: list[Piece] = []
        plain: list[str] = []
        while True:
            if self._place >= len(self._text):
                raise Unreadable("syntax error: unterminated quoted string")
            letter = self._text[self._place]
            self._place += 1
            if letter == '"':
                pieces.append(Piece("".join(plain), quoted=True))
                return pieces
            if letter == "\\" and self._text[self._place : self._place + 1] in ("$", '"', "\\", "`"):
                plain.append(self._text[self._place])
                self._place += 1
            elif letter == "$" and (name := self._variable()):
                pieces += [Piece("".join(plain), quoted=True), Piece(name, variable=True, quoted=True)]
                plain = []
            else:
                plain.append(letter)

    def _variable(self) -> str:
        """The name behind a dollar sign; empty where there is none."""
        text, place = self._text, self._place
        if text[place : place + 1] in ("?", "$"):
            self._place += 1
            return text[place]
        braces = text.startswith("{", place)
        match = _NAME.match(text, place + braces)
        if match is None:
            if braces or text.startswith("(", place):
                raise Unreadable("only ${NAME} and $NAME are simulated")
            return ""
        self._place = match.end()
        if braces:
            if not text.startswith("}", self._place):
                raise Unreadable("only ${NAME} and $NAME are simulated")
            self._place += 1
        return match.group()
