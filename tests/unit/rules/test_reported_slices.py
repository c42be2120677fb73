"""What one cluster may report of the endpoints of a Service, and how it is divided into slices."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from schemas.endpoints import EndpointTarget, PortOfSlice, ServiceSlice, SliceEndpoint
from schemas.keys import ObjectKey
from services._rules.endpoints.reported_slices import (
    MOST_BYTES,
    MOST_ENDPOINTS,
    bounded,
    is_export,
    pieces,
    refused,
    weight,
)


def endpoint(number: int, zone: str | None = None) -> SliceEndpoint:
    """An endpoint as large as those of real clusters are."""
    target = EndpointTarget("Pod", "default", f"web-5d9c7b6f4-{number:05}", "8f14e45f-ceea-467f-9e3c-2b6d1f0a9c11")
    address = f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
    return SliceEndpoint((address,), node_name="node-1", zone=zone, target_ref=target)


def slice_of(name: str, count: int, first: int = 1, address_type: str = "IPv4") -> ServiceSlice:
    endpoints = tuple(endpoint(number) for number in range(first, first + count))
    return ServiceSlice(name, address_type, endpoints, (PortOfSlice("http", port=8080),))


def addresses(slices: tuple[ServiceSlice, ...]) -> list[str]:
    return [each.addresses[0] for item in slices for each in item.endpoints]


@pytest.mark.parametrize(("count", "sizes"), [(0, [0]), (1, [1]), (100, [100]), (101, [100, 1]), (250, [100, 100, 50])])
def test_a_slice_is_divided_at_a_hundred_endpoints(count: int, sizes: list[int]) -> None:
    made = tuple(pieces([slice_of("web-a", count)]))
    assert [len(item.endpoints) for item in made] == sizes
    assert [item.name for item in made] == ["web-a", *(f"web-a-{number}" for number in range(2, len(sizes) + 1))]
    assert addresses(made) == addresses((slice_of("web-a", count),))
    assert {item.ports for item in made} == {(PortOfSlice("http", port=8080),)}


def test_the_number_of_a_part_is_no_name_of_another_slice() -> None:
    names = [item.name for item in pieces([slice_of("web-a", 150), slice_of("web-a-2", 1, first=200)])]
    assert sorted(names) == ["web-a", "web-a-2", "web-a-3"]


def test_five_thousand_endpoints_are_reported_whole() -> None:
    given = [slice_of(f"web-{number:03}", 100, first=1 + 100 * number) for number in range(50)]
    kept, left_out = bounded(given)
    assert (len(addresses(kept)), left_out) == (5000, "")
    assert sum(map(weight, kept)) < MOST_BYTES
    assert refused(kept) == ""
    assert len(list(pieces(kept))) == 50


def test_what_is_too_much_is_left_out_and_told() -> None:
    small = [replace(slice_of(f"s{n}", 0), endpoints=(SliceEndpoint((f"10.0.0.{n}",)),) * 4000) for n in range(3)]
    kept, left_out = bounded(reversed(small))
    assert [len(item.endpoints) for item in kept] == [4000, 4000, 2000]
    assert left_out.startswith("2000 of 12000 endpoints are left out")
    assert refused(kept) == ""
    large = [slice_of(f"web-{number:03}", 100) for number in range(99)]
    kept, left_out = bounded(large)
    assert 0 < len(addresses(kept)) < 9900
    assert "endpoints are left out" in left_out
    assert refused(kept) == ""


def test_order_of_slices_does_not_matter() -> None:
    given = [slice_of("b", 2), slice_of("a", 3)]
    assert bounded(given) == bounded(reversed(given))


@pytest.mark.parametrize(
    ("slices", "words"),
    [
        ((slice_of("Web", 1),), "is no name of an EndpointSlice"),
        ((slice_of("", 1),), "is no name of an EndpointSlice"),
        ((slice_of("a" * 254, 1),), "is no name of an EndpointSlice"),
        ((slice_of("web", 1, address_type="IPX"),), "unknown address type"),
        ((slice_of("web", 1), slice_of("web", 1)), "two slices of one name"),
        ((slice_of("web", 1), replace(slice_of("x", 0), endpoints=(endpoint(1),) * MOST_ENDPOINTS)), "at most"),
        ((replace(slice_of("x", 0), endpoints=(endpoint(1, "z" * 200),) * 9000),), "bytes"),
    ],
)
def test_an_implausible_report_is_refused(slices: tuple[ServiceSlice, ...], words: str) -> None:
    assert words in refused(slices)


def test_dual_stack_and_named_addresses_are_believed() -> None:
    six = ServiceSlice("web-6", "IPv6", (SliceEndpoint(("fd00::1",)),))
    named = ServiceSlice("web-n", "FQDN", (SliceEndpoint(("web.example.com",)),))
    assert refused((slice_of("web-4", 1), six, named)) == ""


@pytest.mark.parametrize(
    ("key", "exports"),
    [
        (ObjectKey("multicluster.x-k8s.io", "serviceexports", "default", "web"), True),
        (ObjectKey("multicluster.x-k8s.io", "serviceimports", "default", "web"), False),
        (ObjectKey("", "services", "default", "web"), False),
    ],
)
def test_only_service_exports_offer_endpoints(key: ObjectKey, exports: bool) -> None:
    assert is_export(key) is exports
