"""What every command line of the product has: errors as kubectl words them, and versions."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Final, NoReturn

import typer
from typer._click.exceptions import ClickException, NoSuchOption

from services.cli.common.command import Commands, Work
from services.cli.common.command_group import CommandGroup, Groups
from services.cli.common.terminal_text import strong
from services.cli.shell.choices import DocumentOutput

_COMPLAINT: Final = "error: "


def program(name: str, about: str, groups: Groups, summaries: Mapping[str, str]) -> Commands:
    """The root of a program: no arguments and -h show its help, commands under `groups`, some with `summaries`."""
    kind = type("Program", (CommandGroup,), {"groups": groups, "summaries": summaries})
    return Commands(name=name, help=about, cls=kind, pretty_exceptions_enable=False, add_completion=False)


def start(app: typer.Typer, name: str, arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a program and end the process; a usage error ends it with 1 and one line that begins with `error: `."""
    try:
        code = app(list(sys.argv[1:] if arguments is None else arguments), prog_name=name, standalone_mode=False)
    except ClickException as error:
        sys.stderr.write(f"{strong(_COMPLAINT, sys.stderr, 'red')}{_worded(error)}\n")
        ctx = getattr(error, "ctx", None)
        if ctx is not None:
            sys.stderr.write(f"See '{ctx.command_path} --help' for usage.\n")
        raise SystemExit(1) from None
    except typer.Abort:
        sys.stderr.write("aborted\n")
        raise SystemExit(1) from None
    raise SystemExit(code if isinstance(code, int) else 0)


def _worded(error: ClickException) -> str:
    """The message of an error of the command line, in the words of kubectl."""
    if isinstance(error, NoSuchOption):
        name = error.option_name
        near = f"; did you mean {' or '.join(sorted(error.possibilities))}?" if error.possibilities else ""
        return (f"unknown flag: {name}" if name.startswith("--") else f"unknown shorthand flag: {name}") + near
    text = str(getattr(error, "format_message", lambda: error.message)())
    if text.startswith(("Missing", "Invalid", "Got", "Option", "No ")):
        text = text[:1].lower() + text[1:].rstrip()
    return text.removesuffix(".")


def version_line(name: str) -> str:
    """One line with the version of a program, as Karmada's command writes it."""
    facts = ", ".join(f'{field}:"{value}"' for field, value in _versions().items())
    return f"{name} version: version.Info{{{facts}}}"


def _versions() -> dict[str, str]:
    from importlib.metadata import version

    return {
        "GitVersion": f"v{version('fleetlog')}",
        "PythonVersion": platform.python_version(),
        "Platform": f"{platform.system().lower()}/{platform.machine()}",
    }


def show_version(name: str, output: str = "") -> int:
    """Print the version of a program: one line, or a document."""
    if not output:
        print(version_line(name))
        return 0
    from services.cli.common.printing import as_json, as_yaml

    facts = {field[:1].lower() + field[1:]: value for field, value in _versions().items()}
    print((as_json if output == "json" else as_yaml)({"clientVersion": facts}), end="")
    return 0


def add_version(app: Commands, name: Callable[[], str]) -> None:
    """Give a program the command `version`; `name()` is what it is called."""

    @app.command("version", epilog="Examples:\n\n\b\nversion\nversion -o json")
    def version(output: DocumentOutput = "") -> Work:
        """Print the version of this command."""
        return show_version(name(), output)


def _print_version(ctx: typer.Context, asked: bool) -> None:
    if asked and not ctx.resilient_parsing:
        raise typer.Exit(show_version(ctx.command_path))


Version = Annotated[
    bool, typer.Option("--version", help="Print the version and end.", is_eager=True, callback=_print_version)
]
