"""Writes compose.yaml and the manifests of every service: `python -m k8s.generate`.

Written by hand are the image, the log's servers (k8s/base/nats.yaml, k8s/nats.compose.conf) and what Grafana is told.
"""

from __future__ import annotations

from typing import Final

import yaml

from k8s.compose import compose
from k8s.manifests import control_plane, manifests
from k8s.shared import HTTP, ROOT, Manifest, dns
from k8s.stock import etcd, kube_apiserver
from schemas.topology import SERVICES
from services.cli.installation.certificate_files import NAMESPACE

HEADER: Final = "# Written by k8s/generate.py.\n"


class _Dumper(yaml.SafeDumper):
    """Writes equal parts out again instead of referring to them."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _text(*documents: Manifest) -> str:
    return HEADER + yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, width=118)


def scrapes() -> Manifest:
    """Prometheus in compose: every service by its name."""
    jobs = [{"job_name": service, "static_configs": [{"targets": [f"{dns(service)}:{HTTP}"]}]} for service in SERVICES]
    return {"global": {"scrape_interval": "15s"}, "rule_files": ["alerts.yml"], "scrape_configs": jobs}


def documents() -> dict[str, str]:
    """Every generated file by its path below the repository."""
    base = ["namespace.yaml", "nats.yaml", *(f"{dns(service)}.yaml" for service in SERVICES)]
    kustomization: Manifest = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": NAMESPACE,
        "resources": base,
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
    control = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": ["rbac.yaml"],
    }
    return {
        "compose.yaml": _text(compose()),
        "k8s/base/kustomization.yaml": _text(kustomization),
        "k8s/base/namespace.yaml": _text(namespace),
        **{f"k8s/base/{dns(service)}.yaml": _text(*manifests(service)) for service in SERVICES},
        "k8s/control-plane/kustomization.yaml": _text(control),
        "k8s/control-plane/rbac.yaml": _text(*control_plane()),
        "k8s/overlays/stock/etcd.yaml": _text(*etcd()),
        "k8s/overlays/stock/kube-apiserver.yaml": _text(*kube_apiserver()),
        "k8s/overlays/stock/kustomization.yaml": _text(overlay),
        # What `karmadactl init` installs.
        "services/cli/hosting/manifests.yaml": _text(
            *yaml.safe_load_all((ROOT / "k8s/base/nats.yaml").read_text(encoding="utf-8")),
            *etcd(),
            *kube_apiserver(),
            *(manifest for service in SERVICES for manifest in manifests(service)),
        ),
        "k8s/monitoring/prometheus.compose.yml": _text(scrapes()),
    }


if __name__ == "__main__":
    for path, text in documents().items():
        (ROOT / path).write_text(text, encoding="utf-8")
