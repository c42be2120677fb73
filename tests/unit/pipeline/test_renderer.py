"""Templates and placements in, works out."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from schemas.codec import Known, subject_of
from schemas.events.binding import BindingReleased
from schemas.events.policy import PolicyChanged, PolicyDeleted
from schemas.events.work import WorkEvent, WorkRendered, WorkWithdrawn
from schemas.keys import PolicyKey
from services._rules import constants as const
from services.override_renderer.decide import AtHand, decide
from services.override_renderer.state import RendererState, fold
from tests.support.facts import KEY, binding, cluster, deployment, placement, template


class World:
    """A renderer's state at the end of a log."""

    def __init__(self, *events: Known) -> None:
        self.state = RendererState()
        self.at_hand = AtHand()
        self.seq = 0
        self.log: dict[int, Known] = {}
        self.dirty: set[object] = set()
        self.given(*events)

    def given(self, *events: Known) -> None:
        for event in events:
            self.seq += 1
            self.log[self.seq] = event
            self.dirty = set(fold(self.state, self.seq, subject_of(event), event))

    def decides(self) -> dict[str, WorkEvent]:
        works = decide(self.state, KEY, self.at_hand)
        if works.missing:
            assert not works.events, "nothing is said before what stays in force was read"
            for digest, position in works.missing:
                work = self.log[position]
                assert isinstance(work, WorkRendered)
                assert isinstance(work.manifest, Raw)
                assert work.digest == digest
                self.at_hand.blobs[digest] = bytes(work.manifest)
            works = decide(self.state, KEY, self.at_hand)
        self.given(*works.events)
        return {event.cluster: event for event in works.events}


def members() -> tuple[Known, ...]:
    return cluster("m1"), cluster("m2"), cluster("m3")


def manifest(work: WorkEvent) -> dict[str, Any]:
    assert isinstance(work, WorkRendered)
    assert isinstance(work.manifest, Raw)
    decoded: dict[str, Any] = msgspec.json.decode(work.manifest)
    return decoded


def override(value: int | str, kind: str = "OverridePolicy", **target: Any) -> PolicyChanged:
    namespace = "default" if kind == "OverridePolicy" else ""
    spec = {
        "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "nginx"}],
        "overrideRules": [
            {
                **({"targetCluster": target} if target else {}),
                "overriders": {"plaintext": [{"path": "/spec/paused", "operator": "add", "value": value}]},
            }
        ],
    }
    content = {
        "kind": kind,
        "metadata": {"name": "op", **({"namespace": namespace} if namespace else {})},
        "spec": spec,
    }
    return PolicyChanged(key=PolicyKey(kind, namespace, "op"), uid="o", manifest=Raw(msgspec.json.encode(content)))


def test_each_target_gets_its_replicas_and_our_marks() -> None:
    world = World(*members(), template(), binding(3), placement(m1=1, m2=2))
    works = world.decides()
    assert sorted(works) == ["m1", "m2"]
    first, second = manifest(works["m1"]), manifest(works["m2"])
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


def test_deciding_again_changes_nothing() -> None:
    world = World(*members(), template(), binding(3), placement(m1=1, m2=2))
    world.decides()
    assert world.decides() == {}


def test_works_that_a_leader_did_not_get_to_store_are_rendered_by_the_next_and_the_others_stay() -> None:
    world = World(*members(), template(), binding(3), placement(m1=1, m2=1, m3=1))
    first = decide(world.state, KEY, world.at_hand).events[0]
    world.given(first)
    assert sorted(world.decides()) == sorted({"m1", "m2", "m3"} - {first.cluster})


def test_a_scaled_template_waits_for_the_division_of_its_replicas() -> None:
    world = World(*members(), template(), binding(2), placement(m1=1, m2=1))
    world.decides()
    world.given(template(deployment(4, generation=2)), binding(4))
    assert world.decides() == {}
    world.given(placement(m1=2, m2=2))
    assert {name: manifest(work)["spec"]["replicas"] for name, work in world.decides().items()} == {"m1": 2, "m2": 2}


def test_a_cluster_that_leaves_the_placement_lets_go() -> None:
    world = World(*members(), template(), binding(2), placement(m1=1, m2=1))
    world.decides()
    world.given(placement(m1=2))
    works = world.decides()
    assert isinstance(works["m1"], WorkRendered)
    assert isinstance(works["m2"], WorkWithdrawn)


def test_a_released_binding_withdraws_everything_and_may_keep_the_copies() -> None:
    for preserve in (False, True):
        request = binding(2, preserveResourcesOnDeletion=preserve)
        world = World(*members(), template(), request, placement(m1=1, m2=1))
        world.decides()
        world.given(BindingReleased(key=KEY, uid="u1"))
        works = world.decides()
        assert all(isinstance(work, WorkWithdrawn) and work.keep == preserve for work in works.values())
        assert len(works) == 2
        assert world.decides() == {}


def test_an_override_changes_its_clusters_only_and_its_end_undoes_it() -> None:
    world = World(*members(), template(), binding(2), placement(m1=1, m2=1))
    world.decides()
    world.given(override("yes", clusterNames=["m1"]))
    assert KEY in world.dirty
    works = world.decides()
    assert sorted(works) == ["m1"]
    assert manifest(works["m1"])["spec"]["paused"] == "yes"
    rendered = works["m1"]
    assert isinstance(rendered, WorkRendered)
    assert [applied.policy for applied in rendered.overrides] == ["op"]
    world.given(PolicyDeleted(key=PolicyKey("OverridePolicy", "default", "op"), uid="o"))
    assert KEY in world.dirty
    assert "paused" not in manifest(world.decides()["m1"])["spec"]


def test_a_failing_override_stops_its_own_cluster_and_keeps_what_runs() -> None:
    world = World(*members(), template(), binding(2), placement(m1=1, m2=1))
    before = world.decides()["m1"]
    assert isinstance(before, WorkRendered)
    broken = override("x", clusterNames=["m1"])
    content = msgspec.json.decode(broken.manifest)
    content["spec"]["overrideRules"][0]["overriders"]["plaintext"][0] = {"path": "/no/such", "operator": "remove"}
    world.given(msgspec.structs.replace(broken, manifest=Raw(msgspec.json.encode(content))))
    works = world.decides()
    assert sorted(works) == ["m1"]
    after = works["m1"]
    assert isinstance(after, WorkRendered)
    assert after.digest == before.digest
    assert after.manifest == before.manifest
    assert "op" in after.problem
    assert world.decides() == {}


def test_dispatching_can_be_suspended_per_cluster() -> None:
    request = binding(2, suspension={"dispatchingOnClusters": {"clusterNames": ["m2"]}})
    works = World(*members(), template(), request, placement(m1=1, m2=1)).decides()
    suspended = {name: work.suspended for name, work in works.items() if isinstance(work, WorkRendered)}
    assert suspended == {"m1": False, "m2": True}


def test_large_manifests_are_named_not_carried() -> None:
    big = deployment()
    big["metadata"]["annotations"] = {"note": "x" * 5000}
    world = World(*members(), template(big), binding(2), placement(m1=1, m2=1))
    works = decide(world.state, KEY, world.at_hand)
    assert len(works.blobs) == 2
    assert all(isinstance(work, WorkRendered) and not isinstance(work.manifest, Raw) for work in works.events)


def test_a_leaving_cluster_lets_go_of_everything() -> None:
    world = World(*members(), template(), binding(2), placement(m1=1, m2=1))
    world.decides()
    world.given(cluster("m2", deleting=True))
    assert KEY in world.dirty
    assert isinstance(world.decides()["m2"], WorkWithdrawn)
