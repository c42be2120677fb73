"""StatefulSets and DaemonSets."""

from __future__ import annotations

from typing import Any

from schemas.manifest import Manifest
from services._rules.kubernetes.validation.field_errors import (
    Errors,
    FieldError,
    Raw,
    forbidden,
    invalid,
    not_supported,
    required,
)
from services._rules.kubernetes.validation.field_rules import inside, not_negative
from services._rules.kubernetes.validation.status_fields import counts
from services.apiserver.kinds.checks import pod_specs as pod_checks
from services.apiserver.kinds.workloads import pod_defaults
from services.apiserver.kinds.workloads.deployments import (
    Workload,
    number_of,
    percent_or_count,
    restarted,
    rolling,
    selector,
    template_of,
)

TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
_PARTS = ("readyReplicas", "currentReplicas", "updatedReplicas")
_FREE = (
    "replicas",
    "template",
    "updateStrategy",
    "minReadySeconds",
    "ordinals",
    "persistentVolumeClaimRetentionPolicy",
    "revisionHistoryLimit",
)


def _management(spec: Manifest, path: str) -> Errors:
    policy, field = spec.get("podManagementPolicy", ""), f"{path}.podManagementPolicy"
    if policy not in ("OrderedReady", "Parallel"):
        yield invalid(field, policy, "must be 'OrderedReady' or 'Parallel'") if policy else required(field)


def _set_strategy(strategy: Manifest, path: str) -> list[FieldError]:
    kind, rolling, field = strategy.get("type", ""), strategy.get("rollingUpdate"), f"{path}.rollingUpdate"
    if kind == "OnDelete":
        text = "only allowed for updateStrategy 'RollingUpdate'"
        return [] if rolling is None else [invalid(field, rolling, text)]
    if kind == "RollingUpdate":
        return not_negative("partition")(rolling or {}, field)
    return [invalid(path, strategy, "must be 'RollingUpdate' or 'OnDelete'") if kind else required(path)]


class StatefulSet(Workload):
    """apps/v1 StatefulSet."""

    status_rules = counts(("replicas", *_PARTS), _PARTS)
    defaults = {
        "spec": {
            "template": pod_defaults.template,
            "podManagementPolicy": "OrderedReady",
            "updateStrategy": rolling(partition=0),
            "replicas": 1,
            "revisionHistoryLimit": 10,
            "volumeClaimTemplates[]": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "spec": {"volumeMode": "Filesystem"},
                "status": {"phase": "Pending"},
            },
        }
    }
    # Of the template, what a pod cannot be made with at all: its containers are checked once it is, with its claims.
    spec_rules = (
        _management,
        inside("updateStrategy", _set_strategy, absent={}),
        not_negative("replicas"),
        selector("empty selector is invalid for statefulset"),
        inside("template", pod_checks.template_metadata, restarted("StatefulSet"), absent={}),
    )

    def check_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Only replicas, template and update strategy (and what newer releases added) may change."""
        spec, before = new["spec"], old["spec"]
        names = {*spec, *before}.difference(_FREE)
        found: list[FieldError] = []
        if any(_comparable(spec, name) != _comparable(before, name) for name in names):
            text = (
                "updates to statefulset spec for fields other than 'replicas', 'template', and 'updateStrategy' "
                "are forbidden"
            )
            found.append(forbidden("spec", text))
        return found + not_negative("replicas")(spec, "spec")


def _comparable(spec: Manifest, name: str) -> Any:
    if name != "volumeClaimTemplates":
        return spec.get(name)
    return [{key: value for key, value in item.items() if key != "status"} for item in spec.get(name) or ()]


def _daemon_strategy(strategy: Manifest, path: str) -> Errors:
    kind, rolling, field = strategy.get("type", ""), strategy.get("rollingUpdate"), f"{path}.rollingUpdate"
    if kind not in ("OnDelete", "RollingUpdate"):
        yield not_supported(f"{path}.type", kind, ("RollingUpdate", "OnDelete"))
    elif rolling is None:
        if kind == "RollingUpdate":
            yield required(field)
    elif kind == "RollingUpdate":
        value = rolling.get("maxUnavailable", 0)
        yield from percent_or_count(value, f"{field}.maxUnavailable")
        if number_of(value) == 0 and number_of(rolling.get("maxSurge", 0)) == 0:
            shown = Raw(f'intstr.IntOrString{{Type:{int(isinstance(value, str))}, IntVal:0, StrVal:"{value or ""}"}}')
            yield invalid(f"{field}.maxUnavailable", shown, "cannot be 0")


class DaemonSet(Workload):
    """apps/v1 DaemonSet."""

    status_rules = counts(
        (
            "currentNumberScheduled",
            "numberMisscheduled",
            "desiredNumberScheduled",
            "numberReady",
            "updatedNumberScheduled",
            "numberAvailable",
            "numberUnavailable",
        )
    )
    defaults = {
        "spec": {
            "template": pod_defaults.template,
            "updateStrategy": rolling(maxUnavailable=1),
            "revisionHistoryLimit": 10,
        }
    }
    spec_rules = (
        selector("empty selector is invalid for daemonset"),
        template_of("DaemonSet"),
        not_negative("minReadySeconds"),
        inside("updateStrategy", _daemon_strategy, absent={}),
        not_negative("revisionHistoryLimit"),
    )
    fixed = ("spec.selector",)

    def prepare_create(self, obj: Manifest) -> None:
        """Start the template generation, which lives in an annotation."""
        super().prepare_create(obj)
        obj["metadata"].setdefault("annotations", {})[TEMPLATE_GENERATION] = "1"

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
