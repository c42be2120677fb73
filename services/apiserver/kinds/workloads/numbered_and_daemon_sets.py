"""StatefulSets and DaemonSets."""

from __future__ import annotations

from typing import Any, Final

from schemas.manifest import Manifest
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation.field_errors import (
    Errors,
    FieldError,
    forbidden,
    invalid,
    not_supported,
    required,
)
from services._rules.kubernetes.validation.field_rules import (
    apply,
    choice,
    each,
    inside,
    not_negative,
    text,
)
from services._rules.kubernetes.validation.status_fields import counts
from services.apiserver.kinds.checks import pod_specs as pod_checks
from services.apiserver.kinds.checks.affinities import is_usable, label_selector, selects
from services.apiserver.kinds.checks.claim_specs import CLAIM
from services.apiserver.kinds.checks.volumes import writable_disks
from services.apiserver.kinds.workloads import pod_defaults
from services.apiserver.kinds.workloads.deployments import (
    Workload,
    is_percentage,
    mismatch,
    number_of,
    percent_or_count,
    restarted,
    rolling,
    selected,
)

TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
_PARTS = ("readyReplicas", "currentReplicas", "updatedReplicas")
_FREE: Final = (
    *("replicas", "template", "updateStrategy", "minReadySeconds", "ordinals"),
    *("persistentVolumeClaimRetentionPolicy", "revisionHistoryLimit"),
)
_FIXED: Final = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)


def _management(spec: Manifest, path: str) -> Errors:
    policy, field = spec.get("podManagementPolicy", ""), f"{path}.podManagementPolicy"
    if policy not in ("OrderedReady", "Parallel"):
        yield invalid(field, policy, "must be 'OrderedReady' or 'Parallel'") if policy else required(field)


def _set_strategy(strategy: Manifest, path: str) -> list[FieldError]:
    kind, rolling, field = strategy.get("type", ""), strategy.get("rollingUpdate"), f"{path}.rollingUpdate"
    if kind == "OnDelete":
        text = "only allowed for updateStrategy 'RollingUpdate'"
        return [] if rolling is None else [invalid(field, True, text)]
    if kind == "RollingUpdate":
        return not_negative("partition")(rolling or {}, field)
    return [invalid(path, strategy, "must be 'RollingUpdate' or 'OnDelete'") if kind else required(path)]


_RETENTION = inside(
    "persistentVolumeClaimRetentionPolicy",
    choice("whenDeleted", ("Retain", "Delete"), need=""),
    choice("whenScaled", ("Retain", "Delete"), need=""),
)


def _fill_strategy(strategy: Manifest) -> None:
    """Make a strategy without a type a rolling one; one that is given with its type alone stays as it is."""
    if "type" not in strategy:
        strategy["type"] = "RollingUpdate"
        strategy.setdefault("rollingUpdate", {})
    if strategy["type"] == "RollingUpdate" and "rollingUpdate" in strategy:
        strategy["rollingUpdate"].setdefault("partition", 0)


_TEMPLATE_OF_SET: Final = (*pod_checks.TEMPLATE, restarted("StatefulSet"))


