"""ServiceAccounts of the services in the control plane, for who wants tokens instead of certificates."""

from __future__ import annotations

from collections.abc import Iterator

from k8s.shared import Manifest
from services._rules.constants import NAMESPACE_CLUSTER
from services._rules.kubernetes.rbac.role_index import GROUP
from services._rules.kubernetes.rbac.service_roles import (
    CREDENTIALS,
    SERVICE_NAMESPACE,
    USERS,
    account_of,
    dns,
    user_of,
)


def account_objects() -> Iterator[Manifest]:
    """A ServiceAccount for each service, and bindings of the roles of its user to it.

    They are apart from the roles: who may make tokens or pods in their namespace is as good as every service.
    """
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SERVICE_NAMESPACE}}
    for service, rules in USERS.items():
        metadata = {"name": dns(service), "namespace": SERVICE_NAMESPACE}
        yield {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": metadata,
            "automountServiceAccountToken": False,
        }
        if rules:
            yield _binding("ClusterRole", service)
        if service in CREDENTIALS:
            yield _binding("Role", service, NAMESPACE_CLUSTER)


def _binding(kind: str, service: str, namespace: str = "") -> Manifest:
    name = f"{user_of(service)}:account"
    return {
        "kind": f"{kind}Binding",
        "apiVersion": f"{GROUP}/v1",
        "metadata": {"name": name, "namespace": namespace} if namespace else {"name": name},
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": user_of(service)},
        "subjects": [account_of(service)],
    }
