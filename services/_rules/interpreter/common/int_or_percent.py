"""Reads fields that are a number or a percentage of a total, such as maxUnavailable."""

from __future__ import annotations


def scaled_value(value: object, total: int, *, up: bool) -> int:
    """The count that a number or a percentage of `total` gives; what is neither counts as nothing."""
    if isinstance(value, int):
        return max(value, 0)
    text = str(value)
    if not text.endswith("%") or not text[:-1].isdigit():
        return 0
    exact = int(text[:-1]) * total
    return -(-exact // 100) if up else exact // 100
