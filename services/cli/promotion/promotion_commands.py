"""The commands of karmadactl that bring objects and their policies: apply, promote."""

from __future__ import annotations

from typing import Final

import typer

from services.cli.common.command import Commands, Work
from services.cli.common.karmadactl_options import ControlPlaneOptions
from services.cli.kubectl.kubectl_commands import PassedOn
from services.cli.promotion.promotion_options import PromoteOptions

app = Commands(rich_markup_mode=None)
_APPLY: Final = """Apply objects to the control plane; with clusters, bring each of them there by a policy of its own.

kubectl does it: it has to be on PATH.

\b
Our own flags:
  -C, --cluster NAME          Members to bring the objects to, comma-separated.
  --all-clusters              Bring them to all members.
  --kubeconfig FILE           Kubeconfig of the control plane (or KUBECONFIG).
  --karmada-context NAME      Context of that kubeconfig to use."""


@app.command(
    "apply",
    cls=PassedOn,
    help=_APPLY,
    short_help="Apply objects, and bring them to clusters",
    add_help_option=False,
    options_metavar="[FLAGS AND ARGUMENTS OF KUBECTL]",
    epilog="""Examples:

\b
karmadactl apply -f nginx.yaml                      # as kubectl apply: the control plane only
karmadactl apply -f nginx.yaml --all-clusters
karmadactl apply -f nginx.yaml -C member1,member2   # again with others: the policies change
""",
)
def apply(ctx: typer.Context) -> Work:
    """Apply objects, and bring them to clusters."""
    from services.cli.promotion import applying

    before = ctx.obj if isinstance(ctx.obj, ControlPlaneOptions) else ControlPlaneOptions()
    return applying.apply(ctx.args, before, ctx.get_help())


@app.command(
    short_help="Make a template of what a member runs already",
    epilog="""Examples:

\b
karmadactl promote deployment nginx -C member1                # pods go on as they are
karmadactl promote deployment nginx -n web -C member1 -d      # with its ConfigMaps and Secrets
karmadactl promote deployment nginx -C member3 --cluster-kubeconfig ~/.kube/member3.config
karmadactl promote deployment nginx -C member1 -o yaml        # what would be created
""",
)
def promote(options: PromoteOptions, target: ControlPlaneOptions) -> Work:
    """Make a template of an object that a member runs already, and a policy that takes the running copy over."""
    from services.cli.promotion import promote as promoting

    return promoting.promote(target, options)
