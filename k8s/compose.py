"""compose.yaml: the same services on one machine with a container engine."""

from __future__ import annotations

from k8s.shared import (
    API,
    ETCD_IMAGE,
    FRONTS,
    HTTP,
    IMAGE,
    KUBE_APISERVER_IMAGE,
    NATS_NODES,
    RUN,
    SECRETS_KEYS,
    WITH_API,
    Manifest,
    apiserver_flags,
    dns,
    environment,
    etcd_flags,
)
from schemas.topology import OPTIONAL, SERVICES, WITHOUT_LOG
from services.cli.installation.certificate_files import AGENTS, AUTHORIZATION, SEED, WITH_CONTROL
from services.cli.secrets.secret_keys import READERS


def compose() -> Manifest:
    """The same on one machine with a container engine."""
    nats = ",".join(f"tls://nats-{number}:4222" for number in range(1, NATS_NODES + 1))
    health = {"interval": "5s", "timeout": "3s", "retries": 12}
    user = "${FLEETLOG_USER:-1000:1000}"
    services: dict[str, Manifest] = {}
    for number in range(1, NATS_NODES + 1):
        services[f"nats-{number}"] = {
            "image": "nats:2.15.1",
            # For commands and observers on this machine; the certificate covers 127.0.0.1.
            **({"ports": ["127.0.0.1:4222:4222"]} if number == 1 else {}),
            "user": user,
            "command": ["-c", "/etc/nats/nats.conf", "--name", f"nats-{number}"],
            "volumes": [
                "./k8s/nats.compose.conf:/etc/nats/nats.conf:ro",
                # The directory, because a file that is replaced stays the old one in a container.
                "./deploy/nats:/etc/nats/accounts:ro",
                "./deploy/ca.crt:/tls/ca.crt:ro",
                "./deploy/tls/nats.crt:/tls/tls.crt:ro",
                "./deploy/tls/nats.key:/tls/tls.key:ro",
                f"./deploy/data/nats-{number}:/data",
            ],
            "restart": "unless-stopped",
        }
    services["etcd"] = {
        "image": ETCD_IMAGE,
        "profiles": ["stock"],
        "user": user,
        "command": etcd_flags("etcd"),
        "volumes": [
            "./deploy/ca.crt:/tls/ca.crt:ro",
            "./deploy/tls/etcd.crt:/tls/etcd.crt:ro",
            "./deploy/tls/etcd.key:/tls/etcd.key:ro",
            "./deploy/data/etcd:/data",
        ],
        "restart": "unless-stopped",
    }
    services["kube-apiserver"] = {
        "image": KUBE_APISERVER_IMAGE,
        "profiles": ["stock"],
        "user": user,
        "command": ["kube-apiserver", *apiserver_flags("https://etcd:2379")],
        "volumes": [
            "./deploy/ca.crt:/tls/ca/ca.crt:ro",
            "./deploy/front-proxy-ca.crt:/tls/ca/front-proxy-ca.crt:ro",
            "./deploy/tls:/tls/pairs:ro",
        ],
        "ports": ["127.0.0.1:6443:6443"],
        "depends_on": {"etcd": {"condition": "service_started"}},
        "restart": "unless-stopped",
    }
    services["embedded"] = {
        "image": IMAGE,
        "build": ".",
        "profiles": ["embedded"],
        "user": user,
        "command": ["services.apiserver"],
        "env_file": ["deploy/apiserver.env"],
        "environment": {
            "SSL_CERT_FILE": f"{RUN}/authority/ca.crt",
            "FLEETLOG_APISERVER_HOST": "0.0.0.0",
            "FLEETLOG_APISERVER_DATA_DIR": f"{RUN}/authority",
            "FLEETLOG_APISERVER_TLS_NAMES": "kube-apiserver",
            "FLEETLOG_APISERVER_AUTHORIZATION": AUTHORIZATION,
            "FLEETLOG_APISERVER_SERVICE_ROLES": "1",
            "FLEETLOG_SECRETS_KEY_FILE": SECRETS_KEYS,
        },
        "volumes": [f"./deploy/authority:{RUN}/authority", f"./deploy/secrets-keys.json:{SECRETS_KEYS}:ro"],
        "networks": {"default": {"aliases": ["kube-apiserver"]}},
        "ports": ["127.0.0.1:6443:6443"],
        "depends_on": {f"nats-{number}": {"condition": "service_started"} for number in range(1, NATS_NODES + 1)},
        "restart": "unless-stopped",
    }
    for service in SERVICES:
        probe = f"import urllib.request as r; r.urlopen('http://127.0.0.1:{HTTP}/readyz', timeout=2)"
        entry: Manifest = {
            "image": IMAGE,
            "build": ".",
            "user": user,
            "command": [f"services.{service}"],
            "environment": environment(service, nats),
            "volumes": _volumes(service),
            "read_only": True,
            "cap_drop": ["ALL"],
            "security_opt": ["no-new-privileges:true"],
            "healthcheck": {"test": ["CMD", "python", "-c", probe], **health},
            "depends_on": {f"nats-{number}": {"condition": "service_started"} for number in range(1, NATS_NODES + 1)},
            "restart": "unless-stopped",
        }
        if service in WITHOUT_LOG:
            # The embedded API server needs no other to admit.
            entry["profiles"] = ["stock"]
            del entry["depends_on"]
        if service in OPTIONAL:
            entry["profiles"] = [dns(service)]
        if service == "gateway":
            entry["ports"] = [f"127.0.0.1:{API}:{API}"]
        services[dns(service)] = entry
    services["opensearch"] = {
        "image": "opensearchproject/opensearch:3.3.0",
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
    services["agent"] = _agent(nats, user)
    services["prometheus"] = {
        "image": "prom/prometheus:v3.1.0",
        "volumes": [
            "./k8s/monitoring/prometheus.compose.yml:/etc/prometheus/prometheus.yml:ro",
            "./k8s/monitoring/alerts.yml:/etc/prometheus/alerts.yml:ro",
        ],
        "ports": ["127.0.0.1:9090:9090"],
        "restart": "unless-stopped",
    }
    services["grafana"] = {
        "image": "grafana/grafana:11.4.0",
        "volumes": [
            "./k8s/monitoring/datasource.yml:/etc/grafana/provisioning/datasources/fleetlog.yml:ro",
            "./k8s/monitoring/dashboards.yml:/etc/grafana/provisioning/dashboards/fleetlog.yml:ro",
            "./k8s/dashboards:/var/lib/grafana/dashboards:ro",
        ],
        "ports": ["127.0.0.1:3000:3000"],
        "depends_on": {"prometheus": {"condition": "service_started"}},
        "restart": "unless-stopped",
    }
    return {"name": "fleetlog", "services": services}


def _agent(nats: str, user: str) -> Manifest:
    """The agent of one pull member, by the name of its cluster in FLEETLOG_AGENT."""
    cluster = "${FLEETLOG_AGENT:-member}"
    return {
        "image": IMAGE,
        "build": ".",
        "profiles": ["pull"],
        "user": user,
        "command": ["services.agent"],
        "environment": {
            "FLEETLOG_NATS_URL": nats,
            "FLEETLOG_NATS_NKEY_FILE": f"{RUN}/agent/{SEED}",
            "FLEETLOG_TLS_CA": f"{RUN}/log/ca.crt",
            "FLEETLOG_HTTP_HOST": "0.0.0.0",
            "FLEETLOG_HTTP_PORT": str(HTTP),
            "FLEETLOG_AGENT_CLUSTER": cluster,
            "FLEETLOG_AGENT_KUBECONFIG": f"{RUN}/agent/kubeconfig",
            "FLEETLOG_AGENT_DATA_DIR": "/data",
            "FLEETLOG_AGENT_REQUESTS": "${FLEETLOG_AGENT_REQUESTS:-}",
        },
        "volumes": [
            f"./deploy/ca.crt:{RUN}/log/ca.crt:ro",
            f"./deploy/{AGENTS}/{cluster}:{RUN}/agent:ro",
            f"./deploy/data/agent-{cluster}:/data",
        ],
        "read_only": True,
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "depends_on": {f"nats-{number}": {"condition": "service_started"} for number in range(1, NATS_NODES + 1)},
        "restart": "unless-stopped",
    }


def _volumes(service: str) -> list[str]:
    files = {} if service in WITHOUT_LOG else {"log/ca.crt": "ca.crt", "log/hub.password": "hub.password"}
    if service in WITH_CONTROL:
        files["control/kubeconfig"] = f"kubeconfigs/{service}"
    if service in READERS:
        files["secrets/secrets-keys.json"] = "secrets-keys.json"
    if service in WITH_API:
        files |= {f"{service}/tls.{part}": f"tls/{service}.{part}" for part in ("crt", "key")}
    if service in FRONTS:
        files |= {
            f"{service}/tokens": "gateway.tokens",
            f"{service}/front-proxy-ca.crt": "front-proxy-ca.crt",
        }
    return [f"./deploy/{source}:{RUN}/{target}:ro" for target, source in files.items()]
