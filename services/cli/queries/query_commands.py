"""The commands of fleetlog that ask the log about objects: events, history, explain, simulate, replay."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from services.cli.common.installation_options import Directory, Kubeconfig, Nats, access, control
from services.cli.common.installation_search import DEFAULT_DIRECTORY

app = typer.Typer()

Words = Annotated[list[str], typer.Argument(metavar="KIND NAME | KIND/NAME", help="The object.")]
Namespace = Annotated[str, typer.Option("--namespace", "-n", help="Its namespace; the context's if empty.")]


def _named(words: list[str]) -> tuple[str, str]:
    """Kind and name of the object that is asked about; ends the command where they are neither."""
    from services.cli.common.running import Failed, fail
    from services.cli.objects.kind_lookup import one_object

    try:
        return one_object(words)
    except Failed as error:
        fail(str(error))


@app.command(
    epilog="""Examples:

\b
fleetlog events                                     # the last hundred facts
fleetlog events --follow
fleetlog events --subject 'placement.>' --since 10m
fleetlog events --stream OBSERVED -o json --tail 0  # every observation
"""
)
def events(
    directory: Directory = DEFAULT_DIRECTORY,
    nats: Nats = "",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with new events until Ctrl-C.")] = False,
    stream: Annotated[
        str, typer.Option(help="FACTS, OBSERVED, HISTORY, PARKED, …; by default the one that --subject lives in.")
    ] = "",
    subject: Annotated[str, typer.Option(help="Pattern of subjects: `work.member1.>`, `cluster.*`.")] = "",
    since: Annotated[str, typer.Option(help="First position, or how long ago: 1200, 10m, 2h.")] = "",
    tail: Annotated[int, typer.Option(help="Events to show without --since; 0 shows all.", min=0)] = 100,
    output: Annotated[str, typer.Option("--output", "-o", help="wide, or json: one object per line.")] = "",
) -> None:
    """Show what is on the log, one event per line: position, time, subject, event, meaning, cause."""
    from services.cli.common.running import run
    from services.cli.queries import event_list as shown

    query = shown.EventQuery(stream=stream, subject=subject, since=since, tail=tail, follow=follow, output=output)
    run(shown.events(access(directory, nats), query))


@app.command(
    epilog="""Examples:

\b
fleetlog history deployment nginx
fleetlog history deploy/nginx -n web -o wide
fleetlog history guestbooks.webapp.my.domain sample -o json
fleetlog history deployment nginx --at 10m          # how everything about it stood ten minutes ago
fleetlog history deployment nginx --at 2026-11-21T12:00:00Z -o yaml
"""
)
def history(
    words: Words,
    namespace: Namespace = "",
    directory: Directory = DEFAULT_DIRECTORY,
    nats: Nats = "",
    kubeconfig: Kubeconfig = "",
    output: Annotated[str, typer.Option("--output", "-o", help="wide or json; with --at also yaml.")] = "",
    at: Annotated[str, typer.Option("--at", help="Its state at a time (RFC 3339), or how long ago: 10m, 2h.")] = "",
) -> None:
    """Tell what happened to one object, in order, with the cause and the time of each step."""
    from services.cli.common.running import run
    from services.cli.queries.object_history import history as tell

    kind, name = _named(words)
    run(tell(access(directory, nats), control(directory, kubeconfig), kind, name, namespace, output, at))


@app.command(
    epilog="""Examples:

\b
fleetlog explain deploy/nginx
fleetlog explain deployment nginx -n web -o wide
fleetlog explain deploy/nginx --at 10m              # why it ran where it ran ten minutes ago
fleetlog explain deploy/nginx -o json
"""
)
def explain(
    words: Words,
    namespace: Namespace = "",
    directory: Directory = DEFAULT_DIRECTORY,
    nats: Nats = "",
    kubeconfig: Kubeconfig = "",
    output: Annotated[str, typer.Option("--output", "-o", help="wide, json or yaml.")] = "",
    at: Annotated[str, typer.Option("--at", help="The placement at a time (RFC 3339), or how long ago: 10m, 2h.")] = "",
) -> None:
    """Tell why an object runs where it runs: for every cluster what refused it, or its rank, room, weight and share."""
    from services.cli.common.running import run
    from services.cli.queries.explain import explain as tell

    kind, name = _named(words)
    run(tell(access(directory, nats), control(directory, kubeconfig), kind, name, namespace, output, at))


@app.command(
    epilog="""Examples:

\b
fleetlog simulate --lose member1                        # what would move if it were gone
fleetlog simulate --drain member1 --set-capacity member2:cpu=4
fleetlog simulate deploy/nginx --scale deploy/nginx=10
fleetlog simulate --label member3:tier=gold --taint member2:gpu=only:NoSchedule
fleetlog simulate --policy nginx-propagation.yaml -o json
"""
)
def simulate(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[KIND/NAME]", help="One object to tell about; else the whole fleet.")
    ] = None,
    lose: Annotated[list[str] | None, typer.Option(help="A cluster that is gone; may be repeated.")] = None,
    drain: Annotated[
        list[str] | None, typer.Option(help="A cluster that is left by all that tolerates it not.")
    ] = None,
    set_capacity: Annotated[list[str] | None, typer.Option(help="CLUSTER:cpu=64,memory=256Gi,pods=500")] = None,
    label: Annotated[list[str] | None, typer.Option(help="CLUSTER:key=value, or CLUSTER:key- to remove it.")] = None,
    taint: Annotated[list[str] | None, typer.Option(help="CLUSTER:key=value:NoSchedule (or NoExecute).")] = None,
    scale: Annotated[list[str] | None, typer.Option(help="KIND/NAME=REPLICAS")] = None,
    policy: Annotated[Path | None, typer.Option(help="File with a policy in force, its placement changed.")] = None,
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Of the objects; the context's if empty.")] = "",
    directory: Directory = DEFAULT_DIRECTORY,
    nats: Nats = "",
    kubeconfig: Kubeconfig = "",
    output: Annotated[str, typer.Option("--output", "-o", help="wide, json or yaml.")] = "",
) -> None:
    """Tell what would be placed otherwise if clusters, replicas or a policy were others; nothing is written."""
    from services.cli.common.running import Failed, fail, run
    from services.cli.objects.kind_lookup import one_object
    from services.cli.queries.simulate import Request, scaled
    from services.cli.queries.simulate import simulate as tell

    try:
        request = Request(
            lose=tuple(lose or ()),
            drain=tuple(drain or ()),
            capacity=tuple(set_capacity or ()),
            label=tuple(label or ()),
            taint=tuple(taint or ()),
            scale=tuple(map(scaled, scale or ())),
            policy=policy,
            only=one_object(words) if words else None,
            namespace=namespace,
        )
    except Failed as error:
        fail(str(error))
    run(tell(access(directory, nats), control(directory, kubeconfig), request, output))


@app.command(
    epilog="""Example:

\b
fleetlog log export monday.log.gz && fleetlog replay --from monday.log.gz
"""
)
def replay(
    file: Annotated[Path, typer.Option("--from", help="A file that `fleetlog log export` wrote.")],
    output: Annotated[str, typer.Option("--output", "-o", help="wide, json or yaml.")] = "",
) -> None:
    """Decide an exported log anew with this version and print every decision that differs; ends with 1 if any does."""
    from services.cli.common.running import Failed, fail
    from services.cli.queries.replay import replay as again

    try:
        raise typer.Exit(again(file, output))
    except Failed as error:
        fail(str(error))
