"""The command `karmadactl`, also a kubectl plugin (`kubectl karmada`): members of a control plane and what they run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from services.cli.common.command import Commands, Work, expanded
from services.cli.common.karmadactl_options import ClusterName, ControlPlaneOptions, DryRun
from services.cli.common.unsupported_commands import app as unbuilt_commands
from services.cli.members.membership_commands import app as membership_commands
from services.cli.members.register_commands import app as registering_commands
from services.cli.objects.interpret_commands import app as interpreting_commands
from services.cli.objects.object_options import Query

app = Commands(
    name="karmadactl",
    help="Controls a multi-cluster control plane: its members and what they run.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.add_typer(membership_commands)
app.add_typer(registering_commands)
app.add_typer(interpreting_commands)
app.add_typer(unbuilt_commands)


def root(ctx: typer.Context, target: ControlPlaneOptions) -> None:
    """Controls a multi-cluster control plane: its members and what they run."""
    ctx.obj = target


app.callback()(expanded(root, lambda work: work()))


@app.command(
    epilog="""Examples:

\b
karmadactl get clusters
karmadactl get pods                             # pods of all members
karmadactl get deploy nginx -s all              # the template and every copy
karmadactl get svc -n web -s members -C member1,member2
karmadactl get deploy,svc -A -s members -o wide
""",
)
def get(query: Query, target: ControlPlaneOptions) -> Work:
    """Show objects of the control plane and of its members side by side."""
    from services.cli.objects import get as getting

    return getting.get(target, query)


@app.command(epilog="Example:\n\nkarmadactl cordon member1")
def cordon(name: ClusterName, dry_run: DryRun = False, *, target: ControlPlaneOptions) -> Work:
    """Send nothing new to a member; what runs there stays."""
    from services.cli.members.taint import set_schedulable

    return set_schedulable(target, name, schedulable=False, dry_run=dry_run)


@app.command(epilog="Example:\n\nkarmadactl uncordon member1")
def uncordon(name: ClusterName, dry_run: DryRun = False, *, target: ControlPlaneOptions) -> Work:
    """Let a member take new work again."""
    from services.cli.members.taint import set_schedulable

    return set_schedulable(target, name, schedulable=True, dry_run=dry_run)


@app.command(
    epilog="""Examples:

\b
karmadactl taint clusters member1 dedicated=special-user:NoSchedule
karmadactl taint clusters member1 dedicated:NoSchedule-       # remove it
karmadactl taint clusters member1 dedicated-                  # remove it with every effect
""",
)
def taint(
    words: Annotated[
        list[str],
        typer.Argument(metavar="clusters NAME… KEY[=VALUE]:EFFECT… KEY[:EFFECT]-…", help="Members and taints."),
    ],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the value of a taint that is there.")] = False,
    dry_run: DryRun = False,
    *,
    target: ControlPlaneOptions,
) -> Work:
    """Keep work away from members (NoSchedule) or drive it out (NoExecute) unless it tolerates the taint."""
    from services.cli.members.taint import taint_clusters

    return taint_clusters(target, words, overwrite=overwrite, dry_run=dry_run)


@app.command()
def version() -> None:
    """Print the version of this command."""
    import platform
    from importlib.metadata import version as installed

    info = f'GitVersion:"v{installed("fleetlog")}", PythonVersion:"{platform.python_version()}"'
    where = f"{platform.system().lower()}/{platform.machine()}"
    print(f'{_name()} version: version.Info{{{info}, Platform:"{where}"}}')


def _name() -> str:
    """The name people typed: kubectl calls plugins by the name of their file."""
    return "kubectl karmada" if Path(sys.argv[0]).name == "kubectl-karmada" else "karmadactl"


def main() -> None:
    """Entry point of the command."""
    app(prog_name=_name())
