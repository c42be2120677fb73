"""The commands `fleetlog secrets …` and their options; what they do stands in secret_keys.py."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from services.cli.common.installation_options import Directory, Nats, access
from services.cli.common.installation_search import DEFAULT_DIRECTORY

app = typer.Typer(
    name="secrets",
    help="The keys that Secrets are encrypted with on the log.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

KeyFile = Annotated[Path | None, typer.Option("--key-file", help="The master keys, instead of the installation's.")]


@app.command("init", epilog="Example:\n\nfleetlog secrets init --key-file keys.json")
def init(key_file: KeyFile = None, directory: Directory = DEFAULT_DIRECTORY) -> None:
    """Make a file with a first master key; `fleetlog up` has done that for its own installation."""
    from services.cli.common.running import Failed, fail
    from services.cli.secrets.secret_keys import create

    try:
        create(_file(directory, key_file))
    except Failed as error:
        fail(str(error))


@app.command("rotate", epilog="Examples:\n\n\b\nfleetlog secrets rotate\nfleetlog secrets rotate --drop-old")
def rotate(
    drop_old: Annotated[bool, typer.Option("--drop-old", help="Drop all master keys but the current one.")] = False,
    key_file: KeyFile = None,
    directory: Directory = DEFAULT_DIRECTORY,
    nats: Nats = "",
) -> None:
    """Make a new master key and wrap the key of every namespace with it; no Secret is written anew."""
    from services.cli.common.running import run
    from services.cli.secrets.secret_keys import rotate as carry_out

    run(carry_out(access(directory, nats), _file(directory, key_file), drop_old=drop_old))


@app.command("forget", epilog="Example:\n\nfleetlog secrets forget shop")
def forget(
    namespace: Annotated[str, typer.Argument(help="The namespace whose Secrets of the past shall be unreadable.")],
    key_file: KeyFile = None,
    directory: Directory = DEFAULT_DIRECTORY,
    nats: Nats = "",
) -> None:
    """Drop the key of a namespace: its Secrets of the past are erased, those of the present stored anew."""
    from services.cli.common.running import run
    from services.cli.secrets.secret_keys import forget as carry_out

    run(carry_out(access(directory, nats), _file(directory, key_file), namespace))


def _file(directory: Path, given: Path | None) -> Path:
    from services.cli.common.layout import Layout
    from services.cli.secrets.secret_keys import key_file

    return given or key_file(Layout(directory))
