"""The rules of ServiceExport and ServiceImport, each with what follows from it; and what bad input comes to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from schemas.codec import Known
from schemas.endpoints import PortOfSlice, ServiceSlice, SliceEndpoint
from services._rules.endpoints.derived_services import ServicePort, service_manifest
from services._rules.interpreter import NativeInterpreter, Operation
from services.networking.service_objects import ControlObjects, ShowAddresses, Tell
from tests.unit.networking.test_networking_decisions import (
    HTTP,
    IMPORT,
    World,
    exporting,
    member,
    report,
    slices,
    withdrawn,
    work,
)

ADMIN = (PortOfSlice("admin", port=9090),)
SIX = ServiceSlice("web-6", "IPv6", (SliceEndpoint(("fd00::1",)),), HTTP)
MANY = tuple(slices(*(f"10.1.{n}.{m}" for m in range(100)), name=f"web-{n:02}")[0] for n in range(50))


def told(world: World) -> str:
    """Condition and Events of both objects, in words."""
    assert world.control.export is not None
    notes = [effect.note for effect in world.decide().effects if isinstance(effect, Tell)]
    words = [item["message"] for item in world.control.export.conditions]
    return "; ".join([*words, *(f"{note.reason}: {note.message}" for note in notes if note is not None)])


@pytest.mark.parametrize(
    ("given", "names", "words"),
    [
        # Other ports are imported all the same, and told; other numbers of the same ports are no conflict.
        ((report("m2", slices("10.2.0.1", ports=ADMIN)),), ["m1-web-a", "m2-web-a"], "other ports: m1 has http/TCP"),
        (
            (report("m2", slices("10.2.0.1", ports=(PortOfSlice("http", port=81),))),),
            ["m1-web-a", "m2-web-a"],
            "all clusters offer the same ports",
        ),
        # A headless Service has slices like any other.
        ((report("m2", slices("10.2.0.1", ports=())),), ["m1-web-a", "m2-web-a"], "m2 has none"),
        ((report("m2", (*slices("10.2.0.1"), SIX)),), ["m1-web-a", "m2-web-6", "m2-web-a"], "the same ports"),
        # Slices without endpoints, and none at all.
        ((report("m2", slices()),), ["m1-web-a", "m2-web-a"], "m1, m2: endpoints are offered"),
        ((report("m2", ()),), ["m1-web-a"], "m2: no EndpointSlice of the Service"),
        ((report("m2", MANY),), ["m1-web-a", *(f"m2-web-{n:02}" for n in range(50))], "endpoints are offered"),
        ((withdrawn("m2"),), ["m1-web-a"], "m1: endpoints are offered"),
        ((withdrawn("m1"), withdrawn("m2")), [], "NoExport: no cluster exports web"),
        # A cluster that nothing was given to exports nothing, whatever it reports.
        ((member("m3"), report("m3", slices("10.3.0.1"))), ["m1-web-a", "m2-web-a"], "m1, m2: endpoints"),
        ((work("m3"), report("m3", slices("10.3.0.1"))), ["m1-web-a", "m2-web-a"], "m1, m2: endpoints"),
    ],
)
def test_an_export_is_imported_as_it_is(given: tuple[Known, ...], names: list[str], words: str) -> None:
    world = exporting()
    world.take(*given)
    world.settle()
    assert list(world.addresses) == [f"imported-{name}" for name in names]
    assert words in told(world)


def imports(world: World) -> Any:
    return world.control.derived


def slices_of(world: World) -> Any:
    return list(world.addresses)


def clusters(world: World) -> Any:
    return world.control.asked.clusters if world.control.asked else None


@pytest.mark.parametrize(
    ("asked", "look", "wanted"),
    [
        (None, imports, None),
        # Slices are there without an import, too: other kinds of importers find them.
        (None, slices_of, ["imported-m1-web-a", "imported-m2-web-a"]),
        (replace(IMPORT, type="Headless"), imports, None),
        (replace(IMPORT, type="Headless"), slices_of, ["imported-m1-web-a", "imported-m2-web-a"]),
        (IMPORT, clusters, ("m1", "m2")),
        (replace(IMPORT, clusters=("m9",)), clusters, ("m1", "m2")),
    ],
)
def test_an_import_asks_for_a_service(asked: Any, look: Callable[[World], Any], wanted: Any) -> None:
    world = exporting()
    world.control.asked = asked
    world.settle()
    assert look(world) == wanted


def test_an_import_without_an_export_reaches_nothing() -> None:
    world = World(member("m1"))
    world.control = ControlObjects(asked=IMPORT)
    world.settle()
    assert world.control.derived is not None
    assert (world.control.slices, world.warnings()) == ({}, ["NoExport"])


def test_addresses_of_an_import_are_shown_by_its_service() -> None:
    world = exporting()
    assert world.control.asked is not None
    world.control.asked = replace(world.control.asked, ips=("10.96.0.7",))
    shown = [effect for effect in world.decide().effects if isinstance(effect, ShowAddresses)]
    assert [effect.ips for effect in shown] == [("10.96.0.7",)]


def test_a_service_keeps_its_address_and_selects_nothing() -> None:
    ports = (ServicePort(80, "http", "TCP", "h2c"), ServicePort(53, "dns", "UDP"))
    spec = service_manifest(replace(IMPORT, ports=ports), "default")["spec"]
    assert "clusterIP" not in spec
    assert spec["ports"] == [
        {"port": 80, "name": "http", "appProtocol": "h2c"},
        {"port": 53, "name": "dns", "protocol": "UDP"},
    ]


def test_an_import_takes_its_service_and_slices_along() -> None:
    given = {
        "apiVersion": "multicluster.x-k8s.io/v1alpha1",
        "kind": "ServiceImport",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"type": "ClusterSetIP"},
    }
    found = NativeInterpreter().interpret(Operation.DEPENDENCY, given)
    assert [(item["kind"], item.get("name"), item.get("labelSelector")) for item in found] == [
        ("Service", "derived-web", None),
        ("EndpointSlice", None, {"matchLabels": {"kubernetes.io/service-name": "derived-web"}}),
    ]
