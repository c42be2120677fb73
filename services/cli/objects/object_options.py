"""Options of the commands `karmadactl interpret` and `fleetlog validate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from services.cli.shell.choices import PlainOutput, output_option


class Inputs(NamedTuple):
    """What an operation is carried out on; None where an option was not given."""

    desired: Annotated[
        Path | None, typer.Option("--desired-file", help="File with the object as it is wanted; - is standard input.")
    ] = None
    observed: Annotated[
        Path | None,
        typer.Option("--observed-file", help="File with the object as a member has it; - is standard input."),
    ] = None
    status: Annotated[
        Path | None, typer.Option("--status-file", help="File with what members report, one document each.")
    ] = None
    replicas: Annotated[int | None, typer.Option("--desired-replica", help="Replicas to set, for ReviseReplica.")] = (
        None
    )


class InterpretOptions(NamedTuple):
    """What to do with which interpreter scripts."""

    filename: Annotated[
        tuple[Path, ...],
        typer.Option("--filename", "-f", help="Files or directories with customizations; without: those shipped."),
    ] = ()
    recursive: Annotated[bool, typer.Option("--recursive", "-R", help="Read directories in directories, too.")] = False
    check: Annotated[bool, typer.Option("--check", help="Say which scripts compile.")] = False
    edit: Annotated[bool, typer.Option("--edit", help="Edit the scripts in one file with $KUBE_EDITOR or $EDITOR.")] = (
        False
    )
    show_doc: Annotated[bool, typer.Option("--show-doc", help="With --edit: say what each rule is for.")] = False
    operation: Annotated[str, typer.Option("--operation", help="Operation to carry out, in any case.")] = ""
    inputs: Inputs = Inputs()
    output: Annotated[str, output_option("yaml", "json", usual="")] = "yaml"
    list_shipped: Annotated[
        bool, typer.Option("--list-shipped", help="List the kinds that this product brings scripts for.")
    ] = False
    show: Annotated[
        str, typer.Option("--show", help="Print the scripts for a kind: Kind, Kind.group or group/version/Kind.")
    ] = ""


class ValidateOptions(NamedTuple):
    """Which manifests to validate."""

    filename: Annotated[
        tuple[Path, ...],
        typer.Option("--filename", "-f", help="Files or directories with manifests; - is standard input."),
    ] = ()
    recursive: Annotated[bool, typer.Option("--recursive", "-R", help="Read directories in directories, too.")] = False
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Namespace of objects whose manifest names none.")
    ] = "default"
    output: PlainOutput = ""
