"""The command `fleetlog`: runs an installation and shows what its log says."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from services.cli.backup.backup_commands import app as backup_commands
from services.cli.backup.backup_commands import restores as restore_commands
from services.cli.common.installation_options import Directory, Kubeconfig, NewDirectory, control
from services.cli.common.installation_search import DEFAULT_DIRECTORY
from services.cli.log.log_commands import app as log_commands
from services.cli.members.nats_commands import app as nats_commands
from services.cli.overview.overview_commands import app as overview_commands
from services.cli.queries.query_commands import app as question_commands
from services.cli.secrets.secret_commands import app as secret_commands

app = typer.Typer(
    name="fleetlog",
    help="Multi-cluster Kubernetes orchestration whose truth is an event log.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@app.callback()
def root() -> None:
    """Multi-cluster Kubernetes orchestration whose truth is an event log."""


@app.command(
    epilog="""Examples:

fleetlog up                               # three simulated members, member3 with an agent

fleetlog up --members 5 --dir /tmp/fleet

fleetlog up --control-kubeconfig cp.yaml --member m1=m1.yaml --member m2=m2.yaml

fleetlog up --nats nats://a:4222,nats://b:4222,nats://c:4222

fleetlog up --nats nats://a:4222 --nats-creds nats-auth/hub.creds
"""
)
def up(
    directory: NewDirectory = DEFAULT_DIRECTORY,
    members: Annotated[int, typer.Option(help="Simulated members to start.", min=0, max=50)] = 3,
    nodes: Annotated[int, typer.Option(help="Nodes of each simulated member.", min=1)] = 3,
    nats: Annotated[
        str, typer.Option(help="URL of a nats-server to use instead of starting one; several of a cluster with commas.")
    ] = "",
    nats_creds: Annotated[
        str,
        typer.Option(
            help="File with the identity at --nats, where accounts are signed (`fleetlog nats init` writes hub.creds);"
            " FLEETLOG_NATS_CREDS if empty."
        ),
    ] = "",
    replicas: Annotated[
        int,
        typer.Option(
            help="Servers of --nats that keep each stream, 1, 3 or 5; 0: three where three URLs are given, else one."
            " Streams that are kept by more stay so.",
            min=0,
            max=5,
        ),
    ] = 0,
    control_kubeconfig: Annotated[
        str, typer.Option(help="Kubeconfig of a kube-apiserver to use as the control plane.")
    ] = "",
    member: Annotated[
        list[str] | None, typer.Option(help="name=kubeconfig of a real cluster to join; may be repeated.")
    ] = None,
    descheduler: Annotated[
        bool | None,
        typer.Option(
            "--descheduler/--no-descheduler",
            help="Whether replicas that find no node are taken back and placed anew; later starts keep the choice.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Start everything on this machine; prints `ready` and runs until Ctrl-C. The data stays for the next start."""
    from services.cli.installation.installation_plan import InstallationOptions, Refused
    from services.cli.installation.up import up as start

    attached = {}
    for item in member or ():
        name, separator, path = item.partition("=")
        if not separator:
            _fail(f"--member {item}: use name=kubeconfig")
        attached[name] = path
    options = InstallationOptions(
        directory=directory,
        members=members,
        nodes=nodes,
        nats_url=nats,
        nats_creds=nats_creds or (os.environ.get("FLEETLOG_NATS_CREDS", "") if nats else ""),
        replicas=replicas,
        control_kubeconfig=control_kubeconfig,
        attached=attached,
        descheduler=descheduler,
    )
    try:
        code = start(options)
    except (Refused, ValueError, OSError) as error:
        _fail(str(error))
    raise typer.Exit(code)


@app.command(
    epilog="""Examples:

\b
fleetlog stop                             # the nearest .fleetlog upwards
fleetlog stop --dir /tmp/fleet --timeout 120
"""
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
    from services.cli.common.running import Failed, complain
    from services.cli.supervision.stop_command import stop_installation

    try:
        typer.echo(stop_installation(Layout(directory), timeout, complain))
    except (Failed, ValueError, OSError) as error:
        _fail(str(error))


@app.command(
    epilog="""Examples:

\b
fleetlog demo
fleetlog demo --dir /tmp/demo             # keeps its data there
"""
)
def demo(
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Directory to use instead of a temporary one.")
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the temporary directory.")] = False,
) -> None:
    """Start an installation, run a Deployment on two clusters, and tell from the log what happened; then stop."""
    from services.cli.common.running import run
    from services.cli.installation.demo import demo as show

    run(show(directory, keep=keep))


app.add_typer(question_commands)
app.add_typer(overview_commands)


@app.command()
def topology(
    output: Annotated[str, typer.Option("--output", "-o", help="json for programs.")] = "",
) -> None:
    """Print the streams of the log, and who writes and reads which subject."""
    from services.cli.common.stream_topology import topology as text

    print(text(output), end="")


app.add_typer(log_commands)
app.add_typer(backup_commands)
app.add_typer(restore_commands)
app.add_typer(secret_commands)
app.add_typer(nats_commands)


@app.command(epilog="Examples:\n\n\b\nfleetlog certs --out deploy\nfleetlog certs --out deploy --agent member3")
def certs(
    out: Annotated[Path, typer.Option(help="Directory to write into.")] = Path("deploy"),
    control: Annotated[str, typer.Option(help="URL of the control plane in the kubeconfigs.")] = "",
    agent: Annotated[
        list[str] | None, typer.Option(help="A pull member whose agent gets an account of the log; also later on.")
    ] = None,
    drop_agent: Annotated[list[str] | None, typer.Option(help="A pull member whose agent loses its account.")] = None,
) -> None:
    """Make the certificates, kubeconfigs and secrets that compose.yaml and the manifests in k8s/ expect."""
    from services.cli.common.running import Failed, complain, fail
    from services.cli.installation import certificate_files as certificates

    try:
        if drop_agent:
            certificates.shut_out(out, drop_agent)
        if (agent or drop_agent) and certificates.made(out):
            certificates.admit(out, agent or ())
        else:
            certificates.make(out, control or certificates.CONTROL, agent or ())
    except (Failed, OSError) as error:
        fail(str(error))
    complain(f"certificates, kubeconfigs and secrets are in {out}; docs/deploy.md says who gets which")


crds = typer.Typer(
    name="crds",
    help="Definitions of our kinds (CustomResourceDefinitions).",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(crds)


@crds.command("apply", epilog="Example:\n\nfleetlog crds apply --kubeconfig cp.yaml")
def crds_apply(directory: Directory = DEFAULT_DIRECTORY, kubeconfig: Kubeconfig = "") -> None:
    """Create or update the definitions in a control plane and wait until they are established."""
    from services.cli.common.running import run
    from services.cli.installation.crd_commands import apply

    run(apply(control(directory, kubeconfig)))


@crds.command("print", epilog="Example:\n\nfleetlog crds print | kubectl apply --server-side -f -")
def crds_print(
    output: Annotated[str, typer.Option("--output", "-o", help="yaml or json.")] = "yaml",
) -> None:
    """Print the definitions."""
    from services.cli.common.running import run
    from services.cli.installation.crd_commands import show

    run(show(output))


def _fail(message: str) -> NoReturn:
    typer.echo(f"error: {message}", err=True)
    raise typer.Exit(1)


def main() -> None:
    """Entry point of the command."""
    app()
