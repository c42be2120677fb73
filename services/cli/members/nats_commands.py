"""The commands `fleetlog nats …`: keys of an operator, so that agents' accounts are signed instead of configured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from services.cli.common.command import Commands, Work
from services.cli.common.installation_options import Directory, NewDirectory, control
from services.cli.common.installation_search import DEFAULT_DIRECTORY

if TYPE_CHECKING:
    from services.cli.nats.authority import Authority

app = Commands(
    name="nats",
    help="The log's server in production: accounts signed by an operator's keys (docs/joining.md).",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_OUT = typer.Option("--out", help="Directory of the keys; nats-auth below --dir if empty.", envvar="FLEETLOG_NATS_AUTH")


class KeysOptions(NamedTuple):
    """Where the operator's keys are."""

    out: Annotated[Path | None, _OUT] = None
    directory: Directory = DEFAULT_DIRECTORY

    def authority(self, nats: str = "") -> tuple[Authority, str]:
        """The keys and the URLs of the servers, those of `init` if empty; raises Failed where there are no keys."""
        from services.cli.nats.authority import Authority

        authority = Authority(_place(self.out, self.directory))
        return authority, nats or authority.book().url


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
    out: Annotated[Path | None, _OUT] = None,
    directory: NewDirectory = DEFAULT_DIRECTORY,
    resolver_dir: Annotated[
        Path | None, typer.Option("--resolver-dir", help="Where servers keep accounts; below --out if empty.")
    ] = None,
    name: Annotated[str, typer.Option(help="Name of the operator.")] = "fleetlog",
) -> None:
    """Make an operator with accounts for the hub and the system, and write what the servers and the services need."""
    from services.cli.nats import authority

    place = _place(out, directory)
    made = authority.create(place, nats, resolver_dir or place / "resolver", name)
    print(f"""Keys of the operator are in {place}; who has them decides who may talk to the log.
  {authority.CONFIG:14} include it in the configuration of every server, then start or restart them
  {authority.HUB_CREDS:14} for the services: FLEETLOG_NATS_CREDS={made.hub_creds}
  operator.nk    nothing here needs it again; put it away
From now on `karmadactl join NAME --mode pull --nats-auth {place}` lets agents in, and unjoin ends them.""")


@app.command("agents", epilog="Example:\n\nfleetlog nats agents --out /etc/fleetlog/nats-auth")
def agents(keys: KeysOptions) -> None:
    """List the agents that were let in: cluster, account, user, and when."""
    from services.cli.common.moments import stamp

    authority, _ = keys.authority()
    print(f"{'CLUSTER':20} {'SINCE':24} {'ACCOUNT':56} USER")
    for cluster, issued in sorted(authority.book().agents.items()):
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
    *,
    keys: KeysOptions,
) -> Work:
    """End the identity of a cluster's agent: it is disconnected at once, and does not come back with it."""
    from services.cli.nats.account_claims import revoke as end

    return end(*keys.authority(nats), cluster)


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
    *,
    keys: KeysOptions,
) -> Work:
    """Give agents that `karmadactl register` asks for their identity, and enter their clusters."""
    from services.cli.members import signing

    return signing.sign(control(keys.directory, kubeconfig), *keys.authority(nats), once=once)
