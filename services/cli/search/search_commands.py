"""The command `fleetlog search`."""

from __future__ import annotations

from typing import Annotated

import typer

from services.cli.common.command import Commands, Work, split_commas
from services.cli.common.installation_options import LogAndControlOptions
from services.cli.shell.choices import TABLE, output_option

app = Commands()


@app.command(
    epilog="""Examples:

\b
fleetlog search 'kind=Pod image~nginx:1.2 phase!=Running'
fleetlog search 'kind=Deployment label.app=web .spec.replicas>=3' -o wide
fleetlog search 'kind=Pod node=node-7' -C member1,member2 -n shop -o name
fleetlog search 'kind=Deployment image~log4j' --at 2h        # what was delivered two hours ago
""",
)
def search(
    words: Annotated[
        list[str], typer.Argument(metavar="QUERY", help="Conditions such as kind=Pod phase!=Running; all have to hold.")
    ],
    clusters: Annotated[
        tuple[str, ...], typer.Option("--clusters", "-C", help="Clusters, comma-separated; all if empty."), split_commas
    ] = (),
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="One namespace; all if empty.")] = "",
    output: Annotated[str, output_option(TABLE, "wide", "json", "yaml", "name")] = "",
    limit: Annotated[int, typer.Option("--limit", help="Objects that are shown at most; 0: all.")] = 500,
    at: Annotated[
        str, typer.Option("--at", help="Objects that were delivered then (RFC 3339), or so long ago: 10m, 2h.")
    ] = "",
    *,
    place: LogAndControlOptions,
) -> Work:
    """Find objects in all members: what ResourceRegistries select, or with --at what the log says was delivered."""
    from services.cli.search.searching import SearchRequest, search_index, search_past

    request = SearchRequest(" ".join(words), clusters, namespace, output, limit)
    return search_past(place.access, request, at) if at else search_index(place.target, request)
