"""Decides what the account in a member may do that acts in the name of callers."""

from __future__ import annotations

from typing import Final

from schemas.manifest import Manifest
from services._rules.kubernetes.rbac.role_index import GROUP

IMPERSONATOR: Final = "karmada-impersonator"
"""The account in a member that acts in the name of those who come through the control plane; so is its role named."""


def impersonator_rights(namespace: str) -> tuple[Manifest, Manifest]:
    """Impersonation of everyone: whom the control plane lets through is decided there, and what they may, here."""
    rule = {"apiGroups": [""], "resources": ["users", "groups", "serviceaccounts"], "verbs": ["impersonate"]}
    shared = {"apiVersion": f"{GROUP}/v1", "metadata": {"name": IMPERSONATOR}}
    return (
        {**shared, "kind": "ClusterRole", "rules": [rule]},
        {
            **shared,
            "kind": "ClusterRoleBinding",
            "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": IMPERSONATOR},
            "subjects": [{"kind": "ServiceAccount", "name": IMPERSONATOR, "namespace": namespace}],
        },
    )


def with_account(binding: Manifest, namespace: str) -> Manifest | None:
    """The binding of these rights with the account of a namespace added; None where it has it, or is another's."""
    wanted = impersonator_rights(namespace)[1]
    subjects = binding.get("subjects") or []
    own = wanted["subjects"][0]
    if binding.get("roleRef") != wanted["roleRef"] or any(own.items() <= held.items() for held in subjects):
        return None
    return {**binding, "subjects": [*subjects, own]}


def without_account(binding: Manifest, namespace: str) -> Manifest | None:
    """The binding without the account of a namespace; None where no other account is left in it."""
    own = impersonator_rights(namespace)[1]["subjects"][0]
    others = [held for held in binding.get("subjects") or () if not own.items() <= held.items()]
    return {**binding, "subjects": others} if others else None
