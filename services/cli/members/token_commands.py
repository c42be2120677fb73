"""The commands `karmadactl token …`: with a token a cluster makes itself a member."""

from __future__ import annotations

from typing import Annotated

import typer

from services.cli.common.command import Commands, Work
from services.cli.common.karmadactl_options import ControlPlaneOptions
from services.cli.members.member_options import TokenOptions
from services.cli.shell.choices import PlainOutput

app = Commands(rich_markup_mode=None)
token = Commands(
    name="token",
    help="Bootstrap tokens, with which clusters register themselves.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(token)


@token.command(
    "create",
    epilog="""Examples:

\b
karmadactl token create --print-register-command      # what to type where the member's kubeconfig is
karmadactl token create --ttl 1h --description "for member3"
karmadactl token create abcdef.0123456789abcdef
""",
)
def create(options: TokenOptions, target: ControlPlaneOptions) -> Work:
    """Make a bootstrap token and print it."""
    from services.cli.members import token as tokens

    return tokens.create(target, options)


@token.command("list", epilog="Example:\n\nkarmadactl token list")
def show(target: ControlPlaneOptions, output: PlainOutput = "") -> Work:
    """Show the bootstrap tokens that there are."""
    from services.cli.members import token as tokens

    return tokens.show(target, output)


@token.command("delete", epilog="Example:\n\nkarmadactl token delete abcdef")
def delete(
    words: Annotated[list[str], typer.Argument(metavar="ID | TOKEN…", help="Tokens, or their first six letters.")],
    target: ControlPlaneOptions,
) -> Work:
    """Delete bootstrap tokens: clusters can no longer register with them."""
    from services.cli.members import token as tokens

    return tokens.delete(target, tuple(words))
