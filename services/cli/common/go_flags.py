"""Lets switches be written as kubectl's users write them: `--wait=false`, `--dry-run=true`."""

from __future__ import annotations

from typing import Final

from typer._click import Context
from typer.core import TyperCommand, TyperOption

_WORDS: Final = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}


class SwitchCommand(TyperCommand):
    """A command whose switches may have a value behind a `=`."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Read the words, switches with values as the switch alone, or as none."""
        switches = {
            name: option
            for option in self.params
            if isinstance(option, TyperOption) and option.is_flag
            for name in option.opts
        }
        read: list[str] = []
        for index, word in enumerate(args):
            if word == "--":
                read += args[index:]
                break
            name, equals, value = word.partition("=")
            wanted = _WORDS.get(value.lower()) if equals else None
            option = switches.get(name)
            if option is None or wanted is None:
                read.append(word)
            elif wanted:
                read.append(name)
            else:
                read += option.secondary_opts[:1]
        return super().parse_args(ctx, read)
