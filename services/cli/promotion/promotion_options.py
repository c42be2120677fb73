"""Options of the commands `karmadactl promote` and `karmadactl apply`."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import typer

from services.cli.common.karmadactl_options import DryRun, MemberFile
from services.cli.shell.choices import DocumentOutput


class PromoteOptions(NamedTuple):
    """What is promoted from which member, and how; empty texts mean the usual."""

    words: Annotated[tuple[str, ...], typer.Argument(metavar="KIND NAME | KIND/NAME", help="The object.")]
    cluster: Annotated[str, typer.Option("--cluster", "-C", help="Member that runs it.")] = ""
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Namespace of the object; the context's if empty.")
    ] = ""
    file: MemberFile = MemberFile()
    dependencies: Annotated[
        bool, typer.Option("--dependencies", "-d", help="Promote what it needs (ConfigMaps, Secrets, …), too.")
    ] = False
    auto_policy: Annotated[
        bool,
        typer.Option("--auto-create-policy/--no-auto-create-policy", help="Create the policy that takes it over."),
    ] = True
    policy_name: Annotated[
        str, typer.Option("--policy-name", help="Name of that policy; made of the object's if empty.")
    ] = ""
    output: DocumentOutput = ""
    dry_run: DryRun = False
