"""Which endpoints of a MultiClusterService count, and what its status and Events say."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET, Raw
from msgspec.structs import replace

from schemas.codec import Known
from schemas.events.binding import BindingReleased, BindingRequested, PolicyRef
from schemas.events.endpoints import EndpointsCollected, EndpointsReleased
from schemas.events.observed import WorkObserved
from schemas.events.policy import PolicyDeleted
from schemas.events.rollup import ClusterStatusItem, StatusRolledUp
from schemas.events.work import WorkRendered, WorkWithdrawn
from schemas.keys import ObjectKey
from services._rules.constants import NETWORKING_API
from services._rules.endpoints.dispatched_slices import slice_key
from services._rules.endpoints.multi_cluster_services import marker_key
from services.networking.decide import decide
from services.networking.dispatching.control_status import read_shared
from services.networking.dispatching.provided_endpoints import SharedObject
from services.networking.dispatching.sharing_state import Ingress
from services.networking.service_objects import ControlObjects, PutSlice, ShowStatus, TellOf
from tests.support.facts import SHARED, removed, shared, standing
from tests.unit.networking.projected import NAME, Projected, slices

MARKER, SERVICE = marker_key("default", "web"), ObjectKey("", "services", "default", "web")
NOW = 1_800_000_000.0
M1, M2, M3 = standing("m1"), standing("m2"), standing("m3")


def marker(cluster: str, uid: str = "s1") -> WorkRendered:
    return WorkRendered(
        cluster=cluster,
        key=MARKER,
        uid=uid,
        api_version=NETWORKING_API,
        kind="MultiClusterService",
        digest="d",
        suspended=True,
    )


def unmarked(cluster: str) -> WorkWithdrawn:
    return WorkWithdrawn(cluster=cluster, key=MARKER, uid="s1", api_version=NETWORKING_API, kind="MultiClusterService")


def report(cluster: str, found: Any, **fields: Any) -> WorkObserved:
    return WorkObserved(cluster=cluster, key=MARKER, uid="s1", endpoints=found, at=NOW, **fields)


def held(cluster: str, name: str, *, applied: bool = True, message: str = "") -> WorkObserved:
    return WorkObserved(
        cluster=cluster, key=slice_key("default", name), uid="s1", applied=applied, message=message, at=NOW
    )


def bound(claimed: bool = True) -> BindingRequested:
    policy = PolicyRef(SHARED, "id-1", 1) if claimed else None
    return BindingRequested(key=SERVICE, uid="w1", api_version="v1", kind="Service", spec=Raw(b"{}"), policy=policy)


class World(Projected):
    """A projection, and the MultiClusterService as the control plane shows it."""

    def __init__(self, *events: Known) -> None:
        super().__init__()
        self.control = ControlObjects(shared=SharedObject("s1", 3))
        self.take(*events)

    def decide(self, now: float = NOW) -> Any:
        return decide(self.state, NAME, self.control, now, 300.0)

    def settle(self, now: float = NOW) -> list[Any]:
        """Store what is decided and show what is asked, until nothing is left; all events."""
        stored: list[Any] = []
        for _ in range(4):
            made = self.decide(now)
            status = [effect for effect in made.effects if isinstance(effect, ShowStatus)]
            if not made.events and not status:
                return stored
            self.take(*made.events)
            stored += made.events
            for effect in status:
                assert (effect.plural, effect.uid) == ("multiclusterservices", "s1")
                content = {"metadata": {"name": "web", "uid": "s1", "generation": 3}, "status": effect.status}
                self.control.shared = read_shared(content)
        raise AssertionError(f"it does not settle: {made}")

    def conditions(self) -> dict[str, tuple[str, str, str]]:
        assert self.control.shared is not None
        return {
            item["type"]: (item["status"], item["reason"], item["message"]) for item in self.control.shared.conditions
        }

    def events(self, now: float = NOW) -> list[str]:
        told = [effect for effect in self.decide(now).effects if isinstance(effect, TellOf)]
        return [note.reason for effect in told for note in effect.notes]

    @property
    def counting(self) -> dict[tuple[str, str], list[str]]:
        found = self.state.services[NAME].collected if NAME in self.state.services else {}
        return {
            place: [address for each in event.endpoints for address in each.addresses]
            for place, event in sorted(found.items())
        }


def world(*more: Known) -> World:
    base = (M1, M2, shared(("m1",), ("m2",)), marker("m1"), bound(), report("m1", slices("10.0.0.1")))
    return World(*base, *more)


def test_what_a_provider_reports_is_collected() -> None:
    made = world()
    (event,) = made.settle()
    assert isinstance(event, EndpointsCollected)
    assert made.counting == {("m1", "web-a"): ["10.0.0.1"]}
    assert not any(isinstance(effect, PutSlice) for effect in made.decide().effects)
    made.take(report("m1", slices("10.0.0.1", "10.0.0.2")))
    assert [type(event) for event in made.settle()] == [EndpointsCollected]
    made.take(report("m1", ()))
    (gone,) = made.settle()
    assert (gone.name, gone.reason) == ("web-a", "m1 has no such slice any more")


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        ((unmarked("m1"),), "m1 does not export it any more"),
        ((removed("m1"),), "m1 is no member any more"),
        ((PolicyDeleted(key=SHARED, uid="s1"),), "m1 does not export it any more"),
        ((shared(("m1",), ("m2",), deleting=True),), "m1 does not export it any more"),
    ],
    ids=["no provider", "no member", "deleted", "being deleted"],
)
def test_endpoints_leave_with_their_provider(end: tuple[Known, ...], reason: str) -> None:
    made = world()
    made.settle()
    assert NAME in made.take(*end)
    (event,) = made.settle()
    assert isinstance(event, EndpointsReleased)
    assert event.reason == reason


@pytest.mark.parametrize("state", ["False", "Unknown"])
def test_a_provider_that_is_not_ready_keeps_its_endpoints(state: str) -> None:
    made = world()
    made.settle()
    made.take(standing("m1", state))
    assert made.settle(NOW + 100_000.0) == []
    made.take(report("m1", UNSET, message="its EndpointSlices cannot be read"))
    assert made.settle(NOW + 100_000.0) == []
    assert made.counting == {("m1", "web-a"): ["10.0.0.1"]}


def test_many_endpoints_are_slices_of_a_hundred() -> None:
    addresses = [f"10.0.{number // 250}.{number % 250}" for number in range(300)]
    made = world(report("m1", slices(*addresses)))
    assert [len(event.endpoints) for event in made.settle()] == [100] * 3
    made.take(report("m1", slices(*addresses[:299], "10.9.9.9")))
    assert len(made.settle()) == 1


def test_conditions_and_events_of_one_that_works() -> None:
    made = world()
    assert made.events() == ["SyncServiceSucceed"]
    made.settle()
    assert made.conditions() == {
        "ServiceApplied": ("True", "ServiceAppliedSucceed", "Service is propagated to target clusters."),
        "EndpointSliceDispatched": (
            "True",
            "EndpointSliceDispatchedSucceed",
            "EndpointSlice are dispatched successfully",
        ),
    }
    assert made.events() == []


def test_nothing_is_said_of_slices_before_there_are_any() -> None:
    made = world(report("m1", ()))
    made.settle()
    assert list(made.conditions()) == ["ServiceApplied"]


@pytest.mark.parametrize("ended", [BindingReleased(key=SERVICE, uid="w1"), bound(claimed=False)])
def test_without_its_service_it_is_not_applied(ended: Known) -> None:
    made = world()
    made.settle()
    assert NAME in made.take(ended)
    made.settle()
    status, reason, message = made.conditions()["ServiceApplied"]
    assert (status, reason) == ("False", "ServiceAppliedFailed")
    assert "default/web" in message
    assert made.events() == ["SyncServiceFailed"]


def test_its_service_may_be_claimed_a_moment_later() -> None:
    fresh = shared(("m1",), ("m2",))
    fresh = replace(fresh, provenance=replace(fresh.provenance, decided_at=NOW))
    made = World(M1, M2, fresh)
    decision = made.decide(NOW + 1)
    assert decision.wake_at == NOW + 5
    assert made.settle(NOW + 1) == []
    assert made.conditions() == {}
    made.settle(NOW + 5)
    assert made.conditions()["ServiceApplied"][0] == "False"


@pytest.mark.parametrize(
    ("partner", "reason"),
    [
        (removed("m1"), "ClusterNotFound"),
        (standing("m1", "False"), "SyncServiceFailed"),
        (standing("m1", slices=False), "APIIncompatible"),
        (removed("m2"), "ClusterNotFound"),
        (standing("m2", "False"), "SyncServiceFailed"),
        (standing("m2", slices=False), "APIIncompatible"),
    ],
)
def test_partners_that_cannot_take_part_are_named(partner: Known, reason: str) -> None:
    made = world()
    made.settle()
    made.take(partner)
    assert made.events() == [reason]
    made.settle()
    side = "ServiceApplied" if partner.name == "m1" else "EndpointSliceDispatched"
    assert made.conditions()[side][0] == "True"


def test_a_slice_that_a_consumer_refuses_is_named() -> None:
    made = world()
    made.settle()
    assert NAME in made.take(held("m2", "m1-web-a", applied=False, message="it exists and is not managed"))
    made.settle()
    status, reason, message = made.conditions()["EndpointSliceDispatched"]
    assert (status, reason) == ("False", "EndpointSliceDispatchedFailed")
    assert message == "m2: EndpointSlice m1-web-a: it exists and is not managed"
    assert made.events() == ["DispatchEndpointSliceFailed"]
    assert NAME in made.take(held("m2", "m1-web-a"))
    assert made.events() == ["DispatchEndpointSliceSucceed"]
    made.settle()
    assert made.conditions()["EndpointSliceDispatched"][0] == "True"


def test_refusals_elsewhere_are_no_failure() -> None:
    made = world(held("m2", "imported-m1-web-a", applied=False), held("m3", "m1-web-a", applied=False))
    made.settle()
    assert made.conditions()["EndpointSliceDispatched"][0] == "True"


def test_addresses_of_load_balancers_are_collected() -> None:
    def item(cluster: str, *ingress: str) -> ClusterStatusItem:
        content = ",".join(ingress)
        return ClusterStatusItem(
            cluster=cluster, applied=True, status=Raw(b'{"loadBalancer":{"ingress":[' + content.encode() + b"]}}")
        )

    items = (item("m1", '{"ip":"1.2.3.4"}'), item("m2", '{"hostname":"lb.example"}'), item("m3", '{"ip":"9.9.9.9"}'))
    summed = StatusRolledUp(key=SERVICE, uid="w1", items=items)
    made = World(M1, M2, M3, shared(("m1", "m2"), type="LoadBalancer"))
    assert NAME in made.take(summed)
    made.settle()
    assert made.control.shared is not None
    assert made.control.shared.ingress == (Ingress("1.2.3.4"), Ingress(hostname="lb.example"))
    assert made.conditions() == {}
    made.take(replace(summed, items=()))
    made.settle()
    assert made.control.shared.ingress == ()


def test_a_service_that_is_exported_as_well_is_collected_once() -> None:
    export = ObjectKey("multicluster.x-k8s.io", "serviceexports", "default", "web")
    work = replace(marker("m1"), key=export, kind="ServiceExport", suspended=False)
    made = world(work, replace(report("m1", slices("10.0.0.1")), key=export, applied=True))
    events = made.settle()
    assert len(events) == 1
    assert [effect.item.name for effect in made.decide().effects if isinstance(effect, PutSlice)] == [
        "imported-m1-web-a"
    ]
    # Without the one, the other still needs it.
    made.take(unmarked("m1"))
    assert made.settle() == []
    made.take(marker("m1"), report("m1", slices("10.0.0.1")))
    made.take(WorkWithdrawn(cluster="m1", key=export, uid="s1", api_version="x", kind="ServiceExport"))
    assert made.settle() == []
    assert made.counting == {("m1", "web-a"): ["10.0.0.1"]}


def test_another_object_of_its_name_shows_nothing() -> None:
    made = world()
    made.control.shared = SharedObject("s2", 1)
    assert not any(isinstance(effect, ShowStatus) for effect in made.decide().effects)


def test_nothing_is_kept_of_what_ended() -> None:
    made = world()
    made.settle()
    made.take(unmarked("m1"), report("m1", UNSET, absent=True), PolicyDeleted(key=SHARED, uid="s1"))
    made.take(BindingReleased(key=SERVICE, uid="w1"))
    made.settle()
    assert made.state.shared.services == {}
    assert made.state.shared.slices.sources == {}
