"""Decides which objects an agent has in its member: it runs there and uses the account of its pod."""

from __future__ import annotations

from importlib.metadata import version
from typing import Final

import msgspec
from msgspec import Struct

from schemas.manifest import Manifest
from services._rules.constants import LABEL_TRUE, SYSTEM_LABEL
from services._rules.kubernetes.rbac.role_index import GROUP as RBAC
from services.cli.members.join import kubeconfig_with
from services.cli.members.member_account import READERS, reading_rights
from services.cli.registration.confined_pods import confined_container, confined_pod, rolling

NAME: Final = "karmada-agent"
ACCOUNT: Final = "karmada-agent-sa"
SECRET: Final = "karmada-kubeconfig"
AUTHORITY: Final = "ca.crt"
"""Key of that Secret, and file beside an agent's identity: whom it believes to be the log."""
_RUN: Final = "/run/fleetlog/agent"
_DATA: Final = "/data"
_OF_POD: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_HTTP: Final = 8080
_LABELS: Final = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/part-of": "fleetlog"}


class AgentPlan(Struct, frozen=True, kw_only=True):
    """What is known about an agent that is to be deployed."""

    cluster: str
    namespace: str
    url: str
    """Of the log's servers."""
    identity: str
    """The file with which it logs in, as text."""
    signed: bool
    """Whether that is a file of credentials, else the seed of a key."""
    authority: str = ""
    """Certificates (PEM) of the authority of the log's servers; empty: one that every system trusts."""
    requests: str = ""
    """Which requests of people it answers; empty: none."""
    image: str = ""
    replicas: int = 1


def default_image() -> str:
    """The image of this release."""
    return f"fleetlog:{version('fleetlog')}"


def agent_places(namespace: str) -> list[tuple[str, str, str, str]]:
    """Kind, apiVersion, namespace and name of all that an agent has, in the order in which it goes."""
    return [
        ("Deployment", "apps/v1", namespace, NAME),
        ("Secret", "v1", namespace, SECRET),
        ("ServiceAccount", "v1", namespace, ACCOUNT),
        ("ClusterRoleBinding", f"{RBAC}/v1", "", NAME),
        ("ClusterRole", f"{RBAC}/v1", "", NAME),
        *((kind, f"{RBAC}/v1", "", name) for name in READERS for kind in ("ClusterRoleBinding", "ClusterRole")),
    ]


def agent_objects(plan: AgentPlan) -> list[Manifest]:
    """The objects of an agent, in the order in which they are written."""
    metadata = {"namespace": plan.namespace, "labels": {**_LABELS, SYSTEM_LABEL: LABEL_TRUE}}
    every = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
    pages = {"nonResourceURLs": ["*"], "verbs": ["get"]}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": plan.namespace}},
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {**metadata, "name": ACCOUNT},
            "automountServiceAccountToken": False,
        },
        {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": NAME}, "rules": [every, pages]},
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": NAME},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": NAME},
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": plan.namespace}],
        },
        *reading_rights(),
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {**metadata, "name": SECRET},
            "type": "Opaque",
            "stringData": {
                "identity": plan.identity,
                "kubeconfig": _kubeconfig(plan.cluster),
                **({AUTHORITY: plan.authority} if plan.authority else {}),
            },
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {**metadata, "name": NAME},
            "spec": {
                "replicas": plan.replicas,
                # One that waits for its turn is ready, and the Lease keeps two from acting.
                "strategy": rolling(),
                "selector": {"matchLabels": _LABELS},
                "template": {"metadata": {"labels": _LABELS}, "spec": _pod(plan)},
            },
        },
    ]


def _kubeconfig(cluster: str) -> str:
    """The member as a pod in it reaches it: by its own account, whose token is renewed there."""
    server = {"server": "https://kubernetes.default.svc", "certificate-authority": f"{_OF_POD}/ca.crt"}
    return msgspec.json.encode(kubeconfig_with(cluster, server, {"tokenFile": f"{_OF_POD}/token"})).decode()


def _pod(plan: AgentPlan) -> Manifest:
    settings = {
        "FLEETLOG_NATS_URL": plan.url,
        ("FLEETLOG_NATS_CREDS" if plan.signed else "FLEETLOG_NATS_NKEY_FILE"): f"{_RUN}/identity",
        **({"FLEETLOG_TLS_CA": f"{_RUN}/{AUTHORITY}"} if plan.authority else {}),
        "FLEETLOG_AGENT_CLUSTER": plan.cluster,
        "FLEETLOG_AGENT_KUBECONFIG": f"{_RUN}/kubeconfig",
        "FLEETLOG_AGENT_DATA_DIR": _DATA,
        "FLEETLOG_AGENT_LEASE_NAMESPACE": plan.namespace,
        **({"FLEETLOG_AGENT_REQUESTS": plan.requests} if plan.requests else {}),
        "FLEETLOG_HTTP_HOST": "0.0.0.0",
        "FLEETLOG_HTTP_PORT": str(_HTTP),
    }
    probe = {"periodSeconds": 10, "httpGet": {"path": "/livez", "port": "http"}}
    container = {
        "name": "agent",
        "image": plan.image or default_image(),
        "args": ["services.agent"],
        "env": [{"name": name, "value": value} for name, value in settings.items()],
        "ports": [{"name": "http", "containerPort": _HTTP, "protocol": "TCP"}],
        "livenessProbe": {**probe, "failureThreshold": 6},
        "startupProbe": {**probe, "periodSeconds": 2, "failureThreshold": 60},
        # One that waits for its turn works as it should, and so does one that is cut off from the hub; one that never
        # reached it has the wrong address, identity or authority.
        "readinessProbe": {**probe, "periodSeconds": 5, "httpGet": {"path": "/readyz/entered", "port": "http"}},
        "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}},
        "securityContext": confined_container(),
        "volumeMounts": [
            {"name": "identity", "mountPath": _RUN, "readOnly": True},
            {"name": "data", "mountPath": _DATA},
            {"name": "tmp", "mountPath": "/tmp"},
        ],
    }
    return {
        **confined_pod(ACCOUNT, _LABELS, token=True),
        "containers": [container],
        "volumes": [
            {"name": "identity", "secret": {"secretName": SECRET, "defaultMode": 0o440}},
            # What it knows is read from the log again where a pod is replaced.
            {"name": "data", "emptyDir": {}},
            {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}},
        ],
    }
