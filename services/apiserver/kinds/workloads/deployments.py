"""Deployments, ReplicaSets, ReplicationControllers and ControllerRevisions, and what all workloads share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from schemas.manifest import Manifest
from services._rules.kubernetes.validation.field_errors import (
    Errors,
    FieldError,
    forbidden,
    go_map,
    invalid,
    not_supported,
    required,
)
from services._rules.kubernetes.validation.field_rules import (
    NOT_NEGATIVE,
    Check,
    apply,
    inside,
    needed,
    not_negative,
    number,
    refused,
)
from services._rules.kubernetes.validation.status_fields import counts
from services.apiserver.kinds.builtin import BuiltinKind
from services.apiserver.kinds.checks import pod_specs as pod_checks
from services.apiserver.kinds.checks.affinities import is_usable, label_selector, selects
from services.apiserver.kinds.checks.volumes import writable_disks
from services.apiserver.kinds.defaults import Defaults, Fill
from services.apiserver.kinds.workloads import pod_defaults
from services.apiserver.kinds.workloads.template_warnings import PodMaker

MISMATCH = "`selector` does not match template `labels`"
RESTARTED = ("Always",)


def matches(selector: Manifest, labels: dict[str, str]) -> bool:
    """Return whether labels satisfy a label selector, which may be an invalid one that is reported elsewhere."""
    expressions = selector.get("matchExpressions") or ()
    return (selector.get("matchLabels") or {}).items() <= labels.items() and all(
        _holds(item.get("operator"), labels.get(item.get("key", "")), item.get("values") or ()) for item in expressions
    )


def _holds(operator: str | None, value: str | None, values: Sequence[str]) -> bool:
    match operator:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists" | "DoesNotExist":
            return (value is not None) == (operator == "Exists")
        case _:
            return True


def percent_or_count(value: Any, field: str, *, cap: bool = True) -> Errors:
    """Yield what is wrong with a count or a percentage; `cap` forbids more than 100%."""
    if isinstance(value, int):
        if value < 0:
            yield invalid(field, value, NOT_NEGATIVE)
    elif not is_percentage(value):
        text = (
            "a valid percent string must be a numeric string followed by an ending '%' "
            "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
        )
        yield invalid(field, value, text)
    elif cap:
        yield from at_most_all(value, field)


def is_percentage(value: str) -> bool:
    """Return whether a text is a number of percents."""
    return value.isascii() and value.endswith("%") and value[:-1].isdigit()


def at_most_all(value: Any, field: str) -> Errors:
    """Yield an error for a percentage of more than 100%."""
    if isinstance(value, str) and number_of(value) > 100:
        yield invalid(field, value, "must not be greater than 100%")


def number_of(value: Any) -> int:
    """Return the number in a count or a percentage."""
    if isinstance(value, str):
        return int(value[:12].removesuffix("%")) if is_percentage(value) else 0
    return value or 0


def rolling(**defaults: Any) -> Fill:
    """Return what fills in an update strategy: rolling unless set, with these defaults."""
    table = Defaults({"rollingUpdate": defaults})

    def fill(strategy: Manifest) -> None:
        if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
            table(strategy)

    return fill


def labels_of(spec: Manifest) -> dict[str, str]:
    """Return the labels of the pod template of a spec."""
    return ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}


def mismatch(spec: Manifest, path: str) -> list[FieldError]:
    """Return an error when the labels of the template do not satisfy the selector; without one they never do."""
    chosen, labels = spec.get("selector"), labels_of(spec)
    if chosen is not None and (not selects(chosen) or matches(chosen, labels)):
        return []
    return [invalid(f"{path}.template.metadata.labels", go_map(labels), MISMATCH)]


def selected(empty_text: str, unusable_text: str, *template: Check) -> Check:
    """Rule of a spec: there is a selector, it selects something, and the template's labels match it.

    The rules of the template hold where labels can be compared with the selector.
    """

    def check(spec: Manifest, path: str) -> list[FieldError]:
        field, chosen = f"{path}.selector", spec.get("selector")
        found = [required(field)] if chosen is None else label_selector(chosen, field)
        if chosen is not None and not selects(chosen):
            found.append(invalid(field, chosen, empty_text))
        if chosen is not None and not is_usable(chosen):
            return [*found, invalid(field, chosen, unusable_text)]
        return [*found, *mismatch(spec, path), *apply(template, spec, path)]

    return check


def restarted(kind: str) -> Check:
    """Rule of a pod template: its containers always restart and have no end."""

    def check(template: Manifest, path: str) -> Errors:
        pod = template.get("spec") or {}
        if (policy := pod.get("restartPolicy", "")) not in RESTARTED:
            yield not_supported(f"{path}.spec.restartPolicy", policy, RESTARTED)
        if pod.get("activeDeadlineSeconds") is not None:
            text = f"activeDeadlineSeconds in {kind} is not Supported"
            yield forbidden(f"{path}.spec.activeDeadlineSeconds", text)

    return check


def _several_writers(spec: Manifest, path: str) -> list[FieldError]:
    pod = (spec.get("template") or {}).get("spec") or {}
    if (spec.get("replicas") or 0) <= 1 or "volumes" not in pod:
        return []
    return list(writable_disks(pod, f"{path}.template.spec"))


def template_of(kind: str) -> tuple[Check, ...]:
    """Rules of a spec: its template is one of pods that always restart, and that may be several."""
    return (inside("template", *pod_checks.TEMPLATE, restarted(kind), absent={}), _several_writers)


def never_decremented(new: Manifest, old: Manifest) -> Errors:
    """Yield an error when the number of collisions in a status falls."""
    before, now = ((part.get("status") or {}).get("collisionCount") for part in (old, new))
    if before is not None and (now or 0) < before:
        yield invalid("status.collisionCount", now or 0, "cannot be decremented")


class Workload(PodMaker):
    """What all workloads share: generations, numbers of replicas in a status."""

    generation = True
    status_rules = counts(
        ("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration"),
        ("fullyLabeledReplicas", "readyReplicas", "availableReplicas"),
    )

    def change_warnings(self, new: Manifest, old: Manifest) -> list[str]:
        """Tell of the template where the spec changed."""
        same = new["metadata"].get("generation") == old["metadata"].get("generation")
        return [] if same else super().change_warnings(new, old)

    def validate_status(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return what the rules of the status find wrong, falling counts included."""
        return [*super().validate_status(new, old), *never_decremented(new, old)]


