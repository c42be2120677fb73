"""The commands `fleetlog status` and `fleetlog confirm-absence`."""

from __future__ import annotations

from typing import Annotated

import typer

from services.cli.common.command import Commands, Work
from services.cli.common.installation_options import LogOptions

app = Commands()


@app.command("status", epilog="Examples:\n\n\b\nfleetlog status\nfleetlog status -o json")
def show_status(
    log: LogOptions, output: Annotated[str, typer.Option("--output", "-o", help="json or yaml for programs.")] = ""
) -> Work:
    """Show the control plane, withdrawals that are held, members and services; ends with 1 when something is wrong."""
    from services.cli.overview.status_command import status

    return status(log.access, output)


@app.command(
    "confirm-absence",
    epilog="""Examples:

\b
fleetlog confirm-absence                          # shows what is held, and asks
fleetlog confirm-absence templates --yes
fleetlog confirm-absence member/member1 --yes --note 'member1 was rebuilt'
""",
)
def confirm_absence(
    scopes: Annotated[
        list[str] | None, typer.Argument(metavar="[SCOPE]...", help="templates, clusters, member/NAME; all if empty.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    note: Annotated[str, typer.Option(help="A reason, for the record.")] = "",
    *,
    log: LogOptions,
) -> Work:
    """Let withdrawals pass that are held: what is missing was meant to go, or the other identity is the right one."""
    from services.cli.overview.confirm_absence import confirm

    return confirm(log.access, scopes or (), yes=yes, note=note)
