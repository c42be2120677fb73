"""The texts of Warning headers: what others wrote is cleaned and bounded, so that the answer stays readable."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

LONGEST_TOTAL: Final = 4096
"""Characters of all warnings of an answer; when there are more, each is cut."""
LONGEST_CUT: Final = 256


def warning_texts(texts: Iterable[str]) -> list[str]:
    """Each text once, without control characters; cut, and the rest left out, where all are too long together."""
    found = list(dict.fromkeys(clean for text in texts if (clean := _clean(text))))
    if sum(map(len, found)) <= LONGEST_TOTAL:
        return found
    kept: list[str] = []
    written = 0
    for text in found:
        if written >= LONGEST_TOTAL:
            break
        kept.append(text[:LONGEST_CUT])
        written += len(kept[-1])
    return kept


def _clean(text: str) -> str:
    """A text without control characters and without halves of characters."""
    spaced = text.replace("\r\n", " ").replace("\n", " ")
    return "".join(one for one in spaced if one.isprintable() and not "\ud800" <= one <= "\udfff").strip()
