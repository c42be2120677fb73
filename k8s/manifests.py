"""The manifests of every service in Kubernetes, and its rights in the control plane."""

from __future__ import annotations

from typing import Final

from k8s.accounts import account_objects
from k8s.shared import API, FRONTS, HTTP, IMAGE, NATS_NODES, RUN, WITH_API, Manifest, environment, network_policy
from schemas.topology import OPTIONAL, WITHOUT_LOG
from services._rules.kubernetes.rbac.service_roles import dns, service_objects
from services.cli.installation.certificate_files import NAMESPACE, WITH_CONTROL
from services.cli.registration.confined_pods import confined_container, confined_pod, rolling
from services.cli.secrets.secret_keys import READERS

TO_MEMBERS: Final = ("autoscaler", "cluster_monitor", "estimator", "executor", "gateway", "search")
"""Services that connect to member clusters, wherever these are; search also to its backends."""
TO_WEBHOOKS: Final = ("detector", "override_renderer", "status_aggregator")
"""Services that ask interpreter webhooks of users, wherever these are."""
LEAVES_FIRST: Final = 5
"""Seconds for which an instance goes on answering while its address is taken out of its Service."""
CONTROL_PORTS: Final = (443, 6443)
MEMORY: Final = {
    "detector": 512,
    "estimator": 384,
    "executor": 768,
    "gateway": 512,
    "override_renderer": 512,
    "scheduler": 768,
    # A pod takes less than a kilobyte of the index.
    "search": 2048,
    "status_aggregator": 512,
}
"""Mebibytes that a service may use, with its two processes for scripts; others 256."""


def secrets(service: str) -> dict[str, str]:
    """Secrets of a service by the directory they are mounted at."""
    found = {} if service in WITHOUT_LOG else {"log": f"fleetlog-log-{dns(service)}"}
    if service in WITH_CONTROL:
        found["control"] = f"fleetlog-control-{dns(service)}"
    if service in READERS:
        found["secrets"] = "fleetlog-secrets-keys"
    if service in WITH_API:
        found[service] = f"fleetlog-{service}"
    return found


def _probe(path: str, **more: int) -> Manifest:
    return {"httpGet": {"path": path, "port": "http"}, **more}


def deployment(service: str) -> Manifest:
    """Two instances: one leads, the other's projection is warm. None needs the API of the cluster it runs in.

    An optional service has none until it is scaled.
    """
    labels = {"app.kubernetes.io/name": dns(service), "app.kubernetes.io/part-of": "fleetlog"}
    mounts = secrets(service)
    ports = [{"name": "http", "containerPort": HTTP, "protocol": "TCP"}]
    if service in WITH_API:
        ports.append({"name": "api", "containerPort": API, "protocol": "TCP"})
    # Each server by its name: that of a pod that is gone has no address, and the next one is tried at once.
    log = ",".join(f"tls://nats-{number}.nats.{NAMESPACE}.svc:4222" for number in range(NATS_NODES))
    settings = environment(service, log)
    instance = {"name": "FLEETLOG_INSTANCE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    memory = MEMORY.get(service, 256)
    container = {
        "name": "service",
        "image": IMAGE,
        "args": [f"services.{service}"],
        "env": [instance, *({"name": name, "value": value} for name, value in settings.items())],
        "ports": ports,
        # A first projection of a large log takes its time; it is alive all the while.
        "livenessProbe": _probe("/livez", periodSeconds=10, failureThreshold=6),
        "readinessProbe": _probe("/readyz", periodSeconds=5),
        "startupProbe": _probe("/livez", periodSeconds=2, failureThreshold=60),
        "resources": {
            # At rest a service takes 40 to 55 MiB.
            "requests": {"cpu": "50m", "memory": f"{max(64, memory // 8)}Mi"},
            "limits": {"memory": f"{memory}Mi"},
        },
        "securityContext": confined_container(),
        "volumeMounts": [
            *({"name": name, "mountPath": f"{RUN}/{name}", "readOnly": True} for name in mounts),
            # The root is read-only; libraries keep certificates in files for a moment.
            {"name": "tmp", "mountPath": "/tmp"},
        ],
    }
    if service in FRONTS:
        # The webhook waits by itself.
        container["lifecycle"] = {"preStop": {"exec": {"command": ["sleep", str(LEAVES_FIRST)]}}}
    pod = {
        **confined_pod(dns(service), labels, seconds=45 if service in WITH_API else 30),
        "containers": [container],
        "volumes": [
            *(
                {"name": name, "secret": {"secretName": secret, "defaultMode": 0o440}}
                for name, secret in mounts.items()
            ),
            {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}},
        ],
    }
    annotations = {"prometheus.io/scrape": "true", "prometheus.io/port": str(HTTP)}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": dns(service), "labels": labels},
        "spec": {
            "replicas": 0 if service in OPTIONAL else 2,
            "strategy": rolling(),
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels, "annotations": annotations}, "spec": pod},
        },
    }


def budget(labels: dict[str, str]) -> Manifest:
    """One instance at a time may be evicted, however many there are: a node is drained in the end with one, too."""
    return {"maxUnavailable": 1, "unhealthyPodEvictionPolicy": "AlwaysAllow", "selector": {"matchLabels": labels}}


def manifests(service: str) -> list[Manifest]:
    """Everything of one service."""
    labels = {"app.kubernetes.io/name": dns(service), "app.kubernetes.io/part-of": "fleetlog"}
    metadata = {"name": dns(service), "labels": labels}
    found: list[Manifest] = [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": metadata,
            "automountServiceAccountToken": False,
        },
        deployment(service),
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": metadata,
            "spec": budget(labels),
        },
        network_policy(metadata, ingress=_ingress(service), egress=_egress(service)),
    ]
    if service in WITH_API:
        ports = [{"name": "api", "port": API, "targetPort": "api", "protocol": "TCP"}]
        if service == "webhook":
            # What configurations mean that name the Service without a port.
            ports.append({"name": "https", "port": 443, "targetPort": "api", "protocol": "TCP"})
        found.append(
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": metadata,
                "spec": {"selector": labels, "ports": ports},
            }
        )
    return found


def _ingress(service: str) -> list[Manifest]:
    """Scrapes from anywhere in the cluster (kubelets probe from their nodes anyhow); requests of a control plane."""
    ports = [HTTP, API] if service in WITH_API else [HTTP]
    return [{"ports": [{"protocol": "TCP", "port": port} for port in ports]}]


def _egress(service: str) -> list[Manifest]:
    """The log, the control plane for those that use it; anywhere for those that go to members or webhooks."""
    rules: list[Manifest] = []
    if service not in WITHOUT_LOG:
        nats = {"matchLabels": {"app.kubernetes.io/name": "nats"}}
        rules.append({"to": [{"podSelector": nats}], "ports": [{"protocol": "TCP", "port": 4222}]})
    if service in TO_MEMBERS or service in TO_WEBHOOKS:
        # Anywhere; what must not be reached from here is for the cluster's own policies to say. Without addresses,
        # because some networks do not count pods among those.
        rules.append({})
    elif service in WITH_CONTROL:
        # In this cluster or outside, at the usual ports.
        rules.append({"ports": [{"protocol": "TCP", "port": port} for port in CONTROL_PORTS]})
    return rules


def control_plane() -> list[Manifest]:
    """Rights of the services in the control plane (not in the cluster they run in)."""
    return list(service_objects())


def control_plane_accounts() -> list[Manifest]:
    """The same rights for ServiceAccounts, where services come with tokens of the control plane."""
    return list(account_objects())
