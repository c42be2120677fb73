"""The commands `karmadactl token` and `karmadactl register`: clusters that make themselves members."""

from __future__ import annotations

from typing import Annotated

import typer

from services.cli.common.karmadactl_options import (
    ClusterNamespace,
    DryRun,
    KarmadaContext,
    Kubeconfig,
    listed,
    target_of,
)

app = typer.Typer(rich_markup_mode=None)
token = typer.Typer(
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
def create(
    ctx: typer.Context,
    given: Annotated[str, typer.Argument(metavar="[TOKEN]", help="The token; a random one if empty.")] = "",
    ttl: Annotated[str, typer.Option("--ttl", help="How long it is good; 0: for ever.")] = "24h",
    usages: Annotated[
        list[str] | None,
        typer.Option("--usages", help="signing, authentication or both, comma-separated; both if empty."),
    ] = None,
    groups: Annotated[
        list[str] | None, typer.Option("--groups", help="Further groups of its bearer (system:bootstrappers:…).")
    ] = None,
    description: Annotated[str, typer.Option("--description", help="What it is for.")] = "",
    print_register_command: Annotated[
        bool, typer.Option("--print-register-command", help="Print the whole command that registers a cluster.")
    ] = False,
    kubeconfig: Kubeconfig = "",
    karmada_context: KarmadaContext = "",
) -> None:
    """Make a bootstrap token and print it."""
    from services.cli.common.running import run
    from services.cli.members import token as tokens

    options = tokens.TokenOptions(
        ttl=ttl,
        usages=listed(usages) or tokens.USAGES,
        groups=listed(groups) or (tokens.DEFAULT_GROUP,),
        description=description,
        print_register_command=print_register_command,
    )
    run(tokens.create(target_of(ctx, kubeconfig, karmada_context), given, options))


@token.command("list", epilog="Example:\n\nkarmadactl token list")
def show(ctx: typer.Context, kubeconfig: Kubeconfig = "", karmada_context: KarmadaContext = "") -> None:
    """Show the bootstrap tokens that there are."""
    from services.cli.common.running import run
    from services.cli.members import token as tokens

    run(tokens.show(target_of(ctx, kubeconfig, karmada_context)))


@token.command("delete", epilog="Example:\n\nkarmadactl token delete abcdef")
def delete(
    ctx: typer.Context,
    words: Annotated[list[str], typer.Argument(metavar="ID | TOKEN…", help="Tokens, or their first six letters.")],
    kubeconfig: Kubeconfig = "",
    karmada_context: KarmadaContext = "",
) -> None:
    """Delete bootstrap tokens: nobody registers with them any more."""
    from services.cli.common.running import run
    from services.cli.members import token as tokens

    run(tokens.delete(target_of(ctx, kubeconfig, karmada_context), tuple(words)))


@app.command(
    epilog="""Examples:

\b
karmadactl register cp.example:6443 --token abcdef.0123456789abcdef --discovery-token-ca-cert-hash sha256:…
karmadactl register cp.example:6443 --token … --discovery-token-ca-cert-hash … --kubeconfig m3.yaml --cluster-name m3
karmadactl token create --print-register-command      # prints such a line, where the control plane is
""",
)
def register(
    endpoint: Annotated[str, typer.Argument(metavar="HOST:PORT", help="Where the control plane is.")],
    token: Annotated[str, typer.Option("--token", help="The bootstrap token.")],
    hashes: Annotated[
        list[str] | None,
        typer.Option("--discovery-token-ca-cert-hash", help="sha256:… of the control plane's authority; repeatable."),
    ] = None,
    skip_ca: Annotated[
        bool,
        typer.Option("--discovery-token-unsafe-skip-ca-verification", help="Trust whoever knows the token."),
    ] = False,
    discovery_timeout: Annotated[
        str,
        typer.Option("--discovery-timeout", help="How long to look for the control plane, and wait for its answer."),
    ] = "5m",
    cluster_name: Annotated[
        str, typer.Option("--cluster-name", help="Name of the member; its kubeconfig's if empty.")
    ] = "",
    kubeconfig: Annotated[str, typer.Option("--kubeconfig", help="Kubeconfig of the member (or KUBECONFIG).")] = "",
    context: Annotated[str, typer.Option("--context", help="Context of that kubeconfig to use.")] = "",
    cluster_namespace: ClusterNamespace = "karmada-cluster",
    provider: Annotated[str, typer.Option("--cluster-provider", help="Provider, for placement rules.")] = "",
    region: Annotated[str, typer.Option("--cluster-region", help="Region, for placement rules.")] = "",
    zones: Annotated[
        list[str] | None, typer.Option("--cluster-zones", help="Zones, comma-separated, for placement rules.")
    ] = None,
    agent_dir: Annotated[
        str, typer.Option("--agent-dir", help="Where to write the agent's files; NAME-agent if empty.")
    ] = "",
    dry_run: DryRun = False,
) -> None:
    """Make this cluster a pull member, with a bootstrap token instead of the control plane's kubeconfig."""
    from services.cli.common.running import run
    from services.cli.members.join import Traits
    from services.cli.members.register import RegisterOptions
    from services.cli.members.register import register as work

    run(
        work(
            RegisterOptions(
                endpoint=endpoint,
                token=token,
                hashes=listed(hashes),
                skip_ca=skip_ca,
                discovery_timeout=discovery_timeout,
                name=cluster_name,
                kubeconfig=kubeconfig,
                context=context,
                namespace=cluster_namespace,
                traits=Traits(provider=provider, region=region, zones=listed(zones)),
                agent_dir=agent_dir,
                dry_run=dry_run,
            )
        )
    )
