"""The manifests of what lets agents in that register, and of the Service by which agents reach the log."""

from __future__ import annotations

import json
from typing import Final

from k8s.manifests import CONTROL_PORTS, budget
from k8s.shared import HTTP, IMAGE, RUN, Manifest, host_account, network_policy
from services._rules.kubernetes.rbac.service_roles import SIGNER_OF_AGENTS, dns
from services.cli.installation.certificate_files import CA, LOG_URL, NAMESPACE
from services.cli.registration.confined_pods import confined_container, confined_pod
from services.cli.renewal.log_secrets import ACCOUNTS_SECRET

NAME: Final = dns(SIGNER_OF_AGENTS)
LOG_SERVICE: Final = "log"
"""Where agents reach the log: the Service of the servers has no address of its own."""
API_NODE_PORT: Final = 32443
LOG_NODE_PORT: Final = 32422
_LOG_SECRET: Final = f"fleetlog-log-{NAME}"


def signing() -> list[Manifest]:
    """One instance, what it may do in the cluster it runs in, and where it may connect to; and the Service."""
    labels = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/part-of": "fleetlog"}
    metadata = {"name": NAME, "labels": labels}
    nats = {"app.kubernetes.io/name": "nats", "app.kubernetes.io/part-of": "fleetlog"}
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": LOG_SERVICE, "labels": nats},
            "spec": {
                "selector": nats,
                "ports": [{"name": "client", "port": 4222, "protocol": "TCP"}],
            },
        },
        *host_account(
            metadata,
            [
                {
                    "apiGroups": [""],
                    "resources": ["secrets"],
                    "resourceNames": [ACCOUNTS_SECRET],
                    "verbs": ["get", "patch"],
                },
                {"apiGroups": ["apps"], "resources": ["statefulsets"], "resourceNames": ["nats"], "verbs": ["get"]},
            ],
        ),
        {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": budget(labels)},
        network_policy(
            metadata,
            ingress=[{"ports": [{"protocol": "TCP", "port": HTTP}]}],
            egress=[
                {
                    "to": [{"podSelector": {"matchLabels": {"app.kubernetes.io/name": "nats"}}}],
                    "ports": [{"protocol": "TCP", "port": 4222}],
                },
                # The API server of the cluster that it runs in, and the control plane.
                {"ports": [{"protocol": "TCP", "port": port} for port in CONTROL_PORTS]},
            ],
        ),
        _deployment(metadata, labels),
    ]


def reached_by_node_ports() -> list[Manifest]:
    """Patches by which people and agents outside the cluster come in by ports of its nodes."""

    def patched(kind: str, name: str, *operations: Manifest) -> Manifest:
        return {"target": {"kind": kind, "name": name}, "patch": json.dumps(operations)}

    def added(path: str, value: object) -> Manifest:
        return {"op": "add", "path": path, "value": value}

    ports = {"kube-apiserver": API_NODE_PORT, LOG_SERVICE: LOG_NODE_PORT}
    return [
        *(
            patched("Service", name, added("/spec/type", "NodePort"), added("/spec/ports/0/nodePort", port))
            for name, port in ports.items()
        ),
        # From anywhere: keys and certificates decide who gets in.
        patched("NetworkPolicy", "nats", added("/spec/ingress/-", {"ports": [{"protocol": "TCP", "port": 4222}]})),
    ]


def _deployment(metadata: Manifest, labels: dict[str, str]) -> Manifest:
    def probe(path: str, **more: int) -> Manifest:
        return {"httpGet": {"path": path, "port": "http"}, **more}

    container = {
        "name": "service",
        "image": IMAGE,
        "command": ["fleetlog", "nats", "sign", f"--kubeconfig={RUN}/control/kubeconfig", f"--certs={RUN}/log"],
        "args": [
            "--host-namespace=$(POD_NAMESPACE)",
            "--nats=$(LOG_URL)",
            f"--through=tls://nats.{NAMESPACE}.svc:4222",
            "--health-host=0.0.0.0",
            f"--health-port={HTTP}",
        ],
        "env": [
            {"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
            {"name": "LOG_URL", "valueFrom": {"secretKeyRef": {"name": _LOG_SECRET, "key": LOG_URL}}},
        ],
        "ports": [{"name": "http", "containerPort": HTTP, "protocol": "TCP"}],
        "livenessProbe": probe("/livez", periodSeconds=10, failureThreshold=6),
        "readinessProbe": probe("/readyz", periodSeconds=5),
        "startupProbe": probe("/livez", periodSeconds=2, failureThreshold=60),
        "resources": {"requests": {"cpu": "20m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
        "securityContext": confined_container(),
        "volumeMounts": [
            {"name": "log", "mountPath": f"{RUN}/log", "readOnly": True},
            {"name": "control", "mountPath": f"{RUN}/control", "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},
        ],
    }

    def mounted(name: str, secret: str, **more: object) -> Manifest:
        return {"name": name, "secret": {"secretName": secret, "defaultMode": 0o440, **more}}

    pod = {
        **confined_pod(NAME, labels, token=True),
        "containers": [container],
        "volumes": [
            mounted("log", _LOG_SECRET, items=[{"key": CA, "path": CA}]),
            mounted("control", f"fleetlog-control-{NAME}"),
            {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}},
        ],
    }
    annotations = {"prometheus.io/scrape": "true", "prometheus.io/port": str(HTTP)}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {
            # Two would answer each request twice.
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels, "annotations": annotations}, "spec": pod},
        },
    }
