"""Given FederatedResourceQuotas that assign shares, when works are decided, then those clusters get ResourceQuotas."""

from __future__ import annotations

from msgspec.structs import replace

from schemas.events.binding import BindingReleased
from schemas.events.work import WorkRendered, WorkWithdrawn
from schemas.hints import Purged
from schemas.keys import ObjectKey, PolicyKey
from services._rules import constants as const
from tests.support.facts import (
    asked,
    binding,
    cluster,
    deployment,
    edited,
    placement,
    quota,
    quota_gone,
    removed,
    template,
)
from tests.support.harness import RendererHarness, content

KEY = ObjectKey("", "resourcequotas", "default", "all")
SHARES = {"m1": {"cpu": "20"}, "m2": {"cpu": "50"}}


def holding(renderer: RendererHarness) -> dict[str, str]:
    """What each cluster shall hold, by the uid that asks for it."""
    held = renderer.state.objects[KEY].works.items()
    return {name: work.uid for name, (work, _) in held if isinstance(work, WorkRendered)}


def test_assigned_clusters_get_their_share() -> None:
    renderer = RendererHarness(cluster("m1"), cluster("m2"), cluster("m3"), quota(cpu="100", assigned=SHARES))
    found = renderer.works(KEY)
    assert sorted(found) == ["m1", "m2"]
    manifest = content(found["m1"])
    assert (manifest["apiVersion"], manifest["kind"]) == ("v1", "ResourceQuota")
    assert (manifest["metadata"]["namespace"], manifest["metadata"]["name"]) == ("default", "all")
    assert manifest["spec"] == {"hard": {"cpu": "20"}}
    assert manifest["metadata"]["labels"][const.MANAGED_LABEL] == "true"
    assert manifest["metadata"]["annotations"][const.WORK_NAMESPACE_ANNOTATION] == "karmada-es-m1"
    assert found["m1"].policy == PolicyKey("FederatedResourceQuota", "default", "all")
    assert renderer.works(KEY) == {}


def test_unknown_cluster_gets_its_share_once_it_joins() -> None:
    renderer = RendererHarness(cluster("m1"), quota(cpu="100", assigned=SHARES))
    assert sorted(renderer.works(KEY)) == ["m1"]
    assert KEY in renderer.given(cluster("m2"))
    assert sorted(renderer.works(KEY)) == ["m2"]


def test_quota_forgotten_meanwhile_still_waits_for_clusters() -> None:
    renderer = RendererHarness(quota(cpu="100", assigned=SHARES))
    assert renderer.works(KEY) == {}
    renderer.state.forget(Purged(objects=()))
    assert KEY in renderer.given(cluster("m2"))
    assert sorted(renderer.works(KEY)) == ["m2"]


def test_share_ends_with_assignment_quota_or_cluster() -> None:
    renderer = RendererHarness(cluster("m1"), cluster("m2"), quota(cpu="100", assigned=SHARES))
    renderer.works(KEY)
    renderer.given(quota(cpu="100", assigned={"m1": {"cpu": "30"}}))
    changed = renderer.works(KEY)
    assert content(changed["m1"])["spec"] == {"hard": {"cpu": "30"}}
    gone = changed["m2"]
    assert isinstance(gone, WorkWithdrawn)
    assert gone.reason == "FederatedResourceQuota assigns nothing to it any more"
    assert gone.policy is not None
    renderer.given(removed("m1"))
    assert isinstance(renderer.works(KEY)["m1"], WorkWithdrawn)
    renderer.given(cluster("m1"))
    assert sorted(renderer.works(KEY)) == ["m1"]
    assert renderer.given(quota_gone()) == {KEY}
    assert isinstance(renderer.works(KEY)["m1"], WorkWithdrawn)


def test_first_of_two_shares_of_a_cluster_counts() -> None:
    twice = [{"clusterName": "m1", "hard": {"cpu": "1"}}, {"clusterName": "m1", "hard": {"cpu": "2"}}]
    fact = edited(quota(), spec={"overall": {"cpu": "3"}, "staticAssignments": twice})
    renderer = RendererHarness(cluster("m1"), fact)
    assert content(renderer.works(KEY)["m1"])["spec"] == {"hard": {"cpu": "1"}}


def test_unreadable_share_leaves_what_the_cluster_has() -> None:
    renderer = RendererHarness(cluster("m1"), cluster("m2"), quota(cpu="100", assigned=SHARES))
    renderer.works(KEY)
    renderer.given(quota(cpu="100", assigned={"m1": {"cpu": "lots"}, "m2": {"cpu": "60"}}))
    found = renderer.works(KEY)
    assert content(found["m2"])["spec"] == {"hard": {"cpu": "60"}}
    wrong = found["m1"]
    assert isinstance(wrong, WorkRendered)
    assert "spec.staticAssignments[0].hard[cpu]" in wrong.problem
    assert renderer.works(KEY) == {}


def test_propagated_quota_of_the_name_goes_first() -> None:
    """given a template of the same name, when a policy propagates it, then it wins in all clusters until it ends."""
    manifest = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "all", "namespace": "default", "uid": "u1"},
        "spec": {"hard": {"cpu": "7"}},
    }
    renderer = RendererHarness(cluster("m1"), cluster("m2"), quota(cpu="100", assigned=SHARES))
    renderer.works(KEY)
    bound = replace(binding(0), key=KEY, api_version="v1", kind="ResourceQuota", workload=False)
    renderer.given(
        replace(template(manifest), key=KEY, api_version="v1", kind="ResourceQuota"),
        bound,
        replace(placement(m1=0), key=KEY),
    )
    found = renderer.works(KEY)
    assert content(found["m1"])["spec"] == {"hard": {"cpu": "7"}}
    assert isinstance(found["m2"], WorkWithdrawn)
    assert holding(renderer) == {"m1": "u1"}
    renderer.given(quota(cpu="100", assigned={"m1": {"cpu": "21"}}))
    assert renderer.works(KEY) == {}
    renderer.given(BindingReleased(key=KEY, uid="u1", reason="gone"))
    renderer.works(KEY)
    assert holding(renderer) == {"m1": "q1"}


def test_greater_requests_wait_for_their_admission() -> None:
    """given requests not read or not admitted, when rendering, then copies stay; withdrawals are not held back."""
    placed = replace(placement(m1=1, m2=1), requests={"cpu": "1"})
    plain = replace(asked("nginx", 2), workload=True)
    renderer = RendererHarness(cluster("m1"), cluster("m2"), template(), plain, placed)
    assert sorted(renderer.works()) == ["m1", "m2"]
    renderer.given(replace(template(deployment(2, "nginx:2")), binding_follows=True))
    assert renderer.works() == {}
    renderer.given(replace(asked("nginx", 2, cpu=2), generation=2))
    assert renderer.works() == {}
    renderer.given(removed("m2"))
    assert sorted(renderer.works()) == ["m2"]
    renderer.given(replace(placement(m1=2), requests={"cpu": "2"}))
    assert sorted(renderer.works()) == ["m1"]
