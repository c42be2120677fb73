"""The commands `fleetlog log …`: the log as a whole."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from services.cli.common.command import Commands, Work
from services.cli.common.installation_options import Directory, LogOptions
from services.cli.common.installation_search import DEFAULT_DIRECTORY
from services.cli.log.log_options import ExportChoice, RepairOptions
from services.cli.shell.choices import DocumentOutput

app = Commands(
    name="log",
    help="The log as a whole: check it, repair it, take it along, fill an empty one.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("verify", epilog="Examples:\n\n\b\nfleetlog log verify\nfleetlog log verify --nats nats://127.0.0.1:4222")
def verify_log(log: LogOptions, output: DocumentOutput = "") -> Work:
    """Check every message of every stream, and how the facts hang together; ends with 1 when something is wrong.

    Works on a running installation and on the files of a stopped one.
    """
    from services.cli.log.verify import verify, verify_installation

    return verify(log.access, output) if log.nats else verify_installation(log.directory, output)


@app.command(
    "repair",
    epilog="""Examples:

\b
fleetlog log repair
fleetlog log repair --quarantine
fleetlog log repair --quarantine --accept-loss
""",
)
def repair_log(options: RepairOptions, directory: Directory = DEFAULT_DIRECTORY) -> Work:
    """Get a log with damaged messages up again, while the installation is stopped.

    A message of which one byte changed is mended. What cannot be mended goes to DIR/quarantine, and everything else
    stays. Ends with 0 when nothing is damaged or all is done, 1 when something is damaged and was only shown, 2 when an
    object would be lost.
    """
    from services.cli.log.repair import repair

    return repair(directory, options)


@app.command(
    "export",
    epilog="""Examples:

\b
fleetlog log export monday.log.gz
fleetlog log export incident.log.gz --since 2h --until 1h
fleetlog log export placements.log.gz --subject 'placement.>'
""",
)
def export_log(
    file: Annotated[Path, typer.Argument(help="The file to write.")], choice: ExportChoice, log: LogOptions
) -> Work:
    """Write facts, observations and the manifests they name to one file, for the log of another installation."""
    from services.cli.log.export import export

    return export(log.access, file, choice)


@app.command("release", epilog="Example:\n\nfleetlog log release --dir .fleetlog")
def release_log(log: LogOptions) -> Work:
    """Deliver what a restored log says although not everything could be compared with the control plane."""
    from services.cli.log.import_marking import release

    return release(log.access)


@app.command("import", epilog="Example:\n\nfleetlog log import monday.log.gz --nats nats://127.0.0.1:5222")
def import_file(
    file: Annotated[Path, typer.Argument(help="A file that `fleetlog log export` wrote.")], log: LogOptions
) -> Work:
    """Fill the empty log of another installation from a file, every event at its old position."""
    from services.cli.log.restore_archive import import_log

    return import_log(log.access, file)
