"""What the status of a MultiClusterIngress says, who keeps it, and what keeps requests from pods."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.manifest import Manifest
from services._rules.endpoints.ingress_backends import (
    Backend,
    Found,
    Ingress,
    Location,
    backend_problems,
    locations,
    read_ingress,
    wanted_status,
)

US = "fleetlog-networking"
HTTP = frozenset({("http", 80)})
WEB = Backend("web", port_number=80, rule="shop.example.com/")
HERE = Found(HTTP, ("m1", "m2"), {"m1": 1, "m2": 2})


def backend(service: str, **port: Any) -> Manifest:
    return {"service": {"name": service, "port": port or {"number": 80}}}


def manifest(spec: Manifest, status: Manifest | None = None, **managers: Any) -> Manifest:
    """A MultiClusterIngress; the fields of the status that each manager has written."""
    entries = [
        {"manager": name, "fieldsV1": {"f:status": {f"f:{field}": {} for field in fields}}}
        for name, fields in managers.items()
    ]
    metadata = {"name": "shop", "namespace": "default", "uid": "u", "managedFields": entries}
    return {"kind": "MultiClusterIngress", "metadata": metadata, "spec": spec, "status": status or {}}


RULES = {
    "defaultBackend": backend("fallback", name="http"),
    "rules": [
        {"host": "shop.example.com", "http": {"paths": [{"path": "/", "backend": backend("web")}]}},
        {"http": {"paths": [{"path": "/api", "backend": backend("api")}, {"backend": backend("web")}]}},
        {"host": "other.example.com"},
        {"http": {"paths": [{"backend": {"resource": {"kind": "Bucket", "name": "b"}}}]}},
    ],
}


def test_backends_are_those_of_rules_and_the_default() -> None:
    found = read_ingress(manifest(RULES), US)
    assert found.backends == (
        Backend("fallback", "http", 0, "the default backend"),
        Backend("web", "", 80, "shop.example.com/"),
        Backend("api", "", 80, "*/api"),
        Backend("web", "", 80, "*/"),
    )
    assert found.services == ["api", "fallback", "web"]


@pytest.mark.parametrize("spec", [None, {}, {"rules": None, "defaultBackend": None}, {"rules": [{"http": None}]}])
def test_an_ingress_may_lead_nowhere(spec: Any) -> None:
    found = read_ingress(manifest(spec), US)
    assert found.backends == ()
    assert wanted_status(found, {}, ()) is None


@pytest.mark.parametrize("spec", [{"rules": 3}, {"defaultBackend": {"service": {"name": 7}}}])
def test_an_ingress_that_cannot_be_read_is_named(spec: Manifest) -> None:
    with pytest.raises(ValueError, match="MultiClusterIngress shop"):
        read_ingress(manifest(spec), US)


def test_locations_are_sorted_and_leave_out_the_absent() -> None:
    found = {"web": HERE, "api": Found(HTTP), "old": Found(None, ("m1",))}
    # One that was deleted, but is still in a cluster, is located there.
    assert locations(["api", "old", "web"], found) == (Location("old", ("m1",)), Location("web", ("m1", "m2")))


@pytest.mark.parametrize(
    ("present", "blocked", "wanted"),
    [
        ({}, (), {"serviceLocations": [{"name": "web", "clusters": ["m1", "m2"]}]}),
        (
            {},
            ("m2", "elsewhere"),
            {"serviceLocations": [{"name": "web", "clusters": ["m1", "m2"]}], "trafficBlockClusters": ["m2"]},
        ),
        ({"locations": (Location("web", ("m1", "m2")),)}, (), None),
        ({"locations": (Location("web", ("m1", "m2")),), "blocked": ("m1",)}, ("m1",), None),
        # What ended goes: the fields that are kept here are always written together.
        (
            {"locations": (Location("web", ("m1", "m2")),), "blocked": ("m1",)},
            (),
            {"serviceLocations": [{"name": "web", "clusters": ["m1", "m2"]}]},
        ),
    ],
    ids=["new", "blocked", "same", "same and blocked", "no longer blocked"],
)
def test_the_status_says_where_backends_are(present: Any, blocked: tuple[str, ...], wanted: Any) -> None:
    assert wanted_status(Ingress("u", (WEB,), **present), {"web": HERE}, blocked) == wanted


def test_nothing_is_said_of_backends_that_are_nowhere() -> None:
    present = Ingress("u", (WEB,), (Location("web", ("m1",)),))
    assert wanted_status(present, {"web": Found(HTTP)}, ()) == {}


@pytest.mark.parametrize(
    ("managers", "wanted"),
    [
        ({US: ["serviceLocations", "trafficBlockClusters"]}, {"serviceLocations", "trafficBlockClusters"}),
        ({"lb": ["loadBalancer"]}, {"serviceLocations", "trafficBlockClusters"}),
        ({"lb": ["loadBalancer", "serviceLocations"]}, {"trafficBlockClusters"}),
        ({US: ["serviceLocations"], "lb": ["trafficBlockClusters"]}, {"serviceLocations"}),
        ({"lb": ["serviceLocations", "trafficBlockClusters"]}, None),
    ],
    ids=["ours", "only addresses", "locations", "blocked", "both"],
)
def test_fields_of_another_manager_are_left_alone(managers: Any, wanted: set[str] | None) -> None:
    status = {"serviceLocations": [{"name": "web", "clusters": ["m3"]}], "trafficBlockClusters": ["m4"]}
    found = read_ingress(manifest({"defaultBackend": backend("web")}, status, **managers), US)
    # By what another one says of the locations m3 is blocked, by what is known here m1.
    written = wanted_status(found, {"web": HERE}, ("m1", "m3"))
    assert (set(written) if written is not None else None) == wanted
    if wanted == {"trafficBlockClusters"}:
        assert written == {"trafficBlockClusters": ["m3"]}


@pytest.mark.parametrize(
    ("found", "reason", "words"),
    [
        (HERE, "", ""),
        (Found(), "NoSuchService", "there is no Service web in namespace default"),
        (Found(None, ("m1",), {"m1": 1}), "NoSuchService", "shop.example.com/"),
        (Found(frozenset({("http", 8080)}), ("m1",), {"m1": 1}), "NoSuchPort", "it has http:8080"),
        (Found(frozenset(), ("m1",), {"m1": 1}), "NoSuchPort", "it has none"),
        (Found(HTTP), "NotPropagated", "does a policy propagate it"),
        (Found(HTTP, ("m1",)), "NoEndpoints", "propagate a ServiceExport"),
        (Found(HTTP, ("m1",), {"m1": 0}), "NoReadyEndpoint", "is ready in m1"),
        (Found(HTTP, ("m1",), {"bad": 2, "m1": 0}), "AllClustersBlocked", "bad"),
        (Found(HTTP, ("m1",), {"bad": 2, "m1": 1}), "", ""),
    ],
)
def test_what_keeps_requests_from_pods_is_said(found: Found, reason: str, words: str) -> None:
    problems = backend_problems(Ingress("u", (WEB,)), {"web": found}, {"bad"}, "default")
    assert [each for each, _ in problems] == ([reason] if reason else [])
    assert all(words in message for _, message in problems)


@pytest.mark.parametrize(
    ("asked", "fits"),
    [
        (Backend("web", port_number=80), True),
        (Backend("web", "http"), True),
        (Backend("web", port_number=81), False),
        (Backend("web", "https"), False),
    ],
)
def test_a_port_is_found_by_name_or_number(asked: Backend, fits: bool) -> None:
    problems = backend_problems(Ingress("u", (asked,)), {"web": HERE}, (), "default")
    assert [reason for reason, _ in problems] == ([] if fits else ["NoSuchPort"])


def test_each_service_has_one_problem() -> None:
    several = (WEB, Backend("web", port_number=9, rule="*/x"), Backend("api", "http", 0, "*/api"))
    problems = backend_problems(Ingress("u", several), {"web": Found(), "api": Found(HTTP)}, (), "default")
    assert [reason for reason, _ in problems] == ["NoSuchService", "NotPropagated"]
