"""Writes the compositions and the manifests of every service: `python -m k8s.generate`.

Written by hand are the image, the log's servers (k8s/base/nats.yaml, k8s/nats.*.conf), what Grafana is told, and the
templates and values of the charts, whose manifests are links to those of kustomize.
"""

from __future__ import annotations

from typing import Final

import yaml

from k8s.agent_signer import NAME as SIGNING
from k8s.agent_signer import reached_by_node_ports, signing
from k8s.compose import compose, development
from k8s.manifests import control_plane, control_plane_accounts, manifests
from k8s.packaging.chart_files import charts
from k8s.prometheus_operator import kustomization as operator_kustomization
from k8s.prometheus_operator import pod_monitor, prometheus_rules
from k8s.renewal import NAME as RENEWAL
from k8s.renewal import renewal
from k8s.shapes import HIGHLY_AVAILABLE, LOCAL
from k8s.shared import HTTP, ROOT, RUN, Manifest
from k8s.slo import rules as slo_rules
from k8s.stock import etcd, kube_apiserver
from schemas.topology import SERVICES
from services._rules.kubernetes.rbac.service_roles import SCRAPER, dns
from services.cli.installation.certificate_files import NAMESPACE

HEADER: Final = "# Written by k8s/generate.py.\n"


class _Dumper(yaml.SafeDumper):
    """Writes equal parts out again instead of referring to them."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _text(*documents: Manifest) -> str:
    return HEADER + yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, width=118)


def scrapes() -> Manifest:
    """Prometheus in compose: every instance of every service, and the control plane where it is the embedded one."""

    def instances(name: str, port: int) -> list[Manifest]:
        return [{"names": [name], "type": "A", "port": port}]

    jobs: list[Manifest] = [
        {"job_name": service, "dns_sd_configs": instances(dns(service), HTTP)} for service in (*SERVICES, "agent")
    ]
    control: Manifest = {
        "job_name": "control",
        "scheme": "https",
        "tls_config": {
            "ca_file": f"{RUN}/ca.crt",
            "cert_file": f"{RUN}/tls/{SCRAPER}.crt",
            "key_file": f"{RUN}/tls/{SCRAPER}.key",
            "server_name": "kube-apiserver",
        },
        "dns_sd_configs": instances("embedded", 6443),
    }
    jobs.append(control)
    return {
        "global": {"scrape_interval": "15s"},
        "rule_files": ["alerts.yml", "rules.yml", "slo.yml"],
        "scrape_configs": jobs,
    }


def documents() -> dict[str, str]:
    """Every generated file by its path below the repository."""
    parts = ("namespace", "nats", *map(dns, SERVICES), RENEWAL, SIGNING)
    kustomization: Manifest = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": NAMESPACE,
        "resources": [f"{part}.yaml" for part in parts],
    }
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
    }
    overlay = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": NAMESPACE,
        "resources": ["../../base", "etcd.yaml", "kube-apiserver.yaml"],
    }
    node_ports = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": NAMESPACE,
        "resources": ["../stock"],
        "patches": reached_by_node_ports(),
    }
    control = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": ["rbac.yaml"],
    }
    return {
        "compose.yaml": _text(compose(LOCAL)),
        "compose.dev.yaml": _text(development()),
        "compose.ha.yaml": _text(compose(HIGHLY_AVAILABLE)),
        "k8s/base/kustomization.yaml": _text(kustomization),
        "k8s/base/namespace.yaml": _text(namespace),
        **{f"k8s/base/{dns(service)}.yaml": _text(*manifests(service)) for service in SERVICES},
        f"k8s/base/{RENEWAL}.yaml": _text(*renewal()),
        f"k8s/base/{SIGNING}.yaml": _text(*signing()),
        "k8s/control-plane/kustomization.yaml": _text(control),
        "k8s/control-plane/rbac.yaml": _text(*control_plane()),
        "k8s/control-plane/service-accounts.yaml": _text(*control_plane_accounts()),
        "k8s/overlays/node-ports/kustomization.yaml": _text(node_ports),
        "k8s/overlays/stock/etcd.yaml": _text(*etcd()),
        "k8s/overlays/stock/kube-apiserver.yaml": _text(*kube_apiserver()),
        "k8s/overlays/stock/kustomization.yaml": _text(overlay),
        # What `karmadactl init` installs.
        "services/cli/hosting/manifests.yaml": _text(
            *yaml.safe_load_all((ROOT / "k8s/base/nats.yaml").read_text(encoding="utf-8")),
            *etcd(),
            *kube_apiserver(),
            *(manifest for service in SERVICES for manifest in manifests(service)),
            *renewal(),
            *signing(),
        ),
        **{path: made if isinstance(made, str) else _text(*made) for path, made in charts().items()},
        "k8s/monitoring/prometheus.compose.yml": _text(scrapes()),
        "k8s/monitoring/slo.yml": _text(slo_rules()),
        "k8s/monitoring/operator/kustomization.yaml": _text(operator_kustomization()),
        "k8s/monitoring/operator/pod-monitor.yaml": _text(pod_monitor()),
        "k8s/monitoring/operator/prometheus-rules.yaml": _text(*prometheus_rules()),
    }


if __name__ == "__main__":
    for path, text in documents().items():
        (ROOT / path).write_text(text, encoding="utf-8")
