"""The manifests of what renews certificates in the Secrets of an installation."""

from __future__ import annotations

from typing import Final

from k8s.shared import IMAGE, RUN, Manifest, host_account, network_policy
from services.cli.installation.certificate_files import AUTHORITY
from services.cli.registration.confined_pods import confined_container, confined_pod
from services.cli.renewal.renewed_pairs import FRONT_PROXY
from services.cli.renewal.secret_renewal import SECRETS

NAME: Final = "certificate-renewal"
AUTHORITY_SECRET: Final = "fleetlog-authority"
SCHEDULE: Final = "17 3 * * *"
"""Once a day: the last third of a certificate that lasts a week has room for two runs."""


def renewal() -> list[Manifest]:
    """A job of every day, what it may do in the cluster it runs in, and where it may connect to."""
    labels = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/part-of": "fleetlog"}
    metadata = {"name": NAME, "labels": labels}
    return [
        *host_account(
            metadata,
            [{"apiGroups": [""], "resources": ["secrets"], "resourceNames": list(SECRETS), "verbs": ["get", "update"]}],
        ),
        # The API server of the cluster that it runs in.
        network_policy(metadata, egress=[{"ports": [{"protocol": "TCP", "port": port} for port in (443, 6443)]}]),
        {
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "metadata": metadata,
            "spec": {
                "schedule": SCHEDULE,
                "concurrencyPolicy": "Forbid",
                "successfulJobsHistoryLimit": 1,
                "failedJobsHistoryLimit": 2,
                "jobTemplate": {"spec": _job(labels)},
            },
        },
    ]


def _job(labels: dict[str, str]) -> Manifest:
    certificates = [
        {"key": "ca.crt", "path": "ca.crt"},
        {"key": "ca.key", "path": "ca.key"},
        {"key": "front-proxy-ca.crt", "path": f"{FRONT_PROXY}/ca.crt"},
        {"key": "front-proxy-ca.key", "path": f"{FRONT_PROXY}/ca.key"},
    ]
    container = {
        "name": "service",
        "image": IMAGE,
        "command": ["fleetlog", "certs", "--renew", f"--out={RUN}", "--secrets=$(POD_NAMESPACE)"],
        "args": [f"--secret={name}" for name in SECRETS],
        "env": [{"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}],
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
        "securityContext": confined_container(),
        "volumeMounts": [
            {"name": "authority", "mountPath": f"{RUN}/{AUTHORITY}", "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},
        ],
    }
    pod = {
        **confined_pod(NAME, labels, token=True),
        # What a run printed can be read afterwards.
        "restartPolicy": "Never",
        "containers": [container],
        "volumes": [
            {
                "name": "authority",
                # Without it nothing is renewed, and what ends soon makes the job fail.
                "secret": {
                    "secretName": AUTHORITY_SECRET,
                    "defaultMode": 0o440,
                    "optional": True,
                    "items": certificates,
                },
            },
            {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}},
        ],
    }
    return {
        "backoffLimit": 2,
        "activeDeadlineSeconds": 600,
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
