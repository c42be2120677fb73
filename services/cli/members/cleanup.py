"""Removes what joining made in a member: account, rights and namespace (docs/sources.md#registration)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from schemas.manifest import Manifest
from services._kit.credentials.access import open_member
from services._kit.kube.client import ApiError, KubeClient, Unreachable, resource_path
from services._rules.names import member_role_name, member_service_account_name
from services._rules.proxying.impersonator_rights import IMPERSONATOR, without_account
from services.cli.common.control_plane import read_kubeconfig
from services.cli.common.karmadactl_options import MemberFile
from services.cli.common.running import Failed, NotReady, complain
from services.cli.common.waiting import wait_until
from services.cli.members.member_account import READERS
from services.cli.members.member_options import LeaveOptions
from services.cli.members.membership import open_member_file

_RBAC: Final = "rbac.authorization.k8s.io"
_FOREIGN: Final = frozenset({"default", IMPERSONATOR})
"""Service accounts of a namespace that belong to no cluster in particular."""
_SECONDS: Final = 30.0
"""How long a member has to remove what it was asked to."""


async def delete(client: KubeClient, path: str) -> None:
    """Delete an object; one that is gone already is fine."""
    try:
        await client.delete(path)
    except ApiError as error:
        if error.status != 404:
            raise


async def stored_access(control: KubeClient, spec: Manifest) -> KubeClient | str:
    """A client of a member with the credentials that the control plane has for it, or why there is none."""
    if not spec.get("secretRef"):
        return "the control plane has no credentials of it"
    try:
        return await open_member(control, spec)
    except (ApiError, Unreachable, ValueError) as error:
        return str(error)


async def clean_by_file(name: str, options: LeaveOptions) -> None:
    """Remove it with the kubeconfig given; raises Failed unless `force`, which only warns."""
    contexts = [entry.get("name") for entry in read_kubeconfig(Path(options.file.path)).get("contexts") or ()]
    file = options.file
    chosen = file if file.context or name not in contexts else MemberFile(file.path, name)
    account = member_service_account_name(name)
    role = member_role_name(account)
    async with open_member_file(chosen) as (member, _):
        try:
            used = await _is_used_by_others(member, options.namespace)
        except (ApiError, Unreachable) as error:
            if not options.force:
                raise Failed(f"cluster {name} is unjoined, but its rights could not be read: {error}") from None
            used = True
        for path in (
            _binding(role),
            _role(role),
            resource_path("", "v1", "serviceaccounts", options.namespace, account),
            *(() if used else (_binding(IMPERSONATOR), _role(IMPERSONATOR))),
            *(place(name) for name in READERS for place in (_binding, _role)),
            resource_path("", "v1", "serviceaccounts", options.namespace, IMPERSONATOR),
            resource_path("", "v1", "namespaces", "", options.namespace),
        ):
            try:
                await delete(member, path)
            except (ApiError, Unreachable) as error:
                if not options.force:
                    raise Failed(f"cluster {name} is unjoined, but its {path} could not be removed: {error}") from None
                complain(f"warning: {path} of the member could not be removed: {error}")


async def clean_by_itself(name: str, namespace: str, member: KubeClient | str) -> str:
    """Remove it with the very rights that are removed; what stays and how to remove it, empty when nothing stays.

    The binding of the role goes last, when the member has deleted all that hangs on it: these requests are made by it.
    """
    if isinstance(member, str):
        return left_in(name, namespace, member)
    account = member_service_account_name(name)
    role = member_role_name(account)
    try:
        binding = await member.get(_binding(role))
        owner = {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "name": role,
            "uid": binding["metadata"]["uid"],
            "blockOwnerDeletion": True,
        }
        accounts = await member.get(resource_path("", "v1", "serviceaccounts", namespace))
        others = {item["metadata"]["name"] for item in accounts.get("items") or ()} - _FOREIGN - {account}
        # The namespace is shared where the cluster is a member of another control plane, too.
        place = (
            resource_path("", "v1", "serviceaccounts", namespace, account)
            if others
            else resource_path("", "v1", "namespaces", "", namespace)
        )
        ours = READERS if await _is_used_by_others(member, namespace) else (IMPERSONATOR, *READERS)
        shared = () if others else (*map(_binding, ours), *map(_role, ours))
        for path in (_role(role), *shared, place):
            await _hang_on(member, path, owner)
        await member.delete(_binding(role), propagation="Foreground")
        await wait_until(f"the rights of {account}", lambda: _rights_left(member, role), _SECONDS)
    except ApiError as error:
        if error.status == 404:
            # Joined with credentials of its own: nothing was made there.
            return ""
        return left_in(name, namespace, str(error))
    except (Unreachable, NotReady) as error:
        return left_in(name, namespace, str(error))
    return ""


async def _is_used_by_others(member: KubeClient, namespace: str) -> bool:
    """Take the account of a namespace out of the rights to act for callers; whether accounts of others have them."""
    try:
        held = await member.get(_binding(IMPERSONATOR))
    except ApiError as error:
        if error.status == 404:
            return False
        raise
    others = without_account(held, namespace)
    if others is not None:
        await member.update(_binding(IMPERSONATOR), others)
    return others is not None


def left_in(name: str, namespace: str, why: str) -> str:
    """What joining made in a member and is there still, and the command that removes it."""
    role = member_role_name(member_service_account_name(name))
    return (
        f"In the cluster itself stay ClusterRole and ClusterRoleBinding {role} and namespace {namespace} with the "
        f"service account, if joining made them ({why}). Remove them with its kubeconfig:\n"
        f"  kubectl --kubeconfig KUBECONFIG delete clusterrolebinding/{role} clusterrole/{role} namespace/{namespace}"
    )


async def _hang_on(member: KubeClient, path: str, owner: Manifest) -> None:
    try:
        await member.patch(path, {"metadata": {"ownerReferences": [owner]}})
    except ApiError as error:
        if error.status != 404:
            raise


async def _rights_left(member: KubeClient, role: str) -> str:
    """Nothing once the binding is gone, or the credentials with it."""
    try:
        await member.get(_binding(role))
    except ApiError as error:
        if error.status in (401, 403, 404):
            return ""
        raise
    return "the member is still removing them"


def _binding(role: str) -> str:
    return resource_path(_RBAC, "v1", "clusterrolebindings", "", role)


def _role(role: str) -> str:
    return resource_path(_RBAC, "v1", "clusterroles", "", role)
