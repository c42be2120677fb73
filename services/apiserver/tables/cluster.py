"""Table rows of cluster-wide kinds and storage: nodes, namespaces, volumes, classes, webhooks, certificates."""

import datetime as dt
from typing import Any, Final

from schemas.manifest import Manifest
from services.apiserver.tables.human import NONE, UNKNOWN, UNSET, age
from services.apiserver.tables.printer import AGE, NAME, Cells, Column, Printer, name_of, part

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


def _created(obj: Manifest, now: dt.datetime) -> str:
    return age(obj["metadata"].get("creationTimestamp"), now)


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
        _created(obj, now),
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
    return [name_of(obj), part(obj, "status").get("phase", ""), _created(obj, now)]


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
        _created(obj, now),
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
        _created(obj, now),
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
        _created(obj, now),
    ]


def _csi_driver(obj: Manifest, now: dt.datetime) -> Cells:
    spec = part(obj, "spec")
    modes = ",".join(spec.get("volumeLifecycleModes") or ()) or NONE
    attach = spec.get("attachRequired")
    return [name_of(obj), attach is None or attach, bool(spec.get("podInfoOnMount")), modes, _created(obj, now)]


def _csi_node(obj: Manifest, now: dt.datetime) -> Cells:
    return [name_of(obj), len(part(obj, "spec").get("drivers") or ()), _created(obj, now)]


def _attachment(obj: Manifest, now: dt.datetime) -> Cells:
    spec = part(obj, "spec")
    volume = part(spec, "source").get("persistentVolumeName") or ""
    attached = bool(part(obj, "status").get("attached"))
    return [name_of(obj), spec.get("attacher", ""), volume, spec.get("nodeName", ""), attached, _created(obj, now)]


def _runtime_class(obj: Manifest, now: dt.datetime) -> Cells:
    return [name_of(obj), obj.get("handler") or part(obj, "spec").get("runtimeHandler") or "", _created(obj, now)]


def _priority_class(obj: Manifest, now: dt.datetime) -> Cells:
    return [name_of(obj), obj.get("value") or 0, bool(obj.get("globalDefault")), _created(obj, now)]


def _webhooks(obj: Manifest, now: dt.datetime) -> Cells:
    return [name_of(obj), len(obj.get("webhooks") or ()), _created(obj, now)]


def _signing_request(obj: Manifest, now: dt.datetime) -> Cells:
    spec, status = part(obj, "spec"), part(obj, "status")
    types = {item.get("type") for item in status.get("conditions") or ()}
    state = "Denied" if "Denied" in types else "Approved" if "Approved" in types else "Pending"
    if "Failed" in types:
        state += ",Failed"
    if status.get("certificate"):
        state += ",Issued"
    return [name_of(obj), _created(obj, now), spec.get("signerName") or NONE, spec.get("username", ""), state]


def _api_service(obj: Manifest, now: dt.datetime) -> Cells:
    service = part(obj, "spec").get("service")
    where = f"{service.get('namespace', '')}/{service.get('name', '')}" if service else "Local"
    available = "Unknown"
    for item in part(obj, "status").get("conditions") or ():
        if item.get("type") == "Available":
            available = item.get("status", "Unknown")
            if available != "True":
                available = f"{available} ({item.get('reason', '')})"
    return [name_of(obj), where, available, _created(obj, now)]


_WEBHOOKS: Final = Printer(
    (
        NAME,
        Column(
            "Webhooks",
            "integer",
            description="Webhooks indicates the number of webhooks registered in this configuration",
        ),
        AGE,
    ),
    _webhooks,
)

