"""The command `fleetlog`: runs an installation and shows what its log says."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from services.cli.nats_commands import app as nats_commands
from services.cli.secret_commands import app as secret_commands

if TYPE_CHECKING:
    from services.cli.control import Target
    from services.cli.logbook import LogAccess

app = typer.Typer(
    name="fleetlog",
    help="Multi-cluster Kubernetes orchestration whose truth is an event log.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@app.callback()
def root() -> None:
    """Multi-cluster Kubernetes orchestration whose truth is an event log."""


Directory = Annotated[Path, typer.Option("--dir", help="Directory of the installation.", envvar="FLEETLOG_DIR")]
DEFAULT_DIRECTORY = Path(".fleetlog")


@app.command(
    epilog="""Examples:

fleetlog up                               # three simulated members, member3 with an agent

fleetlog up --members 5 --dir /tmp/fleet

fleetlog up --control-kubeconfig cp.yaml --member m1=m1.yaml --member m2=m2.yaml

fleetlog up --nats nats://a:4222,nats://b:4222,nats://c:4222

fleetlog up --nats nats://a:4222 --nats-creds nats-auth/hub.creds
"""
)
def up(
    directory: Directory = DEFAULT_DIRECTORY,
    members: Annotated[int, typer.Option(help="Simulated members to start.", min=0, max=50)] = 3,
    nodes: Annotated[int, typer.Option(help="Nodes of each simulated member.", min=1)] = 3,
    nats: Annotated[
        str, typer.Option(help="URL of a nats-server to use instead of starting one; several of a cluster with commas.")
    ] = "",
    nats_creds: Annotated[
        str,
        typer.Option(
            help="File with the identity at --nats, where accounts are signed (`fleetlog nats init` writes hub.creds);"
            " FLEETLOG_NATS_CREDS if empty."
        ),
    ] = "",
    replicas: Annotated[
        int,
        typer.Option(
            help="Servers of --nats that keep each stream, 1, 3 or 5; 0: three where three URLs are given, else one."
            " Streams that are kept by more stay so.",
            min=0,
            max=5,
        ),
    ] = 0,
    control_kubeconfig: Annotated[
        str, typer.Option(help="Kubeconfig of a kube-apiserver to use as the control plane.")
    ] = "",
    member: Annotated[
        list[str] | None, typer.Option(help="name=kubeconfig of a real cluster to join; may be repeated.")
    ] = None,
) -> None:
    """Start everything on this machine; prints `ready` and runs until Ctrl-C. The data stays for the next start."""
    from services.cli.up import Options, Refused
    from services.cli.up import up as start

    attached = {}
    for item in member or ():
        name, separator, path = item.partition("=")
        if not separator:
            _fail(f"--member {item}: use name=kubeconfig")
        attached[name] = path
    options = Options(
        directory=directory,
        members=members,
        nodes=nodes,
        nats_url=nats,
        nats_creds=nats_creds or (os.environ.get("FLEETLOG_NATS_CREDS", "") if nats else ""),
        replicas=replicas,
        control_kubeconfig=control_kubeconfig,
        attached=attached,
    )
    try:
        code = start(options)
    except (Refused, ValueError, FileNotFoundError) as error:
        _fail(str(error))
    raise typer.Exit(code)


@app.command(
    epilog="""Examples:

