"""What a control plane without a controller manager needs so that clusters can register themselves with a token."""

from __future__ import annotations

from schemas.manifest import Manifest
from services._rules.identity import bootstrap_tokens
from services._rules.kubernetes.rbac.role_index import GROUP as RBAC


def bootstrap_objects(server: str, bundle: str) -> list[Manifest]:
    """What clusters that register themselves with a token read and may do (docs/joining.md)."""
    kubeconfig = (
        "apiVersion: v1\nkind: Config\nclusters:\n"
        f"- name: ''\n  cluster:\n    server: {server}\n    certificate-authority-data: {bundle}\n"
    )
    place = bootstrap_tokens.INFO_NAMESPACE
    reader = {"name": "system:karmada:bootstrap-signer-clusterinfo", "namespace": place}
    requester = {"name": "system:karmada:agent-bootstrap"}
    requests = {"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests"]}
    info = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [bootstrap_tokens.INFO_NAME]}

    def bound(kind: str, metadata: dict[str, str], subject: dict[str, str]) -> Manifest:
        return {
            "apiVersion": f"{RBAC}/v1",
            "kind": f"{kind}Binding",
            "metadata": metadata,
            "roleRef": {"apiGroup": RBAC, "kind": kind, "name": metadata["name"]},
            "subjects": [{"apiGroup": RBAC, **subject}],
        }

    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": place}},
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": bootstrap_tokens.INFO_NAME, "namespace": place},
            "data": {bootstrap_tokens.INFO_KEY: kubeconfig},
        },
        {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": reader, "rules": [{**info, "verbs": ["get"]}]},
        bound("Role", reader, {"kind": "User", "name": "system:anonymous"}),
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "ClusterRole",
            "metadata": requester,
            "rules": [{**requests, "verbs": ["create", "get"]}],
        },
        bound("ClusterRole", requester, {"kind": "Group", "name": bootstrap_tokens.DEFAULT_GROUP}),
    ]
