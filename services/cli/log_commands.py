"""The commands `fleetlog log …`: the log as a whole."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from services.cli.installation_options import DEFAULT_DIRECTORY, Directory, Nats, access

app = typer.Typer(
    name="log",
    help="The log as a whole: check it, take it along, fill an empty one.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("verify", epilog="Example:\n\nfleetlog log verify --nats nats://127.0.0.1:4222")
def verify_log(directory: Directory = DEFAULT_DIRECTORY, nats: Nats = "") -> None:
    """Walk every fact and say what does not hold together; ends with 1 when something does not."""
    from services.cli.log_verify import verify
    from services.cli.running import run

    run(verify(access(directory, nats)))


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
    file: Annotated[Path, typer.Argument(help="The file to write.")],
    since: Annotated[str, typer.Option(help="First position, a time, or how long ago: 1200, 10m.")] = "",
    until: Annotated[str, typer.Option(help="Last position, a time, or how long ago.")] = "",
    subject: Annotated[str, typer.Option(help="Pattern of subjects: `work.member1.>`.")] = "",
    directory: Directory = DEFAULT_DIRECTORY,
    nats: Nats = "",
) -> None:
    """Write facts, observations and the manifests they name to one file, for the log of another installation."""
    from services.cli.log_export import Choice, export
    from services.cli.running import run

    run(export(access(directory, nats), file, Choice(since=since, until=until, subject=subject)))


@app.command("import", epilog="Example:\n\nfleetlog log import monday.log.gz --nats nats://127.0.0.1:5222")
def import_file(
    file: Annotated[Path, typer.Argument(help="A file that `fleetlog log export` wrote.")],
    directory: Directory = DEFAULT_DIRECTORY,
    nats: Nats = "",
) -> None:
    """Fill the empty log of another installation from a file, every event at its old position."""
    from services.cli.log_import import import_log
    from services.cli.running import run

    run(import_log(access(directory, nats), file))
