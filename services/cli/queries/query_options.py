"""Options of the commands that ask the log about objects."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from services.cli.common.installation_options import LogAndControlOptions
from services.cli.shell.choices import TableOutput


class ObjectQuery(NamedTuple):
    """The object that a command is asked about."""

    words: Annotated[tuple[str, ...], typer.Argument(metavar="KIND NAME | KIND/NAME", help="The object.")]
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Its namespace; the context's if empty.")] = ""
    log: LogAndControlOptions = LogAndControlOptions()


class EventQuery(NamedTuple):
    """What to show: `since` is a position or a duration, `tail` how many events when it is empty (0: all)."""

    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with new events until Ctrl-C.")] = False
    stream: Annotated[
        str,
        typer.Option(
            "--stream", help="FACTS, OBSERVED, HISTORY, PARKED, …; by default the one that --subject lives in."
        ),
    ] = ""
    subject: Annotated[str, typer.Option("--subject", help="Pattern of subjects: `work.member1.>`, `cluster.*`.")] = ""
    since: Annotated[str, typer.Option("--since", help="First position, a time, or how long ago: 1200, 10m.")] = ""
    tail: Annotated[int, typer.Option("--tail", help="Events to show without --since; 0 shows all.", min=0)] = 100
    output: TableOutput = ""


class Suppositions(NamedTuple):
    """What a simulation supposes: names of clusters, `CLUSTER:…` texts, replicas by object, a file with policies.

    `metric` are values of metrics of FederatedHPAs, as `FHPA:METRIC=VALUE`.
    """

    lose: Annotated[tuple[str, ...], typer.Option("--lose", help="A cluster that is gone; may be repeated.")] = ()
    drain: Annotated[
        tuple[str, ...], typer.Option("--drain", help="A cluster that is left by all that tolerates it not.")
    ] = ()
    capacity: Annotated[
        tuple[str, ...], typer.Option("--set-capacity", help="CLUSTER:cpu=64,memory=256Gi,pods=500")
    ] = ()
    label: Annotated[
        tuple[str, ...], typer.Option("--label", help="CLUSTER:key=value, or CLUSTER:key- to remove it.")
    ] = ()
    taint: Annotated[tuple[str, ...], typer.Option("--taint", help="CLUSTER:key=value:NoSchedule (or NoExecute).")] = ()
    scale: Annotated[tuple[str, ...], typer.Option("--scale", help="KIND/NAME=REPLICAS")] = ()
    policy: Annotated[
        Path | None, typer.Option("--policy", help="File with a policy in force, its placement changed.")
    ] = None
    metric: Annotated[
        tuple[str, ...],
        typer.Option("--metric", help="FHPA:METRIC=VALUE, such as web:cpu=90% or web:cpu=200m; may be repeated."),
    ] = ()
