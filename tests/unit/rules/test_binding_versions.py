"""Bindings keep through both versions what both versions know."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services._rules.binding_versions import KINDS, ConversionError, converted, newer, older
from services._rules.constants import BINDING_API, WORK_API

TEXT = st.text(max_size=5)
COUNT = st.integers(0, 9)
AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory"]), st.sampled_from(["1", "500m", "1Gi"]))


def part(required: dict[str, Any], optional: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(required, optional=optional)


REFERENCE = {"apiVersion": TEXT, "kind": TEXT, "name": TEXT}
MAYBE_REFERENCE = {"namespace": TEXT, "resourceVersion": TEXT}
CLUSTERS = st.lists(part({"name": TEXT}, {"replicas": COUNT}), max_size=3)
ITEM = {"status": st.just({"readyReplicas": 1}), "applied": st.booleans(), "appliedMessage": TEXT}
CONDITIONS = st.lists(st.just({"type": "Scheduled", "status": "True"}), max_size=1)
METADATA = part({"name": TEXT}, {"labels": st.dictionaries(TEXT, TEXT, max_size=2), "uid": TEXT})


def bindings(version: str, spec: Any, item: dict[str, Any], status: dict[str, Any]) -> st.SearchStrategy[Any]:
    items = st.lists(part({"clusterName": TEXT}, item), max_size=2)
    shown = part({}, {"conditions": CONDITIONS, "aggregatedStatus": items} | status)
    return part(
        {"apiVersion": st.just(version), "kind": st.sampled_from(KINDS), "metadata": METADATA, "spec": spec},
        {"status": shown},
    )


OLDER = bindings(
    WORK_API,
    part(
        {"resource": part(REFERENCE, MAYBE_REFERENCE | {"replicas": COUNT, "resourcePerReplicas": AMOUNTS})},
        {"clusters": CLUSTERS},
    ),
    ITEM,
    {},
)
NEWER = bindings(
    BINDING_API,
    part(
        {"resource": part(REFERENCE, MAYBE_REFERENCE | {"uid": TEXT})},
        {
            "clusters": CLUSTERS,
            "replicas": COUNT,
            "replicaRequirements": part({}, {"resourceRequest": AMOUNTS, "priorityClassName": TEXT}),
            "placement": st.just({"clusterAffinity": {}}),
            "components": st.just([{"name": "a", "replicas": 1}]),
            "propagateDeps": st.booleans(),
        },
    ),
    ITEM | {"health": st.just("Healthy")},
    {"schedulerObservedGeneration": COUNT},
)


@given(OLDER)
def test_nothing_of_an_older_binding_is_lost(binding: dict[str, Any]) -> None:
    kept = msgspec.json.encode(binding)
    up = converted(binding, BINDING_API)
    assert (up["apiVersion"], up["metadata"]) == (BINDING_API, binding["metadata"])
    assert converted(up, WORK_API) == binding
    assert msgspec.json.encode(binding) == kept


@given(NEWER)
def test_a_newer_binding_keeps_what_the_older_knows(binding: dict[str, Any]) -> None:
    down = older(binding)
    assert older(newer(down)) == down
    spec, resource = binding["spec"], down["spec"]["resource"]
    assert resource.get("replicas") == spec.get("replicas")
    assert resource.get("resourcePerReplicas") == spec.get("replicaRequirements", {}).get("resourceRequest")
    assert down["spec"].keys() <= {"resource", "clusters"}
    assert "uid" not in resource
    assert all("health" not in item for item in down.get("status", {}).get("aggregatedStatus", []))
    assert converted(binding, BINDING_API) is binding


def test_an_empty_request_stays_an_object() -> None:
    """The requirements are made for a list that is there, however short."""
    resource = {"apiVersion": "v1", "kind": "Pod", "name": "a"}
    binding = {"apiVersion": WORK_API, "kind": "ResourceBinding", "spec": {"resource": resource}}
    assert "replicaRequirements" not in newer(binding)["spec"]
    binding["spec"] = {"resource": resource | {"resourcePerReplicas": {}}}
    assert newer(binding)["spec"]["replicaRequirements"] == {"resourceRequest": {}}


@pytest.mark.parametrize(
    ("obj", "version", "words"),
    [
        ({"kind": "Work", "apiVersion": WORK_API}, BINDING_API, "'Work' is no kind that is converted here"),
        ({}, BINDING_API, "None is no kind"),
        ({"kind": "ResourceBinding", "apiVersion": WORK_API}, "v1", "has no version 'v1': use work.karmada.io/v1alpha"),
        ({"kind": "ResourceBinding", "apiVersion": WORK_API, "spec": []}, BINDING_API, ""),
        ({"kind": "ResourceBinding", "apiVersion": WORK_API, "spec": "x"}, BINDING_API, "parts of a wrong type"),
        (
            {"kind": "ResourceBinding", "apiVersion": WORK_API, "metadata": {"name": "a"}, "spec": {"clusters": [1]}},
            BINDING_API,
            "ResourceBinding a: spec or status has parts of a wrong type",
        ),
    ],
)
def test_what_cannot_be_converted_is_named(obj: dict[str, Any], version: str, words: str) -> None:
    if not words:
        assert converted(obj, version)["spec"] == {"resource": {}}
        return
    with pytest.raises(ConversionError, match=words):
        converted(obj, version)
