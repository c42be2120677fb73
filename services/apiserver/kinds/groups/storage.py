"""Persistent volumes and claims, storage classes, CSI drivers and nodes, volume attachments."""

from __future__ import annotations

from schemas.manifest import Manifest
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from services._rules.kubernetes.validation.object_metadata import immutable
from services.apiserver.kinds.builtin import NEWEST, BuiltinKind
from services.apiserver.kinds.checks import affinities as affinity_checks
from services.apiserver.kinds.checks import quantities as quantity
from services.apiserver.kinds.checks import volumes as volume_checks
from services.apiserver.kinds.checks.containers import resource_name
from services.apiserver.kinds.workloads import pod_defaults

ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce")
KNOWN_MODES = (*ACCESS_MODES, "ReadWriteOncePod")
VOLUME_MODES = ("Block", "Filesystem")
RECLAIM = ("Delete", "Recycle", "Retain")
CLAIM_FINALIZER = "kubernetes.io/pvc-protection"
VOLUME_FINALIZER = "kubernetes.io/pv-protection"


def _positive(value: str, field: str) -> list[FieldError]:
    return [] if quantity.value_of(value) > 0 else [invalid(field, str(value), "must be greater than zero")]


def _modes(value: list[str] | None, field: str) -> list[FieldError]:
    if not value:
        return [required(field, "at least 1 access mode is required")]
    return [not_supported(field, mode, ACCESS_MODES) for mode in value if mode not in KNOWN_MODES]


def _protect(kind: BuiltinKind, obj: Manifest, finalizer: str) -> None:
    # The controller that removes the finalizer is not here: with it, nothing could be deleted. Only a server that
    # stands for a recorded release behaves as that one did, alone.
    if kind.release == NEWEST:
        return
    meta = obj["metadata"]
    if finalizer not in (meta.get("finalizers") or ()):
        meta["finalizers"] = [*(meta.get("finalizers") or ()), finalizer]


