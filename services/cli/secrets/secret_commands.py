"""The commands `fleetlog secrets …` and their options; what they do stands in secret_keys.py."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from services.cli.common.command import Commands, Work
from services.cli.common.installation_options import Directory, LogOptions
from services.cli.common.installation_search import DEFAULT_DIRECTORY

app = Commands(
    name="secrets",
    help="The keys that Secrets are encrypted with on the log.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

KeyFile = Annotated[Path | None, typer.Option("--key-file", help="The master keys, instead of the installation's.")]


@app.command("init", epilog="Example:\n\nfleetlog secrets init --key-file keys.json")
def init(key_file: KeyFile = None, directory: Directory = DEFAULT_DIRECTORY) -> Work:
    """Make a file with a first master key; `fleetlog up` has done that for its own installation."""
    from services.cli.secrets.secret_keys import create

    return create(_file(directory, key_file))


@app.command("rotate", epilog="Examples:\n\n\b\nfleetlog secrets rotate\nfleetlog secrets rotate --drop-old")
def rotate(
    drop_old: Annotated[bool, typer.Option("--drop-old", help="Drop all master keys but the current one.")] = False,
    key_file: KeyFile = None,
    *,
    log: LogOptions,
) -> Work:
    """Make a new master key and wrap the key of every namespace with it; no Secret is written again."""
    from services.cli.secrets import secret_keys

    return secret_keys.rotate(log.access, _file(log.directory, key_file), drop_old=drop_old)


@app.command("forget", epilog="Example:\n\nfleetlog secrets forget shop")
def forget(
    namespace: Annotated[str, typer.Argument(help="The namespace whose Secrets of the past shall be unreadable.")],
    key_file: KeyFile = None,
    *,
    log: LogOptions,
) -> Work:
    """Drop the key of a namespace: its Secrets of the past are erased, those of the present stored again."""
    from services.cli.secrets import secret_keys

    return secret_keys.forget(log.access, _file(log.directory, key_file), namespace)


def _file(directory: Path, given: Path | None) -> Path:
    from services.cli.common.layout import Layout
    from services.cli.secrets.secret_keys import key_file

    return given or key_file(Layout(directory))
