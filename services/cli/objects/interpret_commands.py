"""The command of karmadactl that checks and tries interpreter scripts: interpret."""

from __future__ import annotations

from services.cli.common.command import Commands, Work
from services.cli.objects.object_options import InterpretOptions

app = Commands()


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
""",
)
def interpret(options: InterpretOptions) -> Work:
    """Check or edit interpreter scripts, or carry out one operation with them; no cluster is contacted."""
    from services._kit.base.logs import configure

    # A script that had to be stopped is reported as the operation's error; the pool's warning would repeat it.
    configure("karmadactl", "cli", "error")
    return _interpreted(options)


async def _interpreted(options: InterpretOptions) -> int:
    from services.cli.common.running import Failed
    from services.cli.objects import bundled_scripts as shipped
    from services.cli.objects import interpret as work

    if options.list_shipped or options.show:
        print(shipped.written(options.show) if options.show else shipped.listing(), end="")
        return 0
    if options.edit:
        from services.cli.objects.script_editor import edit as edited

        if options.check:
            raise Failed("--check and --edit exclude each other")
        if len(options.filename) != 1:
            raise Failed("--edit needs one file with -f")
        print(edited(options.filename[0], documented=options.show_doc), end="")
        return 0
    found = None
    if options.filename:
        found = work.customizations_in(work.files_in(options.filename, options.recursive))
    if options.check:
        text, sound = work.check(found if found is not None else shipped.every())
        print(text)
        return 0 if sound else 1
    if options.output not in work.WRITERS:
        raise Failed(f"--output {options.output!r} is none of {', '.join(work.WRITERS)}")
    chosen = work.operation_named(options.operation)
    given = work.arguments(chosen, options.inputs)
    manifests = [shipped.customization_of(given[0])] if found is None else [manifest for _, manifest in found]
    print(await work.execute(manifests, chosen, given, options.output), end="")
    return 0
