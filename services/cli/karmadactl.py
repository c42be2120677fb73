"""The command `karmadactl`, also a kubectl plugin (`kubectl karmada`): members of a control plane and what they run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from services.cli.common.karmadactl_options import (
    Before,
    ClusterName,
    DryRun,
    KarmadaContext,
    Kubeconfig,
    listed,
    target_of,
)
from services.cli.common.unsupported_commands import app as unbuilt_commands
from services.cli.members.membership_commands import app as membership_commands
from services.cli.members.register_commands import app as registering_commands
from services.cli.objects.interpret_commands import app as interpreting_commands

app = typer.Typer(
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


@app.callback()
def root(ctx: typer.Context, kubeconfig: Kubeconfig = "", karmada_context: KarmadaContext = "") -> None:
    """Controls a multi-cluster control plane: its members and what they run."""
    ctx.obj = Before(kubeconfig, karmada_context)


@app.command(
    epilog="""Examples:

\b
karmadactl get clusters
karmadactl get pods                             # pods of all members
karmadactl get deploy nginx -s all              # the template and every copy
karmadactl get svc -n web -s members -C member1,member2
karmadactl get deploy,svc -A -s members -o wide
"""
)
def get(
    ctx: typer.Context,
    words: Annotated[list[str], typer.Argument(metavar="KIND [NAME…] | KIND/NAME…", help="What to read.")],
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Namespace to read; the context's if empty.")
    ] = "",
    all_namespaces: Annotated[bool, typer.Option("--all-namespaces", "-A", help="Read every namespace.")] = False,
    selector: Annotated[str, typer.Option("--labels", "--selector", "-l", help="Label selector.")] = "",
    clusters: Annotated[
        list[str] | None, typer.Option("--clusters", "-C", help="Members to ask, comma-separated; all if empty.")
    ] = None,
    scope: Annotated[
        str,
        typer.Option(
            "--operation-scope",
            "-s",
            help="karmada, members or all. Default: karmada; members for pods and where --clusters is given.",
        ),
    ] = "",
    output: Annotated[str, typer.Option("--output", "-o", help="wide, json, yaml or name.")] = "",
    label_columns: Annotated[
        list[str] | None, typer.Option("--label-columns", "-L", help="Labels to show as columns.")
    ] = None,
    show_labels: Annotated[bool, typer.Option("--show-labels", help="Show all labels in the last column.")] = False,
    show_kind: Annotated[bool, typer.Option("--show-kind", help="Put the kind before names.")] = False,
    no_headers: Annotated[bool, typer.Option("--no-headers", help="Leave the header line out.")] = False,
    ignore_not_found: Annotated[bool, typer.Option("--ignore-not-found", help="A missing object is no error.")] = False,
    kubeconfig: Kubeconfig = "",
    karmada_context: KarmadaContext = "",
) -> None:
    """Show objects of the control plane and of its members side by side."""
    from services.cli.common.running import run
    from services.cli.objects import get as getting
    from services.cli.objects.merged_tables import Look

    query = getting.Query(
        words=tuple(words),
        namespace=namespace,
        all_namespaces=all_namespaces,
        selector=selector,
        clusters=listed(clusters),
        scope=scope,
        output=output,
        ignore_not_found=ignore_not_found,
        show_kind=show_kind,
        look=Look(labels=show_labels, label_columns=listed(label_columns), no_headers=no_headers),
    )
    run(getting.get(target_of(ctx, kubeconfig, karmada_context), query))


@app.command(epilog="Example:\n\nkarmadactl cordon member1")
def cordon(
    ctx: typer.Context,
    name: ClusterName,
    dry_run: DryRun = False,
    kubeconfig: Kubeconfig = "",
    karmada_context: KarmadaContext = "",
) -> None:
    """Send nothing new to a member; what runs there stays."""
    from services.cli.common.running import run
    from services.cli.members.taint import set_schedulable

    run(set_schedulable(target_of(ctx, kubeconfig, karmada_context), name, schedulable=False, dry_run=dry_run))


@app.command(epilog="Example:\n\nkarmadactl uncordon member1")
def uncordon(
    ctx: typer.Context,
    name: ClusterName,
    dry_run: DryRun = False,
    kubeconfig: Kubeconfig = "",
    karmada_context: KarmadaContext = "",
) -> None:
    """Let a member take new work again."""
    from services.cli.common.running import run
    from services.cli.members.taint import set_schedulable

    run(set_schedulable(target_of(ctx, kubeconfig, karmada_context), name, schedulable=True, dry_run=dry_run))


@app.command(
    epilog="""Examples:

\b
karmadactl taint clusters member1 dedicated=special-user:NoSchedule
karmadactl taint clusters member1 dedicated:NoSchedule-       # remove it
karmadactl taint clusters member1 dedicated-                  # remove it with every effect
"""
)
def taint(
    ctx: typer.Context,
    words: Annotated[
        list[str],
        typer.Argument(metavar="clusters NAME… KEY[=VALUE]:EFFECT… KEY[:EFFECT]-…", help="Members and taints."),
    ],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the value of a taint that is there.")] = False,
    dry_run: DryRun = False,
    kubeconfig: Kubeconfig = "",
    karmada_context: KarmadaContext = "",
) -> None:
    """Keep work away from members (NoSchedule) or drive it out (NoExecute) unless it tolerates the taint."""
    from services.cli.common.running import run
    from services.cli.members.taint import taint_clusters

    target = target_of(ctx, kubeconfig, karmada_context)
    run(taint_clusters(target, words, overwrite=overwrite, dry_run=dry_run))


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
