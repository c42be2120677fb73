"""The commands `fleetlog nats …`: keys of an operator, so that agents' accounts are signed instead of configured."""

from __future__ import annotations

from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from services.cli.common.command import Commands, Work
from services.cli.common.installation_options import Directory, control
from services.cli.common.installation_search import DEFAULT_DIRECTORY
from services.cli.registration.host_options import HostOptions
from services.cli.shell.choices import PlainOutput

if TYPE_CHECKING:
    from services.cli.members.signing import Grants
    from services.cli.nats.authority import Authority
    from services.cli.registration.host_grants import HostGrants

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
fleetlog nats init --observer             # with the keys or the installation that are there: who only reads
nats-server -c nats.conf                  # whose last line is: include nats-auth/accounts.conf
export FLEETLOG_NATS_CREDS=nats-auth/services/scheduler.creds FLEETLOG_NATS_INBOX_PREFIX=_INBOX_scheduler
python -m services.scheduler
""",
)
def init(
    nats: Annotated[str, typer.Option("--nats", help="URLs of the servers, for services, commands and agents.")] = "",
    out: Annotated[Path | None, _OUT] = None,
    directory: Directory = DEFAULT_DIRECTORY,
    resolver_dir: Annotated[
        Path | None, typer.Option("--resolver-dir", help="Where servers keep accounts; below --out if empty.")
    ] = None,
    name: Annotated[str, typer.Option(help="Name of the operator.")] = "fleetlog",
    observer: Annotated[
        bool, typer.Option("--observer", help="Also an identity that reads the log and writes nothing.")
    ] = False,
) -> Work:
    """Make an operator with accounts for the hub and the system, and write what the servers and the services need.

    With --observer and keys that are there already, or in an installation of `fleetlog up`, only the observer is added.
    """
    from services.cli.nats import observer_identity

    return observer_identity.init(
        _place(out, directory), directory, nats, resolver_dir=resolver_dir, name=name, observer=observer
    )


@app.command("agents", epilog="Example:\n\nfleetlog nats agents --out /etc/fleetlog/nats-auth")
def agents(keys: KeysOptions, output: PlainOutput = "") -> None:
    """List the agents that were let in: cluster, account, user, and when."""
    from services.cli.common.moments import stamp
    from services.cli.common.printing import render, table

    authority, _ = keys.authority()
    rows = [(name, stamp(one.at), one.account, one.user) for name, one in sorted(authority.book().agents.items())]
    names = ("cluster", "since", "account", "user")
    render(output, lambda: [dict(zip(names, row, strict=True)) for row in rows], lambda: table(names, rows))


@app.command(
    "revoke",
    epilog="""Examples:

\b
fleetlog nats revoke member3                        # unjoin and unregister do this
fleetlog nats revoke member3 --out /etc/fleetlog/nats-auth --nats nats://n1:4222
fleetlog nats revoke member3 --certs deploy --host-kubeconfig host.yaml --nats tls://log.example:4222
""",
)
def revoke(
    cluster: Annotated[str, typer.Argument(metavar="NAME", help="Cluster whose agent is to be shut out.")],
    nats: Annotated[str, typer.Option("--nats", help="URLs of the servers; those of `init` if empty.")] = "",
    *,
    keys: KeysOptions,
    host: HostOptions,
) -> Work:
    """End the identity of a cluster's agent: it is disconnected at once, and does not come back with it."""
    if host.certs:
        from services.cli.registration import host_grants

        return _shut_out(cluster, host_grants.revoke(_host_grants(host, nats), cluster))
    from services.cli.nats.account_claims import revoke as end

    return _shut_out(cluster, end(*keys.authority(nats), cluster))


async def _shut_out(cluster: str, ending: Coroutine[None, None, None]) -> int:
    """Say that an agent's identity has ended, once it has."""
    await ending
    print(f"The agent of {cluster} is shut out.")
    return 0


@app.command(
    "sign",
    epilog="""Examples:

\b
fleetlog nats sign --kubeconfig cp.yaml --out /etc/fleetlog/nats-auth     # runs until it is stopped
fleetlog nats sign --once                                                # those that wait now
fleetlog nats sign --dir .fleetlog                                       # for an installation of `fleetlog up`
fleetlog nats sign --kubeconfig cp.yaml --certs deploy --host-kubeconfig host.yaml --nats tls://log.example:4222
""",
)
def sign(
    kubeconfig: Annotated[str, typer.Option("--kubeconfig", help="Kubeconfig of the control plane.")] = "",
    nats: Annotated[str, typer.Option("--nats", help="URLs of the servers; those of `init` if empty.")] = "",
    once: Annotated[bool, typer.Option("--once", help="Answer those that wait now, and end.")] = False,
    health_port: Annotated[
        int | None,
        typer.Option("--health-port", help="Serve health and metrics there, and wait for what is not there yet."),
    ] = None,
    health_host: Annotated[str, typer.Option("--health-host", help="Address to serve them at.")] = "127.0.0.1",
    *,
    keys: KeysOptions,
    host: HostOptions,
) -> Work:
    """Give agents that `karmadactl register` asks for their identity, and enter their clusters."""
    from services.cli.members import signing

    grants = _host_grants(host, nats) if host.certs else _grants(keys, nats)
    target = control(keys.directory, kubeconfig)
    if health_port is not None:
        return signing.serve(target, grants, health_host, health_port)
    return signing.sign(target, grants, once=once)


def _host_grants(host: HostOptions, nats: str) -> HostGrants:
    """By the configuration of servers that run in a cluster; raises Failed without their URL."""
    from services.cli.common.running import Failed
    from services.cli.registration.host_grants import HostGrants

    if not nats:
        raise Failed("say with --nats where members reach the log, as tls://log.example:4222")
    return HostGrants(host, nats)


@app.command(
    "reload-on-change",
    epilog="""Examples:

\b
nats-server -c /etc/nats/nats.conf -P /run/nats/nats.pid -m 8222
fleetlog nats reload-on-change --pid-file /run/nats/nats.pid --state /run/nats /etc/nats /tls
""",
)
def reload_on_change(
    files: Annotated[list[Path], typer.Argument(help="Files, or directories of files, that the server reads.")],
    pid_file: Annotated[Path, typer.Option("--pid-file", help="Where the server writes its process id.")],
    monitor: Annotated[
        str, typer.Option("--monitor", help="Address of the server's monitoring.")
    ] = "http://127.0.0.1:8222",
    state: Annotated[
        Path, typer.Option("--state", help="Directory for `looked`, touched with every look, and `refused`.")
    ] = Path("/tmp"),
    every: Annotated[float, typer.Option("--every", min=0.1, help="Seconds between two looks.")] = 5.0,
) -> Work:
    """Have a server of the log read its files again whenever they changed; runs beside it until it is stopped.

    The server has to run on this machine, or in this pod, as the same user. Files that it refuses change nothing.
    """
    from services.cli.nats.server_reloading import Reloaded, reload_on_change

    return reload_on_change(Reloaded(files, pid_file, monitor, state, every))


def _grants(keys: KeysOptions, nats: str) -> Grants:
    """By the operator's keys where there are some, else by the configuration of an installation's own server."""
    from services.cli.common.layout import Layout
    from services.cli.members.signing import InstallationGrants, OperatorGrants

    layout = Layout(keys.directory)
    installation = layout.load() if keys.out is None and not _place(None, keys.directory).is_dir() else None
    if installation is None or installation.nats_url:
        return OperatorGrants(*keys.authority(nats))
    return InstallationGrants(layout, nats or installation.log_url)
