"""The commands `fleetlog settings …` and their options; what they do stands in settings_check.py."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from services.cli.common.command import Commands, Work
from services.cli.shell.choices import PlainOutput

app = Commands(
    name="settings",
    help="The settings of services, before a service reads them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command(
    "check",
    epilog="""Examples:

\b
fleetlog settings check                           # the FLEETLOG_* variables of this shell
fleetlog settings check settings.toml             # a file for FLEETLOG_SETTINGS_FILE
fleetlog settings check --env-file scheduler.env --service scheduler
fleetlog settings check -o json
""",
)
def check(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="JSON or TOML with names in lower case, without FLEETLOG_.")
    ] = None,
    env_file: Annotated[Path | None, typer.Option("--env-file", help="A file with lines KEY=VALUE.")] = None,
    service: Annotated[
        list[str] | None, typer.Option("--service", help="Only this service has to know them; may be repeated.")
    ] = None,
    output: PlainOutput = "",
) -> Work:
    """Say which settings which services know, which none does, and which values cannot be used; 1 when one is wrong."""
    from services.cli.settings.settings_check import run

    return run(file, env_file, service or (), output)
