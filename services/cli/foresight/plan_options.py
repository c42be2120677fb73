"""Options of the commands plan, undo and apply."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from services.cli.shell.choices import OneOf, PlainOutput, TableOutput

Namespace = Annotated[
    str, typer.Option("--namespace", "-n", help="Namespace of objects that name none; the context's if empty.")
]


class ChangeSetOptions(NamedTuple):
    """The manifests of a change set."""

    filename: Annotated[
        tuple[Path, ...],
        typer.Option("--filename", "-f", help="Files or directories with manifests; - is standard input."),
    ] = ()
    recursive: Annotated[bool, typer.Option("--recursive", "-R", help="Read directories in directories, too.")] = False
    namespace: Namespace = ""


class UndoOptions(NamedTuple):
    """Which version to restore of what."""

    words: Annotated[tuple[str, ...], typer.Argument(metavar="KIND/NAME", help="The policy or template.")]
    namespace: Namespace = ""
    to: Annotated[
        str,
        typer.Option("--to", help="The version at a position or a time: 1234, 10m, 2026-11-21T12:00:00Z."),
    ] = ""
    list_versions: Annotated[bool, typer.Option("--list", help="Only list the versions that the log knows.")] = False
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False
    confirm_radius: Annotated[
        str, typer.Option("--confirm-radius", help="Confirm the radius of the edit to the guard of the policy.")
    ] = ""


class ApplyOptions(NamedTuple):
    """What to apply, and how."""

    files: ChangeSetOptions = ChangeSetOptions()
    atomic: Annotated[
        bool, typer.Option("--atomic", help="All objects or none, decided as one; the only way there is.")
    ] = False
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what the control plane would do.")] = False
    output: PlainOutput = ""


class PlanOptions(NamedTuple):
    """What to plan, and how much of it to show."""

    files: ChangeSetOptions = ChangeSetOptions()
    delete: Annotated[
        tuple[str, ...], typer.Option("--delete", help="KIND/NAME of an object that is deleted; may be repeated.")
    ] = ()
    show: Annotated[
        str,
        typer.Option(
            "--show",
            help="What to show; manifests as diffs.",
            click_type=OneOf("placements", "manifests", "all", usual=""),
        ),
    ] = "placements"
    limit: Annotated[
        int, typer.Option("--limit", help="Rows and diffs to print of each sort; 0 prints all.", min=0)
    ] = 20
    at: Annotated[
        str, typer.Option("--at", help="Plan it for a time in the past (RFC 3339), or how long ago: 10m, 2h.")
    ] = ""
    output: TableOutput = ""
