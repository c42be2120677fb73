"""PodDisruptionBudgets, v1 and v1beta1 alike."""

from __future__ import annotations

from schemas.manifest import Manifest
from services._rules.kubernetes.validation.field_errors import FieldError, invalid
from services.apiserver.kinds.builtin import BuiltinKind
from services.apiserver.kinds.checks import affinities as affinity_checks
from services.apiserver.kinds.workloads.deployments import not_negative, percent_or_count


class DisruptionBudget(BuiltinKind):
    """policy PodDisruptionBudget."""

    generation = True
    has_status = True
    unconditional_update = False

    def check(self, obj: Manifest) -> list[FieldError]:
        """Check the selector and the one of two limits."""
        spec = obj.get("spec") or {}
        found: list[FieldError] = []
        if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
            found.append(invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set"))
        for name in ("minAvailable", "maxUnavailable"):
            if (value := spec.get(name)) is not None:
                found += percent_or_count(value, f"spec.{name}", cap=True)
        return found + affinity_checks.label_selector(spec.get("selector"), "spec.selector")

    def validate_status(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Counts may not be negative."""
        names = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
        return not_negative(new.get("status") or {}, names, "status")
