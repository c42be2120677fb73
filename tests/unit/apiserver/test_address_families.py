"""Families of a Service's addresses on a cluster that serves one family, and what clients are told of addresses."""

from typing import Any

import pytest

from services._rules.kubernetes.validation.address_families import settle_families, warnings

DUAL = ["IPv4", "IPv6"]


@pytest.mark.parametrize(
    ("spec", "families", "policy"),
    [
        ({}, ["IPv4"], "SingleStack"),
        ({"ipFamilyPolicy": "PreferDualStack"}, ["IPv4"], "PreferDualStack"),
        ({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"]}, ["IPv4"], "SingleStack"),
        ({"clusterIP": "None", "clusterIPs": ["None"]}, DUAL, "RequireDualStack"),
        ({"clusterIP": "None", "clusterIPs": ["None"], "ipFamilies": ["IPv6"]}, DUAL[::-1], "RequireDualStack"),
        ({"clusterIP": "None", "clusterIPs": ["None"], "ipFamilyPolicy": "SingleStack"}, ["IPv4"], "SingleStack"),
        ({"clusterIP": "None", "clusterIPs": ["None"], "selector": {"a": "b"}}, ["IPv4"], "SingleStack"),
        ({"type": "ExternalName"}, None, None),
    ],
)
def test_families_that_a_service_gets(spec: dict[str, Any], families: list[str] | None, policy: str | None) -> None:
    assert settle_families(spec, "IPv4") == []
    assert (spec.get("ipFamilies"), spec.get("ipFamilyPolicy")) == (families, policy)


@pytest.mark.parametrize(
    ("spec", "errors"),
    [
        ({"ipFamilyPolicy": "RequireDualStack"}, ["spec.ipFamilyPolicy"]),
        ({"ipFamilies": ["IPv6"]}, ["spec.ipFamilies[0]"]),
        ({"clusterIP": "fd00::1", "clusterIPs": ["fd00::1"]}, ["spec.clusterIPs[0]"]),
        ({"ipFamilies": DUAL, "ipFamilyPolicy": "SingleStack"}, ["spec.ipFamilyPolicy"]),
        ({"ipFamilies": ["Odd"], "ipFamilyPolicy": "RequireDualStack"}, ["spec.ipFamilies[0]"]),
        ({"clusterIP": "10.0.0.1"}, ["spec.clusterIPs"]),
        ({"clusterIPs": ["10.0.0.1"]}, ["spec.clusterIPs"]),
        ({"clusterIP": "None", "clusterIPs": ["None", "10.0.0.1"]}, ["spec.clusterIPs"]),
        ({"clusterIP": "x", "clusterIPs": ["x", "10.0.0.1"]}, ["spec.clusterIPs[0]"]),
    ],
)
def test_families_that_a_service_cannot_have(spec: dict[str, Any], errors: list[str]) -> None:
    before = dict(spec)
    assert [error.field for error in settle_families(spec, "IPv4")] == errors
    assert spec == before


def test_what_is_told_of_addresses() -> None:
    spec = {
        "clusterIP": "None",
        "sessionAffinity": "ClientIP",
        "externalIPs": ["FD00::1", "1.2.3.4"],
        "loadBalancerIP": "1.2.3.4",
        "loadBalancerSourceRanges": ["10.0.0.1/8", "10.0.0.0/8"],
    }
    assert warnings(spec) == [
        'spec.loadBalancerIP is ignored when spec.clusterIP is "None"',
        'spec.externalIPs is ignored when spec.clusterIP is "None"',
        "spec.SessionAffinity is ignored for headless services",
        "spec.externalIPs is deprecated and may no longer be implemented in some clusters",
        'spec.externalIPs[0]: IPv6 address "FD00::1" should be in RFC 5952 canonical format ("fd00::1")',
        (
            'spec.loadBalancerSourceRanges[0]: CIDR value "10.0.0.1/8" is ambiguous in this context '
            '(should be "10.0.0.0/8" or "10.0.0.1/32"?)'
        ),
    ]
    assert warnings({"type": "ExternalName", "externalIPs": ["1.2.3.4"]})[-1].endswith('spec.type is "ExternalName"')
