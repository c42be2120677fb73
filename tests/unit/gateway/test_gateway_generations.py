"""Generations of bindings and works count every change of their spec; lastScheduledTime moves with every run."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from schemas.envelope import Provenance
from schemas.events.cluster import ClusterChanged
from schemas.events.descheduling import LoweredCluster, ReplicasDescheduled
from schemas.events.eviction import EvictionFinished, EvictionRequested, EvictionTask
from schemas.events.placement import PlacementFailed, TargetCluster
from services.gateway.views import binding_views as bindings
from services.gateway.views import work_views as works
from services.gateway.views.view_shapes import time_text
from tests.integration.gateway.story import CREATED, NGINX, placed, raw, rendered, requested, rolled_up
from tests.unit.gateway.gateway_facts import Shown, entries

TASK = EvictionTask(from_cluster="member1", reason="TaintUntolerated", producer="TaintManager")
GROUPS = [
    {"affinityName": "one", "labelSelector": {"matchLabels": {"tier": "one"}}},
    {"affinityName": "two", "labelSelector": {"matchLabels": {"tier": "two"}}},
]
DIVIDED = {"clusterAffinity": {"clusterNames": ["member1"]}, "replicaScheduling": {"replicaSchedulingType": "Divided"}}


def body(shown):
    (entry,) = entries(shown.catalog.bindings)
    return msgspec.json.decode(msgspec.json.encode(bindings.build(entry.source, entry.version)))


def generations(shown):
    """metadata.generation, and the one that the scheduler observed."""
    found = body(shown)
    return found["metadata"]["generation"], found["status"].get("schedulerObservedGeneration")


def asked(placement=None, **more):
    """A request for a placement."""
    event = requested(**more)
    spec = msgspec.json.decode(event.spec)
    return replace(event, spec=raw({**spec, "placement": placement or spec["placement"]}))


def decided(changes, generation=1, as_of=0, observed=None, **targets):
    event = placed(generation=generation, **targets)
    return replace(
        event,
        changes=changes,
        observed_generation=generation + changes if observed is None else observed,
        provenance=Provenance(as_of=as_of),
    )


def cluster(name, shaped_at, **labels):
    manifest = {"metadata": {"name": name, "labels": labels}, "spec": {}}
    return ClusterChanged(name=name, uid=f"uid-{name}", manifest=raw(manifest), shaped_at=shaped_at)


def test_generation_counts_clusters_and_tasks() -> None:
    shown = Shown(requested())
    assert generations(shown) == (1, None)
    shown.tell(decided(1, member1=2, member2=2))
    assert generations(shown) == (2, 2)
    shown.tell(EvictionRequested(key=NGINX, uid="u1", tasks=(TASK,), changes=1))
    assert generations(shown) == (3, 2), "the scheduler has not seen that a cluster is gone"
    shown.tell(decided(1, as_of=3, observed=3, member2=2))
    assert generations(shown) == (3, 3)
    shown.tell(EvictionFinished(key=NGINX, uid="u1", left=("member1",), changes=2))
    assert generations(shown) == (4, 4), "that a task ended asks for no other clusters"
    shown.tell(requested(generation=2, replicas=3))
    assert generations(shown)[0] == 5


def test_generation_counts_replicas_taken_back() -> None:
    shown = Shown(asked(DIVIDED, replicas=2))
    position = shown.tell(replace(decided(1, member1=2), placement=raw(DIVIDED)))
    lowered = (LoweredCluster("member1", 1, 2),)
    shown.tell(ReplicasDescheduled(key=NGINX, uid="u1", placement=position, clusters=lowered, changes=1))
    assert generations(shown) == (3, 2)


def test_a_failure_shows_the_generation_of_the_last_success() -> None:
    failed = PlacementFailed(
        key=NGINX,
        uid="u1",
        reason="NoClusterFit",
        message="0/2 clusters are available",
        binding_generation=2,
        changes=2,
        observed_generation=2,
        failed_at=CREATED + 50,
        since=CREATED + 40,
    )
    # As after a start: earlier placements are not read.
    shown = Shown(requested(generation=2), failed)
    assert generations(shown) == (4, 2)
    condition = body(shown)["status"]["conditions"][0]
    assert condition["lastTransitionTime"] == time_text(CREATED + 40)


def test_works_count_what_is_written_to_the_member() -> None:
    shown = Shown(rendered("member1", generation=3))
    (entry,) = entries(shown.catalog.works)
    assert works.build(entry.source, entry.version, entry.created)["metadata"]["generation"] == 3


def last_run(shown):
    return body(shown)["status"]["lastScheduledTime"]


@pytest.mark.parametrize("restarted", [False, True])
def test_a_cluster_that_is_followed_moves_the_last_run(restarted) -> None:
    request = asked({"clusterAffinities": GROUPS})
    decision = replace(decided(1, member2=2), affinity_name="two", placement=raw({"clusterAffinities": GROUPS}))
    before = [cluster("member1", CREATED - 9, tier="one"), cluster("member2", CREATED - 9, tier="two")]
    shown = Shown(*before, request, decision)
    assert last_run(shown) == time_text(CREATED + 1)
    version = body(shown)["metadata"]["resourceVersion"]
    shown.tell(cluster("member1", CREATED + 20, tier="one", other="x"))
    assert last_run(shown) == time_text(CREATED + 1), "the term in force does not name it"
    after = cluster("member2", CREATED + 30, tier="two", other="x")
    if restarted:
        shown = Shown(request, decision, cluster("member1", CREATED + 20, tier="one", other="x"))
    shown.tell(after)
    assert last_run(shown) == time_text(CREATED + 30)
    assert generations(shown) == (2, 2)
    assert int(body(shown)["metadata"]["resourceVersion"]) > (0 if restarted else int(version))
    position = shown.tell(replace(after, shaped_at=CREATED + 30))
    assert int(body(shown)["metadata"]["resourceVersion"]) < position, "a heartbeat changes no binding"


def test_a_division_is_not_run_again_by_clusters() -> None:
    shown = Shown(asked(DIVIDED), replace(decided(1, member1=2), placement=raw(DIVIDED)))
    shown.tell(cluster("member1", CREATED + 30, other="x"))
    assert last_run(shown) == time_text(CREATED + 1)


def test_a_change_that_moves_nothing_is_a_run_of_its_own() -> None:
    request = asked({"clusterAffinity": {"clusterNames": ["member1"]}})
    placement = raw({"clusterAffinity": {"clusterNames": ["member1"]}})
    shown = Shown(request, replace(decided(1, member1=2), placement=placement))
    later = replace(request, generation=2, provenance=Provenance(decided_at=CREATED + 30))
    shown.tell(later)
    assert generations(shown) == (3, 3)
    assert last_run(shown) == time_text(CREATED + 30)
    shown.tell(replace(later, labels={"a": "b"}, provenance=Provenance(decided_at=CREATED + 60)))
    assert last_run(shown) == time_text(CREATED + 30), "labels are not scheduled"


def test_a_failure_and_another_object_are_no_runs() -> None:
    request = asked({"clusterAffinity": {"clusterNames": ["member1"]}})
    kept = (TargetCluster("member1", 2),)
    failed = PlacementFailed(
        key=NGINX, uid="u1", reason="SchedulerError", message="no", clusters=kept, scheduled_at=CREATED + 1
    )
    shown = Shown(request, failed, cluster("member1", CREATED + 30, other="x"))
    assert last_run(shown) == time_text(CREATED + 1)
    shown.tell(asked(uid="u2"), replace(decided(1, member1=2), uid="u2"))
    assert last_run(shown) == time_text(CREATED + 1)


def conditions(shown):
    return {item["type"]: (item["status"], item["message"]) for item in body(shown)["status"]["conditions"]}


def test_an_object_without_policy_says_that_it_left() -> None:
    shown = Shown(replace(requested(), policy=None), decided(1, member1=2))
    assert conditions(shown)["Scheduled"] == ("True", bindings.SCHEDULED_MESSAGE)
    shown.tell(EvictionFinished(key=NGINX, uid="u1", left=("member1",), changes=2))
    assert "clusters" not in body(shown)["spec"]
    assert conditions(shown)["Scheduled"] == ("True", f"{bindings.SCHEDULED_MESSAGE} {bindings.LEFT}")


def test_an_object_that_is_nowhere_says_that_nothing_is_chosen() -> None:
    shown = Shown(requested(), decided(0), replace(rolled_up(), fully_applied=False))
    status, message = conditions(shown)["FullyApplied"]
    assert (status, message.endswith("for details: no cluster is chosen for it")) == ("False", True)
