"""The commands `fleetlog trace …`."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer
from typer._click import Command, Context

from services.cli.common.command import Commands, Work
from services.cli.common.command_group import CommandGroup
from services.cli.common.installation_options import LogAndControlOptions
from services.cli.queries.query_options import ObjectQuery
from services.cli.shell.choices import TableOutput
from services.cli.tracing.tracing_options import FollowOptions, TraceChoice, TraceTarget

_USUAL: Final = "endpoints"


class _TraceGroup(CommandGroup):
    """Without the name of a command, the words name a Service whose endpoints are traced."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """The arguments, behind the name of the usual command where they begin with none."""
        asks_help = args and args[0] in ("-h", "--help")
        if args and not asks_help and args[0] not in self.commands and not ctx.resilient_parsing:
            args = [_USUAL, *args]
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, Command | None, list[str]]:
        """The command that is named, also while a command line is completed."""
        if ctx.resilient_parsing and args and args[0] not in self.commands:
            args = [_USUAL, *args]
        return super().resolve_command(ctx, args)


_SETTINGS: Final[dict[str, Any]] = {"cls": _TraceGroup, "no_args_is_help": True}

app = Commands(
    name="trace", help="Follow a change through the services, or a client in a member to the endpoints.", **_SETTINGS
)


@app.command(
    _USUAL,
    epilog="""Examples:

\b
fleetlog trace service/web --from member2           # what derived-web reaches from there, and what is missing
fleetlog trace endpoints service/web -n shop --from member2 -o json
""",
)
def endpoints(
    query: ObjectQuery,
    cluster: Annotated[str, typer.Option("--from", help="The member whose clients ask.")],
    output: TableOutput = "",
) -> Work:
    """Show which endpoints a client in one member reaches of a Service that others export."""
    from services.cli.queries import trace_output

    return trace_output.trace_service(query, cluster, output)


@app.command(
    "export",
    epilog="""Examples:

\b
fleetlog trace export deploy/nginx                  # which step of its latest change took how long, in which service
fleetlog trace export deploy/nginx --revision 2 -o json
fleetlog trace export deploy/nginx --since 1h --otlp http://localhost:4318
fleetlog trace export --follow --otlp http://localhost:4318 --sample 0.1
""",
)
def export(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[KIND NAME | KIND/NAME]", help="The object; none with --follow.")
    ] = None,
    *,
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Its namespace; the context's if empty.")] = "",
    log: LogAndControlOptions,
    choice: TraceChoice,
    target: TraceTarget,
    following: FollowOptions,
) -> Work:
    """Show or send changes as traces: from the request to the status, one span for each step of a service.

    Sending needs `pip install 'fleetlog[otel]'`; variables OTEL_EXPORTER_OTLP_* set headers, certificates and timeouts.
    """
    if following.follow:
        from services.cli.tracing.change_follower import follow

        return follow(log.access, words or (), choice, target, following)
    from services.cli.tracing.trace_export import export_object

    return export_object(ObjectQuery(tuple(words or ()), namespace, log), choice, target)
