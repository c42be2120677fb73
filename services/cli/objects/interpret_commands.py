"""The command of karmadactl that checks and tries interpreter scripts: interpret."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer()


@app.command(
    epilog="""Examples:

\b
karmadactl interpret -f widgets.yaml --check
karmadactl interpret -f widgets.yaml --operation InterpretReplica --observed-file widget.yaml
karmadactl interpret -f widgets.yaml --operation ReviseReplica --observed-file widget.yaml --desired-replica 3
karmadactl interpret -f widgets.yaml --operation Retain --desired-file widget.yaml --observed-file observed.yaml
karmadactl interpret -f widgets.yaml --operation AggregateStatus --desired-file widget.yaml --status-file items.yaml
karmadactl interpret -f widgets.yaml --edit --show-doc
karmadactl interpret --list-shipped
karmadactl interpret --show CloneSet
karmadactl interpret --operation InterpretHealth --observed-file cloneset.yaml
"""
)
def interpret(
    filename: Annotated[
        list[Path] | None,
        typer.Option("--filename", "-f", help="Files or directories with customizations; without: those shipped."),
    ] = None,
    recursive: Annotated[bool, typer.Option("--recursive", "-R", help="Read directories in directories, too.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Say which scripts compile.")] = False,
    edit: Annotated[
        bool, typer.Option("--edit", help="Edit the scripts in one file with $KUBE_EDITOR or $EDITOR.")
    ] = False,
    show_doc: Annotated[bool, typer.Option("--show-doc", help="With --edit: say what each rule is for.")] = False,
    operation: Annotated[str, typer.Option("--operation", help="Operation to carry out, in any case.")] = "",
    desired_file: Annotated[
        Path | None, typer.Option("--desired-file", help="File with the object as it is wanted; - is standard input.")
    ] = None,
    observed_file: Annotated[
        Path | None,
        typer.Option("--observed-file", help="File with the object as a member has it; - is standard input."),
    ] = None,
    status_file: Annotated[
        Path | None, typer.Option("--status-file", help="File with what members report, one document each.")
    ] = None,
    desired_replica: Annotated[
        int | None, typer.Option("--desired-replica", help="Replicas to set, for ReviseReplica.")
    ] = None,
    output: Annotated[str, typer.Option("--output", "-o", help="yaml or json.")] = "yaml",
    list_shipped: Annotated[
        bool, typer.Option("--list-shipped", help="List the kinds that this product brings scripts for.")
    ] = False,
    show: Annotated[
        str, typer.Option("--show", help="Print the scripts for a kind: Kind, Kind.group or group/version/Kind.")
    ] = "",
) -> None:
    """Check or edit interpreter scripts, or carry out one operation with them; no cluster is contacted."""
    from services._kit.base.logs import configure
    from services.cli.common.running import Failed, run
    from services.cli.objects import bundled_scripts as shipped
    from services.cli.objects import interpret as work

    async def interpreted() -> int:
        if list_shipped or show:
            print(shipped.written(show) if show else shipped.listing(), end="")
            return 0
        if edit:
            from services.cli.objects.script_editor import edit as edited

            if check:
                raise Failed("--check and --edit exclude each other")
            if len(filename or ()) != 1:
                raise Failed("--edit needs one file with -f")
            print(edited((filename or [work.STDIN])[0], documented=show_doc), end="")
            return 0
        found = work.customizations_in(work.files_in(filename, recursive)) if filename else None
        if check:
            text, sound = work.check(found if found is not None else shipped.every())
            print(text)
            return 0 if sound else 1
        if output not in work.WRITERS:
            raise Failed(f"--output {output!r} is none of {', '.join(work.WRITERS)}")
        chosen = work.operation_named(operation)
        inputs = work.Inputs(desired_file, observed_file, status_file, desired_replica)
        given = work.arguments(chosen, inputs)
        manifests = [shipped.customization_of(given[0])] if found is None else [manifest for _, manifest in found]
        print(await work.execute(manifests, chosen, given, output), end="")
        return 0

    # A script that had to be stopped is told as the operation's error; the pool's warning would say it twice.
    configure("karmadactl", "cli", "error")
    run(interpreted())