\b
fleetlog demo
fleetlog demo --dir /tmp/demo             # keeps its data there
"""
)
def demo(
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Directory to use instead of a temporary one.")
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the temporary directory.")] = False,
) -> None:
    """Start an installation, run a Deployment on two clusters, and tell from the log what happened; then stop."""
    from services.cli.demo import demo as show
    from services.cli.running import run

    run(show(directory, keep=keep))


Nats = Annotated[
    str,
    typer.Option(
        "--nats",
        help="URL of the log's server, instead of the installation's.",
        envvar="FLEETLOG_NATS_URL",
        show_envvar=True,
    ),
]
Kubeconfig = Annotated[
    str, typer.Option("--kubeconfig", help="Kubeconfig of the control plane, instead of the installation's.")
]


def _access(directory: Path, nats: str) -> LogAccess:
    from services.cli.logbook import log_access
    from services.cli.running import Failed, fail

    try:
        return log_access(directory, nats)
    except (Failed, ValueError, OSError) as error:
        fail(str(error))


def _control(directory: Path, kubeconfig: str) -> Target:
    """The control plane of an option, else of the installation, else of KUBECONFIG."""
    from services.cli.control import Target
    from services.cli.layout import CONTROL, Layout

    own = Layout(directory).kubeconfig(CONTROL)
    return Target(kubeconfig or (str(own) if own.is_file() else ""))


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
    from services.cli import events as shown
    from services.cli.running import run

    query = shown.EventQuery(stream=stream, subject=subject, since=since, tail=tail, follow=follow, output=output)
    run(shown.events(_access(directory, nats), query))


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
    words: Annotated[list[str], typer.Argument(metavar="KIND NAME | KIND/NAME", help="The object.")],
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Its namespace; the context's if empty.")] = "",
    directory: Directory = DEFAULT_DIRECTORY,
    nats: Nats = "",
    kubeconfig: Kubeconfig = "",
    output: Annotated[str, typer.Option("--output", "-o", help="wide or json; with --at also yaml.")] = "",
    at: Annotated[str, typer.Option("--at", help="Its state at a time (RFC 3339), or how long ago: 10m, 2h.")] = "",
) -> None:
    """Tell what happened to one object, in order, with the cause and the time of each step."""
    from services.cli.kinds import one_object
    from services.cli.running import Failed, fail, run
    from services.cli.stories import history as tell

    try:
        kind, name = one_object(words)
    except Failed as error:
        fail(str(error))
    access, target = _access(directory, nats), _control(directory, kubeconfig)
    run(tell(access, target, kind, name, namespace, output, at))


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
    words: Annotated[list[str], typer.Argument(metavar="KIND NAME | KIND/NAME", help="The object.")],
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Its namespace; the context's if empty.")] = "",
    directory: Directory = DEFAULT_DIRECTORY,
    nats: Nats = "",
    kubeconfig: Kubeconfig = "",
    output: Annotated[str, typer.Option("--output", "-o", help="wide, json or yaml.")] = "",
    at: Annotated[str, typer.Option("--at", help="The placement at a time (RFC 3339), or how long ago: 10m, 2h.")] = "",
) -> None:
    """Tell why an object runs where it runs: for every cluster what refused it, or its rank, room, weight and share."""
    from services.cli.explaining import explain as tell
    from services.cli.kinds import one_object
    from services.cli.running import Failed, fail, run

    try:
        kind, name = one_object(words)
    except Failed as error:
        fail(str(error))
    access, target = _access(directory, nats), _control(directory, kubeconfig)
    run(tell(access, target, kind, name, namespace, output, at))


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
    from services.cli.kinds import one_object
    from services.cli.running import Failed, fail, run
    from services.cli.simulating import Request, scaled
    from services.cli.simulating import simulate as tell

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
    run(tell(_access(directory, nats), _control(directory, kubeconfig), request, output))


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
    from services.cli.replaying import replay as again
    from services.cli.running import Failed, fail

    try:
        raise typer.Exit(again(file, output))
    except Failed as error:
        fail(str(error))


@app.command()
def topology(
    output: Annotated[str, typer.Option("--output", "-o", help="json for programs.")] = "",
) -> None:
    """Print the streams of the log, and who writes and reads which subject."""
    from services.cli.streams import topology as text

    print(text(output), end="")


log = typer.Typer(
    name="log",
    help="The log as a whole: check it, take it along, fill an empty one.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(log)


@log.command("verify", epilog="Example:\n\nfleetlog log verify --nats nats://127.0.0.1:4222")
def log_verify(directory: Directory = DEFAULT_DIRECTORY, nats: Nats = "") -> None:
    """Walk every fact and say what does not hold together; ends with 1 when something does not."""
    from services.cli.log_verify import verify
    from services.cli.running import run

    run(verify(_access(directory, nats)))


@log.command(
    "export",
    epilog="""Examples:

