"""PodDisruptionBudgets, v1 and v1beta1 alike, and PodSecurityPolicies."""

from __future__ import annotations

from schemas.manifest import Manifest
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation.field_errors import Errors, FieldError, invalid
from services._rules.kubernetes.validation.field_rules import ListCheck, choice, each, inside, not_negative, number
from services._rules.kubernetes.validation.status_fields import CONDITIONS
from services.apiserver.kinds.builtin import BuiltinKind, PlainWithStatus
from services.apiserver.kinds.checks.affinities import label_selector
from services.apiserver.kinds.workloads.deployments import percent_or_count


def _one_limit(spec: Manifest, path: str) -> Errors:
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        yield invalid(path, spec, "minAvailable and maxUnavailable cannot be both set")


_STATUS_SINCE = 21  # the first minor release that checks a status, as v1 has it


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

    def validate_status(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return what is wrong with a status; the beta's is not checked."""
        checked = self.release >= _STATUS_SINCE and self.resource.version == "v1"
        return super().validate_status(new, old) if checked else []


def _ordered(span: Manifest, path: str) -> Errors:
    least = span.get("min") or 0
    if least > (span.get("max") or 0):
        yield invalid(f"{path}.min", least, "min cannot be greater than max")


_SPANS = each(
    "ranges",
    number("min", 0, detail="min cannot be negative"),
    number("max", 0, detail="max cannot be negative"),
    _ordered,
)


def _strategy(name: str, *rules: str, needed: bool = True) -> ListCheck:
    """A rule by which a policy chooses ids or labels, and the ranges of ids."""
    return inside(name, choice("rule", rules, blank=True), _SPANS, absent={} if needed else None)


def _escalation(spec: Manifest, path: str) -> Errors:
    if spec.get("defaultAllowPrivilegeEscalation") and not spec.get("allowPrivilegeEscalation"):
        text = (
            "Cannot set DefaultAllowPrivilegeEscalation to true without also setting AllowPrivilegeEscalation to true"
        )
        yield invalid(f"{path}.defaultAllowPrivilegeEscalation", True, text)


class SecurityPolicy(BuiltinKind):
    """policy PodSecurityPolicy: stored and checked, and never enforced."""

    defaults = {"spec": {"allowPrivilegeEscalation": True}}
    spec_rules = (
        _strategy("runAsUser", "MustRunAs", "MustRunAsNonRoot", "RunAsAny"),
        _strategy("runAsGroup", "MayRunAs", "MustRunAs", "RunAsAny", needed=False),
        _strategy("seLinux", "MustRunAs", "RunAsAny"),
        _strategy("supplementalGroups", "MayRunAs", "MustRunAs", "RunAsAny"),
        _strategy("fsGroup", "MayRunAs", "MustRunAs", "RunAsAny"),
        _escalation,
    )
