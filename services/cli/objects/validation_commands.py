"""The command of fleetlog that validates manifests without a control plane: validate."""

from __future__ import annotations

from services.cli.common.command import Commands, Work
from services.cli.objects.object_options import ValidateOptions

app = Commands()


@app.command(
    epilog="""Examples:

\b
fleetlog validate -f policy.yaml
fleetlog validate -f manifests/ -R -o json
kubectl kustomize overlays/production | fleetlog validate -f -
""",
)
def validate(options: ValidateOptions) -> Work:
    """Check manifests of Karmada's kinds as the control plane would; ends with 1 if one is refused."""
    from services.cli.objects import manifest_validation

    return manifest_validation.run(options.filename, options.namespace, options.output, recursive=options.recursive)
