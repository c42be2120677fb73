"""Defaults of pods and pod templates."""

from __future__ import annotations

from schemas.manifest import Manifest
from services.apiserver.kinds.defaults import Defaults

_FILE_MODE = {"defaultMode": 0o644}
_FIELD_REF = {"fieldRef?": {"apiVersion": "v1"}}
_HTTP = {"httpGet?": {"path": "/", "scheme": "HTTP"}, "grpc?": {"service": ""}}
_PROBE = {**_HTTP, "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}


def _pull_policy(container: Manifest) -> None:
    if "imagePullPolicy" not in container:
        container["imagePullPolicy"] = "Always" if _tag(container.get("image", "")) == "latest" else "IfNotPresent"


def _tag(image: str) -> str:
    if "@" in image:
        return ""
    return image.rpartition("/")[2].partition(":")[2] or "latest"


_CONTAINER = Defaults(
    {
        "resources": {},
        "ports[]": {"protocol": "TCP"},
        "env[]": {"valueFrom?": _FIELD_REF},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "": _pull_policy,
        "livenessProbe?": _PROBE,
        "readinessProbe?": _PROBE,
        "startupProbe?": _PROBE,
        "lifecycle?": {"postStart?": _HTTP, "preStop?": _HTTP},
    }
)


def _account_and_host_ports(spec: Manifest) -> None:
    if account := spec.get("serviceAccountName") or spec.get("serviceAccount"):
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    if spec.get("hostNetwork"):
        for name in ("initContainers", "containers"):
            for container in spec.get(name) or ():
                for port in container.get("ports") or ():
                    if port.get("containerPort"):
                        port.setdefault("hostPort", port["containerPort"])


def _empty_dir(volume: Manifest) -> None:
    """Make a volume without a source an emptyDir."""
    if len(volume) == ("name" in volume):
        volume["emptyDir"] = {}


_SOURCES = {
    "secret?": _FILE_MODE,
    "configMap?": _FILE_MODE,
    "downwardAPI?": {**_FILE_MODE, "items[]": _FIELD_REF},
    "projected?": {
        **_FILE_MODE,
        "sources[]": {
            "serviceAccountToken?": {"expirationSeconds": 3600},
            "downwardAPI?": {"items[]": _FIELD_REF},
        },
    },
    "hostPath?": {"type": ""},
    "iscsi?": {"iscsiInterface": "default"},
    "rbd?": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "azureDisk?": {"cachingMode": "ReadWrite", "kind": "Shared", "fsType": "ext4", "readOnly": False},
    "scaleIO?": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
    "ephemeral?": {"volumeClaimTemplate?": {"spec": {"volumeMode": "Filesystem"}}},
}
volume_source = Defaults(_SOURCES)
"""Defaults of the sources that pods and persistent volumes share."""
spec = Defaults(
    {
        "": _account_and_host_ports,
        "initContainers[]": _CONTAINER,
        "containers[]": _CONTAINER,
        "ephemeralContainers[]": _CONTAINER,
        "volumes[]": {"": _empty_dir, **_SOURCES},
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
    }
)
"""Defaults of a pod spec as it stands in a template."""


def template(value: Manifest) -> None:
    """Fill in a pod template's spec."""
    value.setdefault("metadata", {"creationTimestamp": None})
    spec(value.setdefault("spec", {"containers": None}))


def pod(value: Manifest) -> None:
    """Fill in what is defaulted for pods only, not for templates."""
    value.setdefault("enableServiceLinks", True)
    for name in ("initContainers", "containers"):
        for item in value.get(name) or ():
            limits = item.get("resources", {}).get("limits")
            if limits:
                requests = item["resources"].setdefault("requests", {})
                for resource, amount in limits.items():
                    requests.setdefault(resource, amount)
