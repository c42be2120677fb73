"""Deployments, ReplicaSets, ReplicationControllers and ControllerRevisions, and what all workloads share."""

from __future__ import annotations

from typing import Any

from schemas.manifest import Manifest
from services._rules.kubernetes.validation.field_errors import (
    FieldError,
    forbidden,
    go_map,
    invalid,
    not_supported,
    required,
)
from services._rules.kubernetes.validation.object_metadata import immutable
from services.apiserver.kinds.builtin import BuiltinKind
from services.apiserver.kinds.checks import affinities as affinity_checks
from services.apiserver.kinds.checks import pod_specs as pod_checks
from services.apiserver.kinds.checks import status_fields as status_checks
from services.apiserver.kinds.checks.containers import NOT_NEGATIVE
from services.apiserver.kinds.workloads import pod_defaults

MISMATCH = "`selector` does not match template `labels`"


def not_negative(values: Manifest, names_: tuple[str, ...], field: str) -> list[FieldError]:
    """Return an error for each of the numbers that is below zero."""
    return [
        invalid(f"{field}.{name}", values[name], NOT_NEGATIVE)
        for name in names_
        if values.get(name) is not None and values[name] < 0
    ]


def matches(selector: Manifest, labels: dict[str, str]) -> bool:
    """Return whether labels satisfy a label selector."""
    for key, value in (selector.get("matchLabels") or {}).items():
        if labels.get(key) != value:
            return False
    for item in selector.get("matchExpressions") or ():
        key, operator, values = item.get("key"), item.get("operator"), item.get("values") or ()
        present = key in labels
        if operator == "In" and not (present and labels[key] in values):
            return False
        if operator == "NotIn" and present and labels[key] in values:
            return False
        if operator in ("Exists", "DoesNotExist") and present != (operator == "Exists"):
            return False
    return True


def is_empty(selector: Manifest) -> bool:
    """Return whether a label selector selects everything."""
    return not selector.get("matchLabels") and not selector.get("matchExpressions")


def percent_or_count(value: Any, field: str, *, cap: bool) -> list[FieldError]:
    """Return what is wrong with a count or a percentage; `cap` forbids more than 100%."""
    if isinstance(value, int):
        return [] if value >= 0 else [invalid(field, value, NOT_NEGATIVE)]
    if not (value.endswith("%") and value[:-1].isdigit()):
        text = (
            "a valid percent string must be a numeric string followed by an ending '%' "
            "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
        )
        return [invalid(field, value, text)]
    if cap and int(value[:-1]) > 100:
        return [invalid(field, value, "must not be greater than 100%")]
    return []


def number_of(value: Any) -> int:
    """Return the number in a count or a percentage."""
    if isinstance(value, str):
        return int(value[:-1]) if value.endswith("%") and value[:-1].isdigit() else 0
    return value or 0


