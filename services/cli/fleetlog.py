"""The command `fleetlog`: runs an installation and shows what its log says."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NoReturn

import typer

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


Directory = Annotated[Path, typer.Option("--dir", help="Directory of the installation.", envvar="FLEETLOG_DIR")]
DEFAULT_DIRECTORY = Path(".fleetlog")


@app.command(
    epilog="""Examples:

fleetlog up                               # three simulated members

fleetlog up --members 5 --dir /tmp/fleet

fleetlog up --control-kubeconfig cp.yaml --member m1=m1.yaml --member m2=m2.yaml
"""
)
def up(
    directory: Directory = DEFAULT_DIRECTORY,
    members: Annotated[int, typer.Option(help="Simulated members to start.", min=0, max=50)] = 3,
    nodes: Annotated[int, typer.Option(help="Nodes of each simulated member.", min=1)] = 3,
    nats: Annotated[str, typer.Option(help="URL of a nats-server to use instead of starting one.")] = "",
    control_kubeconfig: Annotated[
        str, typer.Option(help="Kubeconfig of a kube-apiserver to use as the control plane.")
    ] = "",
    member: Annotated[
        list[str] | None, typer.Option(help="name=kubeconfig of a real cluster to join; may be repeated.")
    ] = None,
) -> None:
    """Start everything on this machine; prints `ready` and runs until Ctrl-C. The data stays for the next start."""
    from services.cli.up import Options, Refused
    from services.cli.up import up as start

    attached = {}
    for item in member or ():
        name, separator, path = item.partition("=")
        if not separator:
            _fail(f"--member {item}: use name=kubeconfig")
        attached[name] = path
    options = Options(
        directory=directory,
        members=members,
        nodes=nodes,
        nats_url=nats,
        control_kubeconfig=control_kubeconfig,
        attached=attached,
    )
    try:
        code = start(options)
    except (Refused, ValueError, FileNotFoundError) as error:
        _fail(str(error))
    raise typer.Exit(code)


@app.command(
    epilog="""Examples:

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
    from services.cli.demo import demo as show
    from services.cli.running import run

    run(show(directory, keep=keep))


def _fail(message: str) -> NoReturn:
    typer.echo(f"error: {message}", err=True)
    raise typer.Exit(1)


def main() -> None:
    """Entry point of the command."""
    app()
