"""The manifests of a stock kube-apiserver with etcd as control plane, beside the services."""

from __future__ import annotations

from k8s.shared import ETCD_IMAGE, KUBE_APISERVER_IMAGE, USER, Manifest, apiserver_flags, etcd_flags
from services.cli.installation.certificate_files import NAMESPACE


def etcd() -> list[Manifest]:
    """One etcd with a volume; a production control plane brings three, or its own."""
    container = {
        "name": "etcd",
        "image": ETCD_IMAGE,
        "command": etcd_flags(f"etcd.{NAMESPACE}.svc"),
        "ports": [{"name": "client", "containerPort": 2379, "protocol": "TCP"}],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "tls", "mountPath": "/tls"}],
        **_guards("client", 256),
    }
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "8Gi"}}},
    }
    workload = _workload("StatefulSet", "etcd", 1, container, {"tls": "fleetlog-etcd"})
    workload["spec"] |= {"serviceName": "etcd", "volumeClaimTemplates": [claim]}
    return _all("etcd", 2379, workload, [])


def kube_apiserver() -> list[Manifest]:
    """Two API servers; nothing else of Kubernetes has to run."""
    container = {
        "name": "kube-apiserver",
        "image": KUBE_APISERVER_IMAGE,
        "command": ["kube-apiserver", *apiserver_flags(f"https://etcd.{NAMESPACE}.svc:2379")],
        "ports": [{"name": "https", "containerPort": 6443, "protocol": "TCP"}],
        "volumeMounts": [
            {"name": "authorities", "mountPath": "/tls/ca", "readOnly": True},
            {"name": "tls", "mountPath": "/tls/pairs", "readOnly": True},
        ],
        **_guards("https", 512),
    }
    mounts = {"authorities": "fleetlog-authorities", "tls": "fleetlog-kube-apiserver"}
    workload = _workload("Deployment", "kube-apiserver", 2, container, mounts)
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "kube-apiserver"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": _labels("kube-apiserver")}},
    }
    return [
        *_all(
            "kube-apiserver",
            6443,
            workload,
            [_to("etcd", 2379), _to("gateway", 8443), _to("search", 8443), _to("webhook", 8443)],
        ),
        budget,
    ]


def _guards(port: str, memory: int) -> Manifest:
    probe = {"tcpSocket": {"port": port}, "periodSeconds": 10}
    return {
        "startupProbe": {**probe, "periodSeconds": 2, "failureThreshold": 60},
        "livenessProbe": {**probe, "failureThreshold": 6},
        "readinessProbe": probe,
        "resources": {"requests": {"cpu": "200m", "memory": f"{memory}Mi"}, "limits": {"memory": f"{4 * memory}Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }


def _labels(name: str) -> dict[str, str]:
    return {"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "fleetlog"}


def _workload(kind: str, name: str, replicas: int, container: Manifest, secrets: dict[str, str]) -> Manifest:
    labels = _labels(name)
    pod = {
        "serviceAccountName": name,
        "automountServiceAccountToken": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": [
            {"name": volume, "secret": {"secretName": secret, "defaultMode": 0o440}}
            for volume, secret in secrets.items()
        ],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def _to(name: str, port: int) -> Manifest:
    return {
        "to": [{"podSelector": {"matchLabels": _labels(name)}}],
        "ports": [{"protocol": "TCP", "port": port}],
    }


def _all(name: str, port: int, workload: Manifest, reach: list[Manifest]) -> list[Manifest]:
    labels = _labels(name)
    metadata = {"name": name, "labels": labels}
    names = {"ports": [{"protocol": protocol, "port": 53} for protocol in ("UDP", "TCP")]}
    # People reach the API server from outside; etcd is reached by the API server only.
    allowed: Manifest = {"ports": [{"protocol": "TCP", "port": port}]}
    if name == "etcd":
        allowed["from"] = [{"podSelector": {"matchLabels": _labels("kube-apiserver")}}]
    return [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": metadata,
            "automountServiceAccountToken": False,
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {"selector": labels, "ports": [{"name": "api", "port": port, "protocol": "TCP"}]},
        },
        workload,
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": metadata,
            "spec": {
                "podSelector": {"matchLabels": labels},
                "policyTypes": ["Ingress", "Egress"],
                "ingress": [allowed],
                "egress": [names, *reach],
            },
        },
    ]
