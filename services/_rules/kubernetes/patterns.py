"""Regular expressions that users write: RE2's syntax, and time that grows with the text only.

Python's own engine backtracks: a short pattern and a short text can hold it up for hours. RE2 has the syntax that
Kubernetes documents for patterns, and refuses what cannot be matched in bounded time and memory.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

Matcher = Callable[[str], bool]

# What is wrong in the words of Go's library, which Kubernetes passes on.
_WORDS: Final = {
    "no argument for repetition operator": "missing argument to repetition operator",
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid named capture group": "invalid named capture",
    "trailing \\": "trailing backslash at end of expression",
}


class PatternError(ValueError):
    """An expression that RE2 does not take; the text says why, as Kubernetes words it."""


@lru_cache(maxsize=4096)
def compiled(pattern: str) -> Any:
    """Return the compiled expression; raises PatternError."""
    import re2  # Only servers that meet a pattern pay for loading it.

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except (re2.error, UnicodeError) as error:
        raise PatternError(f"error parsing regexp: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    first = error.args[0] if error.args else error
    text = first.decode("utf-8", "replace") if isinstance(first, bytes) else str(first)
    if text.startswith("pattern too large"):
        return "expression too large"
    what, _, where = text.partition(": ")
    return f"{_WORDS.get(what, what)}: `{where}`"


def problem(pattern: str) -> str:
    """Return why an expression is not taken; empty for one that is."""
    try:
        compiled(pattern)
    except PatternError as error:
        return str(error)
    return ""


def matcher(pattern: str) -> Matcher:
    """Return whether the expression matches anywhere in a text, as a function; raises PatternError."""
    search = compiled(pattern).search

    def matches(text: str) -> bool:
        return search(text) is not None

    return matches


def whole_matcher(pattern: str) -> Matcher:
    """Return whether the expression matches a whole text, as a function; raises PatternError."""
    match = compiled(pattern).fullmatch

    def matches(text: str) -> bool:
        return match(text) is not None

    return matches
