"""Admission by storage and ingress classes: the default for an object without a class, and which claims may grow."""

from __future__ import annotations

from typing import Any, Final

from schemas.manifest import Manifest
from services._rules.kubernetes import quantity
from services.apiserver.admission.chain import Attributes, forbidden
from services.apiserver.store.store_port import Key, Store

_STORAGE: Final = ("storage.k8s.io", "storageclasses")
_INGRESS: Final = ("networking.k8s.io", "ingressclasses")
_DEFAULT_STORAGE: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_DEFAULT_INGRESS: Final = ("ingressclass.kubernetes.io/is-default-class",)
_BETA_STORAGE_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
_INGRESS_CLASS: Final = "kubernetes.io/ingress.class"


class DefaultClasses:
    """Gives new claims and Ingresses their class; refuses to grow a claim whose class does not allow it."""

    resources = frozenset({"/persistentvolumeclaims", "networking.k8s.io/ingresses"})
    operations = frozenset({"CREATE", "UPDATE"})

    def __init__(self, store: Store) -> None:
        self._store = store

    async def mutate(self, attributes: Attributes) -> None:
        """Name the default class where the object names none: the newest, where there are several."""
        new = attributes.new
        if new is None or attributes.operation != "CREATE" or attributes.subresource:
            return
        annotations = new["metadata"].get("annotations") or {}
        spec = new.get("spec")
        spec = new.setdefault("spec", {}) if spec is None else spec
        if attributes.kind.store_key == "/persistentvolumeclaims":
            if spec.get("storageClassName") is None and _BETA_STORAGE_CLASS not in annotations:
                _fill(spec, "storageClassName", self._default(_STORAGE, _DEFAULT_STORAGE))
            return
        bare = spec.get("ingressClassName") is None and _INGRESS_CLASS not in annotations
        if bare and attributes.kind.resource.group == _INGRESS[0]:
            _fill(spec, "ingressClassName", self._default(_INGRESS, _DEFAULT_INGRESS))

    def _default(self, place: tuple[str, str], marks: tuple[str, ...]) -> str:
        marked = [entry.obj["metadata"] for entry in self._store.list(*place) if _marked(entry.obj, marks)]
        newest = max((meta.get("creationTimestamp") or "" for meta in marked), default="")
        return min((meta["name"] for meta in marked if (meta.get("creationTimestamp") or "") == newest), default="")

    async def validate(self, attributes: Attributes) -> None:
        """Refuse to grow a claim that is not bound or whose class has no volume expansion; raises ApiError 403."""
        new, old = attributes.new, attributes.old
        if attributes.kind.store_key != "/persistentvolumeclaims" or attributes.subresource:
            return
        if new is None or old is None or attributes.operation != "UPDATE" or not _asked(old) < _asked(new):
            return
        if (old.get("status") or {}).get("phase") != "Bound":
            raise forbidden(attributes, "Only bound persistent volume claims can be expanded")
        name = _class_of(new)
        entry = self._store.get(Key(*_STORAGE, "", name)) if name and name == _class_of(old) else None
        if entry is None or not entry.obj.get("allowVolumeExpansion"):
            text = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must "
            raise forbidden(attributes, f"{text}support resize")


def _marked(obj: Manifest, marks: tuple[str, ...]) -> bool:
    annotations = obj["metadata"].get("annotations") or {}
    return any(annotations.get(mark) == "true" for mark in marks)


def _fill(spec: Manifest, field: str, name: str) -> None:
    if name:
        spec[field] = name


def _class_of(claim: Manifest) -> str:
    annotations = claim["metadata"].get("annotations") or {}
    if _BETA_STORAGE_CLASS in annotations:
        return str(annotations[_BETA_STORAGE_CLASS])
    return (claim.get("spec") or {}).get("storageClassName") or ""


def _asked(claim: Manifest) -> quantity.Quantity:
    requests: dict[str, Any] = ((claim.get("spec") or {}).get("resources") or {}).get("requests") or {}
    try:
        return quantity.parse(requests.get("storage"))
    except quantity.QuantityError:
        return quantity.ZERO
