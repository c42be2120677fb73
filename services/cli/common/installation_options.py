"""Options that several commands of fleetlog share: which installation, log and control plane is meant."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

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


def _log_named(ctx: typer.Context, parameter: typer.CallbackParam, value: str) -> str:
    """The log that is named: among the arguments, else in the environment or its settings file unless --dir is there.

    Warns of a password among the arguments, where every user of the machine sees it.
    """
    if _given(ctx, parameter.name or ""):
        if _PASSWORD.search(value):
            typer.echo(
                "warning: every user of this machine can read the password in --nats; set FLEETLOG_NATS_USER and "
                "FLEETLOG_NATS_PASSWORD_FILE instead",
                err=True,
            )
        return value
    if any(_given(ctx, one.name or "") for one in ctx.command.params if "--dir" in one.opts):
        return ""
    return value or _in_settings_file()


def _given(ctx: typer.Context, name: str) -> bool:
    """Whether an option stands among the arguments."""
    source = ctx.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _in_settings_file() -> str:
    """The log of the services' settings file; empty where there is no such file, or it names none."""
    import os

    if not os.environ.get("FLEETLOG_SETTINGS_FILE"):
        return ""
    from services._kit.base.settings import Settings, SettingsError, log_settings

    try:
        url = log_settings(os.environ).nats_url
    except SettingsError as error:
        raise typer.BadParameter(str(error)) from None
    return url if url != Settings().nats_url else ""


_PASSWORD: Final = re.compile(r"//[^/@,]*:[^/@,]+@")
Nats = Annotated[
    str,
    typer.Option(
        "--nats",
        help="URL of the log's server, instead of the installation's; identity and TLS: docs/tail-the-log.md.",
        envvar="FLEETLOG_NATS_URL",
        show_envvar=True,
        callback=_log_named,
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
