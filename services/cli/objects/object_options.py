"""Options of the commands `karmadactl get` and `karmadactl interpret`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from services.cli.common.command import split_commas


class Query(NamedTuple):
    """What is asked for: `words` are kinds and names as typed, empty `scope` and `clusters` mean the usual ones."""

    words: Annotated[tuple[str, ...], typer.Argument(metavar="KIND [NAME…] | KIND/NAME…", help="What to read.")]
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Namespace to read; the context's if empty.")] = ""
    all_namespaces: Annotated[bool, typer.Option("--all-namespaces", "-A", help="Read every namespace.")] = False
    selector: Annotated[str, typer.Option("--labels", "--selector", "-l", help="Label selector.")] = ""
    clusters: Annotated[
        tuple[str, ...],
        typer.Option("--clusters", "-C", help="Members to ask, comma-separated; all if empty."),
        split_commas,
    ] = ()
    scope: Annotated[
        str,
        typer.Option(
            "--operation-scope",
            "-s",
            help="karmada, members or all. Default: karmada; members for pods and where --clusters is given.",
        ),
    ] = ""
    output: Annotated[str, typer.Option("--output", "-o", help="wide, json, yaml or name.")] = ""
    label_columns: Annotated[
        tuple[str, ...], typer.Option("--label-columns", "-L", help="Labels to show as columns."), split_commas
    ] = ()
    show_labels: Annotated[bool, typer.Option("--show-labels", help="Show all labels in the last column.")] = False
    show_kind: Annotated[bool, typer.Option("--show-kind", help="Put the kind before names.")] = False
    no_headers: Annotated[bool, typer.Option("--no-headers", help="Leave the header line out.")] = False
    ignore_not_found: Annotated[bool, typer.Option("--ignore-not-found", help="A missing object is no error.")] = False

    @property
    def readable(self) -> bool:
        """Whether people read the answer as a table."""
        return self.output in ("", "wide")


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
    output: Annotated[str, typer.Option("--output", "-o", help="yaml or json.")] = "yaml"
    list_shipped: Annotated[
        bool, typer.Option("--list-shipped", help="List the kinds that this product brings scripts for.")
    ] = False
    show: Annotated[
        str, typer.Option("--show", help="Print the scripts for a kind: Kind, Kind.group or group/version/Kind.")
    ] = ""
