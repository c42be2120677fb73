"""Warnings: cleaned of what would break a header, and bounded together."""

from __future__ import annotations

import pytest

from services.apiserver.core.warning_texts import LONGEST_CUT, LONGEST_TOTAL, warning_texts


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", ["plain"]),
        ("a\r\nb", ["a b"]),
        ("a\nb\rc\x00\x1b\x7f", ["a bc"]),
        ("\u2028\u202e", []),
        ("", []),
        ("half \ud800", ["half"]),
        ("schön 🚀", ["schön 🚀"]),
    ],
)
def test_control_characters_are_left_out(text: str, shown: list[str]) -> None:
    assert warning_texts([text, text]) == shown


def test_many_long_warnings_are_cut_and_end() -> None:
    assert warning_texts(["x" * LONGEST_TOTAL]) == ["x" * LONGEST_TOTAL]
    found = warning_texts(f"{number}" * 1000 for number in range(1000))
    assert {len(text) for text in found} == {LONGEST_CUT}
    assert len(found) == LONGEST_TOTAL // LONGEST_CUT
