"""The commands `karmadactl get` and `karmadactl top`."""

from __future__ import annotations

from typing import Annotated

import typer

from services.cli.common.command import Commands, Work
from services.cli.common.karmadactl_options import ControlPlaneOptions
from services.cli.listing.listing_options import PodTopQuery, Query, TopQuery

app = Commands()
top = Commands(name="top", help="Show what pods and nodes of members use: CPU and memory.")
app.add_typer(top)


@app.command(
    short_help="Show objects of the control plane and its members side by side",
    epilog="""Examples:

\b
karmadactl get clusters
karmadactl get deploy nginx -s all              # the template and every copy
karmadactl get pods -s members                  # pods of all members
karmadactl get svc -n web -C member1,member2
karmadactl get deploy,svc -A -s members -o wide
karmadactl get all -n web -s all
karmadactl get -f web.yaml -s all               # what a file names, and every copy of it
karmadactl get pods -s members --sort-by .status.startTime -w
karmadactl get deploy -s all -o custom-columns=NAME:.metadata.name,REPLICAS:.spec.replicas
""",
)
def get(query: Query, target: ControlPlaneOptions) -> Work:
    """Show objects of the control plane and of its members side by side.

    Without -s and -C it shows those of the control plane; with -C those of the named members.
    """
    from services.cli.listing import get as getting

    return getting.get(target, query)


@top.command("po", hidden=True)
@top.command("pods", hidden=True)
@top.command(
    "pod",
    epilog="""Examples:

\b
karmadactl top pod -A --sort-by memory
karmadactl top pod -C member1,member2 -l app=nginx --sum
karmadactl top pod nginx-6799fc88d8-sqjj4 --containers
""",
)
def top_pod(query: TopQuery, pods: PodTopQuery, target: ControlPlaneOptions) -> Work:
    """Show what pods of members use (pods and po are the same)."""
    from services.cli.listing import top as usage

    return usage.top_pods(target, query, pods)


@top.command("no", hidden=True)
@top.command("nodes", hidden=True)
@top.command("node", epilog="Examples:\n\n\b\nkarmadactl top node\nkarmadactl top node -C member1 --show-capacity")
def top_node(
    query: TopQuery,
    target: ControlPlaneOptions,
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]", help="One node; all if empty.")] = None,
    capacity: Annotated[
        bool, typer.Option("--show-capacity", help="Shares of the capacity, not of what pods may have.")
    ] = False,
) -> Work:
    """Show what nodes of members use (nodes and no are the same)."""
    from services.cli.listing import top as usage

    return usage.top_nodes(target, query, names or (), capacity=capacity)
