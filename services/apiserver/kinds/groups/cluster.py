"""Namespaces, Nodes, Leases, PriorityClasses, RuntimeClasses, FlowSchemas and PriorityLevelConfigurations."""

from __future__ import annotations

import re

from schemas.manifest import Manifest
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation import object_metadata as meta
from services._rules.kubernetes.validation.field_errors import (
    Errors,
    ErrorType,
    FieldError,
    Raw,
    duplicate,
    forbidden,
    go_strings,
    invalid,
)
from services._rules.kubernetes.validation.field_rules import (
    changed,
    choice,
    distinct,
    each,
    inside,
    number,
    repeated,
    text,
)
from services._rules.kubernetes.validation.object_metadata import qualified_finalizer
from services._rules.kubernetes.validation.status_fields import is_plain_network
from services.apiserver.kinds.builtin import BuiltinKind, PlainWithStatus
from services.apiserver.kinds.checks import flow_control
from services.apiserver.kinds.checks import pod_specs as pod_checks
from services.apiserver.kinds.checks.resources import amounts
from services.apiserver.kinds.groups.quota import counted_amount

NAME_LABEL = "kubernetes.io/metadata.name"
NOT_READY = "node.kubernetes.io/not-ready"
SYSTEM_PRIORITY = 1_000_000_000
SYSTEM_PREFIX = "system-"


