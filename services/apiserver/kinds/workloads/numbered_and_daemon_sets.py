"""StatefulSets and DaemonSets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from schemas.manifest import Manifest
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation.field_errors import (
    Errors,
    FieldError,
    Raw,
    forbidden,
    invalid,
    not_supported,
    required,
)
from services._rules.kubernetes.validation.field_rules import (
    Check,
    Rules,
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
_SURGE_SINCE: Final = 22  # the first minor release whose DaemonSets may have more pods than nodes while they roll
_RETENTION_SINCE: Final = 27  # the first one that says what becomes of the claims of a StatefulSet
_LABEL_NAMES_SINCE: Final = 27
_PARTS = ("readyReplicas", "currentReplicas", "updatedReplicas")
_OLD_FREE: Final = ("replicas", "template", "updateStrategy")
# The first minor release in which each set of fields may change, and how its refusal lists them.
_FREE: Final = (
    (
        32,
        (*_OLD_FREE, "minReadySeconds", "ordinals", "persistentVolumeClaimRetentionPolicy", "revisionHistoryLimit"),
        (
            "'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', "
            "'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds'"
        ),
    ),
    (
        26,
        (*_OLD_FREE, "minReadySeconds", "ordinals", "persistentVolumeClaimRetentionPolicy"),
        (
            "'replicas', 'ordinals', 'template', 'updateStrategy', "
            "'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds'"
        ),
    ),
    (22, (*_OLD_FREE, "minReadySeconds"), "'replicas', 'template', 'updateStrategy' and 'minReadySeconds'"),
    (0, _OLD_FREE, "'replicas', 'template', and 'updateStrategy'"),
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


def _template_with_claims(release: int) -> Check:
    """Rule of a spec: its template is one of pods that have a volume of each claim."""
    rules = (*pod_checks.template(release), restarted("StatefulSet"))

    def check(spec: Manifest, path: str) -> list[FieldError]:
        template = spec.get("template") or {}
        pod = template.get("spec") or {}
        claims = [(item.get("metadata") or {}).get("name", "") for item in spec.get("volumeClaimTemplates") or ()]
        own = {name: {"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims}
        volumes = [volume for volume in pod.get("volumes") or () if volume.get("name") not in own]
        pod = {**pod, "volumes": [*own.values(), *volumes]}
        return apply(rules, {**template, "spec": pod}, f"{path}.template")

    return check


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
            "volumeClaimTemplates[]": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "spec": {"volumeMode": "Filesystem"},
                "status": {"phase": "Pending"},
            },
        }
    }

    def defaults_by(self, release: int) -> Mapping[str, Any]:
        """Return the table of defaults; newer releases say what becomes of claims."""
        if release < _RETENTION_SINCE:
            return self.defaults
        policy = {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"}}
        return {"spec": {**self.defaults["spec"], **policy}}

    def spec_of(self, release: int) -> Rules:
        """Return the rules of the spec."""
        return (
            _management,
            inside("updateStrategy", _set_strategy, absent={}),
            not_negative("replicas", "minReadySeconds"),
            inside("ordinals", not_negative("start")),
            _RETENTION,
            selected("empty selector is invalid for statefulset", "", _template_with_claims(release)),
        )

    def empty_status(self) -> Manifest | None:
        """Return the status of a new set, which has no pods that are available."""
        return {**(super().empty_status() or {}), "availableReplicas": 0}

    def validate_create(self, obj: Manifest) -> list[FieldError]:
        """Return what is wrong with a new set; what may not change later is looked at once."""
        return [*apply((inside("spec", *_NEW_SET),), obj), *self.check(obj)]

    def check_name(self, name: str) -> list[str]:
        """Return what is wrong with the name; it is the beginning of the names of hosts."""
        return names.label(name) if self.release >= _LABEL_NAMES_SINCE else names.subdomain(name)

    def check_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Only replicas, template and update strategy (and what newer releases added) may change."""
        spec, before = new["spec"], old["spec"]
        free, shown = next((fields, text) for since, fields, text in _FREE if self.release >= since)
        found: list[FieldError] = []
        if any(_comparable(spec, name) != _comparable(before, name) for name in {*spec, *before}.difference(free)):
            found.append(forbidden("spec", f"updates to statefulset spec for fields other than {shown} are forbidden"))
        return [*self.check(new), *found, *not_negative("replicas")(spec, "spec")]


def _comparable(spec: Manifest, name: str) -> Any:
    if name != "volumeClaimTemplates":
        return spec.get(name)
    return [{key: value for key, value in item.items() if key != "status"} for item in spec.get(name) or ()]


def _daemon_strategy(strategy: Manifest, path: str, *, surges: bool) -> Errors:
    kind, rolling, field = strategy.get("type", ""), strategy.get("rollingUpdate"), f"{path}.rollingUpdate"
    if kind not in ("OnDelete", "RollingUpdate"):
        yield not_supported(path, strategy, ("RollingUpdate", "OnDelete"))
    elif rolling is None:
        if kind == "RollingUpdate":
            yield required(field)
    elif kind == "RollingUpdate":
        value, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0) if surges else 0
        yield from percent_or_count(value, f"{field}.maxUnavailable")
        yield from percent_or_count(surge, f"{field}.maxSurge")
        some, more = number_of(value), number_of(surge)
        if some == 0 and more == 0:
            if isinstance(value, str) and not is_percentage(value):
                return
            if surges:
                yield required(f"{field}.maxUnavailable", "cannot be 0 when maxSurge is 0")
            else:
                shown = f'intstr.IntOrString{{Type:{int(isinstance(value, str))}, IntVal:0, StrVal:"{value or ""}"}}'
                yield invalid(f"{field}.maxUnavailable", Raw(shown), "cannot be 0")
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

    def defaults_by(self, release: int) -> Mapping[str, Any]:
        """Return the table of defaults; in older releases a DaemonSet never has more pods than nodes."""
        if release >= _SURGE_SINCE:
            return self.defaults
        return {"spec": {**self.defaults["spec"], "updateStrategy": rolling(maxUnavailable=1)}}

    def spec_of(self, release: int) -> Rules:
        """Return the rules of the spec."""
        surges = release >= _SURGE_SINCE
        return (
            _daemon_selector,
            inside("template", *pod_checks.template(release), restarted("DaemonSet"), absent={}),
            _disks,
            not_negative("minReadySeconds"),
            inside("updateStrategy", lambda value, field: _daemon_strategy(value, field, surges=surges), absent={}),
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
