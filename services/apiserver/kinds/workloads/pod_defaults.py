"""Defaults of pods and pod templates."""

from __future__ import annotations

from schemas.manifest import Manifest

FILE_MODE = 0o644
TOKEN_SECONDS = 3600


def template(value: Manifest) -> None:
    """Fill in a pod template's spec."""
    value.setdefault("metadata", {"creationTimestamp": None})
    spec(value.setdefault("spec", {"containers": None}))


def spec(value: Manifest) -> None:
    """Fill in a pod spec as it stands in a template."""
    account = value.get("serviceAccountName") or value.get("serviceAccount")
    if account:
        value["serviceAccountName"] = value["serviceAccount"] = account
    host_network = value.get("hostNetwork", False)
    for name in ("initContainers", "containers", "ephemeralContainers"):
        for item in value.get(name) or ():
            container(item, host_network=host_network and name != "ephemeralContainers")
    for item in value.get("volumes") or ():
        volume(item)
    value.setdefault("restartPolicy", "Always")
    value.setdefault("terminationGracePeriodSeconds", 30)
    value.setdefault("dnsPolicy", "ClusterFirst")
    value.setdefault("securityContext", {})
    value.setdefault("schedulerName", "default-scheduler")


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


def container(value: Manifest, *, host_network: bool = False) -> None:
    """Fill in a container."""
    value.setdefault("resources", {})
    for port in value.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if host_network and port.get("containerPort"):
            port.setdefault("hostPort", port["containerPort"])
    for variable in value.get("env") or ():
        _field_ref(variable.get("valueFrom") or {})
    value.setdefault("terminationMessagePath", "/dev/termination-log")
    value.setdefault("terminationMessagePolicy", "File")
    if "imagePullPolicy" not in value:
        value["imagePullPolicy"] = "Always" if _tag(value.get("image", "")) == "latest" else "IfNotPresent"
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if name in value:
            _probe(value[name])
    for handler in (value.get("lifecycle") or {}).values():
        if isinstance(handler, dict):
            _http(handler)


def _tag(image: str) -> str:
    if "@" in image:
        return ""
    return image.rpartition("/")[2].partition(":")[2] or "latest"


def _probe(value: Manifest) -> None:
    _http(value)
    value.setdefault("timeoutSeconds", 1)
    value.setdefault("periodSeconds", 10)
    value.setdefault("successThreshold", 1)
    value.setdefault("failureThreshold", 3)


def _http(handler: Manifest) -> None:
    if http := handler.get("httpGet"):
        http.setdefault("path", "/")
        http.setdefault("scheme", "HTTP")
    if "grpc" in handler:
        handler["grpc"].setdefault("service", "")


def _field_ref(source: Manifest) -> None:
    if "fieldRef" in source:
        source["fieldRef"].setdefault("apiVersion", "v1")


_SOURCE_DEFAULTS: dict[str, Manifest] = {
    "secret": {"defaultMode": FILE_MODE},
    "configMap": {"defaultMode": FILE_MODE},
    "downwardAPI": {"defaultMode": FILE_MODE},
    "projected": {"defaultMode": FILE_MODE},
    "hostPath": {"type": ""},
    "iscsi": {"iscsiInterface": "default"},
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "azureDisk": {"cachingMode": "ReadWrite", "kind": "Shared", "fsType": "ext4", "readOnly": False},
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
}


def volume(value: Manifest) -> None:
    """Fill in a volume; one without a source is an emptyDir."""
    if len(value) == ("name" in value):
        value["emptyDir"] = {}
    volume_source(value)
    for item in value.get("downwardAPI", {}).get("items") or ():
        _field_ref(item)
    for source in value.get("projected", {}).get("sources") or ():
        if "serviceAccountToken" in source:
            source["serviceAccountToken"].setdefault("expirationSeconds", TOKEN_SECONDS)
        for item in source.get("downwardAPI", {}).get("items") or ():
            _field_ref(item)
    claim = value.get("ephemeral", {}).get("volumeClaimTemplate")
    if claim:
        claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")


def volume_source(value: Manifest) -> None:
    """Fill in the sources that pods and persistent volumes share."""
    for name, defaults in _SOURCE_DEFAULTS.items():
        if name in value:
            for key, default in defaults.items():
                value[name].setdefault(key, default)
