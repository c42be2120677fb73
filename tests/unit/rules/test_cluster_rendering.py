"""The FullyApplied condition, retention of foreign labels, and the small rules of rendering."""

import pytest

from schemas.events.rollup import ClusterStatusItem
from services._rules.delivery.cluster_rendering import (
    RenderError,
    apply_job_completions,
    conflict_resolution,
    merge_suspension,
    suspends_dispatching,
)
from services._rules.delivery.metadata_retention import record_managed, retain_annotations, retain_labels
from services._rules.delivery.work_status import fully_applied


def item(cluster: str, applied: bool = True, message: str = "") -> ClusterStatusItem:
    return ClusterStatusItem(cluster=cluster, applied=applied, message=message)


@pytest.mark.parametrize(
    ("items", "applied"),
    [
        ([item("m1"), item("m2")], True),
        ([item("m1")], False),
        ([item("m1"), item("m3")], False),
        ([item("m1"), item("m2"), item("m3")], False),
        ([item("m1"), item("m2", applied=False)], False),
        # Applied, but what it should be now could not be rendered.
        ([item("m1"), item("m2", message="no completions found")], False),
    ],
)
def test_fully_applied_needs_exactly_the_expected_clusters(items: list[ClusterStatusItem], applied: bool) -> None:
    assert fully_applied({"m1", "m2"}, items) is applied


def test_object_in_no_cluster_is_not_fully_applied() -> None:
    assert not fully_applied((), ())


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


def test_suspension_of_a_policy_keeps_that_of_scheduling() -> None:
    assert merge_suspension({"scheduling": True, "dispatching": True}, None) == {"scheduling": True}
    assert merge_suspension({"dispatching": True}, None) is None
    assert merge_suspension({"scheduling": True}, {"dispatching": True}) == {"scheduling": True, "dispatching": True}
    assert suspends_dispatching({"dispatchingOnClusters": {"clusterNames": ["m1"]}}, "m1")
    assert not suspends_dispatching({"dispatchingOnClusters": {"clusterNames": ["m1"]}}, "m2")
    assert suspends_dispatching({"dispatching": True}, "m2")
    assert not suspends_dispatching(None, "m2")
