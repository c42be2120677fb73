"""Bindings and works have the shape that Karmada's clients read, whatever facts are there."""

from __future__ import annotations

import msgspec
import pytest

from schemas.events.binding import PolicyRef
from schemas.events.eviction import EvictionFinished, EvictionRequested, EvictionTask
from schemas.events.placement import PlacementFailed, TargetCluster
from schemas.events.policy import PolicyChanged
from schemas.events.work import AppliedOverride
from schemas.keys import ObjectKey, PolicyKey
from services._rules.identities import binding_id, work_id
from services.gateway.views import binding_views as bindings
from services.gateway.views import work_views as works
from tests.integration.gateway.story import (
    NGINX,
    cluster,
    manifest,
    observed,
    placed,
    raw,
    rendered,
    requested,
    rolled_up,
    withdrawn,
)
from tests.unit.gateway.gateway_facts import Shown, entries

SECRET = ObjectKey(group="", resource="secrets", namespace="default", name="keys")
ROLE = ObjectKey(group="rbac.authorization.k8s.io", resource="clusterroles", namespace="", name="system:Foo")
SPACE = ObjectKey(group="", resource="namespaces", namespace="", name="shop")


def plain(value):
    return msgspec.json.decode(msgspec.json.encode(value))


def the_binding(shown, api_version="work.karmada.io/v1alpha2"):
    (entry,) = [*entries(shown.catalog.bindings), *entries(shown.catalog.cluster_bindings)]
    return plain(bindings.build(entry.source, entry.version, api_version))


def the_work(shown, blob=None):
    (entry,) = entries(shown.catalog.works)
    return plain(works.build(entry.source, entry.version, entry.created, blob))


def conditions(body):
    return {item["type"]: (item["status"], item["reason"]) for item in body["status"].get("conditions", [])}


def test_a_binding_carries_identity_claim_and_owner():
    shown = Shown(requested(generation=3))
    metadata = the_binding(shown)["metadata"]
    assert (metadata["namespace"], metadata["name"], metadata["generation"]) == ("default", "nginx-deployment", 3)
    assert metadata["creationTimestamp"] == "2023-11-14T22:13:20Z"
    assert metadata["labels"] == {
        "resourcebinding.karmada.io/permanent-id": binding_id(NGINX, "u1"),
        "propagationpolicy.karmada.io/permanent-id": "policy-id",
    }
    assert metadata["annotations"] == {
        "propagationpolicy.karmada.io/namespace": "default",
        "propagationpolicy.karmada.io/name": "web",
    }
    assert metadata["ownerReferences"][0] == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": "nginx",
        "uid": "u1",
        "controller": True,
        "blockOwnerDeletion": True,
    }


def test_a_cluster_scoped_template_has_a_cluster_binding():
    shown = Shown()
    policy = PolicyRef(PolicyKey("ClusterPropagationPolicy", "", "all"), "cpp-id", 1)
    shown.tell(requested(ROLE, kind="ClusterRole", api_version="rbac.authorization.k8s.io/v1", policy=policy))
    body = the_binding(shown)
    assert (body["kind"], body["metadata"]["name"]) == ("ClusterResourceBinding", "system.foo-clusterrole")
    assert "namespace" not in body["metadata"]
    assert body["metadata"]["labels"]["clusterpropagationpolicy.karmada.io/permanent-id"] == "cpp-id"


def test_before_a_decision_there_is_no_condition():
    shown = Shown(requested())
    body = the_binding(shown)
    assert body["status"] == {}
    assert "clusters" not in body["spec"]


def test_binding_shows_the_placement_decision():
    shown = Shown(requested(generation=2), placed(generation=2, member1=2, member2=0))
    body = the_binding(shown)
    assert body["spec"]["clusters"] == [{"name": "member1", "replicas": 2}, {"name": "member2"}]
    assert body["status"]["schedulerObservedGeneration"] == 2
    assert body["status"]["lastScheduledTime"] == "2023-11-14T22:13:21Z"
    assert conditions(body) == {"Scheduled": ("True", "Success")}
    applied = body["metadata"]["annotations"]["policy.karmada.io/applied-placement"]
    assert msgspec.json.decode(applied) == {"clusterAffinity": {}}


def failed(reason="NoClusterFit", **more):
    return PlacementFailed(
        key=NGINX, uid="u1", reason=reason, message="0/2 clusters fit", failed_at=1_700_000_050, **more
    )


