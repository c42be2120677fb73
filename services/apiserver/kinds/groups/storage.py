"""Persistent volumes and claims, storage classes, CSI drivers and nodes, volume attachments."""

from __future__ import annotations

from typing import Any

from schemas.manifest import Manifest
from services._rules.kubernetes import quantity
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation.field_errors import (
    Errors,
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from services._rules.kubernetes.validation.field_rules import (
    Check,
    Form,
    Siblings,
    changed,
    choice,
    each,
    every,
    given,
    immutable,
    inside,
    listed,
    lookup,
    needed,
    number,
    only_if,
    refused,
    text,
    unwanted,
    valid,
)
from services.apiserver.kinds.builtin import NEWEST, BuiltinKind
from services.apiserver.kinds.checks.affinities import NODE_SELECTOR, label_selector
from services.apiserver.kinds.checks.containers import resource_name
from services.apiserver.kinds.checks.volumes import SOURCE, SOURCES
from services.apiserver.kinds.workloads import pod_defaults

ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce")
CLAIM_FINALIZER = "kubernetes.io/pvc-protection"
VOLUME_FINALIZER = "kubernetes.io/pv-protection"

_positive = valid(lambda value: quantity.parse(value).nano > 0, "must be greater than zero")
_MODES = (
    needed("accessModes", detail="at least 1 access mode is required"),
    every("accessModes", listed((*ACCESS_MODES, "ReadWriteOncePod"), shown=ACCESS_MODES)),
)
_CLASS = (text("storageClassName", names.subdomain), choice("volumeMode", ("Block", "Filesystem")))


def _protect(kind: BuiltinKind, obj: Manifest, finalizer: str) -> None:
    # The controller that removes the finalizer is not here: with it, nothing could be deleted. Only a server that
    # stands for a recorded release behaves as that one did, alone.
    if kind.release == NEWEST:
        return
    meta = obj["metadata"]
    if finalizer not in (meta.get("finalizers") or ()):
        meta["finalizers"] = [*(meta.get("finalizers") or ()), finalizer]


def _size(spec: Manifest) -> Any:
    return ((spec.get("resources") or {}).get("requests") or {}).get("storage")


def _sized(spec: Manifest, path: str) -> list[FieldError]:
    size, field = _size(spec), f"{path}.resources[storage]"
    return [required(field)] if size is None else _positive(size, field)


class Claim(BuiltinKind):
    """core/v1 PersistentVolumeClaim."""

    defaults = {"status": {"phase": "Pending"}, "spec": {"volumeMode": "Filesystem"}}
    spec_rules = (inside("selector", label_selector), *_MODES, _sized, *_CLASS)

    def prepare_create(self, obj: Manifest) -> None:
        """Start as Pending; by the older releases protected while in use."""
        super().prepare_create(obj)
        obj["status"] = {"phase": "Pending"}
        _protect(self, obj, CLAIM_FINALIZER)

    def check_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Only the volume of an unbound claim and the size of a bound one may change."""
        found = self.check(new)
        spec, before = dict(new["spec"]), dict(old["spec"])
        if not before.get("volumeName") and spec.get("volumeName"):
            before["volumeName"] = spec["volumeName"]
        bound = (new.get("status") or {}).get("phase") == "Bound"
        size, least = _size(spec), _size(before)
        if bound:
            spec["resources"] = before.get("resources")
        if spec != before:
            changed = sorted(name for name in {*spec, *before} if spec.get(name) != before.get(name))
            text = (
                "spec is immutable after creation except resources.requests for bound claims\n"
                f"changed: {', '.join(f'spec.{name}' for name in changed)}"
            )
            found.append(forbidden("spec", text))
        elif bound and size and least and quantity.parse(size) < quantity.parse(least):
            found.append(forbidden("spec.resources.requests.storage", "field can not be less than previous value"))
        return found


def _capacity(spec: Manifest, path: str) -> list[FieldError]:
    capacity, field = spec.get("capacity") or {}, f"{path}.capacity"
    if not capacity:
        return [required(field)]
    found = [] if list(capacity) == ["storage"] else [not_supported(field, sorted(capacity), ("storage",))]
    for name, value in capacity.items():
        found += resource_name(name, f"{field}[{name}]") + _positive(value, f"{field}[{name}]")
    return found


_NO_NODES = "must specify required node constraints"


class Volume(BuiltinKind):
    """core/v1 PersistentVolume."""

    defaults = {
        "status": {"phase": "Pending"},
        "spec": {
            "persistentVolumeReclaimPolicy": "Retain",
            "volumeMode": "Filesystem",
            "": pod_defaults.volume_source,
        },
    }
    spec_rules = (
        needed("accessModes"),
        _MODES[1],
        _capacity,
        choice("persistentVolumeReclaimPolicy", ("Delete", "Recycle", "Retain")),
        SOURCE,
        unwanted(
            "persistentVolumeReclaimPolicy",
            "may not be 'recycle' for a hostPath mount of '/'",
            lambda spec: lookup(spec, "hostPath.path") == "/" and spec["persistentVolumeReclaimPolicy"] == "Recycle",
        ),
        inside("nodeAffinity", inside("required", *NODE_SELECTOR), given("required", _NO_NODES)),
        only_if(lambda spec: "local" in spec, given("nodeAffinity", "Local volume requires node affinity")),
        *_CLASS,
    )

    def prepare_create(self, obj: Manifest) -> None:
        """Start as Pending; by the older releases protected while in use."""
        super().prepare_create(obj)
        obj["status"] = {"phase": "Pending"}
        _protect(self, obj, VOLUME_FINALIZER)

    def check_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """The source and the mode may not change."""
        found = self.check(new)
        spec, before = new["spec"], old["spec"]
        sources = [{key: part[key] for key in part if key in SOURCES} for part in (spec, before)]
        if sources[0] != sources[1]:
            text = "spec.persistentvolumesource is immutable after creation"
            found.append(forbidden("spec.persistentvolumesource", text))
        return found + changed(("spec.volumeMode",), new, old)


def _lowercase(form: Form) -> Form:
    return lambda value: form(value.lower())


def _repeated(rule: Manifest, path: str) -> list[FieldError]:
    values = rule.get("values") or []
    twice = sorted({value for value in values if values.count(value) > 1})
    return [duplicate(f"{path}.values[{len(values) - 1 - values[::-1].index(one)}]", one) for one in twice]


_TOPOLOGY = each("matchLabelExpressions", needed("values"), _repeated, text("key", names.qualified, blank=True))


class StorageClass(BuiltinKind):
    """storage.k8s.io StorageClass."""

    defaults = {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}
    rules = (
        text("provisioner", _lowercase(names.qualified), need=""),
        refused("parameters", "field can not be empty.", lambda obj: "" in (obj.get("parameters") or {})),
        choice("reclaimPolicy", ("", "Delete", "Retain"), shown=("Delete", "Retain")),
        choice("volumeBindingMode", ("Immediate", "WaitForFirstConsumer"), need=""),
        each("allowedTopologies", _TOPOLOGY),
    )
    fixed = ("volumeBindingMode",)

    def check_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Parameters, provisioner, policy and binding mode may not change."""
        names = ("parameters", "provisioner", "reclaimPolicy")
        found = [
            forbidden(name, f"updates to {name} are forbidden.") for name in names if new.get(name) != old.get(name)
        ]
        return self.check(new) + found + changed(self.fixed, new, old)


class Driver(BuiltinKind):
    """storage.k8s.io CSIDriver."""

    unconditional_update = False
    defaults = {
        "spec": {
            "attachRequired": True,
            "podInfoOnMount": False,
            "volumeLifecycleModes": ["Persistent"],
            "fsGroupPolicy": "ReadWriteOnceWithFSType",
        }
    }
    spec_rules = (
        every("volumeLifecycleModes", listed(("Persistent", "Ephemeral"))),
        choice("fsGroupPolicy", ("ReadWriteOnceWithFSType", "File", "None")),
    )
    # What kubelets rely on.
    fixed = ("spec.attachRequired", "spec.podInfoOnMount", "spec.volumeLifecycleModes")


def _once(form: Form) -> Siblings:
    """Names that are there, differ, and are of a format; only the first problem of a name counts."""

    def start() -> Check:
        seen: set[str] = set()

        def check(name: str, field: str) -> Errors:
            if not name:
                yield required(field)
            elif name in seen:
                yield duplicate(field, name)
            else:
                yield from [invalid(field, name, text) for text in form(name)]
            seen.add(name)

        return check

    return Siblings(start)


def _topology_keys(driver: Manifest, path: str) -> list[FieldError]:
    return every("topologyKeys", _once(names.qualified).start())(driver, path)


_DRIVER_NAME = _once(_lowercase(names.subdomain))


class DriverNode(BuiltinKind):
    """storage.k8s.io CSINode."""

    unconditional_update = False
    rules = (
        # Checked twice by the recorded server, and answered twice.
        inside("metadata", needed("name", detail="name or generateName is required")),
        inside(
            "spec",
            each(
                "drivers",
                Siblings(lambda: inside("name", _DRIVER_NAME.start(), absent="")),
                needed("nodeID"),
                inside("allocatable", number("count", 0)),
                _topology_keys,
            ),
        ),
    )

    def check_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """A driver that stays must stay as it is."""
        found = self.check(new)
        before = {item.get("name"): item for item in (old.get("spec") or {}).get("drivers") or ()}
        for index, item in enumerate((new.get("spec") or {}).get("drivers") or ()):
            found += immutable(f"spec.drivers[{index}]", item, before.get(item.get("name"), item))
        return found


def _one_source(source: Manifest, path: str) -> list[FieldError]:
    if "persistentVolumeName" not in source and "inlineVolumeSpec" not in source:
        return [required(path, "must specify exactly one of inlineVolumeSpec and persistentVolumeName")]
    if "persistentVolumeName" in source:
        return needed("persistentVolumeName", detail="must specify non empty persistentVolumeName")(source, path)
    return []


class Attachment(BuiltinKind):
    """storage.k8s.io VolumeAttachment."""

    unconditional_update = False
    spec_rules = (
        text("attacher", _lowercase(names.qualified), need=""),
        inside("source", _one_source, absent={}),
        text("nodeName", names.subdomain, blank=True),
    )
    fixed = ("spec",)