class Namespace(BuiltinKind):
    """core/v1 Namespace; it is finalised through its own subresource."""

    defaults = {"spec": {}, "status": {"phase": "Active"}}
    rules = (inside("spec", lambda spec, path: _finalizers(spec, path, listed=False)),)
    selectable = {"status.phase": ""}

    def default(self, obj: Manifest) -> None:
        """Fill in the phase, and the label by which selectors find a namespace by its name."""
        super().default(obj)
        self._label(obj["metadata"])

    def _label(self, meta: Manifest) -> None:
        if meta.get("name"):
            meta["labels"] = {**(meta.get("labels") or {}), NAME_LABEL: meta["name"]}

    def prepare_create(self, obj: Manifest) -> None:
        """Start as Active, with the finalizer of Kubernetes itself."""
        super().prepare_create(obj)
        self._label(obj["metadata"])
        obj["status"] = {"phase": "Active"}
        finalizers = (obj.setdefault("spec", {}) or {}).get("finalizers") or []
        if "kubernetes" not in finalizers:
            obj["spec"]["finalizers"] = [*finalizers, "kubernetes"]

    def prepare_update(self, new: Manifest, old: Manifest) -> None:
        """Finalizers and status stay as they are."""
        super().prepare_update(new, old)
        new["spec"] = {**(new.get("spec") or {}), "finalizers": (old.get("spec") or {}).get("finalizers") or []}
        if not new["spec"]["finalizers"]:
            del new["spec"]["finalizers"]

    def check_name(self, name: str) -> list[str]:
        """A namespace is a DNS label."""
        return names.label(name)

    def validate_status(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """The phase must fit the deletion timestamp."""
        phase = (new.get("status") or {}).get("phase", "")
        if new["metadata"].get("deletionTimestamp"):
            if phase != "Terminating":
                text = "may only be 'Terminating' if `deletionTimestamp` is not empty"
                return [invalid("status.Phase", phase, text)]
        elif phase != "Active":
            return [invalid("status.Phase", phase, "may only be 'Active' if `deletionTimestamp` is empty")]
        return []

    def validate_finalize(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Finalizers are names of the standard ones, or qualified."""
        return _finalizers(new.get("spec") or {}, "spec", listed=True)


def _finalizers(spec: Manifest, path: str, *, listed: bool) -> list[FieldError]:
    """Return what is wrong with the names of finalizers; the errors name the place in the list where it is `listed`."""
    found: list[FieldError] = []
    for index, name in enumerate(spec.get("finalizers") or ()):
        field = f"{path}.finalizers[{index}]" if listed else f"{path}.finalizers"
        found += qualified_finalizer(name, field)
    return found


def _taint_twice(item: Manifest, field: str) -> FieldError:
    shown = ", ".join(f'{name.title()}:"{item.get(name, "")}"' for name in ("key", "value", "effect"))
    text = "taints must be unique by key and effect pair"
    return FieldError(ErrorType.DUPLICATE, field, text, Raw(f"core.Taint{{{shown}, TimeAdded:(*v1.Time)(nil)}}"))


_TAINT = (
    text("key", names.qualified, blank=True),
    text("value", lambda value: [";".join(texts)] if (texts := names.label_value(value)) else []),
    choice("effect", pod_checks.EFFECTS, need=""),
    distinct(lambda item: (item.get("key", ""), item.get("effect", "")), _taint_twice),
)


def _taints(spec: Manifest, _: str) -> list[FieldError]:
    # The errors name a field that taints are not in.
    return each("taints", *_TAINT)(spec, "metadata")


def _ranges(spec: Manifest, path: str) -> list[FieldError]:
    ranges, field = spec.get("podCIDRs") or [], f"{path}.podCIDRs"
    found, shown = [], go_strings(ranges)
    for index, value in enumerate(ranges):
        if not is_plain_network(value):
            found.append(invalid(f"{field}[{index}]", shown, "must be a valid CIDR without bits of a host"))
    if len(ranges) < 2 or found:
        return found
    families = {":" in value for value in ranges}
    if len(ranges) > 2 or len(families) < 2:
        found.append(invalid(field, shown, "may specify no more than one CIDR for each IP family"))
    return found


def _capacity(values: Manifest, path: str) -> list[FieldError]:
    return [error for key, value in values.items() for error in counted_amount(key, value, f"{path}.{key}")]


def _address_twice(item: Manifest, field: str) -> FieldError:
    return duplicate(
        field, Raw(f'core.NodeAddress{{Type:"{item.get("type", "")}", Address:"{item.get("address", "")}"}}')
    )


_RESOURCES = (inside("capacity", _capacity), inside("allocatable", _capacity))
_ADDRESSES = each("addresses", distinct(lambda item: (item.get("type"), item.get("address")), _address_twice))


_is_feature = re.compile(r"[A-Z][A-Za-z0-9]*(/[A-Z][A-Za-z0-9]*)*").fullmatch


def _feature(name: str, field: str) -> Errors:
    if not _is_feature(name):
        yield invalid(field, name, "must be the name of a feature, such as RestartAllContainers")


_FEATURES = each("declaredFeatures", _feature)


class Node(BuiltinKind):
    """core/v1 Node; a status given on create is kept."""

    rules = (inside("spec", _taints, _ranges), inside("status", *_RESOURCES, _FEATURES))
    status_rules = (*_RESOURCES, _ADDRESSES, _FEATURES)
    selectable = {"spec.unschedulable": "false"}

    def default(self, obj: Manifest) -> None:
        """Pair podCIDR with podCIDRs."""
        spec = obj.setdefault("spec", {})
        ranges = spec.get("podCIDRs")
        if spec.get("podCIDR") and (not ranges or ranges[0] != spec["podCIDR"]):
            spec["podCIDRs"] = [spec["podCIDR"]]
        elif ranges:
            spec["podCIDR"] = ranges[0]
        status = obj.get("status") or {}
        if status.get("capacity") and not status.get("allocatable"):
            status["allocatable"] = dict(status["capacity"])

    def prepare_create(self, obj: Manifest) -> None:
        """Keep out pods until the node is known to be ready."""
        status = obj.get("status")
        super().prepare_create(obj)
        if status is not None:
            status.pop("config", None)
            obj["status"] = status
        spec = obj.setdefault("spec", {})
        taints = spec.get("taints") or []
        if not any(item.get("key") == NOT_READY and item.get("effect") == "NoSchedule" for item in taints):
            spec["taints"] = [*taints, {"key": NOT_READY, "effect": "NoSchedule"}]

    def prepare_status(self, new: Manifest, old: Manifest) -> None:
        """Drop what kubelets do not report any more."""
        super().prepare_status(new, old)
        (new.get("status") or {}).pop("config", None)

    def warnings(self, obj: Manifest) -> list[str]:
        """Tell of fields without effect."""
        unused = (obj.get("spec") or {}).get("externalID")
        return ["spec.externalID: this field is deprecated, and is unused by Kubernetes"] if unused else []

    def check_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Only labels, taints, capacity, schedulability and a first pod range may change."""
        spec, before = new.get("spec") or {}, old.get("spec") or {}
        # Taints and resources are checked by themselves and as a change.
        found = self.check(new) + _taints(spec, "") + inside("status", *self.status_rules)(new, "")
        free = {"taints", "unschedulable", "configSource", "podCIDR", "podCIDRs", "providerID"}
        for name, shown in (("podCIDRs", "podCIDR"), ("providerID", "providerID")):
            if before.get(name) and (times := _differences(spec.get(name), before[name])):
                text = f'node updates may not change {shown} except from "" to valid'
                found += [forbidden(f"spec.{name}", text)] * times
        if any(spec.get(name) != before.get(name) for name in {*spec, *before}.difference(free)):
            text = (
                "node updates may only change labels, taints, or capacity "
                "(or configSource, if the DynamicKubeletConfig feature gate is enabled)"
            )
            found.append(forbidden("[]", text))
        return found


def _differences(new: object, old: object) -> int:
    """How often an answer says that a value changed: once, or for lists of one length once for each item."""
    if isinstance(new, list) and isinstance(old, list) and len(new) == len(old):
        return sum(one != other for one, other in zip(new, old, strict=True))
    return int(new != old)


class Lease(BuiltinKind):
    """coordination.k8s.io Lease; a PUT must name the resourceVersion it replaces."""

    create_on_update = True
    unconditional_update = False
    spec_rules = (
        number("leaseDurationSeconds", 1, detail="must be greater than 0"),
        number("leaseTransitions", 0),
    )


_SYSTEM_CLASSES = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}


def _system_class_problem(name: str, obj: Manifest) -> str:
    value = _SYSTEM_CLASSES.get(name)
    if value is None:
        return f"{name} is not a known system priority class"
    if obj.get("value", 0) != value:
        return f"value of {name} PriorityClass must be {value}"
    return f"globalDefault of {name} PriorityClass must be false" if obj.get("globalDefault") else ""


def _priority(obj: Manifest, _: str) -> Errors:
    name, value = obj["metadata"].get("name", ""), obj.get("value", 0)
    if not name.startswith(SYSTEM_PREFIX):
        problem = ""
    elif problem := _system_class_problem(name, obj):
        text = f"priority class names with '{SYSTEM_PREFIX}' prefix are reserved for system use only. error: {problem}"
        yield forbidden("metadata.name", text)
    if value > SYSTEM_PRIORITY and not name.startswith(SYSTEM_PREFIX):
        text = f"maximum allowed value of a user defined priority is {SYSTEM_PRIORITY}"
        yield forbidden("value", text)


class PriorityClass(BuiltinKind):
    """scheduling.k8s.io PriorityClass."""

    generation = True
    defaults = {"preemptionPolicy": "PreemptLowerPriority"}
    rules = (_priority, choice("preemptionPolicy", ("PreemptLowerPriority", "Never"), need=""))
    fixed = ("preemptionPolicy",)

    def check_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Value and preemption policy may not change."""
        found = changed(self.fixed, new, old)
        if new.get("value", 0) == old.get("value", 0):
            return found
        return [forbidden("value", "may not be changed in an update."), *found]

    def spec_changed(self, new: Manifest, old: Manifest) -> bool:
        """The generation never rises."""
        return False


def _overhead(values: Manifest, _: str) -> Errors:
    yield from amounts(values, "overhead")


def _tolerations(value: Manifest, path: str) -> list[FieldError]:
    found = pod_checks.TOLERATIONS(value, path)
    items = value.get("tolerations") or []
    twice = repeated(tuple(sorted(item.items())) for item in items)
    return found + [duplicate(f"{path}.tolerations", Raw(_go_toleration(items[index]))) for index in twice]


def _go_toleration(item: Manifest) -> str:
    texts = ", ".join(f'{name.title()}:"{item.get(name, "")}"' for name in ("key", "operator", "value", "effect"))
    return f"core.Toleration{{{texts}, TolerationSeconds:(*int64)(nil)}}"


class RuntimeClass(BuiltinKind):
    """node.k8s.io RuntimeClass; a PUT of a new one creates it, of an old one names the resourceVersion it replaces."""

    create_on_update = True
    unconditional_update = False
    rules = (
        text("handler", names.label, need=""),
        inside("overhead", inside("podFixed", _overhead)),
        inside("scheduling", inside("nodeSelector", meta.labels), _tolerations),
    )
    fixed = ("handler",)


class FlowSchema(PlainWithStatus):
    """flowcontrol.apiserver.k8s.io FlowSchema."""

    defaults = flow_control.SCHEMA_DEFAULTS
    spec_rules = flow_control.SCHEMA_SPEC
    status_rules = flow_control.CONDITIONS

    def check(self, obj: Manifest) -> list[FieldError]:
        """Only the schema that exempts may come before all others."""
        found = super().check(obj)
        if obj["spec"].get("matchingPrecedence") == 1 and obj["metadata"].get("name") != flow_control.EXEMPT:
            text = f"only the schema named '{flow_control.EXEMPT}' may have matchingPrecedence 1"
            found.append(invalid("spec.matchingPrecedence", 1, text))
        return found + flow_control.fixed_schema(obj["metadata"].get("name", ""), obj["spec"])


class PriorityLevel(PlainWithStatus):
    """flowcontrol.apiserver.k8s.io PriorityLevelConfiguration."""

    defaults = flow_control.LEVEL_DEFAULTS
    spec_rules = flow_control.LEVEL_SPEC
    status_rules = flow_control.CONDITIONS

    def check(self, obj: Manifest) -> list[FieldError]:
        """Only one level is without limits, and that one always."""
        found, given = super().check(obj), obj["spec"].get("type", "")
        if (obj["metadata"].get("name") == flow_control.EXEMPT) != (given == "Exempt"):
            text = f"type must be 'Exempt' if and only if name is '{flow_control.EXEMPT}'"
            found.append(invalid("spec.type", given, text))
        return found + flow_control.fixed_level(obj["metadata"].get("name", ""), obj["spec"])
