"""The command `fleetlog`: runs an installation and shows what its log holds."""

from __future__ import annotations

import typer

from services.cli.backup.backup_commands import app as backup_commands
from services.cli.backup.backup_commands import restores as restore_commands
from services.cli.installation.installation_commands import app as installation_commands
from services.cli.installation.installation_commands import crds as definition_commands
from services.cli.log.log_commands import app as log_commands
from services.cli.members.nats_commands import app as nats_commands
from services.cli.overview.overview_commands import app as overview_commands
from services.cli.queries.query_commands import app as query_commands
from services.cli.secrets.secret_commands import app as secret_commands

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


for _commands in (
    installation_commands,
    query_commands,
    overview_commands,
    log_commands,
    backup_commands,
    restore_commands,
    secret_commands,
    nats_commands,
    definition_commands,
):
    app.add_typer(_commands)


def main() -> None:
    """Entry point of the command."""
    app()
