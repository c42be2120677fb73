"""Options with a few values: help lists them, completion offers them, any other is refused."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer
from typer._types import TyperChoice

TABLE: Final = "table"


class OneOf(TyperChoice[str]):
    """One of several words; the usual one, and none at all, read as empty text."""

    def __init__(self, *words: str, usual: str = TABLE) -> None:
        super().__init__(words)
        self._usual = usual

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        """The word, or empty text for the usual one; a word that is none of them is a usage error."""
        return "" if value in ("", self._usual) else super().convert(value, param, ctx)


def output_option(*words: str, usual: str = TABLE) -> Any:
    """The option -o with the outputs that a command knows; `table` is for people and reads as empty text."""
    return typer.Option("--output", "-o", help="How to print it.", click_type=OneOf(*words, usual=usual))


TableOutput = Annotated[str, output_option(TABLE, "wide", "json", "yaml")]
"""For commands whose table has further columns."""
PlainOutput = Annotated[str, output_option(TABLE, "json", "yaml")]
"""For commands whose table has no further columns."""
DocumentOutput = Annotated[str, output_option("json", "yaml", usual="")]
"""For commands that print a line for people."""
