"""What a repair puts back is named by field and by who had changed it, and never by value."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.events.observed import Drift
from schemas.manifest import Manifest
from services._rules.delivery.drift import MOST, bounded, drift_words, removed, repaired
from services._rules.delivery.semantic_equal import needs_update

OURS = "fleetlog"
AT = "2026-01-02T03:04:05Z"
SECONDS = 1767323045.0


def deployment(**spec: Any) -> Manifest:
    container = {
        "name": "web",
        "image": "web:1",
        "ports": [{"containerPort": 80}],
        "env": [{"name": "A", "value": "1"}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default", "labels": {"app": "web"}},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}},
            **spec,
        },
    }


def entry(manager: str, fields: Manifest, time: str = AT, **more: Any) -> Manifest:
    return {"manager": manager, "operation": "Update", "time": time, "fieldsV1": fields, **more}


def managed(live: Manifest, *entries: Manifest) -> Manifest:
    return {**live, "metadata": {**live["metadata"], "managedFields": list(entries)}}


def test_drift_names_last_writer_and_time_of_a_field() -> None:
    live = managed(
        deployment(replicas=5),
        entry("old", {"f:spec": {"f:replicas": {}}}, "2020-01-01T00:00:00Z"),
        entry("kubectl-scale", {"f:spec": {"f:replicas": {}}}, subresource="scale"),
        entry("kube-controller-manager", {"f:spec": {"f:replicas": {}}}, "2027-01-01T00:00:00Z", subresource="status"),
    )
    assert repaired(deployment(), live, OURS) == (Drift(".spec.replicas", "kubectl-scale", "Update", SECONDS),)


def test_drift_names_list_items_by_their_keys() -> None:
    live = deployment()
    container = live["spec"]["template"]["spec"]["containers"][0]
    container["image"] = "evil:1"
    container["ports"][0]["protocol"] = "TCP"
    container["env"][0]["value"] = "2"
    fields = {
        "f:spec": {
            "f:template": {"f:spec": {"f:containers": {'k:{"name":"web"}': {".": {}, "f:image": {}, "f:env": {}}}}}
        }
    }
    found = repaired(deployment(), managed(live, entry("intruder", fields)), OURS)
    place = '.spec.template.spec.containers[name="web"]'
    assert [(item.field, item.manager) for item in found] == [
        (f"{place}.image", "intruder"),
        (f'{place}.env[name="A"].value', "intruder"),
    ]


def test_drift_names_the_key_added_to_a_map() -> None:
    wanted = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1"}}
    live = managed({**wanted, "data": {"a": "1", "b": "2"}}, entry("kubectl-edit", {"f:data": {"f:b": {}}}))
    assert repaired(wanted, live, OURS) == (Drift(".data.b", "kubectl-edit", "Update", SECONDS),)


def test_manager_of_a_map_does_not_own_its_changed_members() -> None:
    wanted = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1"}}
    rest = entry(OURS, {"f:data": {}})
    changed = managed({**wanted, "data": {"a": "2"}}, rest, entry("kubectl-edit", {"f:data": {"f:a": {}}}))
    assert [item.manager for item in repaired(wanted, changed, OURS)] == ["kubectl-edit"]
    emptied = managed({**wanted, "data": {}}, rest)
    assert repaired(wanted, emptied, OURS) == (Drift(".data.a"),)


def test_member_of_an_atomic_field_has_its_manager() -> None:
    live = managed(deployment(replicas=5), entry("kubectl-edit", {"f:spec": {}}))
    assert [item.manager for item in repaired(deployment(), live, OURS)] == ["kubectl-edit"]


def test_removed_label_has_no_manager() -> None:
    live = deployment()
    live["metadata"]["labels"] = {"other": "x"}
    found = repaired(deployment(), managed(live, entry("someone", {"f:metadata": {"f:labels": {"f:other": {}}}})), OURS)
    assert found == (Drift(".metadata.labels.app"),)


def test_drift_of_a_secret_names_top_level_fields_only() -> None:
    wanted = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s"},
        "data": {"password": "b2xk", "pin": "MQ=="},
    }
    live = {**wanted, "data": {"password": "bmV3", "pin": "Mg=="}}
    found = repaired(wanted, managed(live, entry("kubectl-edit", {"f:data": {"f:password": {}, "f:pin": {}}})), OURS)
    assert found == (Drift(".data", "kubectl-edit", "Update", SECONDS),)


def test_drift_in_own_field_has_an_unknown_writer() -> None:
    live = managed(deployment(replicas=5), entry(OURS, {"f:spec": {"f:replicas": {}}}))
    assert repaired(deployment(), live, OURS) == (Drift(".spec.replicas"),)


def test_fields_of_the_member_are_no_drift() -> None:
    live = deployment(revisionHistoryLimit=10)
    live["metadata"]["annotations"] = {"deployment.kubernetes.io/revision": "1"}
    live["status"] = {"replicas": 1}
    assert repaired(deployment(), live, OURS) == ()


@pytest.mark.parametrize("broken", [None, "text", 7, [None], ["x"], [{"fieldsV1": "x"}], [{"fieldsV1": {"f:spec": 3}}]])
def test_malformed_managed_fields_hide_the_writer_only(broken: Any) -> None:
    live = deployment(replicas=5)
    live["metadata"]["managedFields"] = broken
    assert [item.field for item in repaired(deployment(), live, OURS)] == [".spec.replicas"]


def test_drift_is_bounded_in_number_and_length() -> None:
    wanted = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {}}
    live = {**wanted, "data": {f"{n}{'k' * 300}": "x" for n in range(MOST + 9)}}
    found = repaired({**wanted, "data": {"other": "x"}}, live, OURS)
    assert len(found) == MOST
    assert all(len(item.field) <= 256 for item in found)
    assert len(bounded(Drift(f".f{n}", "m" * 999) for n in range(99))) == MOST


def test_drift_is_described_by_writer_and_field() -> None:
    drift = (Drift(".spec.replicas", "hpa"), Drift(".spec.paused", "hpa"), Drift(".metadata.labels.app"))
    assert drift_words(drift) == (
        ".spec.replicas, .spec.paused were changed by hpa; "
        ".metadata.labels.app was changed by an unknown writer; put back"
    )
    assert drift_words(removed()) == "it was deleted in the cluster; created again"
    assert drift_words(removed({"metadata": {"name": "a"}})) == "it was deleted in the cluster; created again"
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "gone", "uid": "u"}
    told = drift_words(removed({"metadata": {"name": "a", "ownerReferences": [owner]}}))
    assert told.startswith("it was deleted in the cluster; created again. Its metadata.ownerReferences name ReplicaSet")
    assert told.endswith("take the reference out of the override that adds it")
    many = removed({"metadata": {"ownerReferences": [{**owner, "name": "x" * 1000}, "odd"]}})
    assert bounded(many) == many
    assert drift_words(()) == ""
    assert drift_words(tuple(Drift(f".f{n}", "m") for n in range(7))).endswith("; 2 more fields; put back")


NAMES = st.sampled_from(
    ["name", "labels", "selector", "containers", "ports", "port", "limits", "env", "paused", "data", "x"]
)
LEAVES = st.sampled_from([None, True, False, 0, 1, "", "a", "1", "100m", "0.1"])
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=12
)
SPECS = st.dictionaries(NAMES, VALUES, max_size=4)
LABELS = st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy"), max_size=2)
KINDS = st.sampled_from([("apps/v1", "Deployment"), ("v1", "ConfigMap"), ("v1", "Pod"), ("example.com/v1", "Widget")])


@given(KINDS, SPECS, SPECS, LABELS, LABELS)
@settings(max_examples=300, deadline=None)
def test_drift_is_named_exactly_when_a_write_is_needed(
    kind: tuple[str, str], wanted: Manifest, live: Manifest, labels: Manifest, present: Manifest
) -> None:
    head = {"apiVersion": kind[0], "kind": kind[1]}
    desired = {**head, "metadata": {"name": "x", "labels": labels}, "spec": wanted, "data": wanted}
    found = {**head, "metadata": {"name": "x", "labels": present}, "spec": live, "data": live}
    drift = repaired(desired, found, "fleetlog")
    assert bool(drift) == needs_update(desired, found)
    assert len(drift) <= MOST
    assert all(item.field.startswith(".") for item in drift)
