"""What prometheus-operator needs to scrape Fleetlog and to take over its rules."""

from __future__ import annotations

from typing import Any, Final

import yaml

from k8s.shared import ROOT, Manifest
from k8s.slo import rules
from services.cli.installation.certificate_files import NAMESPACE

WRITTEN: Final = ("alerts.yml", "rules.yml")
"""Files of rules that are written by hand, in k8s/monitoring."""
_LABELS: Final = {"app.kubernetes.io/name": "fleetlog", "app.kubernetes.io/part-of": "fleetlog"}


def pod_monitor() -> Manifest:
    """All pods of Fleetlog: jobs are named by service, and the namespace tells installations apart.

    Labels of metrics count: one that has its own `namespace` means that of an object.
    """
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PodMonitor",
        "metadata": {"name": "fleetlog", "labels": _LABELS},
        "spec": {
            "selector": {"matchLabels": {"app.kubernetes.io/part-of": "fleetlog"}},
            "podMetricsEndpoints": [
                {
                    "port": "http",
                    "path": "/metrics",
                    "interval": "15s",
                    "honorLabels": True,
                    "relabelings": [
                        {"sourceLabels": ["__meta_kubernetes_pod_label_app_kubernetes_io_name"], "targetLabel": "job"},
                        {"sourceLabels": ["__meta_kubernetes_pod_name"], "targetLabel": "instance"},
                        {"sourceLabels": ["__meta_kubernetes_namespace"], "targetLabel": "installation"},
                    ],
                }
            ],
        },
    }


def prometheus_rules() -> list[Manifest]:
    """Every file of rules as an object."""
    files: dict[str, Any] = {
        name.removesuffix(".yml"): yaml.safe_load((ROOT / "k8s/monitoring" / name).read_text(encoding="utf-8"))
        for name in WRITTEN
    }
    return [
        {
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "PrometheusRule",
            "metadata": {"name": f"fleetlog-{name}", "labels": _LABELS},
            "spec": content,
        }
        for name, content in {**files, "slo": rules()}.items()
    ]


def kustomization() -> Manifest:
    """Both in the namespace of Fleetlog."""
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": NAMESPACE,
        "resources": ["pod-monitor.yaml", "prometheus-rules.yaml"],
    }