def _strategy(strategy: Manifest, path: str) -> Errors:
    kind, rolling, field = strategy.get("type", ""), strategy.get("rollingUpdate"), f"{path}.rollingUpdate"
    if kind == "Recreate":
        if rolling is not None:
            yield forbidden(field, "may not be specified when strategy `type` is 'Recreate'")
    elif kind != "RollingUpdate":
        yield not_supported(path, strategy, ("Recreate", "RollingUpdate"))
    elif rolling is None:
        yield required(field, "this should be defaulted and never be nil")
    else:
        yield from _rolling_update(rolling, field)


def _rolling_update(rolling: Manifest, field: str) -> Errors:
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    yield from percent_or_count(unavailable, f"{field}.maxUnavailable", cap=False)
    yield from percent_or_count(surge, f"{field}.maxSurge", cap=False)
    if number_of(unavailable) == 0 and number_of(surge) == 0:
        yield invalid(f"{field}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0")
    yield from at_most_all(unavailable, f"{field}.maxUnavailable")


_EMPTY = "empty selector is invalid for deployment"
_UNUSABLE = "invalid label selector"


class Deployment(Workload):
    """apps/v1 Deployment."""

    status_rules = counts(
        (
            "observedGeneration",
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
            "unavailableReplicas",
            "collisionCount",
        ),
        ("updatedReplicas", "readyReplicas", "availableReplicas"),
    )
    defaults = {
        "spec": {
            "template": pod_defaults.template,
            "replicas": 1,
            "strategy": rolling(maxUnavailable="25%", maxSurge="25%"),
            "revisionHistoryLimit": 10,
            "progressDeadlineSeconds": 600,
        }
    }
    fixed = ("spec.selector",)
    spec_rules = (
        not_negative("replicas"),
        # Its pods are those of ReplicaSets, which is what the errors of a template name.
        selected(_EMPTY, _UNUSABLE, *template_of("ReplicaSet")),
        inside("strategy", _strategy, absent={}),
        not_negative("minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"),
        refused(
            "progressDeadlineSeconds",
            "must be greater than minReadySeconds",
            lambda spec: spec.get("progressDeadlineSeconds", math.inf) <= spec.get("minReadySeconds", 0),
        ),
    )

    def spec_changed(self, new: Manifest, old: Manifest) -> bool:
        """Annotations count too: they are copied to the ReplicaSets."""
        annotations = (part["metadata"].get("annotations") or {} for part in (new, old))
        return super().spec_changed(new, old) or next(annotations) != next(annotations)


class ReplicaSet(Workload):
    """apps/v1 ReplicaSet."""

    defaults = {"spec": {"template": pod_defaults.template, "replicas": 1}}
    fixed = ("spec.selector",)
    selectable = {"status.replicas": "0"}
    spec_rules = (
        not_negative("replicas", "minReadySeconds"),
        selected(_EMPTY, _UNUSABLE, *template_of("ReplicaSet")),
    )


_OF_CONTROLLER = template_of("ReplicationController")


def _template_of_controller(spec: Manifest, path: str) -> list[FieldError]:
    if "template" not in spec:
        return [required(f"{path}.template")]
    labels = labels_of(spec)
    found: list[FieldError] = []
    if not (spec.get("selector") or {}).items() <= labels.items():
        found.append(invalid(f"{path}.template.metadata.labels", go_map(labels), MISMATCH))
    return found + apply(_OF_CONTROLLER, spec, path)


class ReplicationController(Workload):
    """core/v1 ReplicationController, whose selector is a plain map."""

    defaults = {"spec": {"replicas": 1, "template?": pod_defaults.template}}
    selectable = {"status.replicas": "0"}
    spec_rules = (
        not_negative("minReadySeconds"),
        needed("selector"),
        not_negative("replicas"),
        _template_of_controller,
    )

    def default(self, obj: Manifest) -> None:
        """Take selector and labels from the template when they are missing."""
        spec = obj["spec"]
        labels = labels_of(spec)
        if labels:
            if not spec.get("selector"):
                spec["selector"] = dict(labels)
            if not obj["metadata"].get("labels"):
                obj["metadata"]["labels"] = dict(labels)
        super().default(obj)


class ControllerRevision(BuiltinKind):
    """apps/v1 ControllerRevision."""

    rules = (number("revision", 0),)
    fixed = ("data",)

    def validate_create(self, obj: Manifest) -> list[FieldError]:
        """A new revision has data, which is an object."""
        found = super().validate_create(obj)
        return found if isinstance(obj.get("data"), dict) else [*found, required("data", "data is mandatory")]
