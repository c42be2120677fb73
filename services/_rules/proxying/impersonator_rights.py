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