CLUSTER: Final[dict[tuple[str, str], Printer]] = {
    ("", "nodes"): Printer(
        (
            NAME,
            Column("Status", description="The status of the node"),
            Column("Roles", description="The roles of the node"),
            AGE,
            Column("Version", description="Kubelet Version reported by the node."),
            Column("Internal-IP", priority=1, description="The address inside the cluster."),
            Column("External-IP", priority=1, description="The address outside of the cluster."),
            Column("OS-Image", priority=1, description="The operating system, as the node tells it."),
            Column(
                "Kernel-Version",
                priority=1,
                description="Kernel Version reported by the node from 'uname -r' (e.g. 3.16.0-0.bpo.4-amd64).",
            ),
            Column("Container-Runtime", priority=1, description="The container runtime, as the node tells it."),
        ),
        _node,
    ),
    ("", "namespaces"): Printer((NAME, Column("Status", description="The status of the namespace"), AGE), _namespace),
    ("", "persistentvolumes"): Printer(
        (
            NAME,
            Column("Capacity", description="How much it holds."),
            Column("Access Modes", description="How it can be mounted."),
            Column("Reclaim Policy", description="What becomes of it when it is released."),
            Column("Status", description="The phase of the volume."),
            Column("Claim", description="The claim it is bound to."),
            Column("StorageClass", description="StorageClass of the pv"),
            Column("Reason", description="Why it is in its phase."),
            AGE,
            Column("VolumeMode", priority=1, description="File system or block device."),
        ),
        _volume,
    ),
    ("", "persistentvolumeclaims"): Printer(
        (
            NAME,
            Column("Status", description="The phase of the claim."),
            Column("Volume", description="The volume it is bound to."),
            Column("Capacity", description="How much the volume holds."),
            Column("Access Modes", description="How the volume can be mounted."),
            Column("StorageClass", description="StorageClass of the pvc"),
            AGE,
            Column("VolumeMode", priority=1, description="File system or block device."),
        ),
        _claim,
    ),
    ("storage.k8s.io", "storageclasses"): Printer(
        (
            NAME,
            Column("Provisioner", description="Provisioner indicates the type of the provisioner."),
            Column("ReclaimPolicy", description="What becomes of its volumes when they are released."),
            Column("VolumeBindingMode", description="When volumes are bound."),
            Column(
                "AllowVolumeExpansion",
                description="AllowVolumeExpansion shows whether the storage class allow volume expand",
            ),
            AGE,
        ),
        _storage_class,
    ),
    ("storage.k8s.io", "csidrivers"): Printer(
        (
            NAME,
            Column("AttachRequired", "boolean", description="Whether volumes have to be attached first."),
            Column("PodInfoOnMount", "boolean", description="Whether mounting is told about the pod."),
            Column("Modes", description="Life cycles of volumes that the driver serves."),
            AGE,
        ),
        _csi_driver,
    ),
    ("storage.k8s.io", "csinodes"): Printer(
        (
            NAME,
            Column(
                "Drivers",
                "integer",
                description="Drivers indicates the number of CSI drivers registered on the node",
            ),
            AGE,
        ),
        _csi_node,
    ),
    ("storage.k8s.io", "volumeattachments"): Printer(
        (
            NAME,
            Column("Attacher", description="The driver that attaches it.", format="name"),
            Column("PV", description="Name of the persistent volume to attach."),
            Column("Node", description="The node that the volume should be attached to."),
            Column("Attached", "boolean", description="Whether it is attached."),
            AGE,
        ),
        _attachment,
    ),
    ("node.k8s.io", "runtimeclasses"): Printer((NAME, Column("Handler"), AGE), _runtime_class),
    ("scheduling.k8s.io", "priorityclasses"): Printer(
        (
            NAME,
            Column("Value", "integer", description="The priority of its pods."),
            Column("Global-Default", "boolean", description="Whether pods without a class get it."),
            AGE,
        ),
        _priority_class,
    ),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"): _WEBHOOKS,
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"): _WEBHOOKS,
    ("certificates.k8s.io", "certificatesigningrequests"): Printer(
        (
            NAME,
            AGE,
            Column("SignerName", description="The signer that is asked."),
            Column("Requestor", description="Base64-encoded PKCS#10 CSR data"),
            Column("Condition", description="Conditions applied to the request, such as approval or denial."),
        ),
        _signing_request,
    ),
    ("apiregistration.k8s.io", "apiservices"): Printer(
        (
            NAME,
            Column("Service", description="The reference to the service that hosts this API endpoint."),
            Column("Available", description="Whether this service is available."),
            AGE,
        ),
        _api_service,
    ),
}
