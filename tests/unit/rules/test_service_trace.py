"""What a client in one cluster reaches of an exported Service, and what is named that keeps it from more."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from schemas.endpoints import EndpointConditions, EndpointTarget, PortOfSlice, SliceEndpoint
from schemas.events.endpoints import EndpointsCollected, EndpointsReleased
from schemas.events.observed import WorkObserved
from schemas.events.work import WorkEvent, WorkRendered, WorkWithdrawn
from schemas.keys import ObjectKey
from services._rules.endpoints.locality import Place
from services._rules.endpoints.service_trace import LeftOut, TracedFacts, service_key, slice_key, trace

WEB = EndpointsCollected(
    cluster="m1",
    namespace="default",
    name="web-a",
    service="web",
    address_type="IPv4",
    endpoints=(
        SliceEndpoint(
            ("10.1.0.1",), EndpointConditions(ready=True), target_ref=EndpointTarget("Pod", "default", "w-1")
        ),
        SliceEndpoint(("10.1.0.2",), EndpointConditions(ready=False)),
    ),
    ports=(PortOfSlice("http", port=8080),),
)
SERVICE, SLICE = service_key("default", "web"), slice_key(WEB)


def work(key: ObjectKey, digest: str = "d", **fields: Any) -> WorkRendered:
    return WorkRendered(cluster="m2", key=key, uid="u", api_version="v1", kind="Service", digest=digest, **fields)


def seen(key: ObjectKey, digest: str = "d", **fields: Any) -> WorkObserved:
    return WorkObserved(**{"cluster": "m2", "key": key, "uid": "u", "digest": digest, "applied": True, **fields})


def facts(
    *collected: EndpointsCollected, works: tuple[WorkEvent, ...] = (), reports: tuple[WorkObserved, ...] = ()
) -> TracedFacts:
    return TracedFacts(
        collected,
        {(item.cluster, item.key): item for item in works},
        {(item.cluster, item.key): item for item in reports},
    )


BOTH = (work(SERVICE), work(SLICE))


def test_everything_in_place_is_reached() -> None:
    other = replace(WEB, service="other", name="other-a")
    found = trace("default", "web", "m2", facts(WEB, other, works=BOTH, reports=(seen(SERVICE), seen(SLICE))))
    assert (found.missing, found.problems, found.reached) == ("", (), 1)
    (item,) = found.slices
    assert (item.cluster, item.name, item.ports, item.missing) == ("m1", "imported-m1-web-a", ("http/TCP",), "")
    assert [(each.addresses, each.ready, each.target) for each in item.endpoints] == [
        (("10.1.0.1",), True, "Pod/w-1"),
        (("10.1.0.2",), False, ""),
    ]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (facts(), ["derived-web is not in m2: nothing asks for it there", "no cluster exports endpoints of web"]),
        (facts(works=(work(SERVICE),), reports=(seen(SERVICE),)), ["no cluster exports"]),
        (
            facts(WEB, works=(work(SERVICE),), reports=(seen(SERVICE),)),
            ["imported-m1-web-a is not in m2: nothing"],
        ),
        (facts(WEB, works=BOTH, reports=(seen(SERVICE),)), ["it is on its way"]),
        (facts(WEB, works=BOTH, reports=(seen(SERVICE), seen(SLICE, "older"))), ["the present one is on its way"]),
        (
            facts(WEB, works=BOTH, reports=(seen(SERVICE, applied=False, message="quota"), seen(SLICE))),
            ["derived-web is not in m2: quota"],
        ),
        (
            facts(WEB, works=(work(SERVICE, problem="no such field"), BOTH[1]), reports=(seen(SLICE),)),
            ["derived-web is not in m2: no such field"],
        ),
        (
            facts(
                WEB,
                works=(WorkWithdrawn(cluster="m2", key=SERVICE, uid="u", api_version="v1", kind="Service"), BOTH[1]),
                reports=(seen(SERVICE), seen(SLICE)),
            ),
            ["nothing asks for it there"],
        ),
        (
            facts(replace(WEB, endpoints=WEB.endpoints[1:]), works=BOTH, reports=(seen(SERVICE), seen(SLICE))),
            ["no endpoint is ready"],
        ),
    ],
)
def test_what_keeps_a_client_away_is_named(given: TracedFacts, words: list[str]) -> None:
    found = trace("default", "web", "m2", given)
    assert found.reached == 0
    assert len(found.problems) == len(words)
    for text, problem in zip(words, found.problems, strict=True):
        assert text in problem


def released(cluster: str, reason: str, *, gated: bool, service: str = "web") -> EndpointsReleased:
    return EndpointsReleased(
        cluster=cluster, namespace="default", name="web-a", service=service, reason=reason, gated=gated
    )


def test_clusters_behind_a_closed_gate_are_named() -> None:
    stays = replace(WEB, kept="m1 is not ready")
    given = replace(
        facts(stays, works=BOTH, reports=(seen(SERVICE), seen(SLICE))),
        released=[
            released("m3", "m3 is tainted k:NoExecute", gated=True),
            released("m3", "m3 is tainted k:NoExecute", gated=True),
            released("m4", "m4 has no such slice any more", gated=False),
            released("m5", "m5 is not ready", gated=True, service="other"),
            # It exports the Service no more.
            released("m6", "m6 is not ready", gated=True),
        ],
        exporters={"m1", "m3", "m4", "m5"},
    )
    found = trace("default", "web", "m2", given)
    assert found.left_out == (LeftOut("m3", "m3 is tainted k:NoExecute"),)
    assert [item.kept for item in found.slices] == ["m1 is not ready"]
    assert found.reached == 1


PLACES = {
    "m1": Place("eu", ("eu-a",)),
    "m2": Place("eu", ("eu-b",)),
    "m3": Place("us", ("us-a",)),
    "m4": Place("as", ("as-a",)),
    "m5": Place("eu", ("eu-b", "eu-c")),
}


@pytest.mark.parametrize(
    ("cluster", "importers", "used", "words"),
    [
        ("m1", ("m1",), {"m1": True, "m3": False}, "clients in eu-a use the endpoints that name their zone"),
        ("m2", ("m2",), {"m1": True, "m3": False}, "clients in eu-b use the endpoints that name their zone"),
        ("m3", ("m3",), {"m1": False, "m3": True}, "clients in us-a use the endpoints that name their zone"),
        (
            "m4",
            ("m4",),
            {"m1": True, "m3": True},
            "clients in as-a use all: no ready endpoint is in their zone or region",
        ),
        # Some of its clients are kept to one, others are not.
        ("m5", ("m2",), {"m1": True, "m3": True}, "clients in eu-c use all"),
        ("m6", ("m6",), {"m1": True, "m3": True}, "the zones of the cluster are not known"),
        ("m1", None, {"m1": True, "m3": True}, "clients use all endpoints: it is turned off"),
    ],
)
def test_a_trace_says_which_endpoints_are_near(
    cluster: str, importers: tuple[str, ...] | None, used: dict[str, bool], words: str
) -> None:
    far = replace(WEB, cluster="m3")
    works = tuple(replace(work(key), cluster=cluster) for key in (SERVICE, SLICE, slice_key(far)))
    reports = tuple(seen(key, cluster=cluster) for key in (SERVICE, SLICE, slice_key(far)))
    given = replace(facts(WEB, far, works=works, reports=reports), places=PLACES, importers=importers)
    found = trace("default", "web", cluster, given)
    assert {item.cluster: item.endpoints[0].used for item in found.slices} == used
    assert words in found.locality
    assert found.reached == sum(used.values())
