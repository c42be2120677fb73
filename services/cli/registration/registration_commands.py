"""The commands `karmadactl register` and `unregister`: clusters that make themselves pull members."""

from __future__ import annotations

from services.cli.common.command import Commands, Work
from services.cli.common.karmadactl_options import ClusterName, ControlPlaneOptions
from services.cli.members.member_options import RegisterOptions, UnregisterOptions

app = Commands(rich_markup_mode=None)


@app.command(
    epilog="""Examples:

\b
karmadactl register cp.example:6443 --token abcdef.0123456789abcdef --discovery-token-ca-cert-hash sha256:…
karmadactl register cp.example:6443 --token … --discovery-token-ca-cert-hash … --kubeconfig m3.yaml --cluster-name m3
karmadactl token create --print-register-command      # prints such a line, where the control plane is
""",
)
def register(options: RegisterOptions) -> Work:
    """Make this cluster a pull member, with a bootstrap token instead of the control plane's kubeconfig."""
    from services.cli.registration import register as registering

    return registering.register(options)


@app.command(
    short_help="Remove a pull member and its agent",
    epilog="""Examples:

\b
karmadactl unregister member3 --cluster-kubeconfig ~/.kube/member3.config
karmadactl unregister member3 --wait 2m
karmadactl unregister member3 --nats-auth /etc/fleetlog/nats-auth
""",
)
def unregister(name: ClusterName, options: UnregisterOptions, target: ControlPlaneOptions) -> Work:
    """Remove a pull member: its agent withdraws its copies, then its entry goes, and the agent with what it had."""
    from services.cli.registration.unregister import unregister as removing

    return removing(target, name, options)
