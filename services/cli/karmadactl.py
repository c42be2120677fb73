"""The command `karmadactl`, also a kubectl plugin (`kubectl karmada`): members of a control plane and what they run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

if TYPE_CHECKING:
    from services.cli.control import Target

app = typer.Typer(
    name="karmadactl",
    help="Controls a multi-cluster control plane: its members and what they run.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Kubeconfig = Annotated[str, typer.Option("--kubeconfig", help="Kubeconfig of the control plane (or KUBECONFIG).")]
KarmadaContext = Annotated[str, typer.Option("--karmada-context", help="Context of that kubeconfig to use.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check and tell, but change nothing.")]
ClusterName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the member cluster.")]
ClusterKubeconfig = Annotated[str, typer.Option("--cluster-kubeconfig", help="Kubeconfig of the member cluster.")]
ClusterContext = Annotated[str, typer.Option("--cluster-context", help="Context of the member's kubeconfig.")]
ClusterNamespace = Annotated[
    str, typer.Option("--cluster-namespace", help="Namespace of the credentials, here and in the member.")
]

Wait = Annotated[str, typer.Option("--wait", help="How long to wait until the member is empty.")]
Force = Annotated[bool, typer.Option("--force", help="Let go after the wait even if copies could not be removed.")]


class _Options(NamedTuple):
    """What the command line says about the control plane, before or behind the command's name."""

    kubeconfig: str
    context: str


@app.callback()
def root(ctx: typer.Context, kubeconfig: Kubeconfig = "", karmada_context: KarmadaContext = "") -> None:
    """Controls a multi-cluster control plane: its members and what they run."""
    ctx.obj = _Options(kubeconfig, karmada_context)


def _target(ctx: typer.Context, kubeconfig: str, context: str) -> Target:
    from services.cli.control import Target

    before: _Options = ctx.obj
    return Target(kubeconfig or before.kubeconfig, context or before.context)


def _listed(texts: list[str] | None) -> tuple[str, ...]:
    """Items of an option that may be repeated and may hold commas."""
    return tuple(item for text in texts or () for item in text.split(",") if item)


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
    from services.cli import getting
    from services.cli.running import run
    from services.cli.tables import Look

    query = getting.Query(
        words=tuple(words),
        namespace=namespace,
        all_namespaces=all_namespaces,
        selector=selector,
        clusters=_listed(clusters),
        scope=scope,
        output=output,
        ignore_not_found=ignore_not_found,
        show_kind=show_kind,
        look=Look(labels=show_labels, label_columns=_listed(label_columns), no_headers=no_headers),
    )
    run(getting.get(_target(ctx, kubeconfig, karmada_context), query))


@app.command(
    epilog="""Examples:

\b
karmadactl join member1 --cluster-kubeconfig ~/.kube/member1.config
karmadactl join member2 --cluster-kubeconfig all.config --cluster-context member2 --cluster-region eu
karmadactl join member3 --mode pull --cluster-kubeconfig ~/.kube/member3.config
"""
)
def join(
    ctx: typer.Context,
    name: ClusterName,
    cluster_kubeconfig: ClusterKubeconfig = "",
    cluster_context: ClusterContext = "",
    cluster_namespace: ClusterNamespace = "karmada-cluster",
    provider: Annotated[str, typer.Option("--cluster-provider", help="Provider, for placement rules.")] = "",
    region: Annotated[str, typer.Option("--cluster-region", help="Region, for placement rules.")] = "",
    zones: Annotated[
        list[str] | None, typer.Option("--cluster-zones", help="Zones, comma-separated, for placement rules.")
    ] = None,
    mode: Annotated[str, typer.Option("--mode", help="push, or pull: an agent beside the member does it.")] = "push",
    report_secrets: Annotated[
        str,
        typer.Option(
            "--report-secrets",
            help="For pull: KubeCredentials lets commands look into the member, None keeps its credentials there.",
        ),
    ] = "KubeCredentials",
    agent_dir: Annotated[
        str, typer.Option("--agent-dir", help="For pull: where to write the agent's files; NAME-agent if empty.")
    ] = "",
    dry_run: DryRun = False,
    kubeconfig: Kubeconfig = "",
    karmada_context: KarmadaContext = "",
) -> None:
    """Make a cluster a member: reached by the control plane itself (push), or by an agent of its own (pull)."""
    from services.cli.joining import Traits
    from services.cli.membership import MemberFile, join_member
    from services.cli.pulling import PullOptions, join_pull_member
    from services.cli.running import run

    target = _target(ctx, kubeconfig, karmada_context)
    file = MemberFile(cluster_kubeconfig, cluster_context)
    traits = Traits(provider=provider, region=region, zones=_listed(zones))
    if mode == "pull":
        options = PullOptions(report_secrets=report_secrets, agent_dir=agent_dir)
        run(join_pull_member(target, name, file, traits, options, namespace=cluster_namespace, dry_run=dry_run))
    if mode != "push":
        raise typer.BadParameter(f"push or pull, not {mode!r}", param_hint="--mode")
    if not cluster_kubeconfig:
        raise typer.BadParameter(
            "needed for push: the control plane has to reach it", param_hint="--cluster-kubeconfig"
        )
    run(join_member(target, name, file, traits, namespace=cluster_namespace, dry_run=dry_run))


