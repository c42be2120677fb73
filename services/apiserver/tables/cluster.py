"""Table rows of cluster-wide kinds and storage: nodes, namespaces, volumes, classes, webhooks, certificates."""

import datetime as dt
from typing import Any, Final

from schemas.manifest import Manifest
from services.apiserver.tables.human import NONE, UNKNOWN, UNSET, created
from services.apiserver.tables.printer import Cell, Cells, name_of, part

_ROLE_PREFIX: Final = "node-role.kubernetes.io/"
_ACCESS: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
_CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
_DEFAULT_CLASS: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def _node(obj: Manifest, now: dt.datetime) -> Cells:
    status, info = part(obj, "status"), part(obj, "status", "nodeInfo")
    ready = next((item.get("status") for item in status.get("conditions") or () if item.get("type") == "Ready"), None)
    state = "Unknown" if ready is None else "Ready" if ready == "True" else "NotReady"
    if part(obj, "spec").get("unschedulable"):
        state += ",SchedulingDisabled"
    own = obj["metadata"].get("labels") or {}
    roles = {key.removeprefix(_ROLE_PREFIX) for key in own if key.startswith(_ROLE_PREFIX)} | {
        own.get("kubernetes.io/role", "")
    }
    return [
        name_of(obj),
        state,
        ",".join(sorted(roles - {""})) or NONE,
        created(obj, now),
        info.get("kubeletVersion", ""),
        _address(status, "InternalIP"),
        _address(status, "ExternalIP"),
        info.get("osImage") or UNKNOWN,
        info.get("kernelVersion") or UNKNOWN,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _address(status: Manifest, kind: str) -> str:
    return next((item["address"] for item in status.get("addresses") or () if item.get("type") == kind), NONE)


def _namespace(obj: Manifest, now: dt.datetime) -> Cells:
    return [name_of(obj), part(obj, "status").get("phase", ""), created(obj, now)]


def _modes(modes: Any) -> str:
    given = set(modes or ())
    return ",".join(short for name, short in _ACCESS.items() if name in given)


def _phase(obj: Manifest) -> str:
    return "Terminating" if obj["metadata"].get("deletionTimestamp") else part(obj, "status").get("phase", "")


def _storage_class_of(obj: Manifest) -> str:
    annotation = (obj["metadata"].get("annotations") or {}).get(_CLASS_ANNOTATION)
    return annotation if annotation is not None else part(obj, "spec").get("storageClassName") or ""


def _volume(obj: Manifest, now: dt.datetime) -> Cells:
    spec = part(obj, "spec")
    claim = spec.get("claimRef")
    return [
        name_of(obj),
        part(spec, "capacity").get("storage", "0"),
        _modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy", ""),
        _phase(obj),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        _storage_class_of(obj),
        part(obj, "status").get("reason", ""),
        created(obj, now),
        spec.get("volumeMode") or UNSET,
    ]


def _claim(obj: Manifest, now: dt.datetime) -> Cells:
    spec, status = part(obj, "spec"), part(obj, "status")
    volume = spec.get("volumeName") or ""
    return [
        name_of(obj),
        _phase(obj),
        volume,
        part(status, "capacity").get("storage", "0") if volume else "",
        _modes(status.get("accessModes")) if volume else "",
        _storage_class_of(obj),
        created(obj, now),
        spec.get("volumeMode") or UNSET,
    ]


def _storage_class(obj: Manifest, now: dt.datetime) -> Cells:
    notes = obj["metadata"].get("annotations") or {}
    default = any(notes.get(name) == "true" for name in _DEFAULT_CLASS)
    return [
        f"{name_of(obj)} (default)" if default else name_of(obj),
        obj.get("provisioner", ""),
        obj.get("reclaimPolicy") or "Delete",
        obj.get("volumeBindingMode") or "Immediate",
        bool(obj.get("allowVolumeExpansion")),
        created(obj, now),
    ]


def _csi_driver(obj: Manifest, now: dt.datetime) -> Cells:
    spec = part(obj, "spec")
    modes = ",".join(spec.get("volumeLifecycleModes") or ()) or NONE
    attach = spec.get("attachRequired")
    return [name_of(obj), attach is None or attach, bool(spec.get("podInfoOnMount")), modes, created(obj, now)]


def _csi_node(obj: Manifest, now: dt.datetime) -> Cells:
    return [name_of(obj), len(part(obj, "spec").get("drivers") or ()), created(obj, now)]


def _attachment(obj: Manifest, now: dt.datetime) -> Cells:
    spec = part(obj, "spec")
    volume = part(spec, "source").get("persistentVolumeName") or ""
    attached = bool(part(obj, "status").get("attached"))
    return [name_of(obj), spec.get("attacher", ""), volume, spec.get("nodeName", ""), attached, created(obj, now)]


def _attributes_class(obj: Manifest, now: dt.datetime) -> Cells:
    return [name_of(obj), obj.get("driverName", ""), created(obj, now)]


def _runtime_class(obj: Manifest, now: dt.datetime) -> Cells:
    return [name_of(obj), obj.get("handler") or part(obj, "spec").get("runtimeHandler") or "", created(obj, now)]


def _priority_class(obj: Manifest, now: dt.datetime) -> Cells:
    return [name_of(obj), obj.get("value") or 0, bool(obj.get("globalDefault")), created(obj, now)]


def _webhooks(obj: Manifest, now: dt.datetime) -> Cells:
    return [name_of(obj), len(obj.get("webhooks") or ()), created(obj, now)]


def _signing_request(obj: Manifest, now: dt.datetime) -> Cells:
    spec, status = part(obj, "spec"), part(obj, "status")
    types = {item.get("type") for item in status.get("conditions") or ()}
    state = "Denied" if "Denied" in types else "Approved" if "Approved" in types else "Pending"
    if "Failed" in types:
        state += ",Failed"
    if status.get("certificate"):
        state += ",Issued"
    return [name_of(obj), created(obj, now), spec.get("signerName") or NONE, spec.get("username", ""), state]


def _api_service(obj: Manifest, now: dt.datetime) -> Cells:
    service = part(obj, "spec").get("service")
    where = f"{service.get('namespace', '')}/{service.get('name', '')}" if service else "Local"
    available = "Unknown"
    for item in part(obj, "status").get("conditions") or ():
        if item.get("type") == "Available":
            available = item.get("status", "Unknown")
            if available != "True":
                available = f"{available} ({item.get('reason', '')})"
    return [name_of(obj), where, available, created(obj, now)]


CLUSTER: Final[dict[str, Cell]] = {
    "nodes": _node,
    "namespaces": _namespace,
    "persistentvolumes": _volume,
    "persistentvolumeclaims": _claim,
    "storageclasses.storage.k8s.io": _storage_class,
    "volumeattributesclasses.storage.k8s.io": _attributes_class,
    "csidrivers.storage.k8s.io": _csi_driver,
    "csinodes.storage.k8s.io": _csi_node,
    "volumeattachments.storage.k8s.io": _attachment,
    "runtimeclasses.node.k8s.io": _runtime_class,
    "priorityclasses.scheduling.k8s.io": _priority_class,
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": _webhooks,
    "validatingwebhookconfigurations.admissionregistration.k8s.io": _webhooks,
    "certificatesigningrequests.certificates.k8s.io": _signing_request,
    "apiservices.apiregistration.k8s.io": _api_service,
}
