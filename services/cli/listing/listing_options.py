"""Options of the commands `karmadactl get` and `karmadactl top`."""

from __future__ import annotations

from typing import Annotated, Any, Final, NamedTuple

import typer

from services.cli.common.command import split_commas
from services.cli.shell.choices import TABLE, OneOf

CONTROL: Final = "karmada"
MEMBERS: Final = "members"
EVERYWHERE: Final = "all"
PLAIN: Final = (TABLE, "wide", "name", "json", "yaml", "kyaml")
WITH_TEXT: Final = (
    *("jsonpath", "jsonpath-as-json", "jsonpath-file", "go-template", "go-template-file"),
    *("template", "templatefile", "custom-columns", "custom-columns-file"),
)
"""Outputs that take a text, or the name of a file, behind `=`."""


class GetOutput(OneOf):
    """An output of `get`: a word, for some of them with a text behind it."""

    def __init__(self) -> None:
        super().__init__(*PLAIN, *(f"{word}=" for word in WITH_TEXT))

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        """The output as it was typed; empty for a table."""
        return str(value) if str(value).partition("=")[0] in WITH_TEXT else super().convert(value, param, ctx)

    def get_metavar(self, param: Any, ctx: Any) -> str:
        """How help names it."""
        return "<output>"


Namespace = Annotated[str, typer.Option("--namespace", "-n", help="Namespace to read; the context's if empty.")]
AllNamespaces = Annotated[bool, typer.Option("--all-namespaces", "-A", help="Read every namespace.")]
FieldSelector = Annotated[str, typer.Option("--field-selector", help="Fields to select by: `metadata.name=nginx`.")]
NoHeaders = Annotated[bool, typer.Option("--no-headers", help="Leave the header line out.")]
ClusterNames = Annotated[
    tuple[str, ...],
    typer.Option("--clusters", "--cluster", "-C", help="Members to ask, comma-separated; all if empty."),
    split_commas,
]


class Query(NamedTuple):
    """What is asked for: `words` are kinds and names as typed, empty `scope` and `clusters` mean the usual ones."""

    words: Annotated[tuple[str, ...], typer.Argument(metavar="[KIND [NAME…] | KIND/NAME…]", help="What to read.")] = ()
    files: Annotated[
        tuple[str, ...], typer.Option("--filename", "-f", help="Files or directories that name objects; - is stdin.")
    ] = ()
    recursive: Annotated[bool, typer.Option("--recursive", "-R", help="Read directories in directories, too.")] = False
    namespace: Namespace = ""
    all_namespaces: AllNamespaces = False
    selector: Annotated[str, typer.Option("--labels", "--selector", "-l", help="Label selector.")] = ""
    field_selector: FieldSelector = ""
    clusters: ClusterNames = ()
    scope: Annotated[
        str,
        typer.Option(
            "--operation-scope",
            "-s",
            help="Where to look. Default: karmada, the control plane; members where --clusters is given.",
            click_type=OneOf(CONTROL, MEMBERS, EVERYWHERE, usual=""),
        ),
    ] = ""
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            help=f"{', '.join(PLAIN)}, or one of {', '.join(WITH_TEXT)} followed by =TEXT (or =FILE).",
            click_type=GetOutput(),
        ),
    ] = ""
    template: Annotated[str, typer.Option("--template", help="The text, or file, of an output that takes one.")] = ""
    sort_by: Annotated[str, typer.Option("--sort-by", help="JSONPath of the field to sort by.")] = ""
    label_columns: Annotated[
        tuple[str, ...], typer.Option("--label-columns", "-L", help="Labels to show as columns."), split_commas
    ] = ()
    show_labels: Annotated[bool, typer.Option("--show-labels", help="Show all labels in the last column.")] = False
    show_kind: Annotated[bool, typer.Option("--show-kind", help="Put the kind before names.")] = False
    show_managed_fields: Annotated[
        bool, typer.Option("--show-managed-fields", help="Keep the field managers in JSON and YAML.")
    ] = False
    no_headers: NoHeaders = False
    ignore_not_found: Annotated[bool, typer.Option("--ignore-not-found", help="A missing object is no error.")] = False
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Go on with changes until Ctrl-C.")] = False
    watch_only: Annotated[bool, typer.Option("--watch-only", help="Show changes only, not what is there.")] = False
    watch_events: Annotated[
        bool, typer.Option("--output-watch-events", help="With a watch: show what kind of change each is.")
    ] = False

    @property
    def readable(self) -> bool:
        """Whether people read the answer as a table."""
        return self.output in ("", "wide")

    @property
    def watching(self) -> bool:
        """Whether changes are followed."""
        return self.watch or self.watch_only


class TopQuery(NamedTuple):
    """Whose usage is asked for, and how it is shown."""

    clusters: ClusterNames = ()
    selector: Annotated[str, typer.Option("--selector", "--labels", "-l", help="Label selector.")] = ""
    sort_by: Annotated[
        str, typer.Option("--sort-by", help="What to sort by.", click_type=OneOf("cpu", "memory", usual=""))
    ] = ""
    no_headers: NoHeaders = False
    protocol_buffers: Annotated[
        bool,
        typer.Option(
            "--use-protocol-buffers/--no-use-protocol-buffers",
            help="Accepted for scripts; the answers are read as JSON.",
            hidden=True,
        ),
    ] = True


class PodTopQuery(NamedTuple):
    """Which pods."""

    names: Annotated[tuple[str, ...], typer.Argument(metavar="[NAME]", help="One pod; all if empty.")] = ()
    namespace: Namespace = ""
    all_namespaces: AllNamespaces = False
    field_selector: FieldSelector = ""
    containers: Annotated[bool, typer.Option("--containers", help="Show each container.")] = False
    total: Annotated[bool, typer.Option("--sum", help="Add a line with the sum.")] = False
