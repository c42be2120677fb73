"""Which endpoints count for other clusters, and what the control plane is asked to hold of them."""

from __future__ import annotations

import datetime as dt
from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from schemas.codec import Known
from schemas.endpoints import ServiceSlice
from schemas.envelope import Provenance
from schemas.events.cluster import ClusterChanged, ClusterRemoved
from schemas.events.endpoints import EndpointsCollected, EndpointsReleased
from schemas.events.observed import WorkObserved
from schemas.events.work import WorkRendered, WorkWithdrawn
from schemas.keys import ObjectKey
from services._rules.constants import MULTICLUSTER_API
from services._rules.endpoints.derived_services import DerivedService, ServiceImport, ServicePort
from services._rules.endpoints.imported_slices import ImportedSlice, imported
from services.networking.decide import decide
from services.networking.service_objects import (
    ControlObjects,
    DropService,
    DropSlice,
    ExportObject,
    PutService,
    PutSlice,
    ShowAddresses,
    ShowStatus,
    Tell,
)
from tests.unit.networking.projected import NAME, Projected, slices

KEY = ObjectKey("multicluster.x-k8s.io", "serviceexports", "default", "web")
NOW, PATIENCE = 1_700_000_000.0, 300.0
IMPORT = ServiceImport("web", "i1", "ClusterSetIP", (ServicePort(80, "http"),))
DERIVED = DerivedService("s1", "web", "ClusterIP", (ServicePort(80, "http"),), selects=False, topology_mode="Auto")


def work(cluster: str, uid: str = "u1") -> WorkRendered:
    return WorkRendered(
        cluster=cluster,
        key=KEY,
        uid=uid,
        api_version=MULTICLUSTER_API,
        kind="ServiceExport",
        digest="d",
    )


def withdrawn(cluster: str) -> WorkWithdrawn:
    return WorkWithdrawn(cluster=cluster, key=KEY, uid="u1", api_version=MULTICLUSTER_API, kind="ServiceExport")


def report(cluster: str, found: Any, **fields: Any) -> WorkObserved:
    return WorkObserved(cluster=cluster, key=KEY, uid="u1", applied=True, endpoints=found, at=NOW, **fields)


