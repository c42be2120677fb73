"""The status of MultiClusterIngresses follows works of Services, endpoints and Remedies."""

from __future__ import annotations

from typing import Any

import msgspec

from schemas.codec import Known
from schemas.endpoints import EndpointConditions, SliceEndpoint
from schemas.events.cluster import ClusterChanged, ClusterRemoved
from schemas.events.endpoints import EndpointsCollected
from schemas.events.work import WorkRendered, WorkWithdrawn
from schemas.keys import ObjectKey
from schemas.manifest import Manifest
from services.networking.ingress_decision import decide_ingress
from services.networking.ingresses.ingress_objects import MANAGER, IngressName, IngressObjects, ShowRoutes
from services.networking.service_objects import Tell
from tests.unit.networking.projected import HTTP, Projected

NAME = IngressName("default", "shop")
KEY = ObjectKey("", "services", "default", "web")


def member(name: str, *actions: str) -> ClusterChanged:
    manifest = {"metadata": {"name": name}, "spec": {"syncMode": "Push"}, "status": {"remedyActions": list(actions)}}
    return ClusterChanged(name=name, uid=f"c-{name}", manifest=msgspec.Raw(msgspec.json.encode(manifest)))


def held(cluster: str, key: ObjectKey = KEY) -> WorkRendered:
    return WorkRendered(cluster=cluster, key=key, uid="u1", api_version="v1", kind="Service", digest="d")


def left(cluster: str) -> WorkWithdrawn:
    return WorkWithdrawn(cluster=cluster, key=KEY, uid="u1", api_version="v1", kind="Service")


def offered(cluster: str, *ready: bool) -> EndpointsCollected:
    endpoints = tuple(
        SliceEndpoint((f"10.0.0.{number + 1}",), EndpointConditions(ready=each)) for number, each in enumerate(ready)
    )
    place = {"cluster": cluster, "namespace": "default", "name": "web-a", "service": "web"}
    return EndpointsCollected(**place, address_type="IPv4", endpoints=endpoints, ports=HTTP)


class World(Projected):
    """A projection, and one MultiClusterIngress whose status is written as it is asked for."""

    def __init__(self, *events: Known) -> None:
        super().__init__()
        self.objects = IngressObjects()
        self.status: Manifest = {}
        self.follow(*events)
        port = {"name": "http", "port": 81}
        self.objects.put_service(("default", "web"), {"spec": {"ports": [port]}})
        self.put()

    def put(self) -> None:
        backend = {"service": {"name": "web", "port": {"number": 81}}}
        owned = {"f:status": {f"f:{name}": {} for name in self.status}}
        metadata = {"name": "shop", "uid": "u", "managedFields": [{"manager": MANAGER, "fieldsV1": owned}]}
        spec = {"defaultBackend": backend}
        self.objects.put(("default", "shop"), {"metadata": metadata, "spec": spec, "status": self.status})

    def follow(self, *events: Known) -> set[IngressName]:
        """Take facts; the ingresses that are decided again."""
        touched: set[IngressName] = set()
        for event in events:
            services = [(each.namespace, each.name) for each in self.take(event)]
            touched |= self.objects.leading_to([*services, *self.state.backends.take(event)])
        return touched

    def settle(self) -> Manifest:
        """The status once what is asked was written."""
        for _ in range(2):
            made = decide_ingress(self.state, NAME, self.objects)
            assert made.events == ()
            writes = [effect for effect in made.effects if isinstance(effect, ShowRoutes)]
            if not writes:
                return self.status
            self.status = writes[0].status
            self.put()
        raise AssertionError("it does not settle")

    def warning(self) -> Any:
        (tell,) = [
            effect for effect in decide_ingress(self.state, NAME, self.objects).effects if isinstance(effect, Tell)
        ]
        return tell.note.reason if tell.note is not None else None


def serving() -> World:
    """Two clusters have the Service and offer ready endpoints of it."""
    world = World(member("m1"), member("m2"), member("m3"), held("m1"), held("m2"))
    world.follow(offered("m1", True), offered("m2", True, False))
    return world


def test_locations_follow_the_works_of_the_service() -> None:
    world = serving()
    assert world.settle() == {"serviceLocations": [{"name": "web", "clusters": ["m1", "m2"]}]}
    assert world.warning() is None
    assert world.follow(held("m3")) == {NAME}
    assert world.settle() == {"serviceLocations": [{"name": "web", "clusters": ["m1", "m2", "m3"]}]}
    assert world.follow(left("m1")) == {NAME}
    assert world.follow(ClusterRemoved(name="m2", uid="c-m2")) == {NAME}
    assert world.settle() == {"serviceLocations": [{"name": "web", "clusters": ["m3"]}]}
    world.follow(left("m3"))
    assert world.settle() == {}
    assert world.warning() == "NotPropagated"


def test_only_what_leads_to_a_service_is_decided_again() -> None:
    world = serving()
    assert world.follow(held("m1"), left("m3"), member("m1")) == set()
    assert world.follow(held("m1", ObjectKey("", "services", "default", "other"))) == set()
    assert world.follow(held("m1", ObjectKey("", "services", "shop", "web"))) == set()
    assert world.follow(held("m1", ObjectKey("apps", "deployments", "default", "web"))) == set()
    assert world.follow(member("m3", "TrafficControl")) == set()


def test_a_remedy_blocks_the_traffic_of_its_clusters() -> None:
    world = serving()
    assert world.follow(member("m1", "TrafficControl"), member("m3", "TrafficControl")) == {NAME}
    located = [{"name": "web", "clusters": ["m1", "m2"]}]
    assert world.settle() == {"serviceLocations": located, "trafficBlockClusters": ["m1"]}
    assert world.warning() is None
    world.follow(member("m2", "Other", "TrafficControl"))
    assert world.settle()["trafficBlockClusters"] == ["m1", "m2"]
    assert world.warning() == "AllClustersBlocked"
    assert world.follow(member("m1"), member("m2", "Other")) == {NAME}
    assert world.settle() == {"serviceLocations": located}
    assert world.warning() is None


def test_readiness_of_endpoints_changes_the_warning() -> None:
    world = serving()
    world.settle()
    assert world.follow(offered("m1", False), offered("m2", False)) == {NAME}
    assert world.warning() == "NoReadyEndpoint"
    # That is for the controller to see in the slices: the Service stays where it is.
    assert world.settle() == {"serviceLocations": [{"name": "web", "clusters": ["m1", "m2"]}]}


def test_services_and_their_ports_are_looked_up() -> None:
    world = serving()
    assert list(world.objects.put_service(("default", "web"), {"spec": {"ports": [{"port": 80}]}})) == [NAME]
    assert world.warning() == "NoSuchPort"
    assert list(world.objects.drop_service(("default", "web"))) == [NAME]
    assert world.warning() == "NoSuchService"
    assert list(world.objects.drop_service(("default", "web"))) == []
    assert list(world.objects.put_service(("default", "api"), {"spec": None})) == []


def test_a_deleted_ingress_is_forgotten() -> None:
    world = serving()
    assert list(world.objects.drop(("default", "shop"))) == [NAME]
    assert world.objects.names() == []
    assert world.objects.leading_to([("default", "web")]) == set()
    made = decide_ingress(world.state, NAME, world.objects)
    assert made.effects == [Tell(NAME.key, None)]
