"""The command `karmadactl join` for push members, and what joining is for every mode (docs/sources.md#commands)."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from services._kit.kube.client import ApiError, KubeClient, Unreachable
from services._rules.constants import NAMESPACE_SYSTEM
from services._rules.proxying.impersonator_rights import IMPERSONATOR
from services.cli.common.control_plane import Control, client_of, open_control, read_kubeconfig
from services.cli.common.karmadactl_options import ControlPlaneOptions, MemberFile
from services.cli.common.running import Failed, complain, patience
from services.cli.members.clusters import clusters
from services.cli.members.join import access_of_kubeconfig, join
from services.cli.members.member_account import MemberAccess, cluster_id, member_identity
from services.cli.members.member_options import Acting, JoinOptions

LONGEST_NAME: Final = 48
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


def check_name(name: str) -> None:
    """Raises Failed for what cannot be a cluster's name."""
    if len(name) > LONGEST_NAME or not _LABEL.fullmatch(name):
        raise Failed(
            f"{name!r} cannot be a cluster's name: at most {LONGEST_NAME} lower-case letters, digits and '-', "
            "beginning and ending with a letter or digit"
        )


async def check_new(control: KubeClient, name: str, identity: str) -> None:
    """Raises Failed when a cluster of this name is a member already, this very cluster under another name, or when
    the cluster is the control plane itself.
    """
    for item in await clusters(control):
        other = item["metadata"]["name"]
        if other == name:
            raise Failed(f"cluster {name} is registered already; unjoin it first or choose another name")
        if identity and item["spec"].get("id") == identity:
            raise Failed(f"this cluster is registered already, under the name {other}")
    if identity and identity == await _own_id(control):
        raise Failed(
            f"{name} would be the control plane itself, whose templates cannot be delivered into it; "
            "give the kubeconfig of the cluster that is to join with --cluster-kubeconfig"
        )


async def _own_id(control: KubeClient) -> str:
    """Identity of the control plane, compared as those of members; empty where it has none."""
    try:
        return await cluster_id(control)
    except ApiError:
        return ""


async def member_id(member: KubeClient, file: MemberFile) -> str:
    """Identity of the member that a kubeconfig names; raises Failed, which names the member's server."""
    try:
        return await cluster_id(member)
    except ApiError as error:
        raise Failed(
            f"the cluster of {file.path} ({member.server}) refuses these credentials: {error.message or error}"
        ) from None
    except Unreachable as error:
        raise Failed(f"the cluster of {file.path} does not answer: {error}") from None


@asynccontextmanager
async def open_member_file(file: MemberFile) -> AsyncIterator[tuple[KubeClient, MemberAccess]]:
    """A client of the cluster that a kubeconfig names, and what the file says of it; raises Failed, JoinRefused."""
    kubeconfig = read_kubeconfig(Path(file.path))
    try:
        access = access_of_kubeconfig(kubeconfig, file.context)
    except (KeyError, TypeError) as error:
        raise Failed(f"kubeconfig {file.path}: {error} is missing or malformed") from None
    except ValueError as error:
        raise Failed(f"kubeconfig {file.path}: certificate, key or authority cannot be read: {error}") from None
    member = await client_of(Path(file.path), kubeconfig, file.context)
    try:
        yield member, access
    finally:
        await member.close()


@asynccontextmanager
async def open_acting(target: ControlPlaneOptions, acting: Acting) -> AsyncIterator[Control]:
    """The control plane, asked in the name that the options say; raises Failed for a name that is not whole."""
    if not acting.user and (acting.groups or acting.uid):
        raise Failed("--karmada-as-group and --karmada-as-uid belong to --karmada-as: say the user, too")
    async with open_control(target) as control:
        if acting.user:
            control.client.act_as(acting.user, acting.groups, acting.uid)
        yield control


async def join_member(target: ControlPlaneOptions, name: str, options: JoinOptions) -> int:
    """Join a cluster and say so; raises Failed and JoinRefused before anything is written where it cannot be."""
    check_name(name)
    if options.namespace == NAMESPACE_SYSTEM:
        complain(f"warning: {options.namespace} holds the control plane itself; another --cluster-namespace is better")
    async with (
        patience(f"joining {name}"),
        open_acting(target, options.acting) as control,
        open_member_file(options.file) as (member, access),
    ):
        identity = await member_id(member, options.file)
        await check_new(control.client, name, identity)
        if options.dry_run:
            print(f"cluster({name}) would be joined (dry run)")
            return 0
        if urlsplit(access.proxy).password:
            complain(
                "warning: the proxy-url of the kubeconfig holds a password, which goes into spec.proxyURL of the "
                "Cluster; all who may read Clusters see it"
            )
        ours = await member_identity(member, name, access, options.namespace)
        if not ours.impersonator:
            complain(
                f"warning: {name} issues no token for its account {options.namespace}/{IMPERSONATOR}: requests of "
                "people cannot be passed on to it (clusters/proxy)"
            )
        await join(control.client, name, ours, identity, options.traits, namespace=options.namespace)
    print(f"cluster({name}) is joined successfully")
    return 0
