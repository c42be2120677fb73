"""The commands `karmadactl join`, `unjoin` and `unregister`: who is a member."""

from __future__ import annotations

from typing import Annotated

import typer

from services.cli.common.karmadactl_options import (
    ClusterContext,
    ClusterKubeconfig,
    ClusterName,
    ClusterNamespace,
    DryRun,
    Force,
    KarmadaContext,
    Kubeconfig,
    Nats,
    NatsAuth,
    Wait,
    listed,
    target_of,
)

app = typer.Typer(rich_markup_mode=None)


@app.command(
    epilog="""Examples:

\b
karmadactl join member1 --cluster-kubeconfig ~/.kube/member1.config
karmadactl join member2 --cluster-kubeconfig all.config --cluster-context member2 --cluster-region eu
karmadactl join member3 --mode pull --cluster-kubeconfig ~/.kube/member3.config
karmadactl join member3 --mode pull --nats-auth /etc/fleetlog/nats-auth    # accounts signed by an operator
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
    nats_auth: NatsAuth = "",
    nats: Nats = "",
    dry_run: DryRun = False,
    kubeconfig: Kubeconfig = "",
    karmada_context: KarmadaContext = "",
) -> None:
    """Make a cluster a member: reached by the control plane itself (push), or by an agent of its own (pull)."""
    from services.cli.common.running import run
    from services.cli.members.join import Traits
    from services.cli.members.membership import MemberFile, join_member
    from services.cli.members.pull_join import PullOptions, Signing, join_pull_member

    target = target_of(ctx, kubeconfig, karmada_context)
    file = MemberFile(cluster_kubeconfig, cluster_context)
    traits = Traits(provider=provider, region=region, zones=listed(zones))
    if mode == "pull":
        options = PullOptions(report_secrets=report_secrets, agent_dir=agent_dir, signing=Signing(nats_auth, nats))
        run(join_pull_member(target, name, file, traits, options, namespace=cluster_namespace, dry_run=dry_run))
    if mode != "push":
        raise typer.BadParameter(f"push or pull, not {mode!r}", param_hint="--mode")
    if not cluster_kubeconfig:
        raise typer.BadParameter(
            "needed for push: the control plane has to reach it", param_hint="--cluster-kubeconfig"
        )
    run(join_member(target, name, file, traits, namespace=cluster_namespace, dry_run=dry_run))


@app.command(
    "unregister",
    help="Remove a pull member: its agent withdraws its copies, then its entry goes and the agent is cut off.",
    epilog="""Examples:

\b
karmadactl unregister member3 --wait 2m
karmadactl unregister member3 --nats-auth /etc/fleetlog/nats-auth
""",
)
@app.command(
    "unjoin",
    help="Remove a member: its copies are withdrawn first, then its entry, its credentials and its agent's identity.",
    epilog="""Examples:

\b
karmadactl unjoin member1
karmadactl unjoin member1 --cluster-kubeconfig ~/.kube/member1.config --wait 2m
""",
)
def leave(
    ctx: typer.Context,
    name: ClusterName,
    cluster_kubeconfig: ClusterKubeconfig = "",
    cluster_context: ClusterContext = "",
    cluster_namespace: ClusterNamespace = "karmada-cluster",
    wait: Wait = "60s",
    force: Force = False,
    nats_auth: NatsAuth = "",
    nats: Nats = "",
    dry_run: DryRun = False,
    kubeconfig: Kubeconfig = "",
    karmada_context: KarmadaContext = "",
) -> None:
    """Remove a member; `unregister` takes pull members only."""
    from services.cli.common.running import run
    from services.cli.members.membership import MemberFile
    from services.cli.members.pull_join import Signing
    from services.cli.members.unjoin import unjoin_member

    run(
        unjoin_member(
            target_of(ctx, kubeconfig, karmada_context),
            name,
            MemberFile(cluster_kubeconfig, cluster_context),
            namespace=cluster_namespace,
            wait=wait,
            force=force,
            dry_run=dry_run,
            pull_only=ctx.info_name == "unregister",
            signing=Signing(nats_auth, nats),
        )
    )
