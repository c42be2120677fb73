"""Checks the words of docstrings, comments and identifiers: words for an unnamed component are refused."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLACES = ("schemas", *sorted(f"services/{path.parent.name}" for path in ROOT.glob("services/*/__init__.py")))
"""Folders whose modules are checked, with everything below them."""
REFUSED = frozenset(("nobody", "somebody", "whoever", "anew"))
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
"""One word of a text or of an identifier in snake case or camel case."""


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and text of each string that stands alone: docstrings of modules, classes, functions and attributes."""
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str() as text, lineno=first)):
                yield from enumerate(text.split("\n"), first)


def comments_and_names(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of each comment and identifier."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in (tokenize.COMMENT, tokenize.NAME):
            yield token.start[0], token.string


def refused_words(source: str) -> list[tuple[int, str]]:
    """Line and word of each refused word, in order; string literals other than docstrings are not checked."""
    # Parsing takes long; hardly any file has one of these words anywhere.
    if not any(word in source.lower() for word in REFUSED):
        return []
    texts = (*docstrings(ast.parse(source)), *comments_and_names(source))
    return sorted((line, word) for line, text in texts for word in WORD.findall(text) if word.lower() in REFUSED)


@pytest.mark.parametrize("place", PLACES)
def test_code_and_comments_use_no_refused_word(place: str) -> None:
    paths = sorted((ROOT / place).rglob("*.py"))
    assert paths, f"{place} has no modules"
    found = [
        f"{path.relative_to(ROOT)}:{line}: '{word}'"
        for path in paths
        for line, word in refused_words(path.read_text(encoding="utf-8"))
    ]
    assert not found, "name the component instead of:\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('"""First line.\n\nFor nobody.\n"""\n', [(3, "nobody")]),
        ('LIMIT = 1\n"""Somebody sets it."""\n', [(2, "Somebody")]),
        ('class Queue:\n    """Whoever waits."""\n', [(2, "Whoever")]),
        ("x = 1  # Made anew.\n", [(1, "anew")]),
        ("def _read_anew() -> None: ...\n", [(1, "anew")]),
        ("class NobodyElse: ...\n", [(1, "Nobody")]),
        ("def f(whoever: int) -> None: ...\n", [(1, "whoever")]),
        ("NOBODY = 1\n", [(1, "NOBODY")]),
        ('raise ValueError(f"nobody answers on {subject}")\n', []),
        ('text = """nobody\nanew"""\n', []),
        ('"""Renewed for a new one, by anybody."""\n', []),
    ],
)
def test_refused_words_are_found_by_place(source: str, expected: list[tuple[int, str]]) -> None:
    assert refused_words(source) == expected
