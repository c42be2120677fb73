"""Templates and placements in, works out."""

from __future__ import annotations

from msgspec import Raw

from schemas.codec import Known
from schemas.events.placement import PlacementFailed
from schemas.events.policy import PolicyDeleted
from schemas.events.work import WorkRendered, WorkWithdrawn
from schemas.keys import PolicyKey
from schemas.manifest import Manifest
from services._rules import constants as const
from tests.support.facts import KEY, binding, cluster, deployment, override, placement, released, template
from tests.support.harness import RendererHarness, content


def rendering(*events: Known) -> RendererHarness:
    """A renderer of the example and three members."""
    return RendererHarness(cluster("m1"), cluster("m2"), cluster("m3"), template(), *events)


def plaintext(path: str, operator: str, value: object = None) -> Manifest:
    """A rule for m1."""
    item = {"path": path, "operator": operator, "value": value}
    return {"targetCluster": {"clusterNames": ["m1"]}, "overriders": {"plaintext": [item]}}


def test_each_target_gets_its_replicas_and_labels() -> None:
    renderer = rendering(binding(3), placement(m1=1, m2=2))
    works = renderer.works()
    assert sorted(works) == ["m1", "m2"]
    first, second = content(works["m1"]), content(works["m2"])
    assert (first["spec"]["replicas"], second["spec"]["replicas"]) == (1, 2)
    labels, notes = first["metadata"]["labels"], first["metadata"]["annotations"]
    assert labels[const.MANAGED_LABEL] == "true"
    assert labels["app"] == "nginx"
    assert labels[const.WORK_ID_LABEL] != second["metadata"]["labels"][const.WORK_ID_LABEL]
    assert notes[const.WORK_NAMESPACE_ANNOTATION] == "karmada-es-m1"
    assert notes[const.RESOURCE_BINDING_NAME_ANNOTATION] == "nginx-deployment"
    assert notes[const.CONFLICT_RESOLUTION_ANNOTATION] == "abort"
    assert notes[const.TEMPLATE_GENERATION_ANNOTATION] == "1"
    assert set(notes[const.MANAGED_LABELS_ANNOTATION].split(",")) == set(labels)
    assert "uid" not in first["metadata"]


def test_rendering_again_changes_nothing() -> None:
    renderer = rendering(binding(3), placement(m1=1, m2=2))
    renderer.works()
    assert renderer.works() == {}


def test_next_leader_renders_only_works_not_stored() -> None:
    renderer = rendering(binding(3), placement(m1=1, m2=1, m3=1))
    first = renderer.decision().events[0]
    renderer.given(first)
    assert sorted(renderer.works()) == sorted({"m1", "m2", "m3"} - {first.cluster})


def test_scaled_template_waits_for_its_placement() -> None:
    renderer = rendering(binding(2), placement(m1=1, m2=1))
    renderer.works()
    renderer.given(template(deployment(4, generation=2)), binding(4))
    assert renderer.works() == {}
    renderer.given(placement(m1=2, m2=2))
    assert {name: content(work)["spec"]["replicas"] for name, work in renderer.works().items()} == {"m1": 2, "m2": 2}


def test_replaced_object_keeps_its_copies_until_it_is_placed() -> None:
    another = template(deployment(2, uid="u2"), uid="u2")
    renderer = rendering(binding(2), placement(m1=1, m2=1))
    renderer.works()
    renderer.given(another, binding(2, uid="u2"))
    assert renderer.works() == {}
    renderer.given(placement(uid="u2", m1=2))
    works = renderer.works()
    assert isinstance(works["m1"], WorkRendered)
    assert works["m1"].uid == "u2"
    assert isinstance(works["m2"], WorkWithdrawn)
    unplaced = rendering(binding(2), placement(m1=1, m2=1))
    unplaced.works()
    unplaced.given(
        another,
        binding(2, uid="u2"),
        PlacementFailed(key=KEY, uid="u2", reason="NoClusterFit", message="no cluster fits"),
    )
    assert {type(work) for work in unplaced.works().values()} == {WorkWithdrawn}
    paused = rendering(binding(2), placement(m1=1, m2=1))
    paused.works()
    paused.given(another, binding(2, uid="u2", suspension={"scheduling": True}))
    assert {type(work) for work in paused.works().values()} == {WorkWithdrawn}


def test_cluster_that_leaves_the_placement_is_withdrawn() -> None:
    renderer = rendering(binding(2), placement(m1=1, m2=1))
    renderer.works()
    renderer.given(placement(m1=2))
    works = renderer.works()
    assert isinstance(works["m1"], WorkRendered)
    assert isinstance(works["m2"], WorkWithdrawn)


def test_released_binding_withdraws_and_may_keep_copies() -> None:
    for preserve in (False, True):
        request = binding(2, preserveResourcesOnDeletion=preserve)
        renderer = rendering(request, placement(m1=1, m2=1))
        renderer.works()
        renderer.given(released())
        works = renderer.works()
        assert all(isinstance(work, WorkWithdrawn) and work.keep == preserve for work in works.values())
        assert len(works) == 2
        assert renderer.works() == {}


def test_override_changes_its_clusters_until_it_is_deleted() -> None:
    renderer = rendering(binding(2), placement(m1=1, m2=1))
    renderer.works()
    renderer.given(override(plaintext("/spec/paused", "add", "yes")))
    assert KEY in renderer.marked
    works = renderer.works()
    assert sorted(works) == ["m1"]
    assert content(works["m1"])["spec"]["paused"] == "yes"
    rendered = works["m1"]
    assert isinstance(rendered, WorkRendered)
    assert [applied.policy for applied in rendered.overrides] == ["op"]
    renderer.given(PolicyDeleted(key=PolicyKey("OverridePolicy", "default", "op"), uid="o"))
    assert KEY in renderer.marked
    assert "paused" not in content(renderer.works()["m1"])["spec"]


def test_failing_override_keeps_the_last_work_of_its_cluster() -> None:
    renderer = rendering(binding(2), placement(m1=1, m2=1))
    before = renderer.works()["m1"]
    assert isinstance(before, WorkRendered)
    renderer.given(override(plaintext("/no/such", "remove")))
    works = renderer.works()
    assert sorted(works) == ["m1"]
    after = works["m1"]
    assert isinstance(after, WorkRendered)
    assert after.digest == before.digest
    assert after.manifest == before.manifest
    assert "op" in after.problem
    assert renderer.works() == {}


def test_dispatching_is_suspended_per_cluster() -> None:
    request = binding(2, suspension={"dispatchingOnClusters": {"clusterNames": ["m2"]}})
    works = rendering(request, placement(m1=1, m2=1)).works()
    suspended = {name: work.suspended for name, work in works.items() if isinstance(work, WorkRendered)}
    assert suspended == {"m1": False, "m2": True}


def test_large_manifests_are_stored_as_blobs() -> None:
    big = deployment()
    big["metadata"]["annotations"] = {"note": "x" * 5000}
    renderer = rendering(template(big), binding(2), placement(m1=1, m2=1))
    works = renderer.decision()
    assert len(works.blobs) == 2
    assert all(isinstance(work, WorkRendered) and not isinstance(work.manifest, Raw) for work in works.events)


def test_leaving_cluster_is_withdrawn() -> None:
    renderer = rendering(binding(2), placement(m1=1, m2=1))
    renderer.works()
    renderer.given(cluster("m2", deleting=True))
    assert KEY in renderer.marked
    assert isinstance(renderer.works()["m2"], WorkWithdrawn)
