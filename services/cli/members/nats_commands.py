"""The commands `fleetlog nats …`: keys of an operator, so that agents' accounts are signed instead of configured."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from services.cli.common.installation_options import Directory, NewDirectory
from services.cli.common.installation_search import DEFAULT_DIRECTORY

app = typer.Typer(
    name="nats",
    help="The log's server in production: accounts signed by an operator's keys (docs/joining.md).",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_AUTH = Annotated[
    Path | None,
    typer.Option("--out", help="Directory of the keys; nats-auth below --dir if empty.", envvar="FLEETLOG_NATS_AUTH"),
]


def _place(out: Path | None, directory: Path) -> Path:
    from services.cli.nats.authority import DIRECTORY

    return (out or directory / DIRECTORY).resolve()


@app.command(
    "init",
    epilog="""Examples:

\b
fleetlog nats init --nats nats://n1:4222,nats://n2:4222,nats://n3:4222
fleetlog nats init --out /etc/fleetlog/nats-auth --nats tls://nats.example:4222 --resolver-dir /data/jwt
nats-server -c nats.conf                  # whose last line is: include nats-auth/accounts.conf
FLEETLOG_NATS_CREDS=nats-auth/hub.creds python -m services.scheduler
""",
)
def init(
    nats: Annotated[str, typer.Option("--nats", help="URLs of the servers, for services, commands and agents.")],
    out: _AUTH = None,
    directory: NewDirectory = DEFAULT_DIRECTORY,
    resolver_dir: Annotated[
        Path | None, typer.Option("--resolver-dir", help="Where servers keep accounts; below --out if empty.")
    ] = None,
    name: Annotated[str, typer.Option(help="Name of the operator.")] = "fleetlog",
) -> None:
    """Make an operator with accounts for the hub and the system, and write what the servers and the services need."""
    from services.cli.common.running import Failed, fail
    from services.cli.nats import authority

    place = _place(out, directory)
    try:
        resolver = resolver_dir or place / "resolver"
        made = authority.create(place, nats, resolver, name)
    except (Failed, OSError) as error:
        fail(str(error))
    print(f"""Keys of the operator are in {place}; who has them decides who may talk to the log.
  {authority.CONFIG:14} include it in the configuration of every server, then start or restart them
  {authority.HUB_CREDS:14} for the services: FLEETLOG_NATS_CREDS={made.hub_creds}
  operator.nk    nothing here needs it again; put it away
From now on `karmadactl join NAME --mode pull --nats-auth {place}` lets agents in, and unjoin ends them.""")


@app.command("agents", epilog="Example:\n\nfleetlog nats agents --out /etc/fleetlog/nats-auth")
def agents(out: _AUTH = None, directory: Directory = DEFAULT_DIRECTORY) -> None:
    """List the agents that were let in: cluster, account, user, and when."""
    from services.cli.common.moments import stamp
    from services.cli.common.running import Failed, fail
    from services.cli.nats.authority import Authority

    try:
        book = Authority(_place(out, directory)).book()
    except Failed as error:
        fail(str(error))
    print(f"{'CLUSTER':20} {'SINCE':24} {'ACCOUNT':56} USER")
    for cluster, issued in sorted(book.agents.items()):
        print(f"{cluster:20} {stamp(issued.at):24} {issued.account} {issued.user}")


@app.command(
    "revoke",
    epilog="""Examples:

\b
fleetlog nats revoke member3                        # unjoin and unregister do this
fleetlog nats revoke member3 --out /etc/fleetlog/nats-auth --nats nats://n1:4222
""",
)
def revoke(
    cluster: Annotated[str, typer.Argument(metavar="NAME", help="Cluster whose agent is to be shut out.")],
    nats: Annotated[str, typer.Option("--nats", help="URLs of the servers; those of `init` if empty.")] = "",
    out: _AUTH = None,
    directory: Directory = DEFAULT_DIRECTORY,
) -> None:
    """End the identity of a cluster's agent: it is disconnected at once, and does not come back with it."""
    from services.cli.common.running import Failed, fail, run
    from services.cli.nats.account_claims import expel
    from services.cli.nats.authority import Authority

    try:
        authority = Authority(_place(out, directory))
        url = nats or authority.book().url
    except Failed as error:
        fail(str(error))

    async def end() -> int:
        if not await expel(authority, url, cluster):
            raise Failed(f"no agent of {cluster} was let in with the keys in {authority.directory}")
        print(f"The agent of {cluster} is shut out.")
        return 0

    run(end())


@app.command(
    "sign",
    epilog="""Examples:

\b
fleetlog nats sign --kubeconfig cp.yaml --out /etc/fleetlog/nats-auth     # runs until it is stopped
fleetlog nats sign --once                                                # those that wait now
""",
)
def sign(
    kubeconfig: Annotated[str, typer.Option("--kubeconfig", help="Kubeconfig of the control plane.")] = "",
    nats: Annotated[str, typer.Option("--nats", help="URLs of the servers; those of `init` if empty.")] = "",
    once: Annotated[bool, typer.Option("--once", help="Answer those that wait now, and end.")] = False,
    out: _AUTH = None,
    directory: Directory = DEFAULT_DIRECTORY,
) -> None:
    """Give agents that `karmadactl register` asks for their identity, and enter their clusters."""
    from services.cli.common.control_plane import ControlPlaneOptions
    from services.cli.common.layout import CONTROL, Layout
    from services.cli.common.running import Failed, fail, run
    from services.cli.members.signing import sign as work
    from services.cli.nats.authority import Authority

    own = Layout(directory).kubeconfig(CONTROL)
    try:
        authority = Authority(_place(out, directory))
        url = nats or authority.book().url
    except Failed as error:
        fail(str(error))
    run(work(ControlPlaneOptions(kubeconfig or (str(own) if own.is_file() else "")), authority, url, once=once))
