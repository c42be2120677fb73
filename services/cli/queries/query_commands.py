"""The commands of fleetlog that ask the log about objects: events, history, explain, simulate, replay."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from services.cli.common.command import Commands, Work
from services.cli.common.installation_options import LogAndControlOptions, LogOptions
from services.cli.queries.query_options import EventQuery, ObjectQuery, Suppositions
from services.cli.shell.choices import TableOutput

app = Commands()


@app.command(
    epilog="""Examples:

\b
fleetlog events                                     # the last hundred facts
fleetlog events --follow
fleetlog events --subject 'placement.>' --since 10m
fleetlog events --stream OBSERVED -o json --tail 0  # every observation
""",
)
def events(log: LogOptions, query: EventQuery) -> Work:
    """Show what is on the log, one event per line: position, time, subject, event, meaning, cause."""
    from services.cli.queries import event_list

    return event_list.events(log.access, query)


@app.command(
    epilog="""Examples:

\b
fleetlog history deployment nginx
fleetlog history deploy/nginx -n web -o wide
fleetlog history deploy/nginx --since 10m
fleetlog history guestbooks.webapp.my.domain sample -o json
fleetlog history deployment nginx --at 10m          # how everything about it stood ten minutes ago
fleetlog history service/web --endpoints            # which endpoints of an exported Service came and went
fleetlog history deployment nginx --at 2026-11-21T12:00:00Z -o yaml
""",
)
def history(
    query: ObjectQuery,
    output: TableOutput = "",
    at: Annotated[str, typer.Option("--at", help="Its state at a time (RFC 3339), or how long ago: 10m, 2h.")] = "",
    since: Annotated[str, typer.Option("--since", help="Steps from this time on, or how long ago: 10m, 2h.")] = "",
    tail: Annotated[int, typer.Option("--tail", help="The last steps only; 0 shows all.", min=0)] = 0,
    endpoints: Annotated[
        bool, typer.Option("--endpoints", help="Of a Service: the endpoints that clusters export of it.")
    ] = False,
) -> Work:
    """Show what happened to one object, in order, with the cause and the time of each step."""
    from services.cli.queries import object_history

    return object_history.history(query, output, at, since, tail, endpoints=endpoints)


@app.command(
    epilog="""Examples:

\b
fleetlog explain deploy/nginx
fleetlog explain deployment nginx -n web -o wide
fleetlog explain deploy/nginx --at 10m              # why it ran where it ran ten minutes ago
fleetlog explain deploy/nginx -o json
fleetlog explain fhpa/web                           # why an autoscaler asks for the replicas it asks for
""",
)
def explain(
    query: ObjectQuery,
    output: TableOutput = "",
    at: Annotated[str, typer.Option("--at", help="The placement at a time (RFC 3339), or how long ago: 10m, 2h.")] = "",
) -> Work:
    """Show why an object runs where it runs: what refused each cluster, or its rank, capacity, weight and share."""
    from services.cli.queries import explain as explanation

    return explanation.explain(query, output, at)


@app.command(
    epilog="""Examples:

\b
fleetlog simulate --lose member1                        # what would move if it were gone
fleetlog simulate --drain member1 --set-capacity member2:cpu=4
fleetlog simulate deploy/nginx --scale deploy/nginx=10
fleetlog simulate --label member3:tier=gold --taint member2:gpu=only:NoSchedule
fleetlog simulate --policy nginx-propagation.yaml -o json
fleetlog simulate --metric web:cpu=90%                  # what FederatedHPA web would ask for, and where it would run
fleetlog simulate --lose member1 --at 10m               # as things stood ten minutes ago
""",
)
def simulate(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[KIND/NAME]", help="One object to show; else the whole fleet.")
    ] = None,
    *,
    suppositions: Suppositions,
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Of the objects; the context's if empty.")] = "",
    log: LogAndControlOptions,
    output: TableOutput = "",
    at: Annotated[str, typer.Option("--at", help="The fleet at a time (RFC 3339), or how long ago: 10m, 2h.")] = "",
) -> Work:
    """Show what would be placed otherwise if clusters, metrics, replicas or a policy were others; writes nothing."""
    from services.cli.queries import simulate as simulation

    return simulation.simulate(log, suppositions, words or (), namespace, output, at)


@app.command(
    epilog="""Example:

\b
fleetlog log export monday.log.gz && fleetlog replay --from monday.log.gz
""",
)
def replay(
    file: Annotated[Path, typer.Option("--from", help="A file that `fleetlog log export` wrote.")],
    output: TableOutput = "",
) -> Work:
    """Decide an exported log again with this version and print every decision that differs; ends with 1 if any does."""
    from services.cli.queries import replay as replaying

    return replaying.replay(file, output)
