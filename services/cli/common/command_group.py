"""Help of a program: commands under headings at the full width of the terminal; unknown commands are refused."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

import typer
from typer._click import Command, Context, HelpFormatter
from typer._click.exceptions import UsageError
from typer.core import TyperGroup

from services.cli.common.terminal_text import strong

WIDEST: Final = 200
"""Columns of help on a wider terminal: longer lines are hard to read."""
SETTINGS: Final[dict[str, Any]] = {"help_option_names": ["-h", "--help"], "max_content_width": WIDEST}
Groups = Mapping[str, Sequence[str]]
"""Headings of the help of a program, and the commands below each."""
OTHER: Final = "Other Commands"


class _Formatter(HelpFormatter):
    """Headings that stand out on a terminal."""

    def write_heading(self, heading: str) -> None:
        self.write(f"{'':>{self.current_indent}}{strong(f'{heading}:', sys.stdout)}\n")


class CommandGroup(TyperGroup):
    """Commands that are listed under headings, with summaries that are never cut; help where none is named."""

    groups: Groups = {}
    summaries: Mapping[str, str] = {}
    """Of commands whose own help begins with more than one line holds."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Context:
        """A context whose help is as wide as the terminal."""
        made: Context = super().make_context(info_name, args, parent, **{**SETTINGS, **extra})
        return made

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Without any argument: help, and no error."""
        if not args and not ctx.resilient_parsing and not self.invoke_without_command:
            typer.echo(ctx.get_help())
            ctx.exit()
        ctx.formatter_class = _Formatter
        return super().parse_args(ctx, self._command_first(ctx, args))

    def _command_first(self, ctx: Context, args: list[str]) -> list[str]:
        """The arguments with options of the command behind it: kubectl takes `-n shop get`, too."""
        own = {name: getattr(param, "is_flag", False) for param in self.get_params(ctx) for name in param.opts}
        ours: list[str] = []
        theirs: list[str] = []
        rest = list(args)
        while rest and rest[0].startswith("-"):
            name, given, _ = rest[0].partition("=")
            attached = given or (len(name) > 2 and not name.startswith("--"))
            count = 1 if attached or own.get(name) else 2
            (ours if name in own else theirs).extend(rest[:count])
            del rest[:count]
        if theirs and rest and rest[0] in self.commands:
            return [*ours, rest[0], *theirs, *rest[1:]]
        return args

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, Command | None, list[str]]:
        """The command that is named; an unknown one is refused with those that look like it."""
        if not ctx.resilient_parsing and args and not args[0].startswith("-") and args[0] not in self.commands:
            from difflib import get_close_matches

            shown = [name for name, command in self.commands.items() if not command.hidden]
            near = "".join(f"\n\t{name}" for name in get_close_matches(args[0], shown))
            hint = f"\n\nDid you mean this?{near}\n" if near else ""
            raise UsageError(f'unknown command "{args[0]}" for "{ctx.command_path}"{hint}', ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Every command that is not hidden, under its heading."""
        left = {name: command for name, command in self.commands.items() if not command.hidden}
        sections = {title: [name for name in names if name in left] for title, names in self.groups.items()}
        placed = {name for names in sections.values() for name in names}
        rest = OTHER if self.groups else "Commands"
        sections[rest] = [*sections.get(rest, ()), *(name for name in left if name not in placed)]
        widest = max(map(len, left), default=0)
        for title, names in sections.items():
            if names:
                with formatter.section(title):
                    rows = [(name.ljust(widest), self.summaries.get(name) or summary_of(left[name])) for name in names]
                    formatter.write_dl(rows)


def summary_of(command: Command) -> str:
    """What a command does: its short help, else the first sentence of its help."""
    text = " ".join((command.short_help or command.help or "").split())
    return text.partition(": ")[0].partition(". ")[0].partition(";")[0].rstrip(".")