@app.command(
    epilog="""Examples:

\b
karmadactl unjoin member1
karmadactl unjoin member1 --cluster-kubeconfig ~/.kube/member1.config --wait 2m
"""
)
def unjoin(
    ctx: typer.Context,
    name: ClusterName,
    cluster_kubeconfig: ClusterKubeconfig = "",
    cluster_context: ClusterContext = "",
    cluster_namespace: ClusterNamespace = "karmada-cluster",
    wait: Wait = "60s",
    force: Force = False,
    dry_run: DryRun = False,
    kubeconfig: Kubeconfig = "",
    karmada_context: KarmadaContext = "",
) -> None:
    """Remove a member: its copies are withdrawn first, then its entry, its credentials and its agent's identity."""
    from services.cli.leaving import unjoin_member
    from services.cli.membership import MemberFile
    from services.cli.running import run

    run(
        unjoin_member(
            _target(ctx, kubeconfig, karmada_context),
            name,
            MemberFile(cluster_kubeconfig, cluster_context),
            namespace=cluster_namespace,
            wait=wait,
            force=force,
            dry_run=dry_run,
        )
    )


@app.command(epilog="Example:\n\nkarmadactl unregister member3 --wait 2m")
def unregister(
    ctx: typer.Context,
    name: ClusterName,
    cluster_kubeconfig: ClusterKubeconfig = "",
    cluster_context: ClusterContext = "",
    cluster_namespace: ClusterNamespace = "karmada-cluster",
    wait: Wait = "60s",
    force: Force = False,
    dry_run: DryRun = False,
    kubeconfig: Kubeconfig = "",
    karmada_context: KarmadaContext = "",
) -> None:
    """Remove a pull member: its agent withdraws its copies, then its entry goes and the agent is cut off."""
    from services.cli.leaving import unjoin_member
    from services.cli.membership import MemberFile
    from services.cli.running import run

    run(
        unjoin_member(
            _target(ctx, kubeconfig, karmada_context),
            name,
            MemberFile(cluster_kubeconfig, cluster_context),
            namespace=cluster_namespace,
            wait=wait,
            force=force,
            dry_run=dry_run,
            pull_only=True,
        )
    )


@app.command(epilog="Example:\n\nkarmadactl cordon member1")
def cordon(
    ctx: typer.Context,
    name: ClusterName,
    dry_run: DryRun = False,
    kubeconfig: Kubeconfig = "",
    karmada_context: KarmadaContext = "",
) -> None:
    """Send nothing new to a member; what runs there stays."""
    from services.cli.running import run
    from services.cli.tainting import set_schedulable

    run(set_schedulable(_target(ctx, kubeconfig, karmada_context), name, schedulable=False, dry_run=dry_run))


@app.command(epilog="Example:\n\nkarmadactl uncordon member1")
def uncordon(
    ctx: typer.Context,
    name: ClusterName,
    dry_run: DryRun = False,
    kubeconfig: Kubeconfig = "",
    karmada_context: KarmadaContext = "",
) -> None:
    """Let a member take new work again."""
    from services.cli.running import run
    from services.cli.tainting import set_schedulable

    run(set_schedulable(_target(ctx, kubeconfig, karmada_context), name, schedulable=True, dry_run=dry_run))


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
    from services.cli.running import run
    from services.cli.tainting import taint_clusters

    target = _target(ctx, kubeconfig, karmada_context)
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
