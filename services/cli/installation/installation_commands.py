"""The commands of fleetlog about an installation as a whole: up, stop, demo, topology, certs, crds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from services.cli.common.command import Commands, Work
from services.cli.common.installation_options import Directory, Kubeconfig, control
from services.cli.common.installation_search import DEFAULT_DIRECTORY
from services.cli.installation.up_options import InstallationOptions
from services.cli.installation.webhook_options import WebhookOptions
from services.cli.shell.choices import PlainOutput, output_option

app = Commands()
crds = Commands(
    name="crds",
    help="Definitions of our kinds (CustomResourceDefinitions).",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command(
    epilog="""Examples:

fleetlog up                               # three simulated members, member3 with an agent

fleetlog up --members 5 --dir /tmp/fleet

fleetlog up --control-kubeconfig cp.yaml --member m1=m1.yaml --member m2=m2.yaml

fleetlog up --nats nats://a:4222,nats://b:4222,nats://c:4222

fleetlog up --control-kubeconfig cp.yaml --webhook 10.0.0.5   # it asks this machine about policies

fleetlog up --nats nats://a:4222 --nats-creds nats-auth/hub.creds
""",
)
def up(options: InstallationOptions) -> Work:
    """Start everything on this machine; prints `ready` and runs until Ctrl-C. The data stays for the next start."""
    from services.cli.installation import up as starting

    return starting.up(options)


@app.command(
    epilog="""Examples:

\b
fleetlog stop                             # the nearest .fleetlog upwards
fleetlog stop --dir /tmp/fleet --timeout 120
""",
)
def stop(
    directory: Directory = DEFAULT_DIRECTORY,
    timeout: Annotated[
        float, typer.Option(help="Seconds that it has to stop by itself; then its processes are killed.", min=0)
    ] = 60.0,
) -> None:
    """Stop the installation of a directory, also what is left of one whose supervisor was killed; the data stays.

    Ends with 0 when nothing runs any more (or nothing ran), with 1 when there is no installation or it does not end.
    """
    from services.cli.common.layout import Layout
    from services.cli.common.running import complain
    from services.cli.supervision.stop_command import stop_installation

    typer.echo(stop_installation(Layout(directory), timeout, complain))


@app.command(
    epilog="""Examples:

\b
fleetlog demo
fleetlog demo --dir /tmp/demo             # keeps its data there
""",
)
def demo(
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Directory to use instead of a temporary one.")
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the temporary directory.")] = False,
) -> Work:
    """Start an installation, run a Deployment on two clusters, and print its history; then stop."""
    from services.cli.installation import demo as demonstration

    return demonstration.demo(directory, keep=keep)


@app.command()
def topology(output: PlainOutput = "") -> None:
    """Print the streams of the log, and who writes and reads which subject."""
    from services.cli.common import stream_topology

    print(stream_topology.topology(output), end="")


@app.command(
    epilog="""Examples:

