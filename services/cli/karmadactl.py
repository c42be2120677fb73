"""The command `karmadactl`, also a kubectl plugin (`kubectl karmada`): members of a control plane and what they run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from services.cli.common.command import Work, expanded
from services.cli.common.karmadactl_options import ClusterName, ControlPlaneOptions, DryRun
from services.cli.completion.completion_commands import add_completion, offer
from services.cli.hosting.hosting_commands import app as hosting_commands
from services.cli.kubectl.kubectl_commands import app as kubectl_commands
from services.cli.listing.listing_commands import app as listing_commands
from services.cli.members.membership_commands import app as membership_commands
from services.cli.members.token_commands import app as token_commands
from services.cli.objects.interpret_commands import app as interpreting_commands
from services.cli.promotion.promotion_commands import app as promotion_commands
from services.cli.registration.registration_commands import app as registration_commands
from services.cli.shell.program import Version, add_version, program, start

GROUPS: Final = {
    "Basic Commands": ("explain", "get", "create", "delete", "edit"),
    "Cluster Registration Commands": (
        *("init", "deinit", "addons", "join", "unjoin", "token", "register", "unregister"),
    ),
    "Cluster Management Commands": ("cordon", "uncordon", "taint"),
    "Troubleshooting and Debugging Commands": ("attach", "logs", "exec", "describe", "interpret"),
    "Advanced Commands": ("apply", "promote", "top", "patch"),
    "Settings Commands": ("label", "annotate", "completion"),
    "Other Commands": ("api-resources", "api-versions", "version", "options"),
}

SUMMARIES: Final = {
    "register": "Make this cluster a pull member by a bootstrap token",
    "taint": "Keep work away from members, or drive it out",
}

app = program("karmadactl", "Controls a multi-cluster control plane: its members and what they run.", GROUPS, SUMMARIES)

app.add_typer(membership_commands)
app.add_typer(token_commands)
app.add_typer(registration_commands)
app.add_typer(interpreting_commands)
app.add_typer(listing_commands)
app.add_typer(kubectl_commands)
app.add_typer(promotion_commands)
app.add_typer(hosting_commands)


def root(ctx: typer.Context, target: ControlPlaneOptions, version: Version = False) -> None:  # noqa: ARG001 - its callback prints it
    """Controls a multi-cluster control plane: its members and what they run."""
    ctx.obj = target


app.callback()(expanded(root, lambda work: work()))


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


def _name() -> str:
    """The name people typed: kubectl calls plugins by the name of their file."""
    return "kubectl karmada" if Path(sys.argv[0]).name == "kubectl-karmada" else "karmadactl"


@app.command("options")
def options(ctx: typer.Context) -> None:
    """List the flags that every command takes."""
    from services.cli.common.printing import aligned

    assert ctx.parent is not None
    shown = [each for each in ctx.parent.command.params if getattr(each, "help", "") and "--version" not in each.opts]
    print("The following options can be passed to any command:\n")
    print(aligned([[f"    {', '.join(each.opts)}", str(getattr(each, "help", ""))] for each in shown]), end="")


add_version(app, _name)
add_completion(app, _name)


def main() -> None:
    """Entry point of the command."""
    start(app, _name())


def complete() -> None:
    """Entry point of what kubectl asks to complete `kubectl karmada …`."""
    offer(app, "kubectl karmada", sys.argv[1:])