\b
fleetlog log export monday.log.gz
fleetlog log export incident.log.gz --since 2h --until 1h
fleetlog log export placements.log.gz --subject 'placement.>'
""",
)
def log_export(
    file: Annotated[Path, typer.Argument(help="The file to write.")],
    since: Annotated[str, typer.Option(help="First position, a time, or how long ago: 1200, 10m.")] = "",
    until: Annotated[str, typer.Option(help="Last position, a time, or how long ago.")] = "",
    subject: Annotated[str, typer.Option(help="Pattern of subjects: `work.member1.>`.")] = "",
    directory: Directory = DEFAULT_DIRECTORY,
    nats: Nats = "",
) -> None:
    """Write facts, observations and the manifests they name to one file, for the log of another installation."""
    from services.cli.log_export import Choice, export
    from services.cli.running import run

    run(export(_access(directory, nats), file, Choice(since=since, until=until, subject=subject)))


@log.command("import", epilog="Example:\n\nfleetlog log import monday.log.gz --nats nats://127.0.0.1:5222")
def log_import(
    file: Annotated[Path, typer.Argument(help="A file that `fleetlog log export` wrote.")],
    directory: Directory = DEFAULT_DIRECTORY,
    nats: Nats = "",
) -> None:
    """Fill the empty log of another installation from a file, every event at its old position."""
    from services.cli.log_import import import_log
    from services.cli.running import run

    run(import_log(_access(directory, nats), file))


app.add_typer(secret_commands)
app.add_typer(nats_commands)


@app.command(epilog="Examples:\n\n\b\nfleetlog certs --out deploy\nfleetlog certs --out deploy --agent member3")
def certs(
    out: Annotated[Path, typer.Option(help="Directory to write into.")] = Path("deploy"),
    control: Annotated[str, typer.Option(help="URL of the control plane in the kubeconfigs.")] = "",
    agent: Annotated[
        list[str] | None, typer.Option(help="A pull member whose agent gets an account of the log; also later on.")
    ] = None,
    drop_agent: Annotated[list[str] | None, typer.Option(help="A pull member whose agent loses its account.")] = None,
) -> None:
    """Make the certificates, kubeconfigs and secrets that compose.yaml and the manifests in k8s/ expect."""
    from services.cli import certificates
    from services.cli.running import Failed, fail

    try:
        if drop_agent:
            certificates.shut_out(out, drop_agent)
        if (agent or drop_agent) and certificates.made(out):
            certificates.admit(out, agent or ())
        else:
            certificates.make(out, control or certificates.CONTROL, agent or ())
    except Failed as error:
        fail(str(error))


crds = typer.Typer(
    name="crds",
    help="Definitions of our kinds (CustomResourceDefinitions).",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(crds)


@crds.command("apply", epilog="Example:\n\nfleetlog crds apply --kubeconfig cp.yaml")
def crds_apply(directory: Directory = DEFAULT_DIRECTORY, kubeconfig: Kubeconfig = "") -> None:
    """Create or update the definitions in a control plane and wait until they are established."""
    from services.cli.definitions import apply
    from services.cli.running import run

    run(apply(_control(directory, kubeconfig)))


@crds.command("print", epilog="Example:\n\nfleetlog crds print | kubectl apply --server-side -f -")
def crds_print(
    output: Annotated[str, typer.Option("--output", "-o", help="yaml or json.")] = "yaml",
) -> None:
    """Print the definitions."""
    from services.cli.definitions import show
    from services.cli.running import run

    run(show(output))


def _fail(message: str) -> NoReturn:
    typer.echo(f"error: {message}", err=True)
    raise typer.Exit(1)


def main() -> None:
    """Entry point of the command."""
    app()
