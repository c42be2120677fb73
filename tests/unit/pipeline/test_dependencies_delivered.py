"""Dependencies go to the clusters of their owners, and all that decides about clusters of its own leaves them alone."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from schemas.codec import Known
from schemas.events.binding import BindingRequested
from schemas.events.eviction import EvictionFinished
from schemas.events.template import TemplateChanged
from schemas.events.work import WorkRendered, WorkWithdrawn
from services.failover.decide import Rules
from tests.support.dependency_plane import config
from tests.support.facts import (
    KEY,
    binding,
    cluster,
    evicted,
    key,
    member,
    placement,
    raw,
    released,
    removed,
    seen,
    template,
    work,
)
from tests.support.harness import (
    AGGREGATOR,
    DESCHEDULER,
    ESTIMATOR,
    SCHEDULER,
    Harness,
    RendererHarness,
    events_of,
    failover_with,
)

APP = config()
MEMBERS = (cluster("m1"), cluster("m2"), cluster("m3"))
OTHER = key("api")
NO_EXECUTE = [{"key": "down", "effect": "NoExecute"}]


def attached(*, preserve: bool = False, overwrite: bool = False, **fields: Any) -> BindingRequested:
    resource = {"apiVersion": "v1", "kind": "ConfigMap", "namespace": "default", "name": "app", "uid": "c1"}
    resolution = "Overwrite" if overwrite else "Abort"
    spec = {"resource": resource, "conflictResolution": resolution, "preserveResourcesOnDeletion": preserve}
    return BindingRequested(
        key=APP, uid="c1", api_version="v1", kind="ConfigMap", spec=raw(spec), attached=True, **fields
    )


def claimed(**fields: Any) -> BindingRequested:
    """The ConfigMap as a policy asks for it."""
    return replace(attached(), attached=False, spec=binding(0).spec, policy=binding().policy, **fields)


def content() -> TemplateChanged:
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "app", "namespace": "default", "uid": "c1"},
        "data": {"a": "1"},
    }
    return TemplateChanged(key=APP, uid="c1", api_version="v1", kind="ConfigMap", digest="d", manifest=raw(manifest))


def requiring(name: str = "nginx", *required: Any) -> BindingRequested:
    return replace(binding(name=name, propagateDeps=True), requires=required or (APP,))


def placed(name: str = "nginx", as_of: int = 0, **counts: int) -> Known:
    return replace(placement(as_of, **counts), key=key(name))


def rendering(*events: Known) -> RendererHarness:
    return RendererHarness(*MEMBERS, template(), content(), attached(), *events)


def test_it_moves_and_is_cleaned_with_its_owner() -> None:
    renderer = rendering(requiring(), placement(m1=1, m2=1))
    renderer.works(APP)
    assert APP in renderer.given(placement(m3=2))
    moved = renderer.works(APP)
    assert {name: type(event) for name, event in moved.items()} == {
        "m1": WorkWithdrawn,
        "m2": WorkWithdrawn,
        "m3": WorkRendered,
    }
    assert APP in renderer.given(released())
    gone = renderer.works(APP)["m3"]
    assert isinstance(gone, WorkWithdrawn)
    assert gone.reason == "nothing that runs here requires it"


def test_an_owner_placed_before_it_is_bound_counts() -> None:
    renderer = RendererHarness(*MEMBERS, template(), requiring(), placement(m1=1))
    assert APP in renderer.given(content(), attached())
    assert sorted(renderer.works(APP)) == ["m1"]


def test_a_dependency_no_longer_required_is_withdrawn() -> None:
    renderer = rendering(requiring(), placement(m1=1))
    renderer.works(APP)
    assert APP in renderer.given(replace(requiring(), requires=()))
    assert isinstance(renderer.works(APP)["m1"], WorkWithdrawn)


def test_an_evicted_owner_takes_it_along_at_once() -> None:
    renderer = rendering(requiring(), placement(m1=1, m2=1))
    renderer.works(APP)
    assert APP in renderer.given(evicted("m1"))
    assert {name: type(event) for name, event in renderer.works(APP).items()} == {"m1": WorkWithdrawn}


def test_copies_are_kept_where_an_owner_said_so() -> None:
    renderer = RendererHarness(*MEMBERS, template(), content(), requiring(), placement(m1=1), attached(preserve=True))
    rendered = renderer.works(APP)["m1"]
    assert isinstance(rendered, WorkRendered)
    assert rendered.preserve_on_deletion
    renderer.given(released(), attached())
    gone = renderer.works(APP)["m1"]
    assert isinstance(gone, WorkWithdrawn)
    assert gone.keep


def test_the_merged_resolution_is_rendered() -> None:
    renderer = rendering(requiring(), placement(m1=1))
    renderer.works(APP)
    renderer.given(attached(overwrite=True, generation=2))
    rendered = renderer.works(APP)["m1"]
    assert isinstance(rendered, WorkRendered)
    assert rendered.conflict_resolution == "Overwrite"


def test_a_claimed_dependency_has_its_clusters_and_the_owners() -> None:
    own = replace(placement(m1=1), key=APP, uid="c1", replicas=0)
    renderer = RendererHarness(*MEMBERS, template(), content(), claimed(), own, requiring(), placement(m2=1))
    assert sorted(renderer.works(APP)) == ["m1", "m2"]
    renderer.given(replace(evicted("m2"), key=APP, uid="c1"))
    assert renderer.works(APP) == {}


def test_a_direct_eviction_waits_for_no_required_copy() -> None:
    own = replace(placement(m1=1), key=APP, uid="c1", replicas=0)
    renderer = RendererHarness(*MEMBERS, template(), content(), claimed(), own, requiring(), placement(m1=1))
    renderer.works(APP)
    renderer.given(replace(evicted("m1", "Directly"), key=APP, uid="c1"), replace(content(), generation=2))
    assert sorted(renderer.works(APP)) == ["m1"]


def test_a_required_workload_keeps_its_own_replicas() -> None:
    required = replace(requiring("api"), requires=(KEY,))
    renderer = RendererHarness(*MEMBERS, template(), binding(2), placement(m1=2), required, placed("api", m2=5))
    found = {event.cluster: event for event in renderer.decides_all(KEY)}  # type: ignore[union-attr]
    assert sorted(found) == ["m1", "m2"]
    assert b'"replicas":2' in bytes(found["m2"].manifest)  # type: ignore[union-attr]


def test_a_removed_member_holds_nothing() -> None:
    renderer = rendering(requiring(), placement(m1=1, m2=1))
    renderer.works(APP)
    renderer.given(removed("m1"))
    assert sorted(renderer.works(APP)) == ["m1"]


def test_dependencies_of_dependencies_do_not_follow() -> None:
    tls = config("tls")
    renderer = rendering(requiring(), placement(m1=1), replace(attached(), requires=(tls,)))
    renderer.given(replace(attached(), key=tls, uid="t1"), replace(content(), key=tls, uid="t1"))
    assert renderer.decides_all(tls) == []


def test_a_restart_renders_nothing_anew() -> None:
    renderer = rendering(requiring(), requiring("api"), placement(m1=1), placed("api", m2=1))
    renderer.works(APP)
    assert renderer.restarted().decision(APP).events == ()


def test_it_is_applied_once_every_required_cluster_has_it() -> None:
    named = {"key": APP, "uid": "c1", "api_version": "v1", "kind": "ConfigMap"}
    aggregator = Harness(AGGREGATOR, *MEMBERS, content(), attached(), requiring(), placement(m1=1, m2=1))
    report = replace(seen("m1"), key=APP, uid="c1")
    aggregator.given(work("m1", **named), report)
    assert not aggregator.decides(APP).fully_applied
    aggregator.given(work("m2", **named), replace(report, cluster="m2"))
    assert aggregator.decides(APP).fully_applied
    assert APP in aggregator.given(placement(m1=1, m2=1, m3=1))
    assert not aggregator.decides(APP).fully_applied


# -- who decides about clusters leaves attached bindings alone


@pytest.mark.parametrize("logic", [SCHEDULER, ESTIMATOR, DESCHEDULER])
def test_nothing_places_an_attached_binding(logic: Any) -> None:
    harness = Harness(logic, *(member(f"m{number}", 4) for number in (1, 2, 3)), content(), attached())
    harness.given(requiring(), placement(m1=1), cluster("m4"))
    assert events_of(harness.decision(APP)) == []


def test_nothing_evicts_an_attached_binding() -> None:
    failover = Harness(failover_with(Rules(taint_eviction=True)), *MEMBERS, content(), attached())
    failover.given(requiring(), placement(m1=1), cluster("m1", taints=NO_EXECUTE))
    assert events_of(failover.decision(APP)) == []
    assert not isinstance(failover.decided(KEY), EvictionFinished | None)


def test_eviction_concerns_only_its_own_placement() -> None:
    failover = Harness(failover_with(Rules(taint_eviction=True)), *MEMBERS, claimed(), requiring(), placement(m1=1))
    failover.given(replace(placement(m2=1), key=APP, uid="c1"), cluster("m1", taints=NO_EXECUTE))
    assert events_of(failover.decision(APP)) == []
