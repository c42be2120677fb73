"""Namespaces, Nodes, Leases, PriorityClasses and RuntimeClasses."""

from __future__ import annotations

import ipaddress

from schemas.manifest import Manifest
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation import object_metadata as meta
from services._rules.kubernetes.validation.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from services._rules.kubernetes.validation.object_metadata import immutable
from services.apiserver.kinds.builtin import BuiltinKind
from services.apiserver.kinds.checks import pod_specs as pod_checks
from services.apiserver.kinds.checks.containers import amounts

NAME_LABEL = "kubernetes.io/metadata.name"
_LAST_UNLABELLED = 20
NOT_READY = "node.kubernetes.io/not-ready"
SYSTEM_PRIORITY = 1_000_000_000
SYSTEM_PREFIX = "system-"


class Namespace(BuiltinKind):
    """core/v1 Namespace; it is finalised through its own subresource."""

    has_status = True

    def default(self, obj: Manifest) -> None:
        """Fill in the phase, and the label by which selectors find a namespace by its name (since 1.21)."""
        obj.setdefault("spec", {})
        obj.setdefault("status", {}).setdefault("phase", "Active")
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
        del old
        found: list[FieldError] = []
        for name in (new.get("spec") or {}).get("finalizers") or ():
            found += [invalid("spec.finalizers", name, text) for text in names.qualified(name)]
            if "/" not in name and name != "kubernetes":
                text = "name is neither a standard finalizer name nor is it fully qualified"
                found.append(invalid("spec.finalizers", name, text))
        return found

    def field_selectors(self, obj: Manifest) -> dict[str, str]:
        """Add the phase."""
        phase = (obj.get("status") or {}).get("phase", "")
        return {**super().field_selectors(obj), "status.phase": phase}


