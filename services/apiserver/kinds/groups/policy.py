"""PodDisruptionBudgets."""

from __future__ import annotations

from schemas.manifest import Manifest
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation.field_errors import Errors, invalid
from services._rules.kubernetes.validation.field_rules import choice, inside, not_negative
from services._rules.kubernetes.validation.status_fields import CONDITIONS
from services.apiserver.kinds.builtin import PlainWithStatus
from services.apiserver.kinds.checks.affinities import label_selector
from services.apiserver.kinds.workloads.deployments import percent_or_count


def _one_limit(spec: Manifest, path: str) -> Errors:
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        yield invalid(path, spec, "minAvailable and maxUnavailable cannot be both set")


class DisruptionBudget(PlainWithStatus):
    """policy PodDisruptionBudget."""

    spec_rules = (
        _one_limit,
        inside("minAvailable", percent_or_count),
        inside("maxUnavailable", percent_or_count),
        inside("selector", label_selector),
        choice("unhealthyPodEvictionPolicy", ("AlwaysAllow", "IfHealthyBudget")),
    )
    status_rules = (CONDITIONS, not_negative("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"))

    def check_name(self, name: str) -> list[str]:
        """Return what is wrong with the name, which may be anything that is one part of a path."""
        return names.path_segment(name)
