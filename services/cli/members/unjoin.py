"""The commands `karmadactl unjoin` and `unregister`: remove a member (docs/sources.md#commands)."""

from __future__ import annotations

from contextlib import AsyncExitStack

from services._kit.kube.client import ApiError, KubeClient, resource_path
from services._rules.constants import CLUSTER_FINALIZER
from services._rules.names import execution_namespace, impersonation_secret_name
from services.cli.common.control_plane import open_control
from services.cli.common.karmadactl_options import ControlPlaneOptions
from services.cli.common.moments import seconds_of
from services.cli.common.running import Failed, NotReady, complain, patience
from services.cli.common.waiting import wait_until
from services.cli.members.cleanup import clean_by_file, clean_by_itself, delete, stored_access
from services.cli.members.clusters import CLUSTERS, cluster
from services.cli.members.member_options import LeaveOptions
from services.cli.members.pull_join import dismiss_agent


async def unjoin_member(
    target: ControlPlaneOptions, name: str, options: LeaveOptions, *, pull_only: bool = False
) -> int:
    """Remove a member and say so; raises Failed when it is none, or is not empty in time and `force` is not given.

    A pull member's agent empties it first, and is cut off from the log afterwards. What joining made in the member is
    removed, too; where it cannot be, the answer says what stays.
    """
    seconds = seconds_of(options.wait, "--wait")
    if seconds <= 0:
        raise Failed("--wait must be longer than nothing")
    async with AsyncExitStack() as stack:
        client = (await stack.enter_async_context(open_control(target))).client
        item = await cluster(client, name)
        pull = item["spec"].get("syncMode") == "Pull"
        if pull_only and not pull:
            raise Failed(f"cluster {name} joined in push mode; use `karmadactl unjoin {name}`")
        if options.dry_run:
            print(f"cluster({name}) would be unjoined (dry run)")
            return 0
        # Its Secret goes with it.
        member = await stored_access(client, item["spec"])
        if isinstance(member, KubeClient):
            stack.push_async_callback(member.close)
        async with patience(f"waiting until {name} has let go of everything"):
            await delete(client, f"{CLUSTERS}/{name}")
            try:
                await wait_until(f"cluster {name}", lambda: _present(client, name), seconds)
            except NotReady:
                if not options.force:
                    raise Failed(
                        f"cluster {name} still holds copies after {options.wait}; it is being removed and goes away "
                        "once they are gone. Wait longer (--wait), or let go of them with --force"
                    ) from None
                await _let_go(client, name)
                await wait_until(f"cluster {name}", lambda: _present(client, name), seconds)
        reference = item["spec"].get("secretRef") or {}
        for secret in {reference.get("name") or name, impersonation_secret_name(name)}:
            await delete(
                client, resource_path("", "v1", "secrets", reference.get("namespace") or options.namespace, secret)
            )
        left = await dismiss_agent(target, name, options.signing) if pull else ""
        if options.file.path:
            await clean_by_file(name, options)
        elif stays := await clean_by_itself(name, options.namespace, member):
            complain(stays)
    print(f"cluster({name}) is unjoined successfully")
    print(left, end="")
    return 0


async def _present(client: KubeClient, name: str) -> str:
    try:
        await client.get(f"{CLUSTERS}/{name}")
    except ApiError as error:
        if error.status == 404:
            return ""
        raise
    return "it is still there"


async def _let_go(client: KubeClient, name: str) -> None:
    """Give up what is left of a member: the namespace of its works, and the finalizer of its entry."""
    complain(f"cluster {name} is let go although copies may be left in it")
    path = resource_path("", "v1", "namespaces", "", execution_namespace(name))
    try:
        namespace = await client.get(path)
        if namespace["metadata"].get("deletionTimestamp"):
            await client.update(f"{path}/finalize", {**namespace, "spec": {"finalizers": []}})
    except ApiError as error:
        if error.status != 404:
            raise
    try:
        live = await client.get(f"{CLUSTERS}/{name}")
        kept = [item for item in live["metadata"].get("finalizers", ()) if item != CLUSTER_FINALIZER]
        await client.patch(f"{CLUSTERS}/{name}", {"metadata": {"finalizers": kept}})
    except ApiError as error:
        if error.status != 404:
            raise
