"""Field ownership: how managedFields follow every write, server-side apply, and when a write changes nothing."""

import functools
from typing import Any
from weakref import WeakKeyDictionary

from schemas.manifest import Manifest
from services._rules.kubernetes.managed_fields.tracking import FieldOwnership, Writer
from services._rules.kubernetes.managed_fields.typed_values import KeyDefaults
from services._rules.kubernetes.patch.json_patch import PatchError
from services.apiserver.core.request_context import Call, stamp
from services.apiserver.core.status_errors import ApiError
from services.apiserver.kinds.decoding import field_tables as schemas
from services.apiserver.kinds.kind_model import DecodeError, Kind

_ATOMIC = (
    "io.k8s.api.autoscaling.v1.CrossVersionObjectReference",
    "io.k8s.api.core.v1.ConfigMapKeySelector",
    "io.k8s.api.core.v1.LocalObjectReference",
    "io.k8s.api.core.v1.NodeSelector",
    "io.k8s.api.core.v1.NodeSelectorTerm",
    "io.k8s.api.core.v1.ObjectFieldSelector",
    "io.k8s.api.core.v1.ObjectReference",
    "io.k8s.api.core.v1.ResourceFieldSelector",
    "io.k8s.api.core.v1.ScopeSelector",
    "io.k8s.api.core.v1.SecretKeySelector",
    "io.k8s.api.core.v1.SecretReference",
    "io.k8s.api.core.v1.TopologySelectorTerm",
    "io.k8s.api.core.v1.TypedLocalObjectReference",
    "io.k8s.api.rbac.v1.RoleRef",
    "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector",
)


@functools.cache
def _atomic_properties() -> frozenset[int]:
    """Identities of the field tables of types that are owned as a whole (linked schemas are shared and stay)."""
    return frozenset(id(schemas.linked(name)["properties"]) for name in _ATOMIC if schemas.is_known(name))


def _is_atomic(schema: dict[str, Any]) -> bool:
    properties = schema.get("properties")
    return properties is not None and id(properties) in _atomic_properties()


_KEY_DEFAULTS: KeyDefaults = {(port, "protocol"): {"protocol": "TCP"} for port in ("containerPort", "port")}
"""What the key of a port may leave out."""


class Ownership:
    """Keeps metadata.managedFields of written objects; `track_creates` is off where only applies are to be tracked."""

    def __init__(self, *, track_creates: bool) -> None:
        self._track_creates = track_creates
        self._of: WeakKeyDictionary[Kind, FieldOwnership] = WeakKeyDictionary()

    def _ownership(self, kind: Kind) -> FieldOwnership:
        found = self._of.get(kind)
        if found is None:
            resource = kind.resource
            empty: Manifest = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {}}
            try:
                kind.decode(empty)
            except DecodeError:
                empty = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {}}
            found = self._of[kind] = FieldOwnership(kind.schema, empty, _is_atomic, _KEY_DEFAULTS)
        return found

    def _writer(self, kind: Kind, call: Call, subresource: str = "") -> Writer:
        version, time = kind.resource.api_version, stamp()
        reset: tuple[str, ...] = ()
        if kind.has_status:
            reset = ("f:spec",) if subresource == "status" else ("f:status",)
        return Writer(call.manager, version, time, subresource, reset)

    @staticmethod
    def _set(obj: Manifest, entries: list[dict[str, Any]]) -> None:
        if entries:
            obj["metadata"]["managedFields"] = entries
        else:
            obj["metadata"].pop("managedFields", None)

    def created(self, kind: Kind, obj: Manifest, call: Call) -> None:
        """Fill in the managedFields of a new, defaulted object."""
        if not self._track_creates:
            obj["metadata"].pop("managedFields", None)
            return
        self._set(obj, self._ownership(kind).created(obj, self._writer(kind, call)))

    def updated(self, kind: Kind, new: Manifest, old: Manifest, call: Call, subresource: str = "") -> None:
        """Fill in the managedFields of a changed, defaulted object."""
        if subresource == "binding":
            return
        if "managedFields" not in old["metadata"] and "managedFields" not in new["metadata"]:
            return
        self._set(new, self._ownership(kind).updated(new, old, self._writer(kind, call, subresource)))

    def applied(
        self, kind: Kind, old: Manifest | None, config: Manifest, call: Call, subresource: str = ""
    ) -> Manifest:
        """What applying a configuration makes of an object; raises ApiError on conflicts and misfits."""
        try:
            new, entries = self._ownership(kind).applied(
                old, config, self._writer(kind, call, subresource), force=bool(call.force)
            )
        except PatchError as e:
            raise ApiError(e.status, e.reason, e.message, e.details) from e
        new = {**new, "metadata": dict(new.get("metadata") or {})}
        self._set(new, entries)
        return new

    @staticmethod
    def unchanged(new: Manifest, old: Manifest) -> bool:
        """Whether writing `new` over `old` would change anything but times in managedFields."""
        if new.keys() != old.keys():
            return False
        for name, value in new.items():
            if name == "metadata":
                continue
            if old[name] != value:
                return False
        return _metadata(new["metadata"]) == _metadata(old["metadata"])


def _metadata(meta: Manifest) -> Manifest:
    fields = [{k: v for k, v in f.items() if k != "time"} for f in meta.get("managedFields") or []]
    return {**meta, "managedFields": fields}
