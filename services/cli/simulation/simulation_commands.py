"""The commands `fleetlog sim …`: what simulated members are told to play."""

from __future__ import annotations

from typing import Annotated

import typer

from services.cli.common.command import Commands, Work, split_commas
from services.cli.common.installation_options import Directory
from services.cli.common.installation_search import DEFAULT_DIRECTORY
from services.cli.shell.choices import PlainOutput

app = Commands(
    name="sim",
    help="What the simulated members of an installation play.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command(
    "load",
    epilog="""Examples:

\b
fleetlog sim load                                     # the loads that are set
fleetlog sim load deploy/web --cpu 80%                # of what its pods request, in every member that has it
fleetlog sim load deploy/web --cpu 250m --memory 1Gi -C member1
fleetlog sim load deploy/web --reset
""",
)
def load(
    target: Annotated[str, typer.Argument(metavar="[KIND/NAME]", help="A workload or pod, such as deploy/web.")] = "",
    cpu: Annotated[str, typer.Option("--cpu", help="What each pod uses: 80% of its request, or 250m.")] = "",
    memory: Annotated[str, typer.Option("--memory", help="What each pod uses: 50% of its request, or 1Gi.")] = "",
    reset: Annotated[bool, typer.Option("--reset", help="Let it use again what it would without a load.")] = False,
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Namespace.")] = "default",
    clusters: Annotated[
        tuple[str, ...],
        typer.Option("--cluster", "-C", help="Simulated members; all of the installation if empty."),
        split_commas,
    ] = (),
    output: PlainOutput = "",
    directory: Directory = DEFAULT_DIRECTORY,
) -> Work:
    """Set or show how much the pods of a workload use, as `kubectl top` and autoscalers see it."""
    from services.cli.simulation.member_loads import Wanted, set_loads, show_loads

    if not target:
        return show_loads(directory, clusters, output, asked=bool(cpu or memory or reset))
    wanted = Wanted(target=target, namespace=namespace, cpu=cpu, memory=memory, reset=reset)
    return set_loads(directory, clusters, output, wanted)


@app.command(
    "metric",
    epilog="""Examples:

\b
fleetlog sim metric                                                 # the values that are set
fleetlog sim metric http_requests --of deploy/web --value 700m      # of each of its pods, in every member that has it
fleetlog sim metric http_requests --of pod/web-1 --value 2 -C member1
fleetlog sim metric hits --of ingresses.networking.k8s.io/main --value 1k
fleetlog sim metric queue_depth --value 30 --label queue=mail       # an external metric
fleetlog sim metric http_requests --of deploy/web --reset
""",
)
def metric(
    name: Annotated[str, typer.Argument(metavar="[METRIC]", help="The name of the metric.")] = "",
    of: Annotated[
        str, typer.Option("--of", help="KIND/NAME: the pods of a workload, a pod, or an object (PLURAL.GROUP/NAME).")
    ] = "",
    value: Annotated[str, typer.Option("--value", help="A quantity, such as 700m or 12.")] = "",
    label: Annotated[
        tuple[str, ...], typer.Option("--label", help="KEY=VALUE: a label of the metric."), split_commas
    ] = (),
    window: Annotated[int, typer.Option("--window", help="Seconds over which it was measured.")] = 15,
    age: Annotated[int, typer.Option("--age", help="Seconds since it was measured.")] = 0,
    reset: Annotated[bool, typer.Option("--reset", help="Take the value back.")] = False,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Namespace; empty for objects without one.")
    ] = "default",
    clusters: Annotated[
        tuple[str, ...],
        typer.Option("--cluster", "-C", help="Simulated members; all of the installation if empty."),
        split_commas,
    ] = (),
    output: PlainOutput = "",
    directory: Directory = DEFAULT_DIRECTORY,
) -> Work:
    """Set or show values of custom and external metrics, as `kubectl get --raw` and autoscalers see them."""
    from services.cli.simulation.member_values import WantedValue, set_values, show_values

    if not name:
        return show_values(directory, clusters, output, asked=bool(of or value or label or reset))
    wanted = WantedValue(
        metric=name, of=of, value=value, labels=label, window=window, age=age, reset=reset, namespace=namespace
    )
    return set_values(directory, clusters, output, wanted)
