"""Options of `fleetlog trace export`."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import typer

from services.cli.shell.choices import output_option


class TraceChoice(NamedTuple):
    """Which changes of an object: that to a generation, those since a moment, or (neither) the latest."""

    revision: Annotated[
        int, typer.Option("--revision", help="The change to this generation of the object; 0 is the latest.", min=0)
    ] = 0
    since: Annotated[str, typer.Option("--since", help="Changes from this time on, or how long ago: 10m, 2h.")] = ""


class TraceTarget(NamedTuple):
    """Where traces go: to a collector, else to the terminal."""

    otlp: Annotated[str, typer.Option("--otlp", help="Collector that takes OTLP over HTTP: http://localhost:4318.")] = (
        ""
    )
    output: Annotated[str, output_option("tree", "json", usual="tree")] = ""


class FollowOptions(NamedTuple):
    """How changes are followed: `sample` is the share of traces that are exported, `idle` what ends a trace."""

    follow: Annotated[bool, typer.Option("--follow", "-f", help="Export every change from now on, until Ctrl-C.")] = (
        False
    )
    sample: Annotated[
        float, typer.Option("--sample", help="Share of the traces to export with --follow.", min=0.0, max=1.0)
    ] = 1.0
    idle: Annotated[
        str, typer.Option("--idle", help="How long nothing has to come of a change until it is exported.")
    ] = "5s"
