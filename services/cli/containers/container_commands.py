"""The commands that compose.yaml runs once at each start: `fleetlog containers prepare|join`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from services.cli.common.command import Commands, Work

app = Commands(
    name="containers",
    help="Steps of a start in containers; compose.yaml runs them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Directory = Annotated[Path, typer.Option("--dir", help="Directory that the containers share.")]
Agents = Annotated[
    list[str] | None, typer.Option("--agent", help="A pull member: its agent gets an account of the log.")
]


@app.command(epilog="Examples:\n\n\b\nfleetlog containers prepare --dir /run/fleetlog --agent member3 --port 6443")
def prepare(
    directory: Directory,
    agent: Agents = None,
    port: Annotated[int, typer.Option(help="Port of this machine at which the control plane is published.")] = 6443,
) -> Work:
    """Make certificates, identities and keys unless they are there, and the kubeconfig for this machine."""
    from services.cli.containers import prepared_files

    return prepared_files.prepare(directory, agent or (), port)


@app.command(epilog="Examples:\n\n\b\nfleetlog containers join --dir /run/fleetlog --push member1 --agent member3")
def join(
    directory: Directory,
    push: Annotated[list[str] | None, typer.Option("--push", help="A member that the control plane writes to.")] = None,
    agent: Agents = None,
    replicas: Annotated[int, typer.Option(help="Servers of the log that keep each stream.")] = 1,
) -> Work:
    """Make the streams, write definitions into the control plane, and make simulated members join it.

    The log is that of the settings of the services (FLEETLOG_NATS_URL and others).
    """
    from services.cli.containers import entering

    return entering.enter(directory, push or (), agent or (), replicas)
