"""Given a MultiClusterService, when works are decided, then providers get markers and consumers EndpointSlices."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET

from schemas.codec import Known
from schemas.events.endpoints import EndpointsReleased
from schemas.events.policy import PolicyDeleted
from schemas.events.work import WorkRendered, WorkWithdrawn
from schemas.keys import ObjectKey
from services._rules import constants as const
from services._rules.endpoints.multi_cluster_services import marker_key
from tests.support.facts import SHARED, offered, removed, shared, standing
from tests.support.harness import RendererHarness, content

MARKER = marker_key("default", "web")
M1, M2, M3 = standing("m1"), standing("m2"), standing("m3")


def slice_key(name: str = "m1-web-a") -> ObjectKey:
    return ObjectKey("discovery.k8s.io", "endpointslices", "default", name)


def works(renderer: RendererHarness, key: ObjectKey) -> dict[str, Any]:
    return {event.cluster: event for event in renderer.decides_all(key)}  # type: ignore[union-attr, misc]


def holding(renderer: RendererHarness, key: ObjectKey) -> list[str]:
    bound = renderer.state.objects.get(key)
    held = bound.works.items() if bound is not None else ()
    return sorted(name for name, (work, _) in held if isinstance(work, WorkRendered))


def test_providers_get_a_marker_that_is_never_applied() -> None:
    renderer = RendererHarness(M1, M2, M3, shared(("m1", "m3"), ("m2",)))
    found = works(renderer, MARKER)
    assert sorted(found) == ["m1", "m3"]
    marker = found["m1"]
    assert (marker.suspended, marker.kind, marker.policy, marker.policy_id) == (
        True,
        "MultiClusterService",
        SHARED,
        "id-1",
    )
    assert content(marker)["spec"]["consumerClusters"] == [{"name": "m2"}]
    assert works(renderer, MARKER) == {}


def test_a_slice_has_these_labels_and_annotations() -> None:
    renderer = RendererHarness(M1, M2, shared(("m1",), ("m2",)))
    assert slice_key() in renderer.given(offered("m1", "10.0.0.1"))
    work = works(renderer, slice_key())["m2"]
    assert (work.suspended, work.provider, work.conflict_resolution) == (False, "m1", "Abort")
    manifest = content(work)
    ours = (const.MANAGED_LABEL, const.WORK_ID_LABEL)
    labels = {name: value for name, value in manifest["metadata"]["labels"].items() if name not in ours}
    assert labels == {
        "kubernetes.io/service-name": "web",
        "endpointslice.kubernetes.io/managed-by": "endpointslice-dispatch-controller.karmada.io",
    }
    annotations = manifest["metadata"]["annotations"]
    assert annotations["endpointslice.karmada.io/provision-cluster"] == "m1"
    assert manifest["addressType"] == "IPv4"
    assert manifest["endpoints"] == [{"addresses": ["10.0.0.1"]}]
    assert manifest["ports"] == [{"name": "http", "port": 8080}]


@pytest.mark.parametrize(
    ("providers", "consumers", "source", "wanted"),
    [
        (("m1",), ("m2",), "m1", ["m2"]),
        (("m1",), ("m1", "m2"), "m1", ["m2"]),
        (("m1", "m2"), ("m1", "m2"), "m2", ["m1"]),
        (("m1",), (), "m1", ["m2", "m3"]),
        ((), ("m2",), "m2", []),
        ((), (), "m3", ["m1", "m2"]),
        (("m1",), ("m2",), "m3", []),
        (("m1",), ("m2", "unknown"), "m1", ["m2"]),
    ],
    ids=[
        "one to one",
        "a consumer that provides",
        "both ways",
        "every member",
        "only itself",
        "all to all",
        "no provider",
        "an unknown consumer",
    ],
)
def test_consumers_of_a_slice(providers: Any, consumers: Any, source: str, wanted: list[str]) -> None:
    renderer = RendererHarness(M1, M2, M3, shared(providers, consumers), offered(source, "10.0.0.1"))
    assert sorted(works(renderer, slice_key(f"{source}-web-a"))) == wanted


@pytest.mark.parametrize("partner", [standing("m2", "False"), standing("m2", "Unknown"), standing("m2", slices=False)])
def test_a_consumer_that_cannot_take_part_keeps_what_it_has(partner: Known) -> None:
    renderer = RendererHarness(M1, M2, shared(("m1",), ("m2",)), offered("m1", "10.0.0.1"))
    assert sorted(works(renderer, slice_key())) == ["m2"]
    assert slice_key() in renderer.given(partner)
    renderer.given(offered("m1", "10.0.0.2"))
    assert works(renderer, slice_key()) == {}
    assert holding(renderer, slice_key()) == ["m2"]
    assert slice_key() in renderer.given(M2)
    assert sorted(works(renderer, slice_key())) == ["m2"]


def test_a_member_that_cannot_take_part_gets_nothing_new() -> None:
    renderer = RendererHarness(standing("m1", "False"), standing("m2", slices=False), shared(("m1",), ("m2",)))
    renderer.given(offered("m1", "10.0.0.1"))
    assert works(renderer, MARKER) == works(renderer, slice_key()) == {}


def test_a_provider_that_is_not_ready_keeps_its_marker() -> None:
    renderer = RendererHarness(M1, M2, shared(("m1",), ("m2",)))
    works(renderer, MARKER)
    renderer.given(standing("m1", "False"))
    assert works(renderer, MARKER) == {}
    assert holding(renderer, MARKER) == ["m1"]


@pytest.mark.parametrize(
    "end",
    [shared(("m1",), ("m2",), deleting=True), PolicyDeleted(key=SHARED, uid="s1"), shared(type="LoadBalancer")],
    ids=["being deleted", "deleted", "of another type"],
)
def test_all_works_end_with_it(end: Known) -> None:
    renderer = RendererHarness(M1, M2, shared(("m1",), ("m2",)), offered("m1", "10.0.0.1"))
    works(renderer, MARKER), works(renderer, slice_key())
    assert {MARKER, slice_key()} <= renderer.given(end)
    for key, cluster in ((MARKER, "m1"), (slice_key(), "m2")):
        (event,) = works(renderer, key).values()
        assert isinstance(event, WorkWithdrawn)
        assert (event.cluster, event.policy, event.keep) == (cluster, SHARED, False)


def test_clusters_that_left_a_side_lose_their_works() -> None:
    renderer = RendererHarness(M1, M2, M3, shared(("m1",), ("m2",)), offered("m1", "10.0.0.1"))
    works(renderer, MARKER), works(renderer, slice_key())
    renderer.given(shared(("m3",), ("m1",)))
    changed = {**works(renderer, MARKER), **works(renderer, slice_key())}
    assert {name: type(event).__name__ for name, event in changed.items()} == {
        "m1": "WorkWithdrawn",
        "m2": "WorkWithdrawn",
        "m3": "WorkRendered",
    }
    assert changed["m2"].reason == "MultiClusterService needs it there no longer"


def test_a_member_that_is_removed_loses_its_works() -> None:
    renderer = RendererHarness(M1, M2, shared((), ()), offered("m1", "10.0.0.1"))
    works(renderer, MARKER), works(renderer, slice_key())
    renderer.given(removed("m2"))
    works(renderer, MARKER), works(renderer, slice_key())
    assert (holding(renderer, MARKER), holding(renderer, slice_key())) == (["m1"], [])
    renderer.given(M2)
    works(renderer, MARKER), works(renderer, slice_key())
    assert (holding(renderer, MARKER), holding(renderer, slice_key())) == (["m1", "m2"], ["m2"])


def test_only_a_slice_that_changed_is_rendered_again() -> None:
    sources = [offered("m1", "10.0.0.1"), offered("m1", "10.0.1.1", name="web-b")]
    renderer = RendererHarness(M1, M2, M3, shared(("m1",), ()), *sources)
    keys = (slice_key(), slice_key("m1-web-b"))
    assert [sorted(works(renderer, key)) for key in keys] == [["m2", "m3"], ["m2", "m3"]]
    assert renderer.given(offered("m1", "10.0.1.2", name="web-b")) == {keys[1]}
    assert renderer.given(shared(("m1",), (), generation=2)) >= set(keys)
    assert [sorted(works(renderer, key)) for key in keys] == [[], ["m2", "m3"]]
    gone = EndpointsReleased(cluster="m1", namespace="default", name="web-b", service="web")
    assert renderer.given(gone) == {keys[1]}
    assert {type(event) for event in works(renderer, keys[1]).values()} == {WorkWithdrawn}


def test_a_large_slice_is_stored_once_for_all_consumers() -> None:
    many = offered("m1", *(f"fd00:1234:5678:9abc:def0:0:0:{number:x}" for number in range(200)))
    renderer = RendererHarness(M1, M2, M3, shared(("m1",), ()), many)
    decision = renderer.decision(slice_key())
    assert {event.digest for event in decision.events} == {digest for digest, _ in decision.blobs}
    assert len({digest for digest, _ in decision.blobs}) == 1
    assert all(event.shared and event.manifest is UNSET for event in decision.events)


def test_names_that_would_be_alike_are_told_apart() -> None:
    consumer = [standing(name) for name in ("a", "a-b", "m2")]
    events = [offered("a-b", "10.0.0.2", name="c"), offered("a", "10.0.0.1", name="b-c")]
    for order in (events, events[::-1]):
        renderer = RendererHarness(*consumer, shared((), ()), *order)
        first, second = sorted(renderer.state.services.slices.sources)
        assert first == slice_key("a-b-c")
        assert second.name.startswith("a-b-c-")
        found = [content(works(renderer, key)["m2"])["endpoints"][0]["addresses"] for key in (first, second)]
        assert found == [["10.0.0.1"], ["10.0.0.2"]]
        renderer.given(EndpointsReleased(cluster="a", namespace="default", name="b-c", service="web"))
        assert list(renderer.state.services.slices.sources) == [first]
        assert content(works(renderer, first)["m2"])["endpoints"][0]["addresses"] == ["10.0.0.2"]


def test_works_stand_without_their_object_in_sight() -> None:
    """What stands on the log is withdrawn after a start too, if its MultiClusterService ended meanwhile."""
    renderer = RendererHarness(M1, M2, shared(("m1",), ("m2",)), offered("m1", "10.0.0.1"))
    made = [*works(renderer, MARKER).values(), *works(renderer, slice_key()).values()]
    later = RendererHarness(M1, M2, *made, PolicyDeleted(key=SHARED, uid="s1"), offered("m1", "10.0.0.1"))
    for key in (MARKER, slice_key()):
        assert [type(event) for event in works(later, key).values()] == [WorkWithdrawn]
