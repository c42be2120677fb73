"""Options that several commands of fleetlog share: which installation, log and control plane is meant."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from services.cli.common.control_plane import ControlPlaneOptions
    from services.cli.common.logbook import LogAccess


def _found(ctx: typer.Context, parameter: typer.CallbackParam, value: Path) -> Path:
    """The directory that was named, else the one that is found."""
    from services.cli.common.installation_search import find_directory

    source = ctx.get_parameter_source(parameter.name or "")
    return find_directory() if source is None or source.name == "DEFAULT" else value


Directory = Annotated[
    Path,
    typer.Option(
        "--dir",
        help="Directory of the installation; else that of KUBECONFIG, else the nearest .fleetlog upwards.",
        envvar="FLEETLOG_DIR",
        show_default=False,
        callback=_found,
    ),
]
NewDirectory = Annotated[
    Path,
    typer.Option("--dir", help="Directory of the installation; made where it is not there.", envvar="FLEETLOG_DIR"),
]
Nats = Annotated[
    str,
    typer.Option(
        "--nats",
        help="URL of the log's server, instead of the installation's.",
        envvar="FLEETLOG_NATS_URL",
        show_envvar=True,
    ),
]
Kubeconfig = Annotated[
    str, typer.Option("--kubeconfig", help="Kubeconfig of the control plane, instead of the installation's.")
]


def access(directory: Path, nats: str) -> LogAccess:
    """The log of an option, else of the installation; ends the command where it is neither."""
    from services.cli.common.logbook import log_access
    from services.cli.common.running import Failed, fail

    try:
        return log_access(directory, nats)
    except (Failed, ValueError, OSError) as error:
        fail(str(error))


def control(directory: Path, kubeconfig: str) -> ControlPlaneOptions:
    """The control plane of an option, else of the installation, else of KUBECONFIG."""
    from services.cli.common.control_plane import ControlPlaneOptions
    from services.cli.common.layout import CONTROL, Layout

    own = Layout(directory).kubeconfig(CONTROL)
    return ControlPlaneOptions(kubeconfig or (str(own) if own.is_file() else ""))
