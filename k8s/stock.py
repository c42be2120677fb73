"""The manifests of a stock kube-apiserver with etcd as control plane, beside the services."""

from __future__ import annotations

from k8s.images import ETCD_IMAGE, KUBE_APISERVER_IMAGE
from k8s.manifests import LEAVES_FIRST, budget
from k8s.shared import Manifest, apiserver_flags, etcd_flags, network_policy
from services.cli.installation.certificate_files import NAMESPACE
from services.cli.registration.confined_pods import confined_container, confined_pod, rolling


def etcd() -> list[Manifest]:
    """One etcd with a volume; a production control plane brings three, or its own."""
    container = {
        "name": "etcd",
        "image": ETCD_IMAGE,
        "command": etcd_flags(f"etcd.{NAMESPACE}.svc"),
        "ports": [{"name": "client", "containerPort": 2379, "protocol": "TCP"}],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "tls", "mountPath": "/tls"}],
        **_guards({"tcpSocket": {"port": "client"}}, {"tcpSocket": {"port": "client"}}, 256),
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
        "command": [
            "kube-apiserver",
            *apiserver_flags(f"https://etcd.{NAMESPACE}.svc:2379"),
            # Its image has nothing that could wait before it is asked to stop.
            f"--shutdown-delay-duration={LEAVES_FIRST}s",
        ],
        "ports": [{"name": "https", "containerPort": 6443, "protocol": "TCP"}],
        "volumeMounts": [
            {"name": "authorities", "mountPath": "/tls/ca", "readOnly": True},
            {"name": "tls", "mountPath": "/tls/pairs", "readOnly": True},
        ],
        **_guards(_asked("/livez"), _asked("/readyz"), 512),
    }
    mounts = {"authorities": "fleetlog-authorities", "tls": "fleetlog-kube-apiserver"}
    workload = _workload("Deployment", "kube-apiserver", 2, container, mounts, seconds=75)
    workload["spec"] |= {"strategy": rolling()}
    disruptions = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "kube-apiserver"},
        "spec": budget(_labels("kube-apiserver")),
    }
    return [
        *_all(
            "kube-apiserver",
            6443,
            workload,
            # Admission webhooks and aggregated APIs of users may be anywhere.
            [_to("etcd", 2379), _to("gateway", 8443), _to("search", 8443), _to("webhook", 8443), {}],
        ),
        disruptions,
    ]


def _asked(path: str) -> Manifest:
    return {"httpGet": {"path": path, "port": "https", "scheme": "HTTPS"}, "timeoutSeconds": 5}


def _guards(lives: Manifest, ready: Manifest, memory: int) -> Manifest:
    return {
        "startupProbe": {**lives, "periodSeconds": 2, "failureThreshold": 60},
        "livenessProbe": {**lives, "periodSeconds": 10, "failureThreshold": 6},
        "readinessProbe": {**ready, "periodSeconds": 5},
        "resources": {"requests": {"cpu": "200m", "memory": f"{memory}Mi"}, "limits": {"memory": f"{4 * memory}Mi"}},
        "securityContext": confined_container(),
    }


def _labels(name: str) -> dict[str, str]:
    return {"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "fleetlog"}


def _workload(
    kind: str, name: str, replicas: int, container: Manifest, secrets: dict[str, str], *, seconds: int = 30
) -> Manifest:
    labels = _labels(name)
    pod = {
        **confined_pod(name, labels, seconds=seconds),
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
        network_policy(metadata, ingress=[allowed], egress=reach),
    ]
