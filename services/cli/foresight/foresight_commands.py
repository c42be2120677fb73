"""The commands of fleetlog that change what is propagated and show what would follow: plan, undo, apply."""

from __future__ import annotations

from services.cli.common.command import Commands, Work
from services.cli.common.installation_options import Directory, Kubeconfig, LogAndControlOptions, control
from services.cli.common.installation_search import DEFAULT_DIRECTORY
from services.cli.foresight.plan_options import ApplyOptions, PlanOptions, UndoOptions

app = Commands()


@app.command(
    epilog="""Examples:

\b
fleetlog plan -f policy.yaml                        # what would follow from this edit
fleetlog plan -f manifests/ -R --show all           # with the copies of every cluster as diffs
fleetlog plan --delete propagationpolicy/web -n shop
fleetlog plan -f policy.yaml --at 2h                # had it been applied two hours ago
kubectl kustomize overlays/production | fleetlog plan -f - -o json

Ends with 0 where nothing would change, with 2 where something would, with 1 for an error.
""",
)
def plan(options: PlanOptions, log: LogAndControlOptions) -> Work:
    """Show what would follow from manifests before they are applied: placements, copies, blast radius."""
    from services.cli.foresight import plan as planning

    return planning.plan(log, options)


@app.command(
    epilog="""Examples:

\b
fleetlog undo propagationpolicy/web -n shop         # back to the version before; undo again to return
fleetlog undo pp/web -n shop --list                 # the versions that the log knows
fleetlog undo pp/web -n shop --to 1234 --yes        # the version at a position
fleetlog undo deploy/web --to 2h                    # templates, too
""",
)
def undo(options: UndoOptions, log: LogAndControlOptions) -> Work:
    """Restore an earlier version of a policy or template from the log, also a deleted one; shows its plan first."""
    from services.cli.foresight import undo as undoing

    return undoing.undo(log, options)


@app.command(
    epilog="""Examples:

\b
fleetlog apply --atomic -f release/ -R              # policies, overrides and templates, all or none
fleetlog apply --atomic -f release/ --dry-run
kubectl kustomize overlays/production | fleetlog apply --atomic -f - -o json
""",
)
def apply(options: ApplyOptions, directory: Directory = DEFAULT_DIRECTORY, kubeconfig: Kubeconfig = "") -> Work:
    """Apply manifests as one change set: all are admitted or none, and no member sees half of it scheduled."""
    from services.cli.foresight import atomic_apply

    return atomic_apply.apply(control(directory, kubeconfig), options)
