"""The command `karmadactl unregister`: removes a pull member, and its agent from it."""

from __future__ import annotations

from services._kit.kube.client import ApiError, Unreachable
from services.cli.common.karmadactl_options import ControlPlaneOptions
from services.cli.common.running import Failed, complain
from services.cli.hosting.rolling_out import path_of
from services.cli.members.cleanup import delete
from services.cli.members.member_options import UnregisterOptions
from services.cli.members.membership import open_member_file
from services.cli.members.unjoin import unjoin_member
from services.cli.registration.agent_manifests import NAME, agent_places


async def unregister(target: ControlPlaneOptions, name: str, options: UnregisterOptions) -> int:
    """Remove a pull member, then with a kubeconfig of it what register deployed there; raises Failed."""
    control = ControlPlaneOptions(options.config or target.kubeconfig, target.context)
    code = await unjoin_member(control, name, options.leave, pull_only=True)
    if code or options.leave.dry_run:
        return code
    if not options.leave.file.path:
        complain(
            f"In the cluster itself stays its agent, if register deployed it; remove it with its kubeconfig: "
            f"kubectl -n {options.namespace} delete deployment/{options.agent}"
        )
        return 0
    async with open_member_file(options.leave.file) as (member, _):
        for kind, api_version, namespace, each in agent_places(options.namespace):
            own = options.agent if (kind, each) == ("Deployment", NAME) else each
            path = path_of(kind, api_version, namespace, own)
            try:
                await delete(member, path)
            except (ApiError, Unreachable) as error:
                if not options.leave.force:
                    raise Failed(f"cluster {name} is unjoined, but its {path} could not be removed: {error}") from None
                complain(f"warning: {path} of the member could not be removed: {error}")
    print(f"the agent of {name} is removed")
    return 0
