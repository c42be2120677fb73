"""Options that several commands of karmadactl share, and where they say the control plane is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

if TYPE_CHECKING:
    from services.cli.common.control_plane import ControlPlaneOptions

Kubeconfig = Annotated[str, typer.Option("--kubeconfig", help="Kubeconfig of the control plane (or KUBECONFIG).")]
KarmadaContext = Annotated[str, typer.Option("--karmada-context", help="Context of that kubeconfig to use.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check and tell, but change nothing.")]
ClusterName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the member cluster.")]
ClusterKubeconfig = Annotated[str, typer.Option("--cluster-kubeconfig", help="Kubeconfig of the member cluster.")]
ClusterContext = Annotated[str, typer.Option("--cluster-context", help="Context of the member's kubeconfig.")]
NatsAuth = Annotated[
    str,
    typer.Option(
        "--nats-auth",
        help="For pull: directory of `fleetlog nats init`; agents' accounts are signed with its keys.",
        envvar="FLEETLOG_NATS_AUTH",
    ),
]
Nats = Annotated[
    str, typer.Option("--nats", help="For --nats-auth: URLs of the log's servers; those of `init` if empty.")
]
ClusterNamespace = Annotated[
    str, typer.Option("--cluster-namespace", help="Namespace of the credentials, here and in the member.")
]

Wait = Annotated[str, typer.Option("--wait", help="How long to wait until the member is empty.")]
Force = Annotated[bool, typer.Option("--force", help="Let go after the wait even if copies could not be removed.")]


class Before(NamedTuple):
    """What the command line says about the control plane, before or behind the command's name."""

    kubeconfig: str
    context: str


def target_of(ctx: typer.Context, kubeconfig: str, context: str) -> ControlPlaneOptions:
    """The control plane that the options behind a command's name say, else those before it."""
    from services.cli.common.control_plane import ControlPlaneOptions

    before: Before = ctx.obj
    return ControlPlaneOptions(kubeconfig or before.kubeconfig, context or before.context)


def listed(texts: list[str] | None) -> tuple[str, ...]:
    """Items of an option that may be repeated and may hold commas."""
    return tuple(item for text in texts or () for item in text.split(",") if item)
