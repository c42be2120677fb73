"""The commands of karmadactl for a control plane on a host cluster: init, deinit, addons."""

from __future__ import annotations

from services.cli.common.command import Commands, Work
from services.cli.hosting.addon_options import DisableOptions, EnableOptions, Names, Reached
from services.cli.hosting.init_options import DeinitOptions, Host, InitOptions

app = Commands(rich_markup_mode=None)
addons = Commands(
    name="addons",
    help="Enable or disable services that an installation can do without.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(addons)


@app.command(
    short_help="Install the control plane on a host cluster",
    epilog="""Examples:

\b
karmadactl init                                             # into the current context's cluster
karmadactl init --kubeconfig host.config --karmada-apiserver-advertise-address 203.0.113.7
karmadactl init --private-image-registry registry.example/fleetlog --cert-external-dns cp.example
karmadactl init --external-etcd-servers https://10.0.0.1:2379 --external-etcd-ca-cert-path ca.crt
karmadactl init --config init.yaml                          # a KarmadaInitConfig; it counts before flags
""",
)
def init(options: InitOptions) -> Work:
    """Install the control plane with its log and its services on a host cluster, part by part."""
    from services.cli.hosting import installing

    return installing.init(options)


@app.command(
    short_help="Remove the control plane from a host cluster",
    epilog="""Examples:

\b
karmadactl deinit --dry-run
karmadactl deinit --force --purge-namespace
""",
)
def deinit(options: DeinitOptions) -> Work:
    """Remove from a host cluster what init installed there; data in claims and files of this machine stay."""
    from services.cli.hosting import deinit as removing

    return removing.deinit(options)


@addons.command(
    "enable", epilog="Examples:\n\n\b\nkarmadactl addons enable karmada-descheduler\nkarmadactl addons enable all"
)
def enable(names: Names, options: EnableOptions) -> Work:
    """Run services on the host cluster that were off."""
    from services.cli.hosting import addons as extending

    return extending.enable(names, options)


@addons.command("disable", epilog="Example:\n\nkarmadactl addons disable karmada-descheduler --force")
def disable(names: Names, options: DisableOptions) -> Work:
    """Run services on the host cluster no longer."""
    from services.cli.hosting import addons as extending

    return extending.disable(names, options)


@addons.command("list", epilog="Example:\n\nkarmadactl addons list")
def show(host: Host, reached: Reached) -> Work:
    """Show which of them run."""
    from services.cli.hosting import addons as extending

    return extending.show(host, reached)
