"""What compositions and manifests say alike: settings and files of every service, flags of a stock API server."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from schemas.topology import WITHOUT_LOG
from services._rules.identity.service_rights import inbox_prefix
from services._rules.kubernetes.rbac.role_index import GROUP
from services.cli.installation.certificate_files import NAMESPACE, PASSWORDS, WITH_CONTROL
from services.cli.secrets.secret_keys import READERS

ROOT: Final = Path(__file__).parents[1]
IMAGE: Final = "fleetlog:0.1.0"
HTTP: Final = 8080
API: Final = 8443
NATS_NODES: Final = 3
WITH_API: Final = ("gateway", "search", "webhook")
"""Services that listen for a control plane."""
FRONTS: Final = ("gateway", "search")
"""Those that answer the control plane's own clients."""
RUN: Final = "/run/fleetlog"
SECRETS_KEYS: Final = f"{RUN}/secrets/secrets-keys.json"
Manifest = dict[str, Any]


def log_files(service: str) -> dict[str, str]:
    """What a service needs for the log: files below RUN, by those that `fleetlog certs` makes."""
    return {} if service in WITHOUT_LOG else {"log/ca.crt": "ca.crt", "log/password": f"{PASSWORDS}/{service}"}


def environment(service: str, nats: str) -> dict[str, str]:
    """Settings of a service; the same files lie at the same places in a container and in a pod."""
    log = {
        "FLEETLOG_NATS_URL": nats,
        "FLEETLOG_NATS_USER": service,
        "FLEETLOG_NATS_PASSWORD_FILE": f"{RUN}/log/password",
        "FLEETLOG_NATS_INBOX_PREFIX": inbox_prefix(service),
        "FLEETLOG_TLS_CA": f"{RUN}/log/ca.crt",
    }
    settings = {
        **({} if service in WITHOUT_LOG else log),
        "FLEETLOG_HTTP_HOST": "0.0.0.0",
        "FLEETLOG_HTTP_PORT": str(HTTP),
    }
    if service in WITH_CONTROL:
        settings["FLEETLOG_CONTROL_KUBECONFIG"] = f"{RUN}/control/kubeconfig"
    if service in READERS:
        settings["FLEETLOG_SECRETS_KEY_FILE"] = SECRETS_KEYS
    if service in FRONTS:
        settings |= {
            "FLEETLOG_API_HOST": "0.0.0.0",
            "FLEETLOG_API_PORT": str(API),
            "FLEETLOG_SERVING_CERT": f"{RUN}/{service}/tls.crt",
            "FLEETLOG_SERVING_KEY": f"{RUN}/{service}/tls.key",
            "FLEETLOG_TOKEN_FILE": f"{RUN}/{service}/tokens",
            "FLEETLOG_FRONT_PROXY_CA": f"{RUN}/{service}/front-proxy-ca.crt",
            "FLEETLOG_FRONT_PROXY_NAMES": "front-proxy-client",
        }
    if service == "webhook":
        settings |= {
            "FLEETLOG_API_HOST": "0.0.0.0",
            "FLEETLOG_API_PORT": str(API),
            "FLEETLOG_SERVING_CERT": f"{RUN}/webhook/tls.crt",
            "FLEETLOG_SERVING_KEY": f"{RUN}/webhook/tls.key",
            # While its address is taken out of the Service, API servers still ask.
            "FLEETLOG_DRAIN_SECONDS": "5",
        }
    if service == "detector":
        # One service makes the streams; the others wait until they are there.
        settings |= {"FLEETLOG_APPLY_TOPOLOGY": "true", "FLEETLOG_TOPOLOGY_REPLICAS": str(NATS_NODES)}
    return settings


def apiserver_flags(etcd: str) -> list[str]:
    """Flags of a stock kube-apiserver as control plane; nothing but it and etcd has to run."""
    pairs = "/tls/pairs"
    return [
        f"--etcd-servers={etcd}",
        "--etcd-cafile=/tls/ca/ca.crt",
        f"--etcd-certfile={pairs}/etcd-client.crt",
        f"--etcd-keyfile={pairs}/etcd-client.key",
        "--client-ca-file=/tls/ca/ca.crt",
        f"--tls-cert-file={pairs}/kube-apiserver.crt",
        f"--tls-private-key-file={pairs}/kube-apiserver.key",
        "--authorization-mode=RBAC",
        # Clusters that register themselves come with such a token.
        "--enable-bootstrap-token-auth",
        "--service-account-issuer=https://kube-apiserver",
        f"--service-account-key-file={pairs}/service-accounts.crt",
        f"--service-account-signing-key-file={pairs}/service-accounts.key",
        "--requestheader-client-ca-file=/tls/ca/front-proxy-ca.crt",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={pairs}/front-proxy.crt",
        f"--proxy-client-key-file={pairs}/front-proxy.key",
        # Nothing schedules pods or fills in accounts here: templates are not run in the control plane.
        "--disable-admission-plugins=ServiceAccount,LimitRanger,ResourceQuota,DefaultStorageClass",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--event-ttl=1h",
    ]


def etcd_flags(host: str) -> list[str]:
    """The command of an etcd that only the API server may talk to."""
    return [
        "etcd",
        "--data-dir=/data",
        "--listen-client-urls=https://0.0.0.0:2379",
        f"--advertise-client-urls=https://{host}:2379",
        "--cert-file=/tls/etcd.crt",
        "--key-file=/tls/etcd.key",
        "--trusted-ca-file=/tls/ca.crt",
        "--client-cert-auth",
    ]


def host_account(metadata: Manifest, rules: list[Manifest]) -> list[Manifest]:
    """The account of pods that work in the cluster they run in, named by `metadata`, and what it may do there."""
    name, api = metadata["name"], f"{GROUP}/v1"
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata, "automountServiceAccountToken": False},
        {"apiVersion": api, "kind": "Role", "metadata": metadata, "rules": rules},
        {
            "apiVersion": api,
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": GROUP, "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}],
        },
    ]


def network_policy(metadata: Manifest, *, egress: list[Manifest], ingress: list[Manifest] | None = None) -> Manifest:
    """What may reach the pods with the labels of `metadata`, nothing if None, and what they may reach besides names."""
    allowed = {} if ingress is None else {"ingress": ingress}
    names = {"ports": [{"protocol": protocol, "port": 53} for protocol in ("UDP", "TCP")]}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata,
        "spec": {
            "podSelector": {"matchLabels": metadata["labels"]},
            "policyTypes": ["Ingress", "Egress"],
            **allowed,
            "egress": [names, *egress],
        },
    }
