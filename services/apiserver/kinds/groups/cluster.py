"""Namespaces, Nodes, Leases, PriorityClasses and RuntimeClasses."""

from __future__ import annotations

import ipaddress

from schemas.manifest import Manifest
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation import object_metadata as meta
from services._rules.kubernetes.validation.field_errors import Errors, FieldError, duplicate, forbidden, invalid
from services._rules.kubernetes.validation.field_rules import changed, choice, distinct, each, inside, number, text
from services._rules.kubernetes.validation.object_metadata import qualified_finalizer
from services.apiserver.kinds.builtin import BuiltinKind
from services.apiserver.kinds.checks import pod_specs as pod_checks
from services.apiserver.kinds.checks.containers import amount, amounts

NAME_LABEL = "kubernetes.io/metadata.name"
_LAST_UNLABELLED = 20
NOT_READY = "node.kubernetes.io/not-ready"
SYSTEM_PRIORITY = 1_000_000_000
SYSTEM_PREFIX = "system-"


class Namespace(BuiltinKind):
    """core/v1 Namespace; it is finalised through its own subresource."""

    defaults = {"spec": {}, "status": {"phase": "Active"}}
    selectable = {"status.phase": ""}

    def default(self, obj: Manifest) -> None:
        """Fill in the phase, and the label by which selectors find a namespace by its name (since 1.21)."""
        super().default(obj)
        self._label(obj["metadata"])

    def _label(self, meta: Manifest) -> None:
        if meta.get("name") and self.release > _LAST_UNLABELLED:
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
        names_of = (new.get("spec") or {}).get("finalizers") or ()
        return [error for name in names_of for error in qualified_finalizer(name, "spec.finalizers", ("kubernetes",))]


_TAINT = (
    text("key", names.qualified, blank=True),
    text("value", lambda value: [";".join(texts)] if (texts := names.label_value(value)) else []),
    choice("effect", pod_checks.EFFECTS, need=""),
    distinct(lambda item: (item.get("key", ""), item.get("effect", "")), lambda item, field: duplicate(field, item)),
)


def _taints(spec: Manifest, _: str) -> list[FieldError]:
    # The errors name a field that taints are not in.
    return each("taints", *_TAINT)(spec, "metadata")


def _range(value: str, field: str) -> list[FieldError]:
    try:
        ipaddress.ip_network(value, strict=False)
    except ValueError:
        return [invalid(field, value, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)")]
    return []


def _capacity(values: Manifest, path: str) -> Errors:
    for key, value in values.items():
        yield from [invalid(f"{path}.{key}", key, text) for text in names.qualified(key)]
        yield from amount(value, f"{path}[cpu]")


class Node(BuiltinKind):
    """core/v1 Node; a status given on create is kept."""

    rules = (
        inside("spec", _taints, each("podCIDRs", _range)),
        inside("status", inside("capacity", _capacity), inside("allocatable", _capacity)),
    )
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
            obj["status"] = status
        spec = obj.setdefault("spec", {})
        taints = spec.get("taints") or []
        if not any(item.get("key") == NOT_READY and item.get("effect") == "NoSchedule" for item in taints):
            spec["taints"] = [*taints, {"key": NOT_READY, "effect": "NoSchedule"}]

    def check_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Only labels, taints, capacity, schedulability and a first pod range may change."""
        found = self.check(new)
        spec, before = new.get("spec") or {}, old.get("spec") or {}
        free = {"taints", "unschedulable", "configSource"}
        for name, shown, others in (("podCIDRs", "podCIDR", {"podCIDR"}), ("providerID", "providerID", set())):
            if not before.get(name):
                free |= {name, *others}
            elif spec.get(name) != before[name]:
                text = f'node updates may not change {shown} except from "" to valid'
                found.append(forbidden(f"spec.{name}", text))
        if any(spec.get(name) != before.get(name) for name in {*spec, *before}.difference(free)):
            text = (
                "node updates may only change labels, taints, or capacity "
                "(or configSource, if the DynamicKubeletConfig feature gate is enabled)"
            )
            found.append(forbidden("[]", text))
        return found


class Lease(BuiltinKind):
    """coordination.k8s.io Lease; a PUT must name the resourceVersion it replaces."""

    create_on_update = True
    unconditional_update = False
    spec_rules = (
        number("leaseDurationSeconds", 1, detail="must be greater than 0"),
        number("leaseTransitions", 0),
    )


def _priority(obj: Manifest, _: str) -> Errors:
    name, value = obj["metadata"].get("name", ""), obj.get("value", 0)
    if name.startswith(SYSTEM_PREFIX) and name not in ("system-node-critical", "system-cluster-critical"):
        text = (
            f"priority class names with '{SYSTEM_PREFIX}' prefix are reserved for system use only. "
            f"error: {name} is not a known system priority class"
        )
        yield forbidden("metadata.name", text)
    if value > SYSTEM_PRIORITY and not name.startswith(SYSTEM_PREFIX):
        text = f"maximum allowed value of a user defined priority is {SYSTEM_PRIORITY}"
        yield forbidden("value", text)


class PriorityClass(BuiltinKind):
    """scheduling.k8s.io PriorityClass."""

    generation = True
    defaults = {"preemptionPolicy": "PreemptLowerPriority"}
    rules = (_priority, choice("preemptionPolicy", ("PreemptLowerPriority", "Never")))
    fixed = ("preemptionPolicy",)

    def check_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Value and preemption policy may not change."""
        found = changed(self.fixed, new, old)
        if new.get("value", 0) == old.get("value", 0):
            return found
        return [forbidden("Value", "may not be changed in an update."), *found]

    def spec_changed(self, new: Manifest, old: Manifest) -> bool:
        """The generation never rises."""
        return False


class RuntimeClass(BuiltinKind):
    """node.k8s.io RuntimeClass; a PUT of a new one creates it, of an old one names the resourceVersion it replaces."""

    create_on_update = True
    unconditional_update = False
    rules = (
        text("handler", names.label, blank=True),
        inside("overhead", inside("podFixed", amounts)),
        inside("scheduling", inside("nodeSelector", meta.labels), pod_checks.TOLERATIONS),
    )
    fixed = ("handler",)
