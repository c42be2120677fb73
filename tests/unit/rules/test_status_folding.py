"""Folding of Works into a binding, retention of foreign labels, and the small rules of rendering."""

from typing import Any

import pytest

from services._rules.delivery.cluster_rendering import (
    RenderError,
    apply_job_completions,
    conflict_resolution,
    inject_preserved_labels,
    merge_required_by,
    merge_suspension,
    suspends_dispatching,
)
from services._rules.delivery.metadata_retention import record_managed, retain_annotations, retain_labels
from services._rules.delivery.work_status import (
    StatusError,
    assemble_work_status,
    direct_purge_clusters,
    existing_clusters,
    fully_applied,
)

REFERENCE = {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "prod", "name": "web"}


def work(cluster: str, applied: str, **metadata: Any) -> dict[str, Any]:
    manifest = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": "prod", "name": "web"}}
    identifier = {"ordinal": 0, "group": "apps", "version": "v1", "kind": "Deployment", "namespace": "prod"}
    return {
        "metadata": {"namespace": f"karmada-es-{cluster}", "name": "w", **metadata},
        "spec": {"workload": {"manifests": [manifest]}},
        "status": {
            "conditions": [{"type": "Applied", "status": applied, "message": "why"}],
            "manifestStatuses": [
                {"identifier": {**identifier, "name": "web"}, "status": {"replicas": 1}, "health": "Healthy"}
            ],
        },
    }


def test_only_applied_works_report_a_status_and_deleted_ones_do_not_count() -> None:
    works = [work("m2", "False"), work("m1", "True"), work("m3", "True", deletionTimestamp="2026-01-01T00:00:00Z")]
    assert assemble_work_status(works, REFERENCE) == [
        {"clusterName": "m1", "applied": True, "health": "Healthy", "status": {"replicas": 1}},
        {"clusterName": "m2", "applied": False, "health": "Unknown", "appliedMessage": "why"},
    ]


def test_a_work_without_the_object_is_an_error() -> None:
    with pytest.raises(StatusError, match="holds no Deployment prod/other"):
        assemble_work_status([work("m1", "True")], {**REFERENCE, "name": "other"})
    with pytest.raises(StatusError, match="namespace"):
        assemble_work_status([work("m1", "True", namespace="default")], REFERENCE)


def test_fully_applied_needs_exactly_the_expected_clusters() -> None:
    spec = {
        "clusters": [{"name": "m1"}],
        "requiredBy": [{"clusters": [{"name": "m2"}]}],
        "gracefulEvictionTasks": [{"fromCluster": "m3"}, {"fromCluster": "m4", "purgeMode": "Directly"}],
    }
    expected = existing_clusters(spec)
    assert expected == {"m1", "m2", "m3"}
    assert direct_purge_clusters(spec) == {"m4"}
    items = [{"clusterName": name, "applied": True} for name in ("m1", "m2", "m3")]
    assert fully_applied(expected, items).status == "True"
    assert fully_applied(expected, items[:2]).status == "False"
    assert fully_applied(expected, [*items[:2], {"clusterName": "m4", "applied": True}]).status == "False"
    assert fully_applied(expected, [*items[:2], {"clusterName": "m3", "applied": False}]).status == "False"
    assert fully_applied(set(), []).status == "False"


def test_foreign_keys_survive_and_dropped_ones_of_ours_go() -> None:
    desired = {"metadata": {"labels": {"app": "web"}}}
    observed = {
        "metadata": {
            "labels": {"app": "old", "ours": "1", "theirs": "2"},
            "annotations": {"resourcetemplate.karmada.io/managed-labels": "app,ours"},
        }
    }
    assert retain_labels(desired, observed)["metadata"]["labels"] == {"app": "web", "theirs": "2"}
    assert desired == {"metadata": {"labels": {"app": "web"}}}
    assert retain_annotations(desired, {"metadata": {"annotations": {"x": "1"}}})["metadata"]["annotations"] == {
        "x": "1"
    }


def test_the_records_name_themselves() -> None:
    recorded = record_managed({"metadata": {"labels": {"b": "1", "a": "1"}, "annotations": {"z": "1"}}})
    notes = recorded["metadata"]["annotations"]
    assert notes["resourcetemplate.karmada.io/managed-labels"] == "a,b"
    assert notes["resourcetemplate.karmada.io/managed-annotations"] == (
        "resourcetemplate.karmada.io/managed-annotations,resourcetemplate.karmada.io/managed-labels,z"
    )


def test_a_job_gets_its_clusters_share() -> None:
    job = {"metadata": {"name": "j"}, "spec": {"completions": 9}}
    assert apply_job_completions(job, "m1", [{"name": "m1", "replicas": 4}])["spec"]["completions"] == 4
    with pytest.raises(RenderError, match="m2"):
        apply_job_completions(job, "m2", [{"name": "m1", "replicas": 4}])
    endless = {"metadata": {"name": "j"}, "spec": {}}
    assert apply_job_completions(endless, "m2", None) is endless


@pytest.mark.parametrize(
    ("annotation", "binding", "expected"),
    [
        ("abort", "Overwrite", "abort"),
        ("overwrite", "Abort", "overwrite"),
        ("Overwrite", "Overwrite", "overwrite"),
        ("bogus", "Abort", "abort"),
        (None, "", "abort"),
        (None, "Overwrite", "overwrite"),
    ],
)
def test_conflict_resolution(annotation: str | None, binding: str, expected: str) -> None:
    notes = {"work.karmada.io/conflict-resolution": annotation} if annotation else None
    assert conflict_resolution({"metadata": {"annotations": notes}}, binding) == expected


def test_first_mention_of_a_required_cluster_wins() -> None:
    clusters = [{"name": "m1", "replicas": 2}]
    required: list[dict[str, Any]] = [
        {"clusters": [{"name": "m2", "replicas": 1}, {"name": "m1", "replicas": 9}]},
        {"clusters": None},
    ]
    assert merge_required_by(clusters, required) == [{"name": "m1", "replicas": 2}, {"name": "m2", "replicas": 1}]


def test_suspension_of_a_policy_keeps_that_of_scheduling() -> None:
    assert merge_suspension({"scheduling": True, "dispatching": True}, None) == {"scheduling": True}
    assert merge_suspension({"dispatching": True}, None) is None
    assert merge_suspension({"scheduling": True}, {"dispatching": True}) == {"scheduling": True, "dispatching": True}
    assert suspends_dispatching({"dispatchingOnClusters": {"clusterNames": ["m1"]}}, "m1")
    assert not suspends_dispatching({"dispatchingOnClusters": {"clusterNames": ["m1"]}}, "m2")
    assert suspends_dispatching({"dispatching": True}, "m2")
    assert not suspends_dispatching(None, "m2")


def test_preserved_state_goes_to_the_one_new_cluster_only() -> None:
    manifest = {"metadata": {"labels": {"a": "old"}}}
    task = {
        "fromCluster": "m1",
        "purgeMode": "Directly",
        "preservedLabelState": {"a": "new"},
        "clustersBeforeFailover": ["m1"],
    }
    assert inject_preserved_labels(manifest, "m2", 1, [task])["metadata"]["labels"] == {"a": "new"}
    assert inject_preserved_labels(manifest, "m1", 1, [task]) is manifest
    assert inject_preserved_labels(manifest, "m2", 2, [task]) is manifest
    assert inject_preserved_labels(manifest, "m2", 1, [task, {**task, "purgeMode": "Never"}]) is manifest
