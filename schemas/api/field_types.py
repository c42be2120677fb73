"""The field types of Kubernetes' and Karmada's kinds, from the generated tables of both.

A type is a code: s text, i 32-bit number, l 64-bit number, d number, b boolean, t time, m time with microseconds,
y bytes in base64, q quantity, x whole number or text, o anything, `[]T` list, `{}T` object with values of T, or `@`
before the name of a type with fields.
"""

import gzip
from functools import cache
from importlib.resources import files
from typing import Final

import msgspec
from msgspec import Raw

from schemas.manifest import Manifest

OBJECT_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"

_COLLECTED: Final = {"generation": "l", "resourceTemplateGeneration": "l"}
_ADDED: Final[dict[str, dict[str, str]]] = {
    # Karmada adds these to the statuses that it collects.
    "io.k8s.api.apps.v1.DaemonSetStatus": _COLLECTED,
    "io.k8s.api.apps.v1.DeploymentStatus": _COLLECTED,
    "io.k8s.api.apps.v1.ReplicaSetStatus": _COLLECTED,
    "io.k8s.api.apps.v1.StatefulSetStatus": _COLLECTED,
}
UNTOLD: Final[dict[str, dict[str, str]]] = {
    "io.k8s.api.authentication.v1.SelfSubjectReview": {
        "apiVersion": "s",
        "kind": "s",
        "metadata": f"@{OBJECT_META}",
        "status": "@io.k8s.api.authentication.v1.SelfSubjectReviewStatus",
    },
    "io.k8s.api.authentication.v1.SelfSubjectReviewStatus": {"userInfo": "@io.k8s.api.authentication.v1.UserInfo"},
    "io.k8s.api.batch.v1.JobSpec": {"completionMode": "s", "managedBy": "s", "podReplacementPolicy": "s"},
    "io.k8s.api.batch.v1.PodFailurePolicyOnExitCodesRequirement": {"containerName": "s"},
    "io.k8s.api.batch.v1.SuccessPolicyRule": {"succeededCount": "i", "succeededIndexes": "s"},
    "io.k8s.api.policy.v1.PodDisruptionBudgetSpec": {"unhealthyPodEvictionPolicy": "s"},
    "io.k8s.api.apps.v1.RollingUpdateDaemonSet": {"maxSurge": "x"},
    "io.k8s.api.apps.v1.RollingUpdateStatefulSetStrategy": {"maxUnavailable": "x"},
    "io.k8s.api.autoscaling.v2.HPAScalingRules": {"tolerance": "q"},
    "io.k8s.api.core.v1.ContainerStatus": {"allocatedResources": "{}q"},
    "io.k8s.api.core.v1.Handler": {"sleep": "@io.k8s.api.core.v1.SleepAction"},
    "io.k8s.api.core.v1.PersistentVolumeClaimStatus": {"allocatedResources": "{}q"},
    "io.k8s.api.core.v1.SleepAction": {"seconds": "l"},
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.ValidationRule": {"reason": "s"},
    "io.k8s.api.core.v1.PersistentVolumeClaimSpec": {"volumeAttributesClassName": "s"},
    "io.k8s.api.core.v1.PersistentVolumeSpec": {"volumeAttributesClassName": "s"},
    "io.k8s.api.core.v1.PodSpec": {"hostnameOverride": "s"},
    "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta": {"creationTimestamp": "t"},
    "io.k8s.api.core.v1.ServiceSpec": {
        "internalTrafficPolicy": "s",
        "loadBalancerClass": "s",
        "trafficDistribution": "s",
    },
    "io.k8s.api.networking.v1.IngressClassParametersReference": {
        "apiGroup": "s",
        "kind": "s",
        "name": "s",
        "namespace": "s",
        "scope": "s",
    },
    "io.k8s.api.networking.v1.IngressClassSpec": {
        "parameters": "@io.k8s.api.networking.v1.IngressClassParametersReference"
    },
    "io.k8s.api.storage.v1.CSIStorageCapacity": {"capacity": "q", "maximumVolumeSize": "q"},
}
"""Fields that the client that the table comes from does not know, or does not know the type of; empty values stay."""
_CORRECTED: Final = _ADDED | UNTOLD


@cache
def kubernetes_types() -> dict[str, Raw]:
    """Return the types of Kubernetes' API by OpenAPI name, each as it lies in the table."""
    packed = files(__package__).joinpath("kubernetes.json.gz").read_bytes()
    found = msgspec.json.decode(gzip.decompress(packed), type=dict[str, Raw])
    # The client that the table comes from is older than these.
    later = files(__package__).joinpath("kubernetes_recent.json").read_bytes()
    return msgspec.json.decode(later, type=dict[str, Raw]) | found


def karmada_kinds() -> list[Manifest]:
    """Return the table of Karmada's kinds: names, subresources, columns and fields, one entry per kind and version."""
    lines = files(__package__).joinpath("karmada.jsonl").read_bytes().splitlines()
    return [msgspec.json.decode(line) for line in lines]


@cache
def field_types(name: str) -> dict[str, str]:
    """Return the type of every field of an object: a type of Kubernetes, or a kind of Karmada or a place in one.

    A place is the kind with the path of the object, such as `Work.spec.workload`; what no table has has no fields.
    """
    raw = kubernetes_types().get(name)
    rows = msgspec.json.decode(raw)["f"] if raw else ()
    return {row[0]: row[1] for row in rows} | _CORRECTED.get(name, {}) or _karmada_types().get(name, {})


@cache
def _karmada_types() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for kind in karmada_kinds():
        if not kind["storage"]:
            continue
        name = kind["kind"]
        fields = {field["path"]: field for field in kind["fields"]}
        objects = {path.rpartition(".")[0] for path in fields}
        found[name] = {"apiVersion": "s", "kind": "s"}
        for path in fields:
            place, _, field = path.rpartition(".")
            if field and field[-1] not in "]}":
                found.setdefault(name + place, {})[field] = _code(name, path, fields, objects)
        found[name]["metadata"] = f"@{OBJECT_META}"
    return found


def _code(kind: str, path: str, fields: dict[str, Manifest], objects: set[str]) -> str:
    field = fields.get(path, {})
    match field.get("type"):
        case "array":
            return "[]" + _code(kind, f"{path}[]", fields, objects)
        case "object" if f"{path}{{}}" in fields:
            return "{}" + _code(kind, f"{path}{{}}", fields, objects)
        case "object" if path in objects:
            return f"@{kind}{path}"
        case "string":
            return "t" if field.get("format") == "date-time" else "s"
        case "integer":
            return "i" if field.get("format") == "int32" else "l"
        case "boolean":
            return "b"
        case _:
            return "q" if field.get("x-kubernetes-int-or-string") else "o"
