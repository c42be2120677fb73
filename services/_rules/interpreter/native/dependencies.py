"""Lists the objects that a template needs beside it in a member (docs/sources.md#dependencies)."""

from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeAlias

from schemas.manifest import Manifest
from services._rules.interpreter.common.interpretation import InterpretError, describe, object_at
from services._rules.kubernetes.selectors import LabelSelectorError, compile_selector

Reference: TypeAlias = dict[str, Any]

# Volume sources that name a secret, and the field that does.
_SECRET_REFS: Final = (
    ("cephfs", "secretRef"),
    ("cinder", "secretRef"),
    ("flexVolume", "secretRef"),
    ("rbd", "secretRef"),
    ("scaleIO", "secretRef"),
    ("iscsi", "secretRef"),
    ("storageos", "secretRef"),
    ("csi", "nodePublishSecretRef"),
)


def template_dependencies(obj: Manifest) -> list[Reference]:
    """Dependencies of a workload with a pod template in spec.template."""
    return pod_dependencies(object_at(obj, "spec", "template", "spec"), _namespace(obj))


def stateful_set_dependencies(obj: Manifest) -> list[Reference]:
    """Dependencies of a StatefulSet; claims it generates from its own templates are none."""
    spec = object_at(obj, "spec")
    own = {
        object_at(template, "metadata").get("name") for template in spec.get("volumeClaimTemplates") or () if template
    }
    return [
        reference
        for reference in pod_dependencies(object_at(spec, "template", "spec"), _namespace(obj))
        if reference["kind"] != "PersistentVolumeClaim" or reference["name"] not in own
    ]


def cron_job_dependencies(obj: Manifest) -> list[Reference]:
    """Dependencies of the pods of a CronJob's Jobs."""
    return pod_dependencies(object_at(obj, "spec", "jobTemplate", "spec", "template", "spec"), _namespace(obj))


def pod_own_dependencies(obj: Manifest) -> list[Reference]:
    """Dependencies of a Pod."""
    return pod_dependencies(object_at(obj, "spec"), _namespace(obj))


def ingress_dependencies(obj: Manifest) -> list[Reference]:
    """One Secret per TLS entry of an Ingress."""
    names = [(entry or {}).get("secretName") or "" for entry in object_at(obj, "spec").get("tls") or ()]
    return [_reference("Secret", _namespace(obj), name) for name in sorted(names)]


def service_import_dependencies(obj: Manifest) -> list[Reference]:
    """The derived Service of a ServiceImport and its endpoint slices."""
    namespace = _namespace(obj)
    derived = f"derived-{object_at(obj, 'metadata').get('name') or ''}"
    slices: Reference = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice"}
    if namespace:
        slices["namespace"] = namespace
    slices["labelSelector"] = {"matchLabels": {"kubernetes.io/service-name": derived}}
    return [_reference("Service", namespace, derived), slices]


def pod_dependencies(pod: Manifest, namespace: str) -> list[Reference]:
    """References of a pod spec by kind and name: ConfigMaps, Secrets, ServiceAccount, PersistentVolumeClaims."""
    config_maps: set[str] = set()
    secrets: set[str] = set()
    claims: set[str] = set()
    secrets.update(_names(pod.get("imagePullSecrets")))
    for group in ("initContainers", "containers", "ephemeralContainers"):
        for container in pod.get(group) or ():
            _from_container(container or {}, config_maps, secrets)
    for volume in pod.get("volumes") or ():
        _from_volume(volume or {}, config_maps, secrets, claims)
    account = pod.get("serviceAccountName")
    accounts = {account} if account and account != "default" else set()
    return [
        _reference(kind, namespace, name)
        for kind, names in (
            ("ConfigMap", config_maps),
            ("Secret", secrets),
            ("ServiceAccount", accounts),
            ("PersistentVolumeClaim", claims),
        )
        for name in sorted(names)
        if name
    ]


def _names(entries: Iterable[Manifest | None] | None, field: str = "name") -> Iterator[str]:
    for entry in entries or ():
        yield (entry or {}).get(field) or ""


def _from_container(container: Manifest, config_maps: set[str], secrets: set[str]) -> None:
    for source in container.get("envFrom") or ():
        config_maps.update(_names([(source or {}).get("configMapRef")]))
        secrets.update(_names([(source or {}).get("secretRef")]))
    for variable in container.get("env") or ():
        source = (variable or {}).get("valueFrom") or {}
        config_maps.update(_names([source.get("configMapKeyRef")]))
        secrets.update(_names([source.get("secretKeyRef")]))


def _from_volume(volume: Manifest, config_maps: set[str], secrets: set[str], claims: set[str]) -> None:
    config_maps.update(_names([volume.get("configMap")]))
    secrets.update(_names([volume.get("secret"), volume.get("azureFile")], "secretName"))
    claims.update(_names([volume.get("persistentVolumeClaim")], "claimName"))
    for source, field in _SECRET_REFS:
        secrets.update(_names([(volume.get(source) or {}).get(field)]))
    for part in (volume.get("projected") or {}).get("sources") or ():
        config_maps.update(_names([(part or {}).get("configMap")]))
        secrets.update(_names([(part or {}).get("secret")]))


def _namespace(obj: Manifest) -> str:
    return object_at(obj, "metadata").get("namespace") or ""


def _reference(kind: str, namespace: str, name: str) -> Reference:
    reference = {"apiVersion": "v1", "kind": kind}
    if namespace:
        reference["namespace"] = namespace
    reference["name"] = name
    return reference


def validate_references(references: Iterable[Any]) -> None:
    """Raises InterpretError for the first reference that lacks apiVersion, kind, or both name and a valid selector."""
    for index, reference in enumerate(references):
        field = f"dependencies[{index}]"
        if type(reference) is not dict:
            raise InterpretError(f"is {describe(reference)}, expected an object", field)
        for name in ("apiVersion", "kind"):
            if not reference.get(name) or type(reference[name]) is not str:
                raise InterpretError("is required", f"{field}.{name}")
        selector = reference.get("labelSelector")
        if not reference.get("name") and selector is None:
            raise InterpretError("needs a name or a labelSelector", field)
        if selector is not None:
            try:
                compile_selector(selector)
            except LabelSelectorError as problem:
                raise InterpretError(str(problem), f"{field}.labelSelector") from None