class Claim(BuiltinKind):
    """core/v1 PersistentVolumeClaim."""

    has_status = True

    def default(self, obj: Manifest) -> None:
        """Fill in mode and phase."""
        obj.setdefault("status", {}).setdefault("phase", "Pending")
        obj["spec"].setdefault("volumeMode", "Filesystem")

    def prepare_create(self, obj: Manifest) -> None:
        """Start as Pending; by the older releases protected while in use."""
        super().prepare_create(obj)
        obj["status"] = {"phase": "Pending"}
        _protect(self, obj, CLAIM_FINALIZER)

    def check(self, obj: Manifest) -> list[FieldError]:
        """Check selector, access modes, size, mode and class."""
        spec = obj["spec"]
        found: list[FieldError] = []
        if "selector" in spec:
            found += affinity_checks.label_selector(spec["selector"], "spec.selector")
        found += _modes(spec.get("accessModes"), "spec.accessModes")
        size = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
        if size is None:
            found.append(required("spec.resources[storage]"))
        else:
            found += _positive(size, "spec.resources[storage]")
        name = spec.get("storageClassName")
        if name:
            found += [invalid("spec.storageClassName", name, text) for text in names.subdomain(name)]
        mode = spec.get("volumeMode")
        if mode is not None and mode not in VOLUME_MODES:
            found.append(not_supported("spec.volumeMode", mode, VOLUME_MODES))
        return found

    def check_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Only the volume of an unbound claim and the size of a bound one may change."""
        found = self.check(new)
        spec, before = dict(new["spec"]), dict(old["spec"])
        if not before.get("volumeName") and spec.get("volumeName"):
            before["volumeName"] = spec["volumeName"]
        bound = (new.get("status") or {}).get("phase") == "Bound"
        sizes = [((part.get("resources") or {}).get("requests") or {}).get("storage") for part in (spec, before)]
        if bound:
            spec["resources"] = before.get("resources")
        if spec != before:
            changed = sorted(name for name in {*spec, *before} if spec.get(name) != before.get(name))
            text = (
                "spec is immutable after creation except resources.requests for bound claims\n"
                f"changed: {', '.join(f'spec.{name}' for name in changed)}"
            )
            found.append(forbidden("spec", text))
        elif bound and sizes[0] and sizes[1] and quantity.value_of(sizes[0]) < quantity.value_of(sizes[1]):
            found.append(forbidden("spec.resources.requests.storage", "field can not be less than previous value"))
        return found


class Volume(BuiltinKind):
    """core/v1 PersistentVolume."""

    has_status = True

    def default(self, obj: Manifest) -> None:
        """Fill in the source, the reclaim policy, the mode and the phase."""
        obj.setdefault("status", {}).setdefault("phase", "Pending")
        spec = obj["spec"]
        spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
        spec.setdefault("volumeMode", "Filesystem")
        pod_defaults.volume_source(spec)

    def prepare_create(self, obj: Manifest) -> None:
        """Start as Pending; by the older releases protected while in use."""
        super().prepare_create(obj)
        obj["status"] = {"phase": "Pending"}
        _protect(self, obj, VOLUME_FINALIZER)

    def check(self, obj: Manifest) -> list[FieldError]:
        """Check access modes, capacity, source, policy and mode."""
        spec = obj["spec"]
        found: list[FieldError] = []
        modes = spec.get("accessModes")
        if not modes:
            found.append(required("spec.accessModes"))
        else:
            found += _modes(modes, "spec.accessModes")
        capacity = spec.get("capacity") or {}
        if not capacity:
            found.append(required("spec.capacity"))
        elif list(capacity) != ["storage"]:
            found.append(not_supported("spec.capacity", sorted(capacity), ("storage",)))
        for name, value in capacity.items():
            found += resource_name(name, f"spec.capacity[{name}]")
            found += _positive(value, f"spec.capacity[{name}]")
        policy = spec.get("persistentVolumeReclaimPolicy", "")
        if policy and policy not in RECLAIM:
            found.append(not_supported("spec.persistentVolumeReclaimPolicy", policy, RECLAIM))
        found += self._source(spec)
        if (affinity := spec.get("nodeAffinity")) is not None:
            if (selector := affinity.get("required")) is not None:
                found += affinity_checks.node_selector(selector, "spec.nodeAffinity.required")
            else:
                found.append(required("spec.nodeAffinity.required", "must specify required node constraints"))
        elif "local" in spec:
            found.append(required("spec.nodeAffinity", "Local volume requires node affinity"))
        if name := spec.get("storageClassName"):
            found += [invalid("spec.storageClassName", name, text) for text in names.subdomain(name)]
        mode = spec.get("volumeMode")
        if mode is not None and mode not in VOLUME_MODES:
            found.append(not_supported("spec.volumeMode", mode, VOLUME_MODES))
        return found

    @staticmethod
    def _source(spec: Manifest) -> list[FieldError]:
        found = volume_checks.source(spec, "spec")
        if spec.get("hostPath", {}).get("path") == "/" and spec.get("persistentVolumeReclaimPolicy") == "Recycle":
            text = "may not be 'recycle' for a hostPath mount of '/'"
            found.append(forbidden("spec.persistentVolumeReclaimPolicy", text))
        return found

    def check_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """The source and the mode may not change."""
        found = self.check(new)
        spec, before = new["spec"], old["spec"]
        sources = [{key: part[key] for key in part if key in volume_checks.SOURCES} for part in (spec, before)]
        if sources[0] != sources[1]:
            text = "spec.persistentvolumesource is immutable after creation"
            found.append(forbidden("spec.persistentvolumesource", text))
        return found + immutable("spec.volumeMode", spec.get("volumeMode"), before.get("volumeMode"))


class StorageClass(BuiltinKind):
    """storage.k8s.io StorageClass."""

    def default(self, obj: Manifest) -> None:
        """Fill in the reclaim policy and the binding mode."""
        obj.setdefault("reclaimPolicy", "Delete")
        obj.setdefault("volumeBindingMode", "Immediate")

    def check(self, obj: Manifest) -> list[FieldError]:
        """Check the provisioner, parameters and policies."""
        found: list[FieldError] = []
        provisioner = obj.get("provisioner", "")
        if not provisioner:
            found.append(required("provisioner"))
        else:
            found += [invalid("provisioner", provisioner, text) for text in names.qualified(provisioner.lower())]
        if "" in (obj.get("parameters") or {}):
            found.append(invalid("parameters", "", "field can not be empty."))
        policy = obj.get("reclaimPolicy")
        if policy and policy not in ("Delete", "Retain"):
            found.append(not_supported("reclaimPolicy", policy, ("Delete", "Retain")))
        mode = obj.get("volumeBindingMode")
        if mode not in ("Immediate", "WaitForFirstConsumer"):
            supported = ("Immediate", "WaitForFirstConsumer")
            found.append(not_supported("volumeBindingMode", mode, supported) if mode else required("volumeBindingMode"))
        for index, term in enumerate(obj.get("allowedTopologies") or []):
            found += _topology(term, f"allowedTopologies[{index}]")
        return found

    def check_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Parameters, provisioner, policy and binding mode may not change."""
        found = self.check(new)
        texts = {
            "parameters": "updates to parameters are forbidden.",
            "provisioner": "updates to provisioner are forbidden.",
            "reclaimPolicy": "updates to reclaimPolicy are forbidden.",
        }
        found += [forbidden(name, text) for name, text in texts.items() if new.get(name) != old.get(name)]
        return found + immutable("volumeBindingMode", new.get("volumeBindingMode"), old.get("volumeBindingMode"))


