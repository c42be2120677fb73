"""The commands `fleetlog status`, `fleetlog doctor`, `fleetlog parked …` and `fleetlog confirm-absence`."""

from __future__ import annotations

from typing import Annotated

import typer

from services.cli.common.command import Commands, Work
from services.cli.common.installation_options import LogAndControlOptions, LogOptions
from services.cli.shell.choices import TableOutput

app = Commands()


parked = Commands(
    name="parked",
    help="Keys that a service set aside because it failed on them again and again.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Service = Annotated[str, typer.Option("--service", help="Keys of this service only.")]
Everything = Annotated[bool, typer.Option("--all", help="Every key that is parked.")]
Note = Annotated[str, typer.Option(help="A reason, for the record.")]
Keys = Annotated[
    list[str] | None, typer.Argument(metavar="[KEY]...", help="Keys as `fleetlog parked list` shows them.")
]


@app.command(
    "status",
    epilog="""Examples:

\b
fleetlog status
fleetlog status -o wide                           # streams, certificates and everything that was not looked at
fleetlog status -o json
fleetlog status --nats tls://127.0.0.1:4222       # compose, Kubernetes: docs/tail-the-log.md
""",
)
def show_status(log: LogAndControlOptions, output: TableOutput = "") -> Work:
    """Show control plane, log, members, services with their instances and leaders, parked keys; 1 when all is not well.

    Ends with 0 when nothing has to be done, with 1 when something has, or the log cannot be reached.
    """
    from services.cli.overview.status_command import status

    return status(log, output)


@app.command("doctor", epilog="Examples:\n\n\b\nfleetlog doctor\nfleetlog doctor -o json")
def diagnose(log: LogAndControlOptions, output: TableOutput = "") -> Work:
    """Say what is wrong with an installation and what to do about it, and what could not be looked at.

    Ends with 0 when nothing has to be done, with 1 when something has, or the log cannot be reached.
    """
    from services.cli.overview.status_command import doctor

    return doctor(log, output)


@parked.command(
    "list", epilog="Examples:\n\n\b\nfleetlog parked list\nfleetlog parked list --service scheduler -o wide"
)
def list_parked(
    service: Service = "",
    everything: Annotated[
        bool, typer.Option("--all", help="Also keys that were given up or are parked no more.")
    ] = False,
    output: TableOutput = "",
    *,
    log: LogOptions,
) -> Work:
    """Show parked keys with the reason, the time of the last record and how many records there are."""
    from services.cli.overview.parked_keys import show

    return show(log.access, service, output, everything=everything)


@parked.command(
    "retry",
    epilog="""Examples:

\b
fleetlog parked retry deployments.apps/default/web --note 'the webhook answers again'
fleetlog parked retry --service scheduler
fleetlog parked retry --all
""",
)
def retry_parked(
    keys: Keys = None, service: Service = "", everything: Everything = False, note: Note = "", *, log: LogOptions
) -> Work:
    """Have parked keys decided again, and wait for what becomes of them; ends with 1 when one is parked again."""
    from services.cli.overview.parked_keys import retry

    return retry(log.access, keys or (), service, note, everything=everything)


@parked.command(
    "drop",
    epilog="""Examples:

\b
fleetlog parked drop deployments.apps/default/web --note 'is removed next week'
fleetlog parked drop --service detector --yes
""",
)
def drop_parked(
    keys: Keys = None,
    service: Service = "",
    everything: Everything = False,
    note: Note = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    *,
    log: LogOptions,
) -> Work:
    """Give parked keys up, so that they count as trouble no more until they fail for another reason.

    Nothing is deleted: what the service decided before stays, and so does every record on the log.
    """
    from services.cli.overview.parked_keys import drop

    return drop(log.access, keys or (), service, note, everything=everything, yes=yes)


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
