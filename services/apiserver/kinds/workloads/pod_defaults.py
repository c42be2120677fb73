"""Defaults of pods and pod templates."""

from __future__ import annotations

import re

from schemas.manifest import Manifest
from services._rules.kubernetes import quantity
from services.apiserver.kinds.defaults import Defaults

_FILE_MODE = {"defaultMode": 0o644}
_FIELD_REF = {"fieldRef?": {"apiVersion": "v1"}}
_HTTP = {"httpGet?": {"path": "/", "scheme": "HTTP"}, "grpc?": {"service": ""}}
_PROBE = {**_HTTP, "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}


# A host, known by a dot, a port or its name; parts of the path in small letters; a tag.
_IMAGE = re.compile(
    r"(?:(?:localhost|(?=[^/]*[.:])[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?)(?::[0-9]+)?/)?"
    r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*"
    r"(?::\w[\w.-]{0,127})?",
    re.ASCII,
)
_IDENTIFIER = re.compile("[a-f0-9]{64}")
_NAME_LENGTH = 255  # of a name in full, with the host and the folder that stand for none
_HUB = "docker.io/"


def _pull_policy(container: Manifest) -> None:
    if "imagePullPolicy" not in container:
        container["imagePullPolicy"] = _policy_of(container.get("image", ""))


def _policy_of(image: str) -> str:
    return "Always" if _tag(image) == "latest" else "IfNotPresent"


def _tag(image: str) -> str:
    """The tag of an image; empty for one with a digest, and for what is no name of an image."""
    if "@" in image or not _IMAGE.fullmatch(image) or _IDENTIFIER.fullmatch(image):
        return ""
    folder, slash, last = image.rpartition("/")
    name, _, tag = last.partition(":")
    host = folder.partition("/")[0]
    if not slash:
        folder = f"{_HUB}library"
    elif host != "localhost" and "." not in host and ":" not in host:
        folder = f"{_HUB}{folder}"
    return "" if len(folder) + 1 + len(name) > _NAME_LENGTH else tag or "latest"


def round_amounts(amounts: Manifest) -> None:
    """Round amounts up to thousandths, the finest that pods are given."""
    for name, value in amounts.items():
        # A canonical amount below a thousandth ends with one of these suffixes or has such an exponent.
        if value[-1:] in ("n", "u") or "e-" in value:
            found = quantity.parse(value)
            amounts[name] = str(quantity.from_milli(found.milli_value(), found.format))


_CONTAINER = Defaults(
    {
        "resources": {"limits?": round_amounts, "requests?": round_amounts},
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
        "overhead?": round_amounts,
    }
)
"""Defaults of a pod spec as it stands in a template."""


def template(value: Manifest) -> None:
    """Fill in a pod template's spec."""
    value.setdefault("metadata", {})
    spec(value.setdefault("spec", {"containers": None}))


def pod(value: Manifest) -> None:
    """Fill in what is defaulted for pods only, not for templates."""
    value.setdefault("enableServiceLinks", True)
    for volume in value.get("volumes") or ():
        if image := volume.get("image"):
            image.setdefault("pullPolicy", _policy_of(image.get("reference", "")))
    for name in ("initContainers", "containers"):
        for item in value.get(name) or ():
            limits = item.get("resources", {}).get("limits")
            if limits:
                requests = item["resources"].setdefault("requests", {})
                for resource, amount in limits.items():
                    requests.setdefault(resource, amount)
