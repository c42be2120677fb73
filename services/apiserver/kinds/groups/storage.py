"""Persistent volumes and claims, classes of storage and attributes, CSI drivers, nodes, capacities, attachments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

from schemas.manifest import Manifest
from services._rules.kubernetes import quantity
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation.field_errors import (
    Errors,
    FieldError,
    duplicate,
    forbidden,
    go_strings,
    invalid,
    not_supported,
    required,
    too_long,
)
from services._rules.kubernetes.validation.field_rules import (
    Form,
    apply,
    changed,
    choice,
    each,
    every,
    formed,
    immutable,
    inside,
    listed,
    needed,
    number,
    repeated,
    text,
    unique,
)
from services.apiserver.kinds.builtin import BuiltinKind
from services.apiserver.kinds.checks.affinities import label_selector
from services.apiserver.kinds.checks.claim_specs import CLAIM, drop_unknown_source, settle_source, size_of
from services.apiserver.kinds.checks.persistent_volumes import (
    GOOD_NODES,
    VOLUME,
    basic_amounts,
    inline,
    whole_volume,
)
from services.apiserver.kinds.checks.resources import amount
from services.apiserver.kinds.checks.volumes import SOURCES
from services.apiserver.kinds.workloads import pod_defaults

_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"


def _class_annotation(new: Manifest, old: Manifest) -> list[FieldError]:
    """Return an error when the annotation that names the class changed, but into the field of that meaning."""
    value, before = ((part["metadata"].get("annotations") or {}).get(_CLASS_ANNOTATION) for part in (new, old))
    moved = before is not None and "storageClassName" not in old["spec"] and value in (None, before)
    if value == before or (moved and new["spec"].get("storageClassName") == before):
        return []
    return immutable(f"metadata.annotations.{_CLASS_ANNOTATION}", value or "", before or "")


def _storage_only(amounts: Manifest, field: str) -> Errors:
    for name in amounts:
        if name != "storage" and ("/" not in name or names.qualified(name) or "kubernetes.io/" in name):
            yield not_supported(field, name, ("storage",))


class Claim(BuiltinKind):
    """core/v1 PersistentVolumeClaim."""

    defaults = {"status": {"phase": "Pending"}, "spec": {"volumeMode": "Filesystem"}}
    spec_rules = CLAIM
    status_rules = (
        inside("capacity", basic_amounts),
        inside("allocatedResources", _storage_only),
        inside("allocatedResourceStatuses", _storage_only),
    )
    checks_of_update = 2

    def prepare_create(self, obj: Manifest) -> None:
        """Start as Pending."""
        super().prepare_create(obj)
        obj["status"] = {"phase": "Pending"}
        drop_unknown_source(obj["spec"])
        settle_source(obj["spec"])

    def prepare_update(self, new: Manifest, old: Manifest) -> None:
        """Name the source of data in both fields."""
        super().prepare_update(new, old)
        settle_source(new["spec"])

    def check_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Only the volume of an unbound claim and the size of a bound one may change."""
        found = super().check_update(new, old)
        spec, before = dict(new["spec"]), dict(old["spec"])
        if not before.get("volumeName") and spec.get("volumeName"):
            before["volumeName"] = spec["volumeName"]
        name_of_class = (old["metadata"].get("annotations") or {}).get(_CLASS_ANNOTATION)
        if "storageClassName" not in before and spec.get("storageClassName") == name_of_class:
            spec.pop("storageClassName", None)
        bound = (new.get("status") or {}).get("phase") == "Bound"
        size, least = size_of(spec), size_of(before)
        if bound:
            spec["resources"] = before.get("resources")
        if spec != before:
            names = sorted(name for name in {*spec, *before} if spec.get(name) != before.get(name))
            text = (
                "spec is immutable after creation except resources.requests for bound claims\n"
                f"changed: {', '.join(f'spec.{name}' for name in names)}"
            )
            found.append(forbidden("spec", text))
        if quantity.parse(size or "0") < quantity.parse(least or "0"):
            found.append(forbidden("spec.resources.requests.storage", "field can not be less than previous value"))
        found += _class_annotation(new, old)
        mode, old_mode = new["spec"].get("volumeMode"), old["spec"].get("volumeMode")
        return found + immutable("volumeMode", mode, old_mode)


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
    rules = (whole_volume,)
    spec_rules = VOLUME

    checks_of_update = 2

    def prepare_create(self, obj: Manifest) -> None:
        """Start as Pending."""
        super().prepare_create(obj)
        obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": obj["metadata"].get("creationTimestamp")}

    def validate_create(self, obj: Manifest) -> list[FieldError]:
        """A new volume names nodes by values that labels can have."""
        return [*super().validate_create(obj), *GOOD_NODES(obj, "")]

    def check_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """The source, the mode and the nodes may not change."""
        found = super().check_update(new, old)
        spec, before = new["spec"], old["spec"]
        sources = [{key: part[key] for key in part if key in SOURCES} for part in (spec, before)]
        if sources[0] != sources[1]:
            text = "spec.persistentvolumesource is immutable after creation"
            found.append(forbidden("spec.persistentvolumesource", text))
        fixed = ("volumeMode", "nodeAffinity") if "nodeAffinity" in before else ("volumeMode",)
        return found + changed(fixed, spec, before)


