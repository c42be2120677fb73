"""What a client in one cluster reaches by a MultiClusterService, and what is named that keeps it from more."""

from __future__ import annotations

from schemas.events.cluster import ClusterChanged
from schemas.events.endpoints import EndpointsCollected
from schemas.events.observed import WorkObserved
from schemas.events.work import WorkRendered
from schemas.keys import ObjectKey
from services._rules.endpoints.dispatched_slices import DispatchedSlices, slice_key
from services._rules.endpoints.multi_cluster_services import partner_of, read_shared_service
from services._rules.endpoints.service_trace import ServiceTrace, TracedFacts
from services._rules.endpoints.shared_trace import SharedFacts, trace_shared
from tests.support.facts import offered, shared, standing

SERVICE, SLICE = ObjectKey("", "services", "default", "web"), slice_key("default", "m1-web-a")
WEB = offered("m1", "10.0.0.1")


def traced(
    cluster: str,
    *collected: EndpointsCollected,
    held: tuple[ObjectKey, ...] = (SERVICE, SLICE),
    members: tuple[ClusterChanged, ...] = (standing("m1"), standing("m2"), standing("m3")),
) -> ServiceTrace:
    service = read_shared_service(shared(("m1",), ("m2", "m3")))
    assert service is not None
    slices = DispatchedSlices()
    for event in collected:
        slices.take(event)
    works = {
        (cluster, key): WorkRendered(cluster=cluster, key=key, uid="u", api_version="v1", kind="x", digest="d")
        for key in held
    }
    seen = {(cluster, key): WorkObserved(cluster=cluster, key=key, uid="u", digest="d", applied=True) for key in held}
    facts = SharedFacts(service, {event.name: partner_of(event) for event in members}, slices)
    return trace_shared(cluster, facts, TracedFacts(collected, works, seen))


def test_a_consumer_reaches_what_was_dispatched() -> None:
    found = traced("m2", WEB, offered("m1", "10.9.9.9", name="other-a", service="other"))
    assert (found.reached, found.problems, found.own_name) == (1, (), True)
    assert [(item.cluster, item.name) for item in found.slices] == [("m1", "m1-web-a")]


def test_a_provider_reaches_its_own_endpoints() -> None:
    found = traced("m1", WEB, held=(SERVICE,))
    assert (found.reached, found.problems) == (1, ())
    assert [item.name for item in found.slices] == ["web-a"]


def test_what_is_not_there_is_named() -> None:
    found = traced("m2", WEB, held=())
    assert found.reached == 0
    assert found.problems == (
        "web is not in m2: nothing asks for it there",
        "m1-web-a is not in m2: nothing asks for it there",
    )


def test_a_cluster_on_neither_side_is_told_so() -> None:
    found = traced("m4", WEB, held=(SERVICE,))
    assert found.reached == 0
    assert found.problems == ("m1-web-a is not in m4: m4 is no consumer of MultiClusterService/default/web",)


def test_a_consumer_that_is_not_ready_is_told_so() -> None:
    found = traced("m2", WEB, held=(SERVICE,), members=(standing("m1"), standing("m2", "False")))
    (problem,) = found.problems
    assert "cluster m2 is not ready" in problem


def test_a_service_without_endpoints_names_its_providers() -> None:
    found = traced("m2")
    assert found.problems == ("no provider (m1) has reported endpoints of web: it needs pods there",)
