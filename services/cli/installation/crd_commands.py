"""The commands `fleetlog crds apply` and `fleetlog crds print`: the definitions of our kinds in a control plane."""

from __future__ import annotations

from services.cli.common.control_plane import ControlPlaneOptions, open_control
from services.cli.common.printing import as_json, as_yaml
from services.cli.common.running import Failed, patience
from services.cli.installation.install_crds import apply_definitions, needed_definitions


async def apply(target: ControlPlaneOptions) -> int:
    """Create or update the definitions and wait until they are established."""
    async with open_control(target) as control, patience("waiting until the definitions are established"):
        print(f"definitions: {await apply_definitions(control.client, needed_definitions())}")
    return 0


async def show(output: str = "yaml") -> int:
    """Print the definitions as documents that `kubectl apply -f -` takes; raises Failed for an unknown output."""
    wanted = needed_definitions()
    if output == "json":
        print(as_json({"apiVersion": "v1", "kind": "List", "items": wanted}), end="")
    elif output == "yaml":
        print("---\n".join(map(as_yaml, wanted)), end="")
    else:
        raise Failed(f"unsupported output {output!r}; use yaml or json")
    return 0
