"""Images of other projects that the compositions and the overlay run: at one place, to be pinned or mirrored."""

from __future__ import annotations

from typing import Final

NATS_IMAGE: Final = "nats:2.15.1"
ETCD_IMAGE: Final = "quay.io/coreos/etcd:v3.5.17"
KUBE_APISERVER_IMAGE: Final = "registry.k8s.io/kube-apiserver:v1.31.4"
OPENSEARCH_IMAGE: Final = "opensearchproject/opensearch:3.3.0"
PROMETHEUS_IMAGE: Final = "prom/prometheus:v3.1.0"
GRAFANA_IMAGE: Final = "grafana/grafana:11.4.0"