class Node(BuiltinKind):
    """core/v1 Node; a status given on create is kept."""

    has_status = True

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

    def check(self, obj: Manifest) -> list[FieldError]:
        """Check taints, pod ranges and capacities."""
        spec = obj.get("spec") or {}
        found = _taints(spec.get("taints") or [])
        for index, text in enumerate(spec.get("podCIDRs") or ()):
            try:
                ipaddress.ip_network(text, strict=False)
            except ValueError:
                found.append(
                    invalid(
                        f"spec.podCIDRs[{index}]",
                        text,
                        "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
                    )
                )
        status = obj.get("status") or {}
        for name in ("capacity", "allocatable"):
            for key, value in (status.get(name) or {}).items():
                found += [invalid(f"status.{name}.{key}", key, text) for text in names.qualified(key)]
                found += [item for item in amounts({"cpu": value}, f"status.{name}") if "greater" in item.detail]
        return found

    def check_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Only labels, taints, capacity, schedulability and a first pod range may change."""
        found = self.check(new)
        spec, before = new.get("spec") or {}, old.get("spec") or {}
        if before.get("podCIDRs") and spec.get("podCIDRs") != before["podCIDRs"]:
            text = 'node updates may not change podCIDR except from "" to valid'
            found.append(forbidden("spec.podCIDRs", text))
        if before.get("providerID") and spec.get("providerID") != before["providerID"]:
            text = 'node updates may not change providerID except from "" to valid'
            found.append(forbidden("spec.providerID", text))
        free = {"taints", "unschedulable", "configSource"}
        if not before.get("podCIDRs"):
            free |= {"podCIDR", "podCIDRs"}
        if not before.get("providerID"):
            free.add("providerID")
        if any(spec.get(name) != before.get(name) for name in {*spec, *before}.difference(free)):
            text = (
                "node updates may only change labels, taints, or capacity "
                "(or configSource, if the DynamicKubeletConfig feature gate is enabled)"
            )
            found.append(forbidden("[]", text))
        return found

    def field_selectors(self, obj: Manifest) -> dict[str, str]:
        """Add whether pods may be scheduled."""
        closed = bool((obj.get("spec") or {}).get("unschedulable"))
        return {**super().field_selectors(obj), "spec.unschedulable": str(closed).lower()}


def _taints(items: list[Manifest]) -> list[FieldError]:
    found: list[FieldError] = []
    seen: set[tuple[str, str]] = set()
    for index, item in enumerate(items):
        field = f"metadata.taints[{index}]"
        key, value, effect = item.get("key", ""), item.get("value", ""), item.get("effect", "")
        found += [invalid(f"{field}.key", key, text) for text in names.qualified(key)]
        if value and (texts := names.label_value(value)):
            found.append(invalid(f"{field}.value", value, ";".join(texts)))
        if effect not in pod_checks.EFFECTS:
            found.append(
                not_supported(f"{field}.effect", effect, pod_checks.EFFECTS) if effect else required(f"{field}.effect")
            )
        if (key, effect) in seen:
            found.append(duplicate(f"{field}", item))
        seen.add((key, effect))
    return found


class Lease(BuiltinKind):
    """coordination.k8s.io Lease; a PUT must name the resourceVersion it replaces."""

    create_on_update = True
    unconditional_update = False

    def check(self, obj: Manifest) -> list[FieldError]:
        """Durations must be positive, transitions not negative."""
        spec = obj.get("spec") or {}
        found: list[FieldError] = []
        seconds = spec.get("leaseDurationSeconds")
        if seconds is not None and seconds <= 0:
            found.append(invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0"))
        changes = spec.get("leaseTransitions")
        if changes is not None and changes < 0:
            found.append(invalid("spec.leaseTransitions", changes, "must be greater than or equal to 0"))
        return found


class PriorityClass(BuiltinKind):
    """scheduling.k8s.io PriorityClass."""

    generation = True

    def default(self, obj: Manifest) -> None:
        """Fill in the preemption policy."""
        obj.setdefault("preemptionPolicy", "PreemptLowerPriority")

    def check(self, obj: Manifest) -> list[FieldError]:
        """Check the value's range and the preemption policy."""
        found: list[FieldError] = []
        name, value = obj["metadata"].get("name", ""), obj.get("value", 0)
        if name.startswith(SYSTEM_PREFIX) and name not in ("system-node-critical", "system-cluster-critical"):
            text = (
                f"priority class names with '{SYSTEM_PREFIX}' prefix are reserved for system use only. "
                f"error: {name} is not a known system priority class"
            )
            found.append(forbidden("metadata.name", text))
        if value > SYSTEM_PRIORITY and not name.startswith(SYSTEM_PREFIX):
            text = f"maximum allowed value of a user defined priority is {SYSTEM_PRIORITY}"
            found.append(forbidden("value", text))
        supported = ("Never", "PreemptLowerPriority")
        if (policy := obj.get("preemptionPolicy")) is not None and policy not in supported:
            found.append(not_supported("preemptionPolicy", policy, ("PreemptLowerPriority", "Never")))
        return found

    def check_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Value and preemption policy may not change."""
        found: list[FieldError] = []
        if new.get("value", 0) != old.get("value", 0):
            found.append(forbidden("Value", "may not be changed in an update."))
        return found + immutable("preemptionPolicy", new.get("preemptionPolicy"), old.get("preemptionPolicy"))

    def spec_changed(self, new: Manifest, old: Manifest) -> bool:
        """The generation never rises."""
        return False


class RuntimeClass(BuiltinKind):
    """node.k8s.io RuntimeClass; a PUT of a new one creates it, of an old one names the resourceVersion it replaces."""

    create_on_update = True
    unconditional_update = False

    def check(self, obj: Manifest) -> list[FieldError]:
        """The handler is a DNS label; overhead and scheduling are checked like those of pods."""
        handler = obj.get("handler", "")
        found = [invalid("handler", handler, text) for text in names.label(handler)]
        found += amounts((obj.get("overhead") or {}).get("podFixed") or {}, "overhead.podFixed")
        scheduling = obj.get("scheduling") or {}
        found += meta.labels(scheduling.get("nodeSelector") or {}, "scheduling.nodeSelector")
        return found + pod_checks.tolerations(scheduling.get("tolerations") or [], "scheduling.tolerations")

    def check_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """The handler may not change."""
        return [*self.check(new), *immutable("handler", new.get("handler"), old.get("handler"))]
