"""The commands `karmadactl join` and `unjoin`: who is a member."""

from __future__ import annotations

import typer

from services.cli.common.command import Commands, Work
from services.cli.common.karmadactl_options import (
    ClusterName,
    ControlPlaneOptions,
)
from services.cli.members.member_options import JoinOptions, LeaveOptions

app = Commands(rich_markup_mode=None)


@app.command(
    epilog="""Examples:

\b
karmadactl join member1 --cluster-kubeconfig ~/.kube/member1.config
karmadactl join member2 --cluster-kubeconfig all.config --cluster-context member2 --cluster-region eu
karmadactl join member3 --mode pull --cluster-kubeconfig ~/.kube/member3.config
karmadactl join member3 --mode pull --nats-auth /etc/fleetlog/nats-auth    # accounts signed by an operator
""",
)
def join(name: ClusterName, options: JoinOptions, target: ControlPlaneOptions) -> Work:
    """Make a cluster a member: reached by the control plane itself (push), or by an agent of its own (pull)."""
    from services.cli.members.membership import join_member
    from services.cli.members.pull_join import join_pull_member

    if options.mode == "pull":
        return join_pull_member(target, name, options)
    if not options.file.path:
        raise typer.BadParameter(
            "needed for push: the control plane has to reach it", param_hint="--cluster-kubeconfig"
        )
    return join_member(target, name, options)


@app.command(
    "unjoin",
    help="Remove a member: its copies are withdrawn first, then its entry, its credentials and its agent's identity.",
    epilog="""Examples:

\b
karmadactl unjoin member1
karmadactl unjoin member1 --cluster-kubeconfig ~/.kube/member1.config --wait 2m
""",
)
def unjoin(name: ClusterName, options: LeaveOptions, target: ControlPlaneOptions) -> Work:
    """Remove a member of either mode."""
    from services.cli.members.unjoin import unjoin_member

    return unjoin_member(target, name, options)