def member(name: str, ready: str = "True", since: float = NOW) -> ClusterChanged:
    moment = dt.datetime.fromtimestamp(since, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    condition = {"type": "Ready", "status": ready, "lastTransitionTime": moment}
    manifest = {"metadata": {"name": name}, "spec": {"syncMode": "Push"}, "status": {"conditions": [condition]}}
    return ClusterChanged(name=name, uid=f"c-{name}", manifest=msgspec.Raw(msgspec.json.encode(manifest)))


class World(Projected):
    """A projection, and the control plane that does at once what it is asked."""

    def __init__(self, *events: Known) -> None:
        super().__init__()
        self.control = ControlObjects()
        self.take(*events)

    def decide(self, now: float = NOW) -> Any:
        return decide(self.state, NAME, self.control, now, PATIENCE)

    def settle(self, now: float = NOW) -> list[Any]:
        """Store what is decided and do what is asked, until nothing is left; all events."""
        stored: list[Any] = []
        for _ in range(4):
            made = self.decide(now)
            writes = [effect for effect in made.effects if not isinstance(effect, Tell)]
            if not made.events and not writes:
                return stored
            self.take(*made.events)
            stored += made.events
            for effect in writes:
                self._do(effect)
        raise AssertionError(f"it does not settle: {made}")

    def _do(self, effect: Any) -> None:
        match effect:
            case PutSlice():
                self.control.slices[effect.item.name] = effect.item
            case DropSlice():
                del self.control.slices[effect.name]
            case PutService():
                self.control.derived = msgspec.structs.replace(DERIVED, ports=effect.given.ports)
            case DropService():
                self.control.derived = None
            case ShowStatus(plural="serviceexports"):
                assert self.control.export is not None
                conditions = tuple(effect.status["conditions"])
                self.control.export = msgspec.structs.replace(self.control.export, conditions=conditions)
            case ShowStatus():
                assert self.control.asked is not None
                names = tuple(item["cluster"] for item in effect.status["clusters"])
                self.control.asked = msgspec.structs.replace(self.control.asked, clusters=names)
            case _:
                raise AssertionError(effect)

    def warnings(self, now: float = NOW) -> list[str]:
        tells = [effect for effect in self.decide(now).effects if isinstance(effect, Tell)]
        return [tell.note.reason for tell in tells if tell.note is not None]

    @property
    def addresses(self) -> dict[str, list[str]]:
        """Addresses in the control plane by slice."""
        return {
            name: [address for each in item.content.endpoints for address in each.addresses]
            for name, item in sorted(self.control.slices.items())
        }

    def condition(self, kind: str) -> tuple[str, str]:
        assert self.control.export is not None
        return next((item["status"], item["reason"]) for item in self.control.export.conditions if item["type"] == kind)


def exporting() -> World:
    """Two clusters export the Service; it is imported, and everything is in place."""
    world = World(member("m1"), member("m2"), work("m1"), work("m2"))
    world.take(report("m1", slices("10.1.0.1")), report("m2", slices("10.2.0.1", "10.2.0.2")))
    world.control = ControlObjects(export=ExportObject("e1", 1), asked=IMPORT)
    world.settle()
    return world


def test_endpoints_of_all_exporters_reach_the_control_plane() -> None:
    world = exporting()
    assert world.addresses == {"imported-m1-web-a": ["10.1.0.1"], "imported-m2-web-a": ["10.2.0.1", "10.2.0.2"]}
    assert {item.service for item in world.control.slices.values()} == {"derived-web"}
    assert world.control.derived == DERIVED
    assert world.control.asked is not None
    assert world.control.asked.clusters == ("m1", "m2")
    assert (world.condition("Valid"), world.condition("Conflict")) == (
        ("True", "EndpointsCollected"),
        ("False", "NoConflicts"),
    )
    assert world.warnings() == []


def test_facts_are_written_once_and_only_for_slices_that_changed() -> None:
    world = World(member("m1"), work("m1"), report("m1", slices("10.1.0.1") + slices("10.1.0.9", name="web-b")))
    assert [event.name for event in world.settle()] == ["web-a", "web-b"]
    assert world.decide().events == []
    world.take(report("m1", slices("10.1.0.1", "10.1.0.2") + slices("10.1.0.9", name="web-b")))
    (event,) = world.settle()
    assert isinstance(event, EndpointsCollected)
    assert (event.name, len(event.endpoints)) == ("web-a", 2)
    world.take(report("m1", slices("10.1.0.1", "10.1.0.2")))
    (gone,) = world.settle()
    assert isinstance(gone, EndpointsReleased)
    assert (gone.name, gone.reason) == ("web-b", "m1 has no such slice any more")
    assert list(world.addresses) == ["imported-m1-web-a"]


@pytest.mark.parametrize("event", [withdrawn("m2"), ClusterRemoved(name="m2", uid="c-m2")])
def test_a_cluster_that_exports_no_more_is_left_out(event: Known) -> None:
    world = exporting()
    assert NAME in world.take(event)
    (gone,) = world.settle()
    assert (type(gone), gone.cluster) == (EndpointsReleased, "m2")
    assert list(world.addresses) == ["imported-m1-web-a"]
    assert world.control.asked is not None
    assert world.control.asked.clusters == ("m1",)


def test_a_withdrawal_everywhere_leaves_nothing() -> None:
    world = exporting()
    world.take(withdrawn("m1"), withdrawn("m2"))
    world.control.export = world.control.asked = None
    world.settle()
    assert world.control.nothing
    assert world.state.services[NAME].collected == {}


def alone() -> World:
    """One cluster exports the Service, which is imported."""
    world = World(member("m2"), work("m2"), report("m2", slices("10.2.0.1")))
    world.control = ControlObjects(export=ExportObject("e1", 1), asked=IMPORT)
    world.settle()
    return world


def test_the_only_exporter_counts_for_a_while_in_silence() -> None:
    world = alone()
    assert NAME in world.take(member("m2", ready="Unknown", since=NOW))
    (kept,) = world.settle(NOW + PATIENCE - 1)
    assert (type(kept), kept.kept) == (EndpointsCollected, "m2 is not ready")
    assert world.addresses == {"imported-m2-web-a": ["10.2.0.1"]}
    assert world.control.export is not None
    assert "no other cluster offers the same" in world.control.export.conditions[0]["message"]
    assert world.decide(NOW + PATIENCE - 1).wake_at == NOW + PATIENCE
    (gone,) = world.settle(NOW + PATIENCE)
    assert (gone.cluster, gone.reason, gone.gated) == ("m2", "m2 is not ready for 300 s", False)
    assert world.addresses == {}
    # It comes back with what it reported last.
    world.take(member("m2"))
    (back,) = world.settle(NOW + PATIENCE + 5)
    assert (type(back), back.cluster, back.kept) == (EndpointsCollected, "m2", "")
    assert len(world.addresses) == 1


def test_silence_without_a_moment_counts_from_its_notice() -> None:
    world = alone()
    condition = {"type": "Ready", "status": "False", "lastTransitionTime": "?"}
    manifest = msgspec.Raw(msgspec.json.encode({"status": {"conditions": [condition]}}))
    noticed = Provenance(decided_at=NOW + 50)
    world.take(ClusterChanged(name="m2", uid="c-m2", manifest=manifest, provenance=noticed))
    world.settle(NOW + 50)
    assert world.decide(NOW + 50 + PATIENCE - 1).events == []
    assert [event.cluster for event in world.decide(NOW + 50 + PATIENCE).events] == ["m2"]


def test_a_cluster_without_a_list_keeps_its_endpoints() -> None:
    world = exporting()
    world.take(report("m1", UNSET, message="its EndpointSlices cannot be read: forbidden"))
    assert world.settle() == []
    assert world.control.export is not None
    (valid,) = [item for item in world.control.export.conditions if item["type"] == "Valid"]
    assert valid["status"] == "True"
    assert valid["message"] == "m1, m2: endpoints are offered; m1: its EndpointSlices cannot be read: forbidden"
    assert world.addresses["imported-m1-web-a"] == ["10.1.0.1"]
    # An older log, or one whose observations were lost, says as little.
    world.state.services[NAME].reports.clear()
    assert world.decide().events == []


def test_a_slice_with_another_address_type_is_replaced() -> None:
    world = exporting()
    world.take(report("m1", slices("fd00::1", kind="IPv6")))
    made = world.decide()
    assert [type(effect) for effect in made.effects if isinstance(effect, PutSlice | DropSlice)] == [DropSlice]
    world.settle()
    assert world.control.slices["imported-m1-web-a"].content.address_type == "IPv6"


def test_many_endpoints_are_divided() -> None:
    world = World(member("m1"), work("m1"), report("m1", slices(*(f"10.1.{n >> 8}.{n & 255}" for n in range(5000)))))
    events = world.settle()
    assert [len(event.endpoints) for event in events] == [100] * 50
    assert len(world.control.slices) == 50


def test_a_changed_slice_of_the_control_plane_is_put_back() -> None:
    world = exporting()
    present = world.control.slices["imported-m1-web-a"]
    world.control.slices["imported-m1-web-a"] = msgspec.structs.replace(present, service="other")
    world.control.slices["imported-gone-web-x"] = ImportedSlice("gone", "derived-web", ServiceSlice("x", "IPv4"))
    effects = [effect for effect in world.decide().effects if isinstance(effect, PutSlice | DropSlice)]
    assert effects == [PutSlice(NAME, present), DropSlice(NAME, "imported-gone-web-x")]


def test_a_service_of_a_user_is_left_alone() -> None:
    world = exporting()
    world.control.derived = msgspec.structs.replace(DERIVED, owner="")
    assert not [effect for effect in world.decide().effects if isinstance(effect, PutService | DropService)]
    assert world.warnings() == ["SyncDerivedServiceFailed"]
    world.control.asked = None
    assert not [effect for effect in world.decide().effects if isinstance(effect, PutService | DropService)]


def test_an_import_that_reaches_nothing_says_why() -> None:
    world = World(member("m1"), work("m1"))
    world.control.asked = IMPORT
    world.settle()
    assert world.warnings() == ["NoExport"]
    assert world.control.derived is not None


def test_a_cluster_that_reports_no_endpoints_at_all_is_named() -> None:
    world = World(member("m1"), work("m1"), report("m1", UNSET))
    world.control.export = ExportObject("e1", 1)
    world.settle()
    assert world.condition("Valid") == ("False", "NoEndpoints")
    assert "m1: it has not reported its endpoints" in world.control.export.conditions[0]["message"]


def test_an_import_that_becomes_headless_loses_its_service() -> None:
    world = exporting()
    world.control.asked = msgspec.structs.replace(IMPORT, type="Headless", clusters=("m1", "m2"))
    world.settle()
    assert world.control.derived is None
    assert world.warnings() == ["UnsupportedType"]


def test_other_objects_and_repeated_facts_mark_nothing() -> None:
    world = exporting()
    deployment = ObjectKey("apps", "deployments", "default", "web")
    assert world.take(WorkObserved(cluster="m1", key=deployment, uid="u", applied=True)) == set()
    assert world.take(work("m1"), member("m1")) == set()
    event = world.state.services[NAME].collected["m1", "web-a"]
    assert imported(event) == world.control.slices["imported-m1-web-a"]


@pytest.mark.parametrize(
    ("given", "names"),
    [
        # A slice without endpoints is one, too.
        ((report("m2", slices()),), ["m1-web-a", "m2-web-a"]),
        # A cluster that nothing was given to, or that is no member, exports nothing, whatever it reports.
        ((member("m3"), report("m3", slices("10.3.0.1"))), ["m1-web-a", "m2-web-a"]),
        ((work("m3"), report("m3", slices("10.3.0.1"))), ["m1-web-a", "m2-web-a"]),
    ],
)
def test_slices_of_exporters_are_imported_without_an_import(given: tuple[Known, ...], names: list[str]) -> None:
    world = exporting()
    world.control.asked = None
    world.take(*given)
    world.settle()
    assert world.control.derived is None
    assert list(world.addresses) == [f"imported-{name}" for name in names]


def test_status_of_an_import_shows_clusters_and_addresses() -> None:
    world = exporting()
    world.control.asked = msgspec.structs.replace(IMPORT, clusters=("m9",), ips=("10.96.0.7",))
    shown = [effect for effect in world.decide().effects if isinstance(effect, ShowAddresses)]
    assert [effect.ips for effect in shown] == [("10.96.0.7",)]
    effects = [effect for effect in world.decide().effects if isinstance(effect, ShowStatus)]
    assert [effect.status["clusters"] for effect in effects] == [[{"cluster": "m1"}, {"cluster": "m2"}]]
