"""Gives the account that acts in the name of callers its rights in a member, where who joined it made none."""

from __future__ import annotations

from services._kit.kube.client import ApiError, KubeClient, resource_path
from services._rules.kubernetes.rbac.role_index import GROUP
from services._rules.proxying.impersonator_rights import impersonator_rights


async def ensure_impersonation(member: KubeClient, namespace: str) -> bool:
    """Create the role and its binding for the account in this namespace; whether one of them was missing.

    Karmada's own command makes the account and leaves its rights to the control plane. What is there stays as it is.
    Raises ApiError, Unreachable.
    """
    missing = False
    for manifest in impersonator_rights(namespace):
        path = resource_path(GROUP, "v1", f"{manifest['kind'].lower()}s")
        try:
            await member.get(f"{path}/{manifest['metadata']['name']}")
        except ApiError as error:
            if error.status != 404:
                raise
            missing = True
            try:
                await member.create(path, manifest)
            except ApiError as refusal:
                if refusal.reason != "AlreadyExists":
                    raise
    return missing
