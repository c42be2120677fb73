"""From which zones endpoints are used, and where no client is kept to any."""

from __future__ import annotations

import pytest
from msgspec import Raw

from schemas.endpoints import EndpointConditions, EndpointHints, SliceEndpoint, ZoneHint
from schemas.events.endpoints import EndpointsCollected
from services._rules.endpoints.locality import MOST_HINTS, Place, locality, place_of, zone_of

PLACES = {
    "a": Place("eu", ("eu-a",)),
    "b": Place("eu", ("eu-b",)),
    "c": Place("eu", ("eu-c",)),
    "u": Place("us", ("us-a",)),
    "wide": Place("eu", ("eu-a", "eu-b")),
    "lost": Place(),
}


def offer(cluster: str, *zones: str | None, ready: bool = True) -> EndpointsCollected:
    endpoints = tuple(
        SliceEndpoint((f"10.0.0.{number}",), EndpointConditions(ready=ready), zone=zone)
        for number, zone in enumerate(zones or (None,))
    )
    return EndpointsCollected(
        cluster=cluster, namespace="default", name="s", service="web", address_type="IPv4", endpoints=endpoints
    )


@pytest.mark.parametrize(
    ("offers", "importers", "zones"),
    [
        # Each zone its own.
        ([offer("a"), offer("b")], "a b", {"a": ["eu-a"], "b": ["eu-b"]}),
        # A zone of the region without one of its own uses those of the region.
        ([offer("a"), offer("u")], "a c u", {"a": ["eu-a", "eu-c"], "u": ["us-a"]}),
        ([offer("a"), offer("b")], "c", {"a": ["eu-a", "eu-c"], "b": ["eu-b", "eu-c"]}),
        # One whose endpoints are not ready has none of its own.
        ([offer("a"), offer("u"), offer("c", ready=False)], "c", {"a": ["eu-a", "eu-c"], "u": ["us-a"]}),
        # A zone of another region is named nowhere: its clients use all.
        ([offer("a"), offer("b")], "u", {"a": ["eu-a"], "b": ["eu-b"]}),
        ([offer("a"), offer("b")], "lost", {"a": ["eu-a"], "b": ["eu-b"]}),
        # Zones of endpoints come first; a cluster with several needs them.
        ([offer("wide", "eu-a"), offer("u")], "a", {"wide": ["eu-a"], "u": ["us-a"]}),
    ],
)
def test_clients_are_kept_to_what_is_near(
    offers: list[EndpointsCollected], importers: str, zones: dict[str, list[str]]
) -> None:
    found = locality(offers, PLACES, importers.split())
    assert found.reason == ""
    assert {
        each.cluster: list(found.of(each.cluster, each.endpoints[0])) for each in offers if each.cluster in zones
    } == zones


@pytest.mark.parametrize(
    ("offers", "reason"),
    [
        ([], "no endpoint is ready"),
        ([offer("a", ready=False), offer("b", ready=False)], "no endpoint is ready"),
        ([offer("a")], "all endpoints are in one zone"),
        ([offer("a"), offer("wide", "eu-a")], "all endpoints are in one zone"),
        ([offer("a"), offer("b", ready=False)], "all endpoints are in one zone"),
        ([offer("a"), offer("lost")], "the zone of endpoints of lost is not known"),
        ([offer("a"), offer("wide")], "the zone of endpoints of wide is not known"),
        ([offer("a"), offer("wide", "eu-b", None)], "the zone of endpoints of wide is not known"),
    ],
)
def test_nobody_is_kept_from_anything(offers: list[EndpointsCollected], reason: str) -> None:
    found = locality(offers, PLACES, PLACES)
    assert (found.reason, dict(found.zones)) == (reason, {})
    for each in offers:
        assert [item.hints for item in found.hinted(each.cluster, each.endpoints)] == [None] * len(each.endpoints)


def test_hints_of_the_exporting_cluster_are_replaced() -> None:
    theirs = EndpointHints((ZoneHint("theirs"),))
    endpoint = SliceEndpoint(("10.0.0.1",), hints=theirs)
    found = locality([offer("a"), offer("b")], PLACES, ["a", "b"])
    (hinted,) = found.hinted("a", (endpoint,))
    assert hinted.hints == EndpointHints((ZoneHint("eu-a"),))
    assert found.hinted("a", (hinted,)) == (hinted,)


def test_no_more_zones_are_named_than_api_servers_take() -> None:
    many = Place("eu", tuple(f"eu-{number}" for number in range(20)))
    found = locality([offer("a"), offer("b")], {**PLACES, "many": many}, ["many"])
    named = found.of("a", SliceEndpoint(("10.0.0.1",)))
    assert (len(named), named[0]) == (MOST_HINTS, "eu-a")


@pytest.mark.parametrize(
    ("spec", "place"),
    [
        (b'{"spec": {"region": "eu", "zones": ["a", "b"], "zone": "a"}}', Place("eu", ("a", "b"))),
        (b'{"spec": {"zone": "a"}}', Place("", ("a",))),
        (b'{"spec": {"zones": null}}', Place()),
        (b"{}", Place()),
    ],
)
def test_a_cluster_says_where_it_is(spec: bytes, place: Place) -> None:
    assert place_of(Raw(spec)) == place


def test_an_endpoint_is_where_it_says_or_where_its_cluster_is() -> None:
    assert zone_of(SliceEndpoint(("x",), zone="z"), PLACES["a"]) == "z"
    assert zone_of(SliceEndpoint(("x",)), PLACES["a"]) == "eu-a"
    assert zone_of(SliceEndpoint(("x",)), PLACES["wide"]) == ""