\b
fleetlog certs --out deploy
fleetlog certs --out deploy --address fleet.example --address 203.0.113.7 --api-port 32443 --log-port 32422
fleetlog certs --out deploy --agent member3
fleetlog certs --out deploy --log-user scheduler      # its password leaked
fleetlog certs --out deploy --renew                   # certificates in the last third of their life
fleetlog certs --out deploy --agent member3 --secrets fleetlog-system --kubeconfig host.yaml  # in a cluster that runs
fleetlog certs --out deploy --renew --secrets fleetlog-system --kubeconfig host.yaml     # those in a cluster's Secrets
""",
)
def certs(
    out: Annotated[Path, typer.Option(help="Directory to write into.")] = Path("deploy"),
    control: Annotated[str, typer.Option(help="URL of a control plane of your own, for all kubeconfigs.")] = "",
    address: Annotated[
        list[str] | None,
        typer.Option(help="Name or address at which people and agents reach control plane and log from elsewhere."),
    ] = None,
    api_port: Annotated[int, typer.Option(help="Port of the control plane there.", min=1, max=65535)] = 6443,
    log_port: Annotated[int, typer.Option(help="Port of the log there.", min=1, max=65535)] = 4222,
    agent: Annotated[
        list[str] | None, typer.Option(help="A pull member whose agent gets an account of the log; also later on.")
    ] = None,
    drop_agent: Annotated[list[str] | None, typer.Option(help="A pull member whose agent loses its account.")] = None,
    log_user: Annotated[
        list[str] | None,
        typer.Option(help="A service, observer or system, whose password of the log is replaced."),
    ] = None,
    renew: Annotated[
        bool, typer.Option("--renew", help="Make certificates again that are in the last third of their life.")
    ] = False,
    secrets: Annotated[
        str,
        typer.Option(
            metavar="NAMESPACE",
            help="With --agent, --drop-agent and --log-user: also the Secrets of this namespace. "
            "With --renew: those in its Secrets, by the authority in --out, and no files.",
        ),
    ] = "",
    secret: Annotated[
        list[str] | None,
        typer.Option(help="With --renew --secrets: only this Secret; may be repeated. All of ours otherwise."),
    ] = None,
    kubeconfig: Annotated[
        str, typer.Option(help="With --secrets: the cluster of the Secrets; in a pod the one around it if empty.")
    ] = "",
) -> Work:
    """Make the certificates, kubeconfigs and secrets that compose.yaml and the manifests in k8s/ expect."""
    from services.cli.installation import certificate_files

    if secrets or secret or kubeconfig:
        from services.cli.common.running import Failed

        changes = agent or drop_agent or log_user
        if not secrets or bool(changes) == renew or (secret and not renew) or control or address:
            raise Failed(
                "--secrets NAMESPACE goes with --renew, or with --agent, --drop-agent and --log-user; "
                "--kubeconfig goes with --secrets, and --secret with --renew and --secrets"
            )
        if changes:
            return certificate_files.write_with_secrets(
                out, agent or (), drop_agent or (), log_user or (), namespace=secrets, host=kubeconfig
            )
        from services.cli.renewal.secret_renewal import SECRETS, Renewal, renew_secrets

        return renew_secrets(Renewal(secrets, secret or SECRETS, out / certificate_files.AUTHORITY, kubeconfig))
    from services.cli.members.reached_addresses import ReachedAddresses

    reached = ReachedAddresses(tuple(address or ()), api_port, log_port, control)
    return certificate_files.write(out, reached, agent or (), drop_agent or (), log_user or (), certificates=renew)


Everything = Annotated[
    bool,
    typer.Option("--all", help="Also the kinds that the gateway serves otherwise: bindings and works."),
]


@crds.command(
    "apply",
    epilog="""Examples:

\b
fleetlog crds apply --kubeconfig cp.yaml
fleetlog crds apply --kubeconfig cp.yaml --webhook-url https://10.0.0.5:8443 --webhook-ca deploy/ca.crt
""",
)
def crds_apply(
    webhook: WebhookOptions,
    everything: Everything = False,
    directory: Directory = DEFAULT_DIRECTORY,
    kubeconfig: Kubeconfig = "",
) -> Work:
    """Create or update the definitions in a control plane, and the configurations of the webhook that is named."""
    from services.cli.installation.install_crds import apply

    return apply(control(directory, kubeconfig), webhook, everything=everything)


@crds.command(
    "print",
    epilog="""Examples:

\b
fleetlog crds print | kubectl apply --server-side -f -
fleetlog crds print --webhook-service fleetlog-system/webhook --webhook-ca deploy/ca.crt
""",
)
def crds_print(
    webhook: WebhookOptions,
    everything: Everything = False,
    output: Annotated[str, output_option("yaml", "json", usual="")] = "yaml",
) -> Work:
    """Print the definitions, and the configurations of the webhook that is named."""
    from services.cli.installation.install_crds import show

    return show(output, webhook, everything=everything)
