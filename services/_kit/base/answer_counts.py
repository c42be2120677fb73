"""Counts invalid answers of other systems, for the metrics of the process."""

from __future__ import annotations

from typing import Final


class Counts:
    """Since the start of the process."""

    def __init__(self) -> None:
        self.bad_answers = 0
        """Answers that exceeded a limit or were not what was asked for."""
        self.waited_seconds = 0.0
        """For which neighbours that sent much were made to wait."""


COUNTS: Final = Counts()
