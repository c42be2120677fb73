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
    given,
    inside,
    needed,
    not_negative,
    number,
    refused,
)
from services._rules.kubernetes.validation.status_fields import counts
from services.apiserver.kinds.builtin import BuiltinKind
from services.apiserver.kinds.checks import pod_specs as pod_checks
from services.apiserver.kinds.checks.affinities import label_selector
from services.apiserver.kinds.defaults import Defaults, Fill
from services.apiserver.kinds.workloads import pod_defaults

MISMATCH = "`selector` does not match template `labels`"


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
    elif not (value.endswith("%") and value[:-1].isdigit()):
        text = (
            "a valid percent string must be a numeric string followed by an ending '%' "
            "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
        )
        yield invalid(field, value, text)
    elif cap and int(value[:-1]) > 100:
        yield invalid(field, value, "must not be greater than 100%")


def number_of(value: Any) -> int:
    """Return the number in a count or a percentage."""
    if isinstance(value, str):
        return int(value[:-1]) if value.endswith("%") and value[:-1].isdigit() else 0
    return value or 0


def rolling(**defaults: Any) -> Fill:
    """Return what fills in an update strategy: rolling unless set, with these defaults."""
    table = Defaults({"rollingUpdate": defaults})

    def fill(strategy: Manifest) -> None:
        if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
            table(strategy)

    return fill


def selector(empty_text: str = "invalid label selector") -> Check:
    """Rule of a spec: there is a selector, it selects something, and the template's labels match it."""

    def check(spec: Manifest, path: str) -> list[FieldError]:
        field, chosen = f"{path}.selector", spec.get("selector")
        found = [required(field)] if chosen is None else label_selector(chosen, field)
        empty = not chosen or not (chosen.get("matchLabels") or chosen.get("matchExpressions"))
        if empty and chosen is not None:
            found.append(invalid(field, chosen, empty_text))
        labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
        if chosen is None or not (found or empty or matches(chosen, labels or {})):
            found.append(invalid(f"{path}.template.metadata.labels", go_map(labels), MISMATCH))
        return found

    return check


def restarted(kind: str) -> Check:
    """Rule of a pod template: its containers always restart and have no end."""

    def check(template: Manifest, path: str) -> Errors:
        pod = template.get("spec") or {}
        if (policy := pod.get("restartPolicy")) != "Always":
            yield not_supported(f"{path}.spec.restartPolicy", policy, ("Always",))
        if pod.get("activeDeadlineSeconds") is not None:
            text = f"activeDeadlineSeconds in {kind} is not Supported"
            yield forbidden(f"{path}.spec.activeDeadlineSeconds", text)

    return check


def template_of(kind: str) -> Check:
    """Rule of a spec: its template is one of pods that always restart."""
    return inside("template", *pod_checks.TEMPLATE, restarted(kind), absent={})


class Workload(BuiltinKind):
    """What all workloads share: numbers of replicas in a status."""

    generation = True
    status_rules = counts(
        ("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas"),
        ("fullyLabeledReplicas", "readyReplicas", "availableReplicas"),
    )


def _strategy(strategy: Manifest, path: str) -> Errors:
    kind, rolling, field = strategy.get("type", ""), strategy.get("rollingUpdate"), f"{path}.rollingUpdate"
    if kind == "Recreate":
        if rolling is not None:
            yield forbidden(field, "may not be specified when strategy `type` is 'Recreate'")
    elif kind != "RollingUpdate":
        yield not_supported(f"{path}.type", kind, ("Recreate", "RollingUpdate"))
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
    if isinstance(unavailable, str) and number_of(unavailable) > 100:
        yield invalid(f"{field}.maxUnavailable", unavailable, "must not be greater than 100%")


class Deployment(Workload):
    """apps/v1 Deployment."""

    status_rules = counts(
        ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas"),
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
    spec_rules = (
        not_negative("replicas"),
        selector(),
        template_of("Deployment"),
        inside("strategy", _strategy, absent={}),
        not_negative("minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"),
        refused(
            "progressDeadlineSeconds",
            "must be greater than minReadySeconds",
            lambda spec: spec.get("progressDeadlineSeconds", math.inf) <= spec.get("minReadySeconds", 0),
        ),
    )
    fixed = ("spec.selector",)

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


class ReplicaSet(Workload):
    """apps/v1 ReplicaSet."""

    defaults = {"spec": {"template": pod_defaults.template, "replicas": 1}}
    spec_rules = (not_negative("replicas", "minReadySeconds"), selector(), template_of("ReplicaSet"))
    fixed = ("spec.selector",)
    selectable = {"status.replicas": "0"}


_CONTROLLER_TEMPLATE = template_of("ReplicationController")


def _template_of_controller(spec: Manifest, path: str) -> Errors:
    if "template" not in spec:
        yield required(f"{path}.template")
        return
    labels = (spec["template"].get("metadata") or {}).get("labels")
    if not (spec.get("selector") or {}).items() <= (labels or {}).items():
        yield invalid(f"{path}.template.metadata.labels", go_map(labels), MISMATCH)
    yield from _CONTROLLER_TEMPLATE(spec, path)


class ReplicationController(Workload):
    """core/v1 ReplicationController, whose selector is a plain map."""

    defaults = {"spec": {"replicas": 1, "template?": pod_defaults.template}}
    spec_rules = (
        not_negative("minReadySeconds"),
        needed("selector"),
        not_negative("replicas"),
        _template_of_controller,
    )
    selectable = {"status.replicas": "0"}

    def default(self, obj: Manifest) -> None:
        """Take selector and labels from the template when they are missing."""
        spec = obj["spec"]
        labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
        if labels:
            if not spec.get("selector"):
                spec["selector"] = dict(labels)
            if not obj["metadata"].get("labels"):
                obj["metadata"]["labels"] = dict(labels)
        super().default(obj)


class ControllerRevision(BuiltinKind):
    """apps/v1 ControllerRevision."""

    rules = (given("data", "data is mandatory"), number("revision", 0))
    fixed = ("data",)
