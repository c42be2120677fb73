"""What a member says is judged by what it was given."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw, json
from msgspec.structs import replace

from schemas.events.observed import WorkObserved
from schemas.keys import ObjectKey
from services._rules.delivery.plausibility import (
    LARGEST_STATUS,
    MARGIN,
    MOST,
    Asked,
    Given,
    implausible,
    misreported,
    most_replicas,
    numbers,
)
from services._rules.interpreter import InterpretError, NativeInterpreter, Operation

KEY = ObjectKey("apps", "deployments", "default", "nginx")
SEEN = WorkObserved(cluster="m1", key=KEY, uid="u", work_seq=7, digest="d", applied=True, at=10.0)
ASKED = Asked(7, "u", "d")
WHOLE = {"replicas": 3, "readyReplicas": 3, "updatedReplicas": 3, "availableReplicas": 3, "generation": 2}


def judged(status: Any, kind: str = "Deployment", api_version: str = "apps/v1", given: Given | None = None) -> str:
    return implausible(api_version, kind, Raw(json.encode(status)), given or Given())


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "ReplicaSet"])
def test_an_honest_status_is_plausible(kind: str) -> None:
    assert judged({**WHOLE, "observedGeneration": 2, "resourceTemplateGeneration": 5}, kind, given=Given(3, 5)) == ""
    assert judged({}, kind) == ""
    assert judged({**WHOLE, "replicas": 3.0}, kind) == ""


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"replicas": "x"}, "status.replicas: "),
        ({"replicas": -1000}, "status.replicas: is -1000"),
        ({"replicas": 2**63 - 1}, "status.replicas: is 9223372036854775807"),
        ({"replicas": 10**30}, "status.replicas: "),
        ({"readyReplicas": 1.5}, "status.readyReplicas: "),
        ({"replicas": True}, "status.replicas: "),
        ({"readyReplicas": 4}, "status.readyReplicas: is 4, more than status.replicas with 3"),
        (
            {"availableReplicas": 3, "readyReplicas": 2},
            "status.availableReplicas: is 3, more than",
        ),
        ({"observedGeneration": 3}, "status.observedGeneration: is 3, ahead of the generation 2"),
        ({"observedGeneration": -1}, "status.observedGeneration: is -1"),
        ({"generation": 2**63}, "status.generation: "),
        (
            {"resourceTemplateGeneration": 6},
            "status.resourceTemplateGeneration: is 6, ahead of the template",
        ),
        ({"replicas": MOST}, f"status.replicas: is {MOST}, but at most {MARGIN + 30} are plausible"),
        ({"conditions": "none"}, "status.conditions: "),
        ({"conditions": [7]}, "status.conditions"),
    ],
)
def test_a_field_that_cannot_be_is_named(change: dict[str, Any], field: str) -> None:
    assert judged({**WHOLE, **change}, given=Given(most_replicas(3), 5)).startswith(field)


@pytest.mark.parametrize(
    ("api_version", "kind", "status", "field"),
    [
        ("apps/v1", "DaemonSet", {"numberReady": -1}, "status.numberReady"),
        ("apps/v1", "DaemonSet", {"desiredNumberScheduled": 2**31}, "status.desiredNumberScheduled"),
        ("batch/v1", "Job", {"succeeded": -3}, "status.succeeded"),
        ("batch/v1", "Job", {"conditions": [{"type": 3}]}, "status.conditions"),
        ("batch/v1", "Job", {"startTime": "yesterday"}, "status.startTime"),
        ("batch/v1", "CronJob", {"active": "many"}, "status.active"),
        ("autoscaling/v2", "HorizontalPodAutoscaler", {"desiredReplicas": 2**62}, "status.desiredReplicas"),
        ("policy/v1", "PodDisruptionBudget", {"currentHealthy": -1}, "status.currentHealthy"),
        ("v1", "PersistentVolumeClaim", {"phase": 1}, "status.phase"),
        ("v1", "Pod", {"containerStatuses": {"a": 1}}, "status.containerStatuses"),
        ("v1", "Service", {"loadBalancer": {"ingress": "x"}}, "status.loadBalancer.ingress"),
        ("networking.k8s.io/v1", "Ingress", {"loadBalancer": []}, "status.loadBalancer"),
        ("apps.kruise.io/v1alpha1", "CloneSet", {"updatedReadyReplicas": -5}, "status.updatedReadyReplicas"),
        ("example.io/v1", "Widget", {"replicas": 2**63 - 1}, "status.replicas"),
        ("example.io/v1", "Widget", [1], "status: is a list"),
    ],
)
def test_every_kind_is_judged(api_version: str, kind: str, status: Any, field: str) -> None:
    assert judged(status, kind, api_version).startswith(field)


@pytest.mark.parametrize(
    "status",
    [
        {"replicas": {"a": 1}, "observedGeneration": -1, "phase": "Ready"},
        {"replicas": "three", "readyReplicas": 4, "size": -1},
    ],
)
def test_unknown_kind_is_judged_by_common_fields_only(status: dict[str, Any]) -> None:
    assert judged(status, "Widget", "example.io/v1") == ""


def test_a_status_without_end_is_not_read() -> None:
    text = "x" * LARGEST_STATUS
    assert judged({"message": text}, "Widget", "example.io/v1").startswith("status: has ")
    deep = Raw(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}")
    assert implausible("apps/v1", "Deployment", deep, Given()).startswith("status: is no JSON")


def test_placed_replicas_bound_what_is_plausible() -> None:
    assert most_replicas(3) == MARGIN + 30
    assert most_replicas(3, counted=5000) == 5000
    assert most_replicas(0) == MARGIN
    assert most_replicas(None) == most_replicas(10**9) == MOST
    terminating = {**WHOLE, "terminatingReplicas": 5000}
    assert judged(terminating, given=Given(most_replicas(3))) == ""


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"work_seq": -1}, "workSeq"),
        ({"work_seq": 8}, "workSeq"),
        ({"work_seq": 100}, "workSeq"),
        ({"uid": "other"}, "uid"),
        ({"uid": "other", "work_seq": 3}, "uid"),
        ({"digest": "e"}, "digest"),
        ({"at": -1e300}, "at"),
        ({"member_generation": -1}, "memberGeneration"),
        ({"member_generation": 2**63}, "memberGeneration"),
        ({"absent": True}, "applied"),
    ],
)
def test_the_terms_of_a_report_are_those_of_the_work(change: dict[str, Any], field: str) -> None:
    assert misreported(SEEN, ASKED, 50) == ""
    assert misreported(replace(SEEN, **change), ASKED, 50).startswith(f"{field}: ")


def test_a_late_report_is_no_lie() -> None:
    assert misreported(replace(SEEN, work_seq=3, digest="before"), ASKED, 50) == ""


_PLAIN = st.sampled_from(
    [None, True, "", "x", 0, 1, 2, 3, 1.5, 2.0, -1, MOST, MOST + 1, 2**31, 2**63 - 1, 2**64, 1e300]
)
_VALUES = _PLAIN | st.lists(_PLAIN, max_size=2)
_NAMES = st.sampled_from([*WHOLE, "observedGeneration", "unavailableReplicas", "conditions", "numberReady"])
_STATUSES = st.dictionaries(_NAMES, _VALUES, max_size=6)


@settings(deadline=None)
@given(st.lists(_STATUSES, min_size=1, max_size=4), st.sampled_from(["Deployment", "StatefulSet", "DaemonSet"]))
def test_plausible_statuses_add_up_within_32_bits(statuses: list[dict[str, Any]], kind: str) -> None:
    raws = [Raw(json.encode(status)) for status in statuses]
    counted = [raw for raw in raws if not implausible("apps/v1", kind, raw, Given())]
    items = [{"clusterName": f"m{place}", "status": json.decode(raw)} for place, raw in enumerate(counted)]
    template = {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "a", "generation": 1}}
    try:
        summed = (
            NativeInterpreter()
            .interpret(Operation.AGGREGATE, template, items, "2026-01-01T00:00:00Z")
            .get("status", {})
        )
    except InterpretError as problem:
        pytest.fail(f"{problem}: {counted}")
    numbers_of = [value for name, value in summed.items() if name != "observedGeneration"]
    assert all(0 <= value < 2**31 for value in numbers_of)
    assert summed.get("readyReplicas", 0) <= summed.get("replicas", 0)


def test_the_same_status_is_judged_once() -> None:
    status = Raw(json.encode({**WHOLE, "replicas": 4}))
    assert numbers("apps/v1", "Deployment", status) is numbers("apps/v1", "Deployment", Raw(bytes(status)))
