"""The written files of both charts; manifests of the first one are links to those of kustomize."""

from __future__ import annotations

import json
from importlib.metadata import version
from typing import Final

from k8s.agent_signer import NAME as SIGNING
from k8s.packaging.value_schemas import agent_schema, schema, settings
from k8s.shared import Manifest
from schemas.topology import SERVICES
from services._rules.kubernetes.rbac.service_roles import dns
from services.cli.installation.certificate_files import NAMESPACE, servers
from services.cli.registration.agent_manifests import AgentPlan, agent_objects

CERTIFIED: Final = {
    "nats": "fleetlog-nats-tls",
    "gateway": "fleetlog-gateway-tls",
    "search": "fleetlog-search-tls",
    "webhook": "fleetlog-webhook",
}
"""Servers whose certificates cert-manager may make, and the Secrets that these are written to."""
_AGENT: Final = AgentPlan(
    cluster="CLUSTER-OF-AGENT",
    namespace="NAMESPACE",
    url="URL",
    identity="IDENTITY",
    signed=True,
    authority="AUTHORITY",
    requests="REQUESTS",
)
"""Its texts stand for values."""


def chart(name: str, description: str) -> Manifest:
    """The head of a chart: it has the version of what it installs."""
    present = version("fleetlog")
    return {
        "apiVersion": "v2",
        "name": name,
        "description": description,
        "type": "application",
        "version": present,
        "appVersion": present,
        "kubeVersion": ">=1.27.0-0",
    }


def certificates() -> list[Manifest]:
    """Certificates for the names that `fleetlog certs` would put into its own."""
    return [
        {
            "apiVersion": "cert-manager.io/v1",
            "kind": "Certificate",
            "metadata": {"name": secret},
            "spec": {
                "secretName": secret,
                "dnsNames": sorted({*servers(NAMESPACE)[name], "localhost"}),
                "ipAddresses": ["127.0.0.1"],
                "privateKey": {"algorithm": "ECDSA", "rotationPolicy": "Always"},
                # Servers of the log are clients of each other.
                "usages": ["digital signature", "server auth", "client auth"],
            },
        }
        for name, secret in CERTIFIED.items()
    ]


def charts() -> dict[str, list[Manifest] | str]:
    """Objects or text by the path below the repository."""
    return {
        "k8s/charts/fleetlog/Chart.yaml": [chart("fleetlog", "Services of Fleetlog, its log and a control plane")],
        "k8s/charts/fleetlog/values.schema.json": _json(schema()),
        "k8s/charts/fleetlog/files/certificates.yaml": certificates(),
        # Which variables of all services each of them knows: it would refuse to start with another one.
        "k8s/charts/fleetlog/files/settings.json": _json(
            {**{dns(name): " ".join(settings([name])) for name in SERVICES}, SIGNING: ""}
        ),
        "k8s/charts/fleetlog-agent/Chart.yaml": [chart("fleetlog-agent", "The agent of a pull member of Fleetlog")],
        "k8s/charts/fleetlog-agent/values.schema.json": _json(agent_schema()),
        "k8s/charts/fleetlog-agent/files/agent.yaml": agent_objects(_AGENT),
    }


def _json(document: Manifest) -> str:
    return json.dumps(document, indent=2) + "\n"
