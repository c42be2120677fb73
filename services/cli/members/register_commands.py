"""The commands `karmadactl token` and `karmadactl register`: clusters that make themselves members."""

from __future__ import annotations

from typing import Annotated

import typer

from services.cli.common.command import Commands, Work
from services.cli.common.karmadactl_options import ControlPlaneOptions
from services.cli.members.member_options import RegisterOptions, TokenOptions

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
def show(target: ControlPlaneOptions) -> Work:
    """Show the bootstrap tokens that there are."""
    from services.cli.members import token as tokens

    return tokens.show(target)


@token.command("delete", epilog="Example:\n\nkarmadactl token delete abcdef")
def delete(
    words: Annotated[list[str], typer.Argument(metavar="ID | TOKEN…", help="Tokens, or their first six letters.")],
    target: ControlPlaneOptions,
) -> Work:
    """Delete bootstrap tokens: clusters can no longer register with them."""
    from services.cli.members import token as tokens

    return tokens.delete(target, tuple(words))


@app.command(
    epilog="""Examples:

\b
karmadactl register cp.example:6443 --token abcdef.0123456789abcdef --discovery-token-ca-cert-hash sha256:…
karmadactl register cp.example:6443 --token … --discovery-token-ca-cert-hash … --kubeconfig m3.yaml --cluster-name m3
karmadactl token create --print-register-command      # prints such a line, where the control plane is
""",
)
def register(options: RegisterOptions) -> Work:
    """Make this cluster a pull member, with a bootstrap token instead of the control plane's kubeconfig."""
    from services.cli.members import register as registering

    return registering.register(options)
