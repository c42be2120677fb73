"""Containers of other projects in the compositions: log, stock control plane, monitoring, search backend."""

from __future__ import annotations

from k8s.images import ETCD_IMAGE, GRAFANA_IMAGE, KUBE_APISERVER_IMAGE, NATS_IMAGE, OPENSEARCH_IMAGE, PROMETHEUS_IMAGE
from k8s.shapes import DONE, STARTED, Shape, confined, published
from k8s.shared import Manifest, apiserver_flags, etcd_flags
from services._rules.kubernetes.rbac.service_roles import SCRAPER


def log_server(shape: Shape, name: str) -> Manifest:
    if shape.shared:
        volumes = ["./k8s/nats.local.conf:/etc/nats/nats.conf:ro", *shape.files({})]
        more: Manifest = {"depends_on": {"setup": DONE}}
    else:
        volumes = [
            "./k8s/nats.compose.conf:/etc/nats/nats.conf:ro",
            # The directory, because a file that is replaced stays the old one in a container.
            "./deploy/nats:/etc/nats/accounts:ro",
            "./deploy/ca.crt:/tls/ca.crt:ro",
            "./deploy/tls/nats.crt:/tls/tls.crt:ro",
            "./deploy/tls/nats.key:/tls/tls.key:ro",
        ]
        more = {"environment": {"SERVER_NAME": name}}
    return {
        "image": NATS_IMAGE,
        # For commands and observers on this machine; the certificate covers 127.0.0.1.
        **({"ports": published("FLEETLOG_LOG_PORT", 4222)} if name == shape.nats[0] else {}),
        "command": ["-c", "/etc/nats/nats.conf", *(("--name", name) if shape.shared else ())],
        **confined(shape),
        "volumes": [*volumes, shape.data(name)],
        **more,
        "restart": "unless-stopped",
    }


def stock(shape: Shape) -> dict[str, Manifest]:
    """A stock kube-apiserver with its store, in a profile."""
    return {
        "etcd": {
            "image": ETCD_IMAGE,
            "profiles": ["stock"],
            "user": shape.user,
            "command": etcd_flags("etcd"),
            "volumes": [
                "./deploy/ca.crt:/tls/ca.crt:ro",
                "./deploy/tls/etcd.crt:/tls/etcd.crt:ro",
                "./deploy/tls/etcd.key:/tls/etcd.key:ro",
                shape.data("etcd"),
            ],
            "restart": "unless-stopped",
        },
        "kube-apiserver": {
            "image": KUBE_APISERVER_IMAGE,
            "profiles": ["stock"],
            "user": shape.user,
            "command": ["kube-apiserver", *apiserver_flags("https://etcd:2379")],
            "volumes": [
                "./deploy/ca.crt:/tls/ca/ca.crt:ro",
                "./deploy/front-proxy-ca.crt:/tls/ca/front-proxy-ca.crt:ro",
                "./deploy/tls:/tls/pairs:ro",
            ],
            "ports": published("FLEETLOG_CONTROL_PORT", 6443),
            "depends_on": {"etcd": STARTED},
            "restart": "unless-stopped",
        },
    }


def monitoring(shape: Shape) -> dict[str, Manifest]:
    """Prometheus, and Grafana whose dashboards everyone on this machine may see."""
    files = {"ca.crt": "ca.crt", **{f"tls/{SCRAPER}.{part}": f"tls/{SCRAPER}.{part}" for part in ("crt", "key")}}
    return {
        "prometheus": {
            "image": PROMETHEUS_IMAGE,
            "profiles": ["monitoring"],
            # Its certificate for the control plane is readable by this user only.
            **confined(shape),
            "tmpfs": ["/tmp:mode=1777", "/prometheus:mode=1777"],
            "volumes": [
                "./k8s/monitoring/prometheus.compose.yml:/etc/prometheus/prometheus.yml:ro",
                *(f"./k8s/monitoring/{name}.yml:/etc/prometheus/{name}.yml:ro" for name in ("alerts", "rules", "slo")),
                *shape.files(files),
            ],
            "ports": published("FLEETLOG_PROMETHEUS_PORT", 9090),
            "restart": "unless-stopped",
        },
        "grafana": {
            "image": GRAFANA_IMAGE,
            "profiles": ["monitoring"],
            "environment": {
                "GF_AUTH_ANONYMOUS_ENABLED": "true",
                "GF_AUTH_ANONYMOUS_ORG_ROLE": "Viewer",
                "GF_ANALYTICS_REPORTING_ENABLED": "false",
                "GF_ANALYTICS_CHECK_FOR_UPDATES": "false",
            },
            "volumes": [
                "./k8s/monitoring/datasource.yml:/etc/grafana/provisioning/datasources/fleetlog.yml:ro",
                "./k8s/monitoring/dashboards.yml:/etc/grafana/provisioning/dashboards/fleetlog.yml:ro",
                "./k8s/dashboards:/var/lib/grafana/dashboards:ro",
            ],
            "ports": published("FLEETLOG_GRAFANA_PORT", 3000),
            "depends_on": {"prometheus": STARTED},
            "restart": "unless-stopped",
        },
    }


def opensearch() -> Manifest:
    """A search backend for trying out."""
    return {
        "image": OPENSEARCH_IMAGE,
        "profiles": ["search"],
        "environment": {
            "discovery.type": "single-node",
            # For trying out: without a password, reached from here and from this composition only.
            "DISABLE_SECURITY_PLUGIN": "true",
            "OPENSEARCH_JAVA_OPTS": "-Xms512m -Xmx512m",
        },
        "ports": ["127.0.0.1:9200:9200"],
        "restart": "unless-stopped",
    }
