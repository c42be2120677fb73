"""Options that several commands of fleetlog share: which installation, log and control plane is meant."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from services.cli.common.installation_search import DEFAULT_DIRECTORY
from services.cli.common.karmadactl_options import ControlPlaneOptions

if TYPE_CHECKING:
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


class LogOptions(NamedTuple):
    """The log that a command reads or writes."""

    directory: Directory = DEFAULT_DIRECTORY
    nats: Nats = ""

    @property
    def access(self) -> LogAccess:
        """The log of --nats, else of the installation; raises Failed where there is neither."""
        from services.cli.common.logbook import log_access

        return log_access(self.directory, self.nats)


class LogAndControlOptions(NamedTuple):
    """The log that a command reads, and the control plane that it looks kinds up in."""

    directory: Directory = DEFAULT_DIRECTORY
    nats: Nats = ""
    kubeconfig: Kubeconfig = ""

    @property
    def access(self) -> LogAccess:
        """The log of --nats, else of the installation; raises Failed where there is neither."""
        return LogOptions(self.directory, self.nats).access

    @property
    def target(self) -> ControlPlaneOptions:
        """The control plane of --kubeconfig, else of the installation, else of KUBECONFIG."""
        return control(self.directory, self.kubeconfig)


def control(directory: Path, kubeconfig: str) -> ControlPlaneOptions:
    """The control plane of an option, else of the installation, else of KUBECONFIG."""
    from services.cli.common.layout import CONTROL, Layout

    own = Layout(directory).kubeconfig(CONTROL)
    return ControlPlaneOptions(kubeconfig or (str(own) if own.is_file() else ""))