def _topology(term: Manifest, field: str) -> list[FieldError]:
    found: list[FieldError] = []
    for index, rule in enumerate(term.get("matchLabelExpressions") or []):
        place, values = f"{field}.matchLabelExpressions[{index}]", rule.get("values") or []
        if not values:
            found.append(required(f"{place}.values"))
        twice = sorted({value for value in values if values.count(value) > 1})
        found += [duplicate(f"{place}.values[{len(values) - 1 - values[::-1].index(one)}]", one) for one in twice]
        key = rule.get("key", "")
        found += [invalid(f"{place}.key", key, text) for text in names.qualified(key)]
    return found


class Driver(BuiltinKind):
    """storage.k8s.io CSIDriver."""

    unconditional_update = False

    def default(self, obj: Manifest) -> None:
        """Fill in what the driver needs and supports."""
        spec = obj.setdefault("spec", {})
        spec.setdefault("attachRequired", True)
        spec.setdefault("podInfoOnMount", False)
        spec.setdefault("volumeLifecycleModes", ["Persistent"])
        spec.setdefault("fsGroupPolicy", "ReadWriteOnceWithFSType")

    def check(self, obj: Manifest) -> list[FieldError]:
        """Check the life-cycle modes and the group policy."""
        spec = obj.get("spec") or {}
        modes = ("Persistent", "Ephemeral")
        found = [
            not_supported("spec.volumeLifecycleModes", mode, modes)
            for mode in spec.get("volumeLifecycleModes") or ()
            if mode not in modes
        ]
        policies = ("ReadWriteOnceWithFSType", "File", "None")
        if (policy := spec.get("fsGroupPolicy")) is not None and policy not in policies:
            found.append(not_supported("spec.fsGroupPolicy", policy, policies))
        return found

    def check_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """What kubelets rely on may not change."""
        found = self.check(new)
        for name in ("attachRequired", "podInfoOnMount", "volumeLifecycleModes"):
            found += immutable(f"spec.{name}", new["spec"].get(name), old["spec"].get(name))
        return found


class DriverNode(BuiltinKind):
    """storage.k8s.io CSINode."""

    unconditional_update = False

    def check(self, obj: Manifest) -> list[FieldError]:
        """Check the drivers of the node."""
        found: list[FieldError] = []
        if not obj["metadata"].get("name"):
            # Checked twice by the recorded server, and answered twice.
            found.append(required("metadata.name", "name or generateName is required"))
        seen: set[str] = set()
        for index, item in enumerate((obj.get("spec") or {}).get("drivers") or ()):
            field, name = f"spec.drivers[{index}]", item.get("name", "")
            if not name:
                found.append(required(f"{field}.name"))
            elif name in seen:
                found.append(duplicate(f"{field}.name", name))
            else:
                found += [invalid(f"{field}.name", name, text) for text in names.subdomain(name.lower())]
            seen.add(name)
            if not item.get("nodeID"):
                found.append(required(f"{field}.nodeID"))
            count = (item.get("allocatable") or {}).get("count")
            if count is not None and count < 0:
                found.append(invalid(f"{field}.allocatable.count", count, "must be greater than or equal to 0"))
            keys: set[str] = set()
            for key in item.get("topologyKeys") or ():
                if not key:
                    found.append(required(f"{field}.topologyKeys"))
                elif key in keys:
                    found.append(duplicate(f"{field}.topologyKeys", key))
                else:
                    found += [invalid(f"{field}.topologyKeys", key, text) for text in names.qualified(key)]
                keys.add(key)
        return found

    def check_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """A driver that stays must stay as it is."""
        found = self.check(new)
        before = {item.get("name"): item for item in (old.get("spec") or {}).get("drivers") or ()}
        for index, item in enumerate((new.get("spec") or {}).get("drivers") or ()):
            previous = before.get(item.get("name"))
            if previous is not None and previous != item:
                found.append(invalid(f"spec.drivers[{index}]", item, "field is immutable"))
        return found


class Attachment(BuiltinKind):
    """storage.k8s.io VolumeAttachment."""

    has_status = True
    unconditional_update = False

    def check(self, obj: Manifest) -> list[FieldError]:
        """Check the driver, the source and the node."""
        spec = obj.get("spec") or {}
        found: list[FieldError] = []
        attacher = spec.get("attacher", "")
        if not attacher:
            found.append(required("spec.attacher"))
        else:
            found += [invalid("spec.attacher", attacher, text) for text in names.qualified(attacher.lower())]
        source = spec.get("source") or {}
        if "persistentVolumeName" not in source and "inlineVolumeSpec" not in source:
            found.append(
                required("spec.source", "must specify exactly one of inlineVolumeSpec and persistentVolumeName")
            )
        elif "persistentVolumeName" in source and not source["persistentVolumeName"]:
            found.append(required("spec.source.persistentVolumeName", "must specify non empty persistentVolumeName"))
        node = spec.get("nodeName", "")
        return found + [invalid("spec.nodeName", node, text) for text in names.subdomain(node)]

    def check_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """The spec may not change."""
        found = self.check(new)
        if new.get("spec") != old.get("spec"):
            found.append(invalid("spec", new.get("spec"), "field is immutable"))
        return found
