"""Options of the command `fleetlog up`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, NamedTuple

import typer

from services.cli.common.installation_options import NewDirectory
from services.cli.common.installation_search import DEFAULT_DIRECTORY


def _attached(items: Iterable[str]) -> dict[str, str]:
    """Converts `name=kubeconfig`; raises Failed for anything else."""
    from services.cli.common.running import Failed

    for item in items:
        if "=" not in item:
            raise Failed(f"--member {item}: use name=kubeconfig")
    return {name: path for name, _, path in (item.partition("=") for item in items)}


class InstallationOptions(NamedTuple):
    """What the command line asks for."""

    directory: NewDirectory = DEFAULT_DIRECTORY
    members: Annotated[int, typer.Option("--members", help="Simulated members to start.", min=0, max=50)] = 3
    nodes: Annotated[int, typer.Option("--nodes", help="Nodes of each simulated member.", min=1)] = 3
    nats_url: Annotated[
        str,
        typer.Option(
            "--nats", help="URL of a nats-server to use instead of starting one; several of a cluster with commas."
        ),
    ] = ""
    nats_creds: Annotated[
        str,
        typer.Option(
            "--nats-creds",
            help="File with the identity at --nats, where accounts are signed (`fleetlog nats init` writes hub.creds);"
            " FLEETLOG_NATS_CREDS if empty.",
        ),
    ] = ""
    replicas: Annotated[
        int,
        typer.Option(
            "--replicas",
            help="Servers of --nats that keep each stream, 1, 3 or 5; 0: three where three URLs are given, else one."
            " Streams that are kept by more stay so.",
            min=0,
            max=5,
        ),
    ] = 0
    control_kubeconfig: Annotated[
        str, typer.Option("--control-kubeconfig", help="Kubeconfig of a kube-apiserver to use as the control plane.")
    ] = ""
    attached: Annotated[
        dict[str, str],
        typer.Option("--member", help="name=kubeconfig of a real cluster to join; may be repeated."),
        _attached,
    ] = {}
    descheduler: Annotated[
        bool | None,
        typer.Option(
            "--descheduler/--no-descheduler",
            help="Whether replicas that find no node are taken back and placed again; later starts keep the choice.",
            show_default=False,
        ),
    ] = None
    """Whether the descheduler runs; None: as it was chosen before."""
    webhook: Annotated[
        str,
        typer.Option(
            "--webhook",
            help="Name or address of this machine under which the control plane of --control-kubeconfig reaches it, to"
            " ask services.webhook about policies; later starts keep it. none: it asks no more.",
        ),
    ] = ""