_NOT_EMPTY = "field can not be empty."


def _lowercase(form: Form) -> Form:
    return lambda value: form(value.lower())


def _repeated(rule: Manifest, path: str) -> list[FieldError]:
    values = rule.get("values") or []
    return [duplicate(f"{path}.values[{index}]", values[index]) for index in repeated(values)]


_TOPOLOGY = each(
    "matchLabelExpressions",
    needed("values"),
    _repeated,
    text("key", names.qualified, blank=True),
    unique("key", blank=True),
)


_MOST_REPEATED = 16


def _topologies(obj: Manifest, _: str) -> list[FieldError]:
    """Check terms of topologies; equal ones are refused, and an empty one is equal to each place of the list."""
    terms, found = obj.get("allowedTopologies") or [], list[FieldError]()
    seen: Counter[Hashable] = Counter({frozenset(): len(terms)})
    for index, term in enumerate(terms):
        field = f"allowedTopologies[{index}]"
        found += _TOPOLOGY(term, field)
        expressions = term.get("matchLabelExpressions") or ()
        own = {item.get("key", ""): frozenset(item.get("values") or ()) for item in expressions}
        key = frozenset(own.items())
        found += [duplicate(f"{field}.matchLabelExpressions", "")] * min(seen[key], _MOST_REPEATED)
        seen[key] += 1
    return found


_MOST_PARAMETERS, _PARAMETERS_LIMIT = 512, 256 * 1024


def _parameters(values: dict[str, str], field: str) -> list[FieldError]:
    if len(values) > _MOST_PARAMETERS:
        return [too_long(field, "", _MOST_PARAMETERS)]
    found = [invalid(field, "", _NOT_EMPTY)] if "" in values else []
    return found + _too_large(values, field, _PARAMETERS_LIMIT)


def _too_large(values: dict[str, str], field: str, limit: int) -> list[FieldError]:
    size = sum(len(key.encode()) + len(value.encode()) for key, value in values.items())
    return [too_long(field, "", limit)] if size > limit else []


class StorageClass(BuiltinKind):
    """storage.k8s.io StorageClass."""

    defaults = {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}
    rules = (
        text("provisioner", _lowercase(names.qualified), need=""),
        inside("parameters", _parameters),
        choice("reclaimPolicy", ("", "Delete", "Retain"), shown=("Delete", "Retain")),
        choice("volumeBindingMode", ("Immediate", "WaitForFirstConsumer"), need="", blank=True),
        _topologies,
    )
    fixed = ("provisioner", "volumeBindingMode")

    def check_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Parameters, provisioner, policy and binding mode may not change."""
        return self.check(new) + _kept(("parameters", "reclaimPolicy"), new, old) + changed(self.fixed, new, old)


def _kept(fields: tuple[str, ...], new: Manifest, old: Manifest) -> list[FieldError]:
    return [forbidden(name, f"updates to {name} are forbidden.") for name in fields if new.get(name) != old.get(name)]


class AttributesClass(BuiltinKind):
    """storage.k8s.io VolumeAttributesClass."""

    rules = (
        text("driverName", _lowercase(names.qualified), need=""),
        needed("parameters", detail="must contain at least one key/value pair"),
        inside("parameters", _parameters),
    )

    def check_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Driver and parameters may not change."""
        return self.check(new) + _kept(("driverName", "parameters"), new, old)


_CHANGEABLE = (
    each(
        "tokenRequests",
        unique("audience", blank=True),
        number("expirationSeconds", 600, detail="may not specify a duration less than 10 minutes"),
        number("expirationSeconds", most=1 << 32, detail="may not specify a duration larger than 2^32 seconds"),
    ),
    number("nodeAllocatableUpdatePeriodSeconds", 10, detail="must be greater than or equal to 10 seconds"),
)


class Driver(BuiltinKind):
    """storage.k8s.io CSIDriver."""

    generation = True
    unconditional_update = False
    defaults = {
        "spec": {
            "attachRequired": True,
            "podInfoOnMount": False,
            "volumeLifecycleModes": ["Persistent"],
            "storageCapacity": False,
            "fsGroupPolicy": "ReadWriteOnceWithFSType",
            "requiresRepublish": False,
            "seLinuxMount": False,
        }
    }
    spec_rules = (
        every("volumeLifecycleModes", listed(("Persistent", "Ephemeral"))),
        choice("fsGroupPolicy", ("File", "None", "ReadWriteOnceWithFSType")),
        *_CHANGEABLE,
    )

    def check_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """What kubelets rely on may not change; one of the fields is misspelt in answers."""
        spec, before = new.get("spec") or {}, old.get("spec") or {}
        found = immutable("spec.attachedRequired", spec.get("attachRequired"), before.get("attachRequired"))
        found += changed(("volumeLifecycleModes",), spec, before, "spec")
        return found + apply(_CHANGEABLE, spec, "spec")

    def prepare_create(self, obj: Manifest) -> None:
        """A new driver has no generation; the first change gives it one."""
        super().prepare_create(obj)
        del obj["metadata"]["generation"]

    def change_warnings(self, new: Manifest, old: Manifest) -> list[str]:
        """Only who makes a driver is told."""
        return []

    def warnings(self, obj: Manifest) -> list[str]:
        """Tell where tokens may be logged."""
        spec = obj.get("spec") or {}
        if not spec.get("tokenRequests") or spec.get("serviceAccountTokenInSecrets") is not None:
            return []
        text = "if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes"
        return [f"spec.serviceAccountTokenInSecrets is unset; {text}"]