def _template_with_claims(spec: Manifest, path: str) -> list[FieldError]:
    """Rule of a spec: its template is one of pods that have a volume of each claim."""
    template = spec.get("template") or {}
    pod = template.get("spec") or {}
    claims = [(item.get("metadata") or {}).get("name", "") for item in spec.get("volumeClaimTemplates") or ()]
    own = {name: {"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims}
    volumes = [volume for volume in pod.get("volumes") or () if volume.get("name") not in own]
    pod = {**pod, "volumes": [*own.values(), *volumes]}
    return apply(_TEMPLATE_OF_SET, {**template, "spec": pod}, f"{path}.template")


_NEW_SET: Final = (
    each("volumeClaimTemplates", inside("spec", *CLAIM, absent={})),
    text("serviceName", names.subdomain),
)


class StatefulSet(Workload):
    """apps/v1 StatefulSet."""

    names_pods = False
    status_rules = counts(
        ("replicas", *_PARTS, "availableReplicas", "observedGeneration", "collisionCount"),
        (*_PARTS, "availableReplicas"),
    )
    defaults = {
        "spec": {
            "template": pod_defaults.template,
            "podManagementPolicy": "OrderedReady",
            "updateStrategy": _fill_strategy,
            "replicas": 1,
            "revisionHistoryLimit": 10,
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
            "volumeClaimTemplates[]": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "spec": {"volumeMode": "Filesystem"},
                "status": {"phase": "Pending"},
            },
        }
    }

    spec_rules = (
        _management,
        inside("updateStrategy", _set_strategy, absent={}),
        not_negative("replicas", "minReadySeconds"),
        inside("ordinals", not_negative("start")),
        _RETENTION,
        selected("empty selector is invalid for statefulset", "", _template_with_claims),
    )

    def empty_status(self) -> Manifest | None:
        """Return the status of a new set, which has no pods that are available."""
        return {**(super().empty_status() or {}), "availableReplicas": 0}

    def validate_create(self, obj: Manifest) -> list[FieldError]:
        """Return what is wrong with a new set; what may not change later is looked at once."""
        return [*apply((inside("spec", *_NEW_SET),), obj), *self.check(obj)]

    def check_name(self, name: str) -> list[str]:
        """Return what is wrong with the name; it is the beginning of the names of hosts."""
        return names.label(name)

    def check_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Only how many pods there are, how they are replaced, and what becomes of claims may change."""
        spec, before = new["spec"], old["spec"]
        found: list[FieldError] = []
        if any(_comparable(spec, name) != _comparable(before, name) for name in {*spec, *before}.difference(_FREE)):
            found.append(forbidden("spec", _FIXED))
        return [*self.check(new), *found, *not_negative("replicas")(spec, "spec")]


def _comparable(spec: Manifest, name: str) -> Any:
    if name != "volumeClaimTemplates":
        return spec.get(name)
    return [{key: value for key, value in item.items() if key != "status"} for item in spec.get(name) or ()]


def _daemon_strategy(strategy: Manifest, path: str) -> Errors:
    kind, rolling, field = strategy.get("type", ""), strategy.get("rollingUpdate"), f"{path}.rollingUpdate"
    if kind not in ("OnDelete", "RollingUpdate"):
        yield not_supported(path, strategy, ("RollingUpdate", "OnDelete"))
    elif rolling is None:
        if kind == "RollingUpdate":
            yield required(field)
    elif kind == "RollingUpdate":
        value, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
        yield from percent_or_count(value, f"{field}.maxUnavailable")
        yield from percent_or_count(surge, f"{field}.maxSurge")
        some, more = number_of(value), number_of(surge)
        if some == 0 and more == 0:
            if isinstance(value, str) and not is_percentage(value):
                return
            yield required(f"{field}.maxUnavailable", "cannot be 0 when maxSurge is 0")
        elif some and more:
            yield invalid(f"{field}.maxSurge", surge, "may not be set when maxUnavailable is non-zero")


def _daemon_selector(spec: Manifest, path: str) -> list[FieldError]:
    field, chosen = f"{path}.selector", spec.get("selector")
    found = label_selector(chosen, field)
    if chosen is None or is_usable(chosen):
        found += mismatch(spec, path)
    if chosen is not None and not selects(chosen):
        found.append(invalid(field, chosen, "empty selector is invalid for daemonset"))
    return found


def _disks(spec: Manifest, path: str) -> Errors:
    yield from writable_disks((spec.get("template") or {}).get("spec") or {}, f"{path}.template.spec")


class DaemonSet(Workload):
    """apps/v1 DaemonSet."""

    names_pods = False
    status_rules = counts(
        (
            "currentNumberScheduled",
            "numberMisscheduled",
            "desiredNumberScheduled",
            "numberReady",
            "observedGeneration",
            "updatedNumberScheduled",
            "numberAvailable",
            "numberUnavailable",
            "collisionCount",
        )
    )
    defaults = {
        "spec": {
            "template": pod_defaults.template,
            "updateStrategy": rolling(maxUnavailable=1, maxSurge=0),
            "revisionHistoryLimit": 10,
        }
    }
    fixed = ("spec.selector",)

    spec_rules = (
        _daemon_selector,
        inside("template", *pod_checks.TEMPLATE, restarted("DaemonSet"), absent={}),
        _disks,
        not_negative("minReadySeconds"),
        inside("updateStrategy", _daemon_strategy, absent={}),
        not_negative("revisionHistoryLimit"),
    )

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
