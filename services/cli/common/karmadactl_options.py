"""Options that several commands of karmadactl share, and where they say the control plane is."""

from __future__ import annotations

from typing import Annotated, Final, NamedTuple

import typer

from services.cli.common.command import split_commas

DEFAULT_NAMESPACE: Final = "default"


def _else_before(ctx: typer.Context, parameter: typer.CallbackParam, value: str) -> str:
    """The value behind the command's name, else the one before it."""
    return value or getattr(ctx.obj, (parameter.name or "").rpartition("__")[2], "")


class ControlPlaneOptions(NamedTuple):
    """The control plane of a command; empty texts mean the usual place."""

    kubeconfig: Annotated[
        str,
        typer.Option("--kubeconfig", help="Kubeconfig of the control plane (or KUBECONFIG).", callback=_else_before),
    ] = ""
    context: Annotated[
        str, typer.Option("--karmada-context", help="Context of that kubeconfig to use.", callback=_else_before)
    ] = ""


DryRun = Annotated[bool, typer.Option("--dry-run", help="Check and print, but change nothing.")]
ClusterName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the member cluster.")]
ClusterNamespace = Annotated[
    str, typer.Option("--cluster-namespace", help="Namespace of the credentials, here and in the member.")
]


class MemberFile(NamedTuple):
    """Kubeconfig of a member and the context to use of it; an empty context is the current one."""

    path: Annotated[str, typer.Option("--cluster-kubeconfig", help="Kubeconfig of the member cluster.")] = ""
    context: Annotated[str, typer.Option("--cluster-context", help="Context of the member's kubeconfig.")] = ""


class Traits(NamedTuple):
    """Fields of a Cluster that placements may select members by."""

    provider: Annotated[str, typer.Option("--cluster-provider", help="Provider, for placement rules.")] = ""
    region: Annotated[str, typer.Option("--cluster-region", help="Region, for placement rules.")] = ""
    zones: Annotated[
        tuple[str, ...],
        typer.Option("--cluster-zones", help="Zones, comma-separated, for placement rules."),
        split_commas,
    ] = ()


class Signing(NamedTuple):
    """Where the operator's keys are and which servers they are for; empty texts mean the usual place."""

    directory: Annotated[
        str,
        typer.Option(
            "--nats-auth",
            help="For pull: directory of `fleetlog nats init`; agents' accounts are signed with its keys.",
            envvar="FLEETLOG_NATS_AUTH",
        ),
    ] = ""
    url: Annotated[
        str, typer.Option("--nats", help="For --nats-auth: URLs of the log's servers; those of `init` if empty.")
    ] = ""
