"""The command `completion`, and the hidden one that its scripts ask."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Final

import typer
from typer._click import Context
from typer.core import TyperCommand

from services.cli.common.command import Commands, Work

_SHELLS: Final = ("bash", "zsh", "fish")


class _Words(TyperCommand):
    """A command whose words are not read as flags."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Keep every word as it is."""
        ctx.args = list(args)
        return ctx.args


def add_completion(app: Commands, name: Callable[[], str]) -> None:
    """Give a program the command `completion`; `name()` is what it is called."""

    @app.command(
        "completion",
        short_help="Print a script that completes command lines in your shell",
        epilog="""Examples:

\b
source <(karmadactl completion bash)                  # this shell
karmadactl completion bash > /etc/bash_completion.d/karmadactl
karmadactl completion fish | source
""",
    )
    def completion(
        shells: Annotated[list[str] | None, typer.Argument(metavar="bash|zsh|fish", help="Your shell.")] = None,
    ) -> Work:
        """Print a script that completes command lines: commands, flags, kinds, names, members, outputs."""
        return _print(shells or (), name())

    @app.command("__complete", cls=_Words, hidden=True, add_help_option=False)
    def asked(ctx: typer.Context) -> Work:
        """Print what may come next, one per line."""
        offer(app, name(), ctx.args)
        return 0


def _print(shells: Sequence[str], name: str) -> int:
    from services.cli.common.running import Failed
    from services.cli.completion.completion_scripts import script_for

    if not shells:
        raise Failed(f"shell not specified; use one of {', '.join(_SHELLS)}")
    if len(shells) > 1:
        raise Failed(f"too many arguments: expected only the shell type, one of {', '.join(_SHELLS)}")
    if shells[0] not in _SHELLS:
        raise Failed(f"unsupported shell type {shells[0]!r}; use one of {', '.join(_SHELLS)}")
    program = name.replace(" ", "-")
    print(script_for(shells[0], program), end="")
    if program.startswith("kubectl-"):
        print("# kubectl's own completion asks kubectl_complete-karmada, which is on PATH beside this program.")
    return 0


def offer(app: typer.Typer, name: str, words: Sequence[str]) -> None:
    """Print what may come next in the form of kubectl's completion: values with tabs before their help, a directive."""
    from services.cli.completion.completer import complete
    from services.cli.completion.value_table import TABLE

    items, directive = complete(app, name, words, TABLE)
    for item in items:
        print(f"{item.value}\t{' '.join(item.help.split())}" if item.help else item.value)
    print(f":{directive}")
