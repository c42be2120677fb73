"""Finds what may come next on a command line: commands, flags, choices, and values of the control plane."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import typer
from typer._click import Context
from typer._click.shell_completion import _resolve_context
from typer.core import TyperArgument, TyperGroup, TyperOption

from services.cli.common.command_group import summary_of
from services.cli.kubectl.kubectl_commands import PassedOn

NO_FILES: Final = 4
FILES: Final = 0
"""What shells are told as kubectl's completion tells them: whether names of files may come instead."""
_FILE_OPTIONS: Final = frozenset(
    ("--kubeconfig", "--cluster-kubeconfig", "--dir", "--filename", "--from", "--agent-dir", "--nats-auth", "--policy")
)


class Item(NamedTuple):
    """One thing that may come next, and what it is."""

    value: str
    help: str = ""


class Asked(NamedTuple):
    """What values are asked for: the words before, and what the command line says of the control plane so far."""

    given: Mapping[str, Any]
    words: tuple[str, ...]
    incomplete: str


Values = Callable[[Asked], Sequence[Item]]
"""Finds values; it raises nothing."""
Passed = Callable[[str, Sequence[str], str, Mapping[str, Any]], Sequence[Item]]
"""Completes a command that another program reads: its name, its words, the incomplete one, what is known before."""


class Table(NamedTuple):
    """Where values come from: by option, by command for its arguments, and for commands that are passed on."""

    options: Mapping[str, Values]
    arguments: Mapping[str, Values]
    pass_on: Passed


def complete(app: typer.Typer, name: str, words: Sequence[str], table: Table) -> tuple[list[Item], int]:
    """What may come for the last of the words of a command line, and whether files may."""
    *before, incomplete = words or ("",)
    command = typer.main.get_command(app)
    known = command.commands if isinstance(command, TyperGroup) else {}
    place = next((index for index, word in enumerate(before) if word in known), None)
    if place is not None and isinstance(known[before[place]], PassedOn):
        given = _context(command, name, before[:place]).params
        return _matching(table.pass_on(before[place], before[place + 1 :], incomplete, given), incomplete), NO_FILES
    flag, equals, value = incomplete.partition("=")
    if equals and flag.startswith("--"):
        found, directive = complete(app, name, [*before, flag, value], table)
        return [Item(f"{flag}={item.value}", item.help) for item in found], directive
    ctx = _context(command, name, before)
    option = _open_option(ctx, before)
    if option is not None:
        return _of_option(ctx, option, incomplete, table)
    if incomplete.startswith("-") and "--" not in before:
        return _matching(_flags(ctx), incomplete), NO_FILES
    if isinstance(ctx.command, TyperGroup):
        shown = ctx.command.commands.items()
        return _matching([Item(key, summary_of(one)) for key, one in shown if not one.hidden], incomplete), NO_FILES
    values = table.arguments.get(_with_group(ctx)) or table.arguments.get(ctx.info_name or "")
    if values is None:
        return [], FILES
    return _matching(values(Asked(_known(ctx), _arguments(ctx), incomplete)), incomplete), NO_FILES


def _context(command: Any, name: str, words: Sequence[str]) -> Context:
    return _resolve_context(command, {}, name, list(words))


def _with_group(ctx: Context) -> str:
    """Name of a command behind that of its group."""
    return f"{ctx.parent.info_name if ctx.parent is not None else ''} {ctx.info_name}"


def _known(ctx: Context) -> dict[str, Any]:
    """The options so far, those before the command's name included."""
    known: dict[str, Any] = {}
    place: Context | None = ctx
    while place is not None:
        known = {**{name.rpartition("__")[2]: value for name, value in place.params.items() if value}, **known}
        place = place.parent
    return known


def _arguments(ctx: Context) -> tuple[str, ...]:
    """The words that are no options."""
    found: list[str] = []
    for parameter in ctx.command.params:
        value = ctx.params.get(parameter.name or "") if isinstance(parameter, TyperArgument) else None
        found += [value] if isinstance(value, str) else list(value or ())
    return tuple(found)


def _open_option(ctx: Context, before: Sequence[str]) -> TyperOption | None:
    """The option that still lacks its value."""
    if not before or "--" in before:
        return None
    for parameter in ctx.command.params:
        if isinstance(parameter, TyperOption) and not parameter.is_flag and before[-1] in parameter.opts:
            return parameter
    return None


def _of_option(ctx: Context, option: TyperOption, incomplete: str, table: Table) -> tuple[list[Item], int]:
    for name in option.opts:
        if values := table.options.get(name):
            head, comma, last = incomplete.rpartition(",")
            asked = Asked(_known(ctx), _arguments(ctx), last)
            taken = head.split(",")
            found = [item for item in _matching(values(asked), last) if item.value not in taken]
            return [Item(f"{head}{comma}{item.value}", item.help) for item in found], NO_FILES
    offered = option.shell_complete(ctx, incomplete)
    if offered:
        return [Item(str(item.value), item.help or "") for item in offered if item.type == "plain"], NO_FILES
    return [], FILES if _FILE_OPTIONS.intersection(option.opts) else NO_FILES


def _flags(ctx: Context) -> list[Item]:
    return [
        Item(name, getattr(parameter, "help", "") or "")
        for parameter in ctx.command.get_params(ctx)
        if isinstance(parameter, TyperOption) and not parameter.hidden
        for name in (*parameter.opts, *parameter.secondary_opts)
        if name.startswith("--")
    ]


def _matching(items: Sequence[Item], incomplete: str) -> list[Item]:
    return [item for item in items if item.value.startswith(incomplete)]