@pytest.mark.parametrize("reason", ["NoClusterFit", "Unschedulable", "SchedulerError", "QuotaExceeded"])
def test_binding_shows_a_failure_and_the_last_placement(reason):
    shown = Shown()
    kept = (TargetCluster("member1", 2),)
    shown.tell(
        requested(), placed(member1=2), requested(generation=2), failed(reason, clusters=kept, binding_generation=2)
    )
    body = the_binding(shown)
    assert conditions(body) == {"Scheduled": ("False", reason)}
    assert body["status"]["conditions"][0]["message"] == "0/2 clusters fit"
    assert body["status"]["schedulerObservedGeneration"] == 1
    assert body["spec"]["clusters"] == [{"name": "member1", "replicas": 2}]


def test_a_condition_keeps_its_time_until_its_status_changes():
    shown = Shown(requested(), placed(member1=1), rolled_up("member1"))
    before = the_binding(shown)["status"]["conditions"]
    shown.tell(placed(generation=2, member1=2), rolled_up("member1"))
    assert the_binding(shown)["status"]["conditions"] == before
    shown.tell(failed())
    assert the_binding(shown)["status"]["conditions"][0]["lastTransitionTime"] == "2023-11-14T22:14:10Z"


def test_facets_of_another_uid_count_as_absent():
    shown = Shown(requested(), placed(member1=1), rolled_up("member1"), requested(uid="u2"))
    body = the_binding(shown)
    assert body["status"] == {}
    assert "clusters" not in body["spec"]


def test_an_eviction_takes_the_cluster_out_and_lists_its_task():
    shown = Shown()
    task = EvictionTask(
        from_cluster="member1",
        reason="TaintUntolerated",
        producer="TaintManager",
        purge_mode="Gracefully",
        created_at=1_700_000_000,
        clusters_before=("member1", "member2"),
    )
    shown.tell(requested(), placed(member1=1, member2=1), EvictionRequested(key=NGINX, uid="u1", tasks=(task,)))
    spec = the_binding(shown)["spec"]
    assert [target["name"] for target in spec["clusters"]] == ["member2"]
    assert spec["gracefulEvictionTasks"] == [
        {
            "fromCluster": "member1",
            "reason": "TaintUntolerated",
            "producer": "TaintManager",
            "purgeMode": "Gracefully",
            "creationTimestamp": "2023-11-14T22:13:20Z",
            "clustersBeforeFailover": ["member1", "member2"],
        }
    ]
    shown.tell(EvictionFinished(key=NGINX, uid="u1", left=("member1",)))
    assert "gracefulEvictionTasks" not in the_binding(shown)["spec"]


def test_v1alpha1_binding_has_replicas_in_the_resource():
    shown = Shown(requested(replicas=3), placed(member1=3), rolled_up("member1"))
    body = the_binding(shown, "work.karmada.io/v1alpha1")
    assert body["spec"]["resource"]["replicas"] == 3
    assert "uid" not in body["spec"]["resource"]
    assert "placement" not in body["spec"]
    assert body["status"]["aggregatedStatus"] == [
        {"clusterName": "member1", "status": {"readyReplicas": 1}, "applied": True}
    ]


def test_a_namespace_has_works_and_no_binding():
    shown = Shown(
        requested(SPACE, kind="Namespace", api_version="v1", everywhere=True, policy=None),
        rendered("member1", SPACE, kind="Namespace", api_version="v1"),
    )
    assert not entries(shown.catalog.cluster_bindings)
    metadata = the_work(shown)["metadata"]
    assert metadata["annotations"] == {}
    assert metadata["labels"] == {"work.karmada.io/permanent-id": work_id("member1", SPACE, "u1")}
    assert metadata["ownerReferences"][0]["kind"] == "Namespace"


