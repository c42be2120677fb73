"""Gives the account that acts in the name of callers its rights in a member, where who joined it made none."""

from __future__ import annotations

from typing import Final

from schemas.manifest import Manifest
from services._kit.kube.client import ApiError, KubeClient, resource_path
from services._rules.kubernetes.rbac.role_index import GROUP
from services._rules.proxying.impersonator_rights import impersonator_rights, with_account

_TRIES: Final = 3


async def ensure_impersonation(member: KubeClient, namespace: str) -> bool:
    """Create the role and its binding for the account in this namespace; whether something of it was missing.

    Karmada's own command makes the account and leaves its rights to the control plane. A role that is there stays as it
    is; to a binding that others have made for theirs, the account is added. Raises ApiError, Unreachable.
    """
    role, binding = impersonator_rights(namespace)
    made = await _ensure_there(member, role) is None
    for tries in range(1, _TRIES + 1):
        held = await _ensure_there(member, binding)
        if held is None:
            return True
        if (wider := with_account(held, namespace)) is None:
            return made
        try:
            await member.update(_path(binding), wider)
        except ApiError as error:
            if error.reason != "Conflict" or tries == _TRIES:
                raise
        else:
            return True
    return made


async def _ensure_there(member: KubeClient, manifest: Manifest) -> Manifest | None:
    """The object as the member has it; None where it was missing and is made."""
    try:
        return await member.get(_path(manifest))
    except ApiError as error:
        if error.status != 404:
            raise
    try:
        await member.create(_path(manifest).rpartition("/")[0], manifest)
    except ApiError as refusal:
        if refusal.reason != "AlreadyExists":
            raise
    return None


def _path(manifest: Manifest) -> str:
    return resource_path(GROUP, "v1", f"{manifest['kind'].lower()}s", "", manifest["metadata"]["name"])