class Workload(BuiltinKind):
    """What all workloads share: one template, checked against the selector, restarted always."""

    generation = True
    has_status = True
    counted: tuple[str, ...] = ("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas")
    """Numbers of the status that may not be below zero."""
    parts: tuple[str, ...] = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
    """Those of them that `replicas` holds."""
    empty_selector_text = "invalid label selector"

    def default(self, obj: Manifest) -> None:
        """Fill in the template and the replicas."""
        spec = obj["spec"]
        pod_defaults.template(spec.setdefault("template", {}))
        self.default_spec(spec)

    def default_spec(self, spec: Manifest) -> None:
        """Fill in the kind's own fields."""
        spec.setdefault("replicas", 1)

    def check_selector(self, spec: Manifest) -> list[FieldError]:
        """Check that there is a selector, that it selects something, and that the template's labels match it."""
        selector = spec.get("selector")
        labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
        if selector is None:
            found = [required("spec.selector")]
            selector = {}
        else:
            found = affinity_checks.label_selector(selector, "spec.selector")
            if is_empty(selector):
                found.append(invalid("spec.selector", selector, self.empty_selector_text))
        if not found or is_empty(selector):
            chosen = not is_empty(selector)
            if (chosen and not matches(selector, labels or {})) or (spec.get("selector") is None):
                found.append(invalid("spec.template.metadata.labels", go_map(labels), MISMATCH))
        return found

    def check_template(self, spec: Manifest) -> list[FieldError]:
        """Check the pod template; its containers must always restart."""
        template = spec.get("template") or {}
        return pod_checks.template(template, "spec.template") + self.check_restarts(template.get("spec") or {})

    def validate_status(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Numbers are none below zero, and parts are not more than the whole."""
        return status_checks.counts(new, self.counted, self.parts)

    def check_restarts(self, pod: Manifest) -> list[FieldError]:
        """Check that the template's containers always restart and have no end."""
        found: list[FieldError] = []
        policy = pod.get("restartPolicy")
        if policy != "Always":
            found.append(not_supported("spec.template.spec.restartPolicy", policy, ("Always",)))
        if pod.get("activeDeadlineSeconds") is not None:
            text = f"activeDeadlineSeconds in {self.resource.kind} is not Supported"
            found.append(forbidden("spec.template.spec.activeDeadlineSeconds", text))
        return found


class Deployment(Workload):
    """apps/v1 Deployment."""

    counted = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas")
    parts = ("updatedReplicas", "readyReplicas", "availableReplicas")

    def default_spec(self, spec: Manifest) -> None:
        """Fill in replicas, strategy, history and deadline."""
        spec.setdefault("replicas", 1)
        strategy = spec.setdefault("strategy", {})
        strategy.setdefault("type", "RollingUpdate")
        if strategy["type"] == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", "25%")
            rolling.setdefault("maxSurge", "25%")
        spec.setdefault("revisionHistoryLimit", 10)
        spec.setdefault("progressDeadlineSeconds", 600)

    def check(self, obj: Manifest) -> list[FieldError]:
        """Check the whole spec."""
        spec = obj["spec"]
        found = not_negative(spec, ("replicas",), "spec")
        found += self.check_selector(spec)
        found += self.check_template(spec)
        found += self._strategy(spec.get("strategy") or {})
        found += not_negative(spec, ("minReadySeconds", "revisionHistoryLimit"), "spec")
        deadline = spec.get("progressDeadlineSeconds")
        if deadline is not None:
            found += not_negative(spec, ("progressDeadlineSeconds",), "spec")
            if deadline <= spec.get("minReadySeconds", 0):
                text = "must be greater than minReadySeconds"
                found.append(invalid("spec.progressDeadlineSeconds", deadline, text))
        return found

    @staticmethod
    def _strategy(strategy: Manifest) -> list[FieldError]:
        kind, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
        if kind == "Recreate":
            if rolling is not None:
                text = "may not be specified when strategy `type` is 'Recreate'"
                return [forbidden("spec.strategy.rollingUpdate", text)]
            return []
        if kind != "RollingUpdate":
            return [not_supported("spec.strategy.type", kind, ("Recreate", "RollingUpdate"))]
        if rolling is None:
            return [required("spec.strategy.rollingUpdate", "this should be defaulted and never be nil")]
        field = "spec.strategy.rollingUpdate"
        unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
        found = percent_or_count(unavailable, f"{field}.maxUnavailable", cap=False)
        found += percent_or_count(surge, f"{field}.maxSurge", cap=False)
        if number_of(unavailable) == 0 and number_of(surge) == 0:
            found.append(invalid(f"{field}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0"))
        return found + [
            invalid(f"{field}.maxUnavailable", unavailable, "must not be greater than 100%")
            for _ in range(isinstance(unavailable, str) and number_of(unavailable) > 100)
        ]

    def check_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """The selector may not change."""
        return [*self.check(new), *selector_kept(new, old)]

    def prepare_status(self, new: Manifest, old: Manifest) -> None:
        """Labels stay as they are too."""
        super().prepare_status(new, old)
        new["metadata"].pop("labels", None)
        if "labels" in old["metadata"]:
            new["metadata"]["labels"] = old["metadata"]["labels"]

    def spec_changed(self, new: Manifest, old: Manifest) -> bool:
        """Annotations count too: they are copied to the ReplicaSets."""
        annotations = (part["metadata"].get("annotations") or {} for part in (new, old))
        return super().spec_changed(new, old) or next(annotations) != next(annotations)


def selector_kept(new: Manifest, old: Manifest) -> list[FieldError]:
    """Return an error when the selector changed."""
    return immutable("spec.selector", new["spec"].get("selector"), old["spec"].get("selector"))


class ReplicaSet(Workload):
    """apps/v1 ReplicaSet."""

    def check(self, obj: Manifest) -> list[FieldError]:
        """Check the whole spec."""
        spec = obj["spec"]
        found = not_negative(spec, ("replicas", "minReadySeconds"), "spec")
        found += self.check_selector(spec)
        return found + self.check_template(spec)

    def check_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """The selector may not change."""
        return [*self.check(new), *selector_kept(new, old)]

    def field_selectors(self, obj: Manifest) -> dict[str, str]:
        """Add the number of replicas in the status."""
        count = (obj.get("status") or {}).get("replicas", 0)
        return {**super().field_selectors(obj), "status.replicas": str(count)}


class ReplicationController(Workload):
    """core/v1 ReplicationController, whose selector is a plain map."""

    def default(self, obj: Manifest) -> None:
        """Take selector and labels from the template when they are missing."""
        spec = obj["spec"]
        labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
        if labels:
            if not spec.get("selector"):
                spec["selector"] = dict(labels)
            if not obj["metadata"].get("labels"):
                obj["metadata"]["labels"] = dict(labels)
        spec.setdefault("replicas", 1)
        if "template" in spec:
            pod_defaults.template(spec["template"])

    def check(self, obj: Manifest) -> list[FieldError]:
        """Check the whole spec."""
        spec = obj["spec"]
        found = not_negative(spec, ("minReadySeconds",), "spec")
        selector = spec.get("selector") or {}
        if not selector:
            found.append(required("spec.selector"))
        found += not_negative(spec, ("replicas",), "spec")
        if "template" not in spec:
            return [*found, required("spec.template")]
        labels = (spec["template"].get("metadata") or {}).get("labels")
        if selector and not matches({"matchLabels": selector}, labels or {}):
            found.append(invalid("spec.template.metadata.labels", go_map(labels), MISMATCH))
        return found + self.check_template(spec)

    def field_selectors(self, obj: Manifest) -> dict[str, str]:
        """Add the number of replicas in the status."""
        count = (obj.get("status") or {}).get("replicas", 0)
        return {**super().field_selectors(obj), "status.replicas": str(count)}


class ControllerRevision(BuiltinKind):
    """apps/v1 ControllerRevision."""

    def check(self, obj: Manifest) -> list[FieldError]:
        """There must be data, and the revision may not be negative."""
        found: list[FieldError] = []
        if obj.get("data") is None:
            found.append(required("data", "data is mandatory"))
        return found + [invalid("revision", obj["revision"], NOT_NEGATIVE) for _ in range(obj.get("revision", 0) < 0)]

    def check_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """The data may not change."""
        return [*self.check(new), *immutable("data", new.get("data"), old.get("data"))]