def test_work_shows_dispatching_and_applied_conditions():
    shown = Shown(rendered("member1", preserve_on_deletion=True))
    body = the_work(shown)
    assert (body["metadata"]["namespace"], body["metadata"]["name"]) == ("karmada-es-member1", "nginx-687f7fb96f")
    assert body["spec"]["workload"]["manifests"] == [plain(msgspec.Raw(manifest()))]
    assert (body["spec"]["suspendDispatching"], body["spec"]["preserveResourcesOnDeletion"]) == (False, True)
    assert conditions(body) == {"Dispatching": ("True", "Dispatching")}
    shown.tell(observed("member1"))
    body = the_work(shown)
    assert conditions(body)["Applied"] == ("True", "AppliedSuccessful")
    assert body["status"]["manifestStatuses"] == [
        {
            "identifier": {
                "ordinal": 0,
                "version": "v1",
                "kind": "Deployment",
                "resource": "",
                "group": "apps",
                "namespace": "default",
                "name": "nginx",
            },
            "health": "Healthy",
            "status": {"readyReplicas": 1},
        }
    ]


def test_observation_counts_in_either_order_of_streams():
    in_order, other_way = Shown(), Shown()
    in_order.tell(rendered("member1"), observed("member1"))
    other_way.tell(observed("member1"), rendered("member1"))
    assert conditions(the_work(other_way)) == conditions(the_work(in_order))
    assert conditions(the_work(other_way))["Applied"] == ("True", "AppliedSuccessful")
    other_way.tell(rendered("member1", uid="u2"))
    assert "Applied" not in conditions(the_work(other_way))


def test_work_lists_applied_overrides_by_policy_name():
    applied = tuple(AppliedOverride(name, raw({"rule": rule})) for rule, name in enumerate(("z", "a", "z")))
    shown = Shown(requested(), msgspec.structs.replace(rendered("member1"), overrides=applied))
    annotations = the_work(shown)["metadata"]["annotations"]
    assert msgspec.json.decode(annotations["policy.karmada.io/applied-overrides"]) == [
        {"policyName": name, "overriders": {"rule": rule}} for rule, name in ((1, "a"), (0, "z"), (2, "z"))
    ]
    assert "policy.karmada.io/applied-cluster-overrides" not in annotations


def test_a_refused_work_says_why_and_shows_no_status():
    shown = Shown(rendered("member1", suspended=True), observed("member1", applied=False, message="quota exceeded"))
    body = the_work(shown)
    assert conditions(body) == {
        "Applied": ("False", "AppliedFailed"),
        "Dispatching": ("False", "SuspendDispatching"),
    }
    assert body["status"]["conditions"][0]["message"] == "quota exceeded"
    assert "manifestStatuses" not in body["status"]


def test_work_with_a_render_failure_is_degraded():
    shown = Shown(rendered("member1", problem="replicas: no such path"))
    assert conditions(the_work(shown))["Degraded"] == ("True", "RenderFailed")


@pytest.mark.parametrize("inline", [True, False])
def test_the_content_of_a_secret_is_never_shown(inline):
    shown = Shown()
    data = manifest(SECRET, "Secret", "v1", data={"password": "aHVudGVyMg=="})
    shown.tell(rendered("member1", SECRET, kind="Secret", api_version="v1", data=data, inline=inline))
    body = the_work(shown, blob=data)
    assert b"aHVudGVyMg" not in msgspec.json.encode(body)
    assert body["spec"]["workload"]["manifests"][0]["metadata"] == {"name": "keys", "namespace": "default"}
    assert "Secret" in body["metadata"]["annotations"][works.REDACTED_ANNOTATION]


def test_a_missing_blob_leaves_an_outline_and_a_reason():
    shown = Shown(rendered("member1", inline=False))
    body = the_work(shown)
    assert body["spec"]["workload"]["manifests"][0]["kind"] == "Deployment"
    assert "BLOBS" in body["metadata"]["annotations"][works.REDACTED_ANNOTATION]


def test_withdrawn_work_without_observation_is_removed():
    shown = Shown(rendered("member1"), withdrawn("member1"))
    assert not entries(shown.catalog.works)


def test_a_work_rendered_again_is_not_terminating_any_more():
    shown = Shown(rendered("member1"), observed("member1"), withdrawn("member1"))
    assert "deletionTimestamp" in the_work(shown)["metadata"]
    shown.tell(rendered("member1"))
    assert "deletionTimestamp" not in the_work(shown)["metadata"]


def test_facts_that_nothing_is_shown_from_change_nothing():
    shown = Shown()
    key = PolicyKey("PropagationPolicy", "default", "web")
    shown.tell(cluster("member1"), PolicyChanged(key=key, uid="p", manifest=raw({})))
    assert not entries(shown.catalog.bindings)
    assert shown.catalog.bindings.revision == 2
