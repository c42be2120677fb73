"""The objects that stand for exported Services in the control plane, and what statuses say of them."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from schemas.endpoints import EndpointConditions, PortOfSlice, ServiceSlice, SliceEndpoint
from schemas.events.endpoints import EndpointsCollected
from services._rules.endpoints.derived_services import (
    ServiceImport,
    ServicePort,
    differs,
    read_import,
    read_service,
    service_manifest,
    taken,
)
from services._rules.endpoints.export_conditions import (
    ClusterExport,
    Condition,
    export_conditions,
    import_problems,
    merged,
)
from services._rules.endpoints.imported_slices import imported, manifest_of, read_imported

HTTP = PortOfSlice("http", port=8080)
COLLECTED = EndpointsCollected(
    cluster="member1",
    namespace="default",
    name="web-abc12",
    service="web",
    address_type="IPv4",
    endpoints=(
        SliceEndpoint(("10.1.0.1",), EndpointConditions(ready=True), node_name="n1"),
        SliceEndpoint(("10.1.0.2",)),
    ),
    ports=(HTTP,),
)


def offer(*ports: str, counts: bool = True, problem: str = "") -> ClusterExport:
    """A cluster that offers a slice with these ports; none: it has no slice."""
    found = tuple(PortOfSlice(*port.split("/"), port=8080 + n) for n, port in enumerate(ports))
    return ClusterExport((ServiceSlice("web-x", "IPv4", (), found),) if ports else (), problem, counts)


EMPTY = ClusterExport((ServiceSlice("web-x", "IPv4"),))
"""A cluster whose Service has no pods."""
PORTLESS = ClusterExport((ServiceSlice("web-x", "IPv4", (SliceEndpoint(("10.2.0.1",)),)),))
"""A cluster whose Service has pods and no ports."""


def test_a_service_without_pods_disagrees_with_nobody() -> None:
    _, conflict = export_conditions({"m1": offer("http"), "m2": EMPTY})
    assert conflict.status == "False"
    asked = ServiceImport("web", "u", "ClusterSetIP", (ServicePort(80, "http"),))
    assert import_problems(asked, {"m2": EMPTY}) == []
    assert [reason for reason, _ in import_problems(asked, {"m1": offer("other"), "m2": EMPTY})] == ["NoSuchPort"]


def test_an_imported_slice_has_the_names_and_marks_of_karmada() -> None:
    manifest = manifest_of(imported(COLLECTED), "default")
    assert manifest["metadata"] == {
        "name": "imported-member1-web-abc12",
        "namespace": "default",
        "labels": {
            "kubernetes.io/service-name": "derived-web",
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.karmada.io",
        },
        "annotations": {"endpointslice.karmada.io/provision-cluster": "member1"},
    }
    first = {"addresses": ["10.1.0.1"], "conditions": {"ready": True}, "nodeName": "n1"}
    assert manifest["endpoints"] == [first, {"addresses": ["10.1.0.2"]}]
    assert manifest["ports"] == [{"name": "http", "port": 8080}]
    assert manifest["addressType"] == "IPv4"


def test_what_an_api_server_adds_is_no_difference() -> None:
    manifest = manifest_of(imported(COLLECTED), "default")
    manifest["ports"][0]["protocol"] = "TCP"
    manifest["endpoints"][1]["conditions"] = {}
    manifest["metadata"] |= {"uid": "u", "resourceVersion": "7", "generation": 1}
    assert read_imported(manifest) == imported(COLLECTED)
    manifest["endpoints"][0]["conditions"]["ready"] = False
    assert read_imported(manifest) != imported(COLLECTED)


def test_a_name_that_would_be_too_long_is_shortened_and_unique() -> None:
    names = {
        imported(EndpointsCollected(cluster="m", namespace="n", name=name, service="w", address_type="IPv4")).name
        for name in ("a" * 250, "a" * 249 + "b")
    }
    assert len(names) == 2
    assert max(map(len, names)) <= 253


def test_a_slice_that_cannot_be_read_is_named() -> None:
    manifest = manifest_of(imported(COLLECTED), "default")
    manifest["endpoints"] = [{"addresses": 7}]
    with pytest.raises(ValueError, match="imported-member1-web-abc12"):
        read_imported(manifest)


def an_import(**spec: Any) -> dict[str, Any]:
    ports = [{"port": 80, "name": "http", "appProtocol": "h2c"}]
    fields = {"type": "ClusterSetIP", "ports": ports, **spec}
    return {"kind": "ServiceImport", "metadata": {"name": "web", "namespace": "default", "uid": "i"}, "spec": fields}


def test_the_derived_service_copies_ports_and_selects_nothing() -> None:
    given = read_import(an_import(ips=["10.96.0.7"]))
    assert given == ServiceImport("web", "i", "ClusterSetIP", (ServicePort(80, "http", "TCP", "h2c"),), ("10.96.0.7",))
    manifest = service_manifest(given, "default")
    assert manifest["metadata"]["name"] == "derived-web"
    assert manifest["spec"] == {
        "type": "ClusterIP",
        "ports": [{"port": 80, "name": "http", "appProtocol": "h2c"}],
        "selector": None,
    }
    udp = service_manifest(replace(given, ports=(ServicePort(53, "dns", "UDP"),)), "default")
    assert udp["spec"]["ports"] == [{"port": 53, "name": "dns", "protocol": "UDP"}]
    stored = {**manifest, "spec": {**manifest["spec"], "clusterIP": "10.0.0.9"}}
    stored["spec"]["ports"] = [{**manifest["spec"]["ports"][0], "targetPort": 80, "protocol": "TCP"}]
    assert not differs(read_service(stored), given)
    assert differs(read_service({**stored, "spec": {**stored["spec"], "selector": {"app": "web"}}}), given)
    assert differs(read_service(stored), read_import(an_import(ports=[{"port": 81, "name": "http"}])))


def test_a_service_of_somebody_else_is_not_taken() -> None:
    given = read_import(an_import())
    assert taken(None, given) == ""
    assert taken(read_service(service_manifest(given, "default")), given) == ""
    theirs = read_service({"kind": "Service", "metadata": {"name": "derived-web", "uid": "s"}, "spec": {}})
    assert "fleetlog.io/service-import: web" in taken(theirs, given)


@pytest.mark.parametrize(
    ("clusters", "status", "reason", "words"),
    [
        ({}, "Unknown", "NotReported", "is it propagated?"),
        ({"m1": offer()}, "False", "NoEndpoints", "m1: no EndpointSlice of the Service"),
        ({"m1": offer("http/TCP")}, "True", "EndpointsCollected", "m1: endpoints are offered"),
        ({"m1": offer("http/TCP"), "m2": offer()}, "True", "EndpointsCollected", "m2: no EndpointSlice"),
        (
            {"m1": offer("http/TCP", counts=False, problem="m1 is not ready for 300 s")},
            "False",
            "NoEndpoints",
            "m1 is not ready for 300 s",
        ),
        ({"m1": offer(problem="its EndpointSlices cannot be read")}, "False", "NoEndpoints", "cannot be read"),
    ],
)
def test_an_export_says_who_offers_it(clusters: dict[str, ClusterExport], status: str, reason: str, words: str) -> None:
    valid, _ = export_conditions(clusters)
    assert (valid.type, valid.status, valid.reason) == ("Valid", status, reason)
    assert words in valid.message


@pytest.mark.parametrize(
    ("clusters", "status"),
    [
        ({}, "False"),
        ({"m1": offer("http/TCP"), "m2": offer("http/TCP")}, "False"),
        # Numbers may differ: Services find ports of their slices by name.
        ({"m1": offer("a/TCP", "b/TCP"), "m2": offer("b/TCP", "a/TCP")}, "False"),
        ({"m1": offer("http/TCP"), "m2": offer("web/TCP")}, "True"),
        ({"m1": offer("dns/TCP"), "m2": offer("dns/UDP")}, "True"),
        ({"m1": offer("http/TCP"), "m2": PORTLESS}, "True"),
        ({"m1": offer("http/TCP"), "m2": offer("web/TCP", counts=False)}, "False"),
        ({"m1": offer("http/TCP"), "m2": offer()}, "False"),
    ],
)
def test_exporters_that_differ_in_their_ports_are_a_conflict(clusters: dict[str, ClusterExport], status: str) -> None:
    _, conflict = export_conditions(clusters)
    assert (conflict.type, conflict.status) == ("Conflict", status)
    if status == "True":
        assert all(name in conflict.message for name in clusters)


@pytest.mark.parametrize(
    ("asked", "clusters", "reason"),
    [
        ({"type": "Headless"}, {"m1": offer("http/TCP")}, "UnsupportedType"),
        ({}, {}, "NoExport"),
        ({}, {"m1": offer("http/TCP", counts=False)}, "NoExport"),
        (
            {"ports": [{"port": 80, "name": "http"}, {"port": 81, "name": "admin"}]},
            {"m1": offer("http/TCP")},
            "NoSuchPort",
        ),
        ({"ports": [{"port": 53, "name": "http", "protocol": "UDP"}]}, {"m1": offer("http/TCP")}, "NoSuchPort"),
        ({"ports": [{"port": 80}]}, {"m1": ClusterExport((ServiceSlice("s", "IPv4", (), (PortOfSlice(),)),))}, ""),
        ({}, {"m1": offer("http/TCP"), "m2": offer("web/TCP")}, ""),
    ],
)
def test_an_import_says_what_it_does_not_reach(
    asked: dict[str, Any], clusters: dict[str, ClusterExport], reason: str
) -> None:
    problems = import_problems(read_import(an_import(**asked)), clusters)
    assert [found for found, _ in problems] == ([reason] if reason else [])


def test_conditions_keep_their_moment_until_their_status_turns() -> None:
    first = merged((), [Condition("Valid", "True", "A", "x")], 1, 1_700_000_000.0)
    assert first is not None
    assert first[0]["lastTransitionTime"] == "2023-11-14T22:13:20Z"
    assert merged(first, [Condition("Valid", "True", "A", "x")], 1, 1_700_000_500.0) is None
    reworded = merged(first, [Condition("Valid", "True", "A", "y")], 1, 1_700_000_500.0)
    assert reworded is not None
    assert (reworded[0]["message"], reworded[0]["lastTransitionTime"]) == ("y", "2023-11-14T22:13:20Z")
    turned = merged(first, [Condition("Valid", "False", "B", "x")], 1, 1_700_000_500.0)
    assert turned is not None
    assert turned[0]["lastTransitionTime"] == "2023-11-14T22:21:40Z"
    theirs = {"type": "Other", "status": "True"}
    assert merged([theirs], [Condition("Valid", "True", "A", "x")], 1, 0.0)[0] == theirs  # type: ignore[index]
