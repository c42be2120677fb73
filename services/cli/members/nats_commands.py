"""The commands `fleetlog nats …`: keys of an operator, so that agents' accounts are signed instead of configured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from services.cli.common.command import Commands, Work
from services.cli.common.installation_options import Directory, control
from services.cli.common.installation_search import DEFAULT_DIRECTORY
from services.cli.shell.choices import PlainOutput

if TYPE_CHECKING:
    from services.cli.members.signing import Grants
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
fleetlog nats sign --dir .fleetlog                                       # for an installation of `fleetlog up`
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

    return signing.sign(control(keys.directory, kubeconfig), _grants(keys, nats), once=once)


def _grants(keys: KeysOptions, nats: str) -> Grants:
    """By the operator's keys where there are some, else by the configuration of an installation's own server."""
    from services.cli.common.layout import Layout
    from services.cli.members.signing import InstallationGrants, OperatorGrants

    layout = Layout(keys.directory)
    installation = layout.load() if keys.out is None and not _place(None, keys.directory).is_dir() else None
    if installation is None or installation.nats_url:
        return OperatorGrants(*keys.authority(nats))
    return InstallationGrants(layout, nats or installation.log_url)