def driver_name(name: str, field: str) -> list[FieldError]:
    """Return what is wrong with the name of a driver."""
    if not name:
        return [required(field)]
    found = []
    if len(name) > _DRIVER_LIMIT:
        found.append(too_long(field, name, _DRIVER_LIMIT))
    return found + [invalid(field, name, text) for text in names.subdomain(name.lower())]


def _new_driver_name(name: str, field: str) -> list[FieldError]:
    return driver_name(name, field) if name else []


def _topology_keys(driver: Manifest, path: str) -> Errors:
    # The errors name the driver that has the keys.
    keys = driver.get("topologyKeys") or []
    shown = go_strings(keys)
    for key in keys:
        if not key:
            yield required(path)
        yield from (invalid(path, shown, text) for text in names.qualified(key))
    yield from (duplicate(path, keys[index]) for index in repeated(keys))


_LONGEST_NODE_ID = 128
_LONG_ID = f"must be {_LONGEST_NODE_ID} characters or less"
_NODE_ID = text("nodeID", lambda value: [_LONG_ID] if len(value.encode()) > _LONGEST_NODE_ID else [], need="")


class DriverNode(BuiltinKind):
    """storage.k8s.io CSINode."""

    unconditional_update = False
    rules = (
        inside(
            "spec",
            each(
                "drivers",
                inside("name", driver_name, absent=""),
                _NODE_ID,
                inside("allocatable", number("count", 0)),
                unique("name", blank=True),
                _topology_keys,
            ),
        ),
    )

    def check_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """A driver that stays must stay as it is, but for the volumes that it takes."""
        found = super().check_update(new, old)
        before = {item.get("name"): item for item in (old.get("spec") or {}).get("drivers") or ()}
        for item in (new.get("spec") or {}).get("drivers") or ():
            held = before.get(item.get("name"), item)
            found += immutable("CSINodeDriver", {**item, "allocatable": None}, {**held, "allocatable": None}, item)
        return found


_ONE_SOURCE = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"


def _one_source(source: Manifest, path: str) -> list[FieldError]:
    if "inlineVolumeSpec" in source:
        if "persistentVolumeName" in source:
            return [forbidden(path, _ONE_SOURCE)]
        return list(inside("inlineVolumeSpec", inline)(source, path))
    if "persistentVolumeName" not in source:
        return [required(path, _ONE_SOURCE)]
    return needed("persistentVolumeName", detail="must specify non empty persistentVolumeName")(source, path)


_DRIVER_LIMIT, _METADATA_LIMIT, _MESSAGE_LIMIT = 63, 256 * 1024, 1024
_VOLUME_NAME = inside("source", inside("persistentVolumeName", formed(names.subdomain)))
_NAMED_VOLUME = inside("spec", _VOLUME_NAME, absent={})
_NEW_ATTACHMENT = inside("spec", inside("attacher", _new_driver_name), _VOLUME_NAME, absent={})


def _attachment_metadata(values: dict[str, str], field: str) -> list[FieldError]:
    return _too_large(values, field, _METADATA_LIMIT)


def _volume_error(error: Manifest, field: str) -> list[FieldError]:
    message = error.get("message", "")
    return [too_long(f"{field}.message", message, _MESSAGE_LIMIT)] if len(message.encode()) > _MESSAGE_LIMIT else []


class Attachment(BuiltinKind):
    """storage.k8s.io VolumeAttachment."""

    unconditional_update = False
    spec_rules = (
        needed("attacher"),
        inside("source", _one_source, absent={}),
        text("nodeName", names.subdomain, blank=True),
    )
    status_rules = (
        inside("attachmentMetadata", _attachment_metadata),
        inside("attachError", _volume_error),
        inside("detachError", _volume_error),
    )
    fixed = ("spec",)

    def validate_create(self, obj: Manifest) -> list[FieldError]:
        """More is demanded of a new attachment."""
        return super().validate_create(obj) + _NEW_ATTACHMENT(obj, "")

    def check_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """The spec may not change, and the name of its volume has to be one."""
        return [*self.check(new), *_NAMED_VOLUME(new, ""), *changed(self.fixed, new, old)]


class Capacity(BuiltinKind):
    """storage.k8s.io CSIStorageCapacity."""

    unconditional_update = False
    rules = (
        inside("nodeTopology", label_selector),
        text("storageClassName", names.subdomain, blank=True),
        inside("capacity", amount),
        inside("maximumVolumeSize", amount),
    )
    fixed = ("nodeTopology", "storageClassName")
