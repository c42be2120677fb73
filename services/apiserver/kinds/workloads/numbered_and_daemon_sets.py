"""StatefulSets and DaemonSets."""

from __future__ import annotations

from typing import Any

from schemas.manifest import Manifest
from services._rules.kubernetes.validation import object_metadata as meta
from services._rules.kubernetes.validation.field_errors import (
    FieldError,
    Raw,
    forbidden,
    invalid,
    not_supported,
    required,
)
from services.apiserver.kinds.workloads.deployments import (
    Workload,
    not_negative,
    number_of,
    percent_or_count,
    selector_kept,
)

TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


class StatefulSet(Workload):
    """apps/v1 StatefulSet."""

    counted = ("replicas", "readyReplicas", "currentReplicas", "updatedReplicas")
    parts = ("readyReplicas", "currentReplicas", "updatedReplicas")

    empty_selector_text = "empty selector is invalid for statefulset"

    def default_spec(self, spec: Manifest) -> None:
        """Fill in replicas, policies, partition, history and claim templates."""
        spec.setdefault("podManagementPolicy", "OrderedReady")
        strategy = spec.setdefault("updateStrategy", {})
        strategy.setdefault("type", "RollingUpdate")
        if strategy["type"] == "RollingUpdate":
            strategy.setdefault("rollingUpdate", {}).setdefault("partition", 0)
        spec.setdefault("replicas", 1)
        spec.setdefault("revisionHistoryLimit", 10)
        for claim in spec.get("volumeClaimTemplates") or ():
            claim.setdefault("apiVersion", "v1")
            claim.setdefault("kind", "PersistentVolumeClaim")
            claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
            claim.setdefault("status", {}).setdefault("phase", "Pending")

    def check(self, obj: Manifest) -> list[FieldError]:
        """Check the whole spec."""
        spec = obj["spec"]
        found: list[FieldError] = []
        policy = spec.get("podManagementPolicy", "")
        if policy not in ("OrderedReady", "Parallel"):
            text = "must be 'OrderedReady' or 'Parallel'"
            found.append(
                invalid("spec.podManagementPolicy", policy, text) if policy else required("spec.podManagementPolicy")
            )
        strategy = spec.get("updateStrategy") or {}
        kind, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
        if kind == "OnDelete":
            if rolling is not None:
                text = "only allowed for updateStrategy 'RollingUpdate'"
                found.append(invalid("spec.updateStrategy.rollingUpdate", rolling, text))
        elif kind == "RollingUpdate":
            found += not_negative(rolling or {}, ("partition",), "spec.updateStrategy.rollingUpdate")
        elif kind:
            text = "must be 'RollingUpdate' or 'OnDelete'"
            found.append(invalid("spec.updateStrategy", strategy, text))
        else:
            found.append(required("spec.updateStrategy"))
        found += not_negative(spec, ("replicas",), "spec")
        found += self.check_selector(spec)
        return found + self.check_template(spec)

    def check_template(self, spec: Manifest) -> list[FieldError]:
        """Check what a pod cannot be made with at all: its containers are checked once it is, with its claims."""
        template = spec.get("template") or {}
        metadata, pod = template.get("metadata") or {}, template.get("spec") or {}
        found = meta.labels(metadata.get("labels") or {}, "spec.template.labels")
        found += meta.annotations(metadata.get("annotations") or {}, "spec.template.annotations")
        return found + self.check_restarts(pod)

    def check_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Only replicas, template and update strategy (and what newer releases added) may change."""
        free = (
            "replicas",
            "template",
            "updateStrategy",
            "minReadySeconds",
            "ordinals",
            "persistentVolumeClaimRetentionPolicy",
            "revisionHistoryLimit",
        )
        found: list[FieldError] = []
        spec, before = new["spec"], old["spec"]
        fixed = [
            name for name in {*spec, *before}.difference(free) if _comparable(spec, name) != _comparable(before, name)
        ]
        if fixed:
            text = (
                "updates to statefulset spec for fields other than 'replicas', 'template', and 'updateStrategy' "
                "are forbidden"
            )
            found.append(forbidden("spec", text))
        return [*found, *not_negative(spec, ("replicas",), "spec")]


def _comparable(spec: Manifest, name: str) -> Any:
    if name != "volumeClaimTemplates":
        return spec.get(name)
    return [{key: value for key, value in item.items() if key != "status"} for item in spec.get(name) or ()]


class DaemonSet(Workload):
    """apps/v1 DaemonSet."""

    counted = (
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
    )
    parts = ()

    empty_selector_text = "empty selector is invalid for daemonset"

    def default_spec(self, spec: Manifest) -> None:
        """Fill in the update strategy and the history."""
        strategy = spec.setdefault("updateStrategy", {})
        strategy.setdefault("type", "RollingUpdate")
        if strategy["type"] == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", 1)
            if "maxSurge" in rolling:
                rolling.setdefault("maxSurge", 0)
        spec.setdefault("revisionHistoryLimit", 10)

    def prepare_create(self, obj: Manifest) -> None:
        """Start the template generation, which lives in an annotation."""
        super().prepare_create(obj)
        obj["metadata"].setdefault("annotations", {}).setdefault(TEMPLATE_GENERATION, "0")
        obj["metadata"]["annotations"][TEMPLATE_GENERATION] = "1"

    def prepare_update(self, new: Manifest, old: Manifest) -> None:
        """Raise the template generation when the template changed."""
        super().prepare_update(new, old)
        before = (old["metadata"].get("annotations") or {}).get(TEMPLATE_GENERATION)
        if before is None:
            return
        value = before
        if new["spec"].get("template") != old["spec"].get("template") and before.isdigit():
            value = str(int(before) + 1)
        new["metadata"].setdefault("annotations", {})
        new["metadata"]["annotations"] = {**new["metadata"]["annotations"], TEMPLATE_GENERATION: value}

    def check(self, obj: Manifest) -> list[FieldError]:
        """Check the whole spec."""
        spec = obj["spec"]
        found = self.check_selector(spec)
        found += self.check_template(spec)
        found += not_negative(spec, ("minReadySeconds",), "spec")
        strategy = spec.get("updateStrategy") or {}
        kind, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
        if kind == "RollingUpdate":
            field = "spec.updateStrategy.rollingUpdate"
            if rolling is None:
                found.append(required(field))
            else:
                value = rolling.get("maxUnavailable", 0)
                found += percent_or_count(value, f"{field}.maxUnavailable", cap=True)
                if number_of(value) == 0 and number_of(rolling.get("maxSurge", 0)) == 0:
                    shown = Raw(
                        f'intstr.IntOrString{{Type:{int(isinstance(value, str))}, IntVal:0, StrVal:"{value or ""}"}}'
                    )
                    found.append(invalid(f"{field}.maxUnavailable", shown, "cannot be 0"))
        elif kind != "OnDelete":
            found.append(not_supported("spec.updateStrategy.type", kind, ("RollingUpdate", "OnDelete")))
        return found + not_negative(spec, ("revisionHistoryLimit",), "spec")

    def check_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """The selector may not change."""
        return [*self.check(new), *selector_kept(new, old)]
