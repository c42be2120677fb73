"""Clusters leave an import before their pods go, and come back; by taints, evictions, readiness and removal."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from schemas.codec import Known
from schemas.envelope import Provenance
from schemas.events.cluster import ClusterChanged
from schemas.events.endpoints import EndpointsReleased
from schemas.events.eviction import EvictionFinished, EvictionRequested, EvictionTask
from schemas.events.placement import PlacementDecided, PlacementReleased, TargetCluster
from schemas.events.template import TemplateChanged, TemplateDeleted
from schemas.keys import ObjectKey
from services._rules.endpoints.derived_services import TOPOLOGY_OFF
from services._rules.endpoints.health_gates import GONE_AFTER
from services.networking.service_objects import PutSlice, ReadManifest
from tests.unit.networking.projected import NAME, slices
from tests.unit.networking.test_networking_decisions import NOW, World, exporting, member, report

WEB = ObjectKey("apps", "deployments", "default", "web")
SERVICE = ObjectKey("", "services", "default", "web")
IMPORT_KEY = ObjectKey("multicluster.x-k8s.io", "serviceimports", "default", "web")


def template(key: ObjectKey, spec: Any, *, inline: bool = True) -> TemplateChanged:
    manifest = msgspec.Raw(msgspec.json.encode({"metadata": {"name": key.name}, "spec": spec}))
    kind = {"deployments": "Deployment", "services": "Service"}[key.resource]
    return TemplateChanged(
        key=key, uid="u", api_version="v1", kind=kind, digest=f"d-{key.name}", manifest=manifest if inline else UNSET
    )


def pods(app: str = "web") -> dict[str, Any]:
    return {"template": {"metadata": {"labels": {"app": app, "tier": "front"}}}}


SELECTING = template(SERVICE, {"selector": {"app": "web"}})


def placed(key: ObjectKey, *clusters: str, as_of: int = 0, tolerated: str = "") -> PlacementDecided:
    tolerations = [{"key": tolerated, "operator": "Exists"}] if tolerated else []
    placement = msgspec.Raw(msgspec.json.encode({"clusterTolerations": tolerations}))
    return PlacementDecided(
        key=key,
        uid="u",
        clusters=tuple(map(TargetCluster, clusters)),
        placement=placement,
        provenance=Provenance(as_of=as_of),
    )


def evicted(key: ObjectKey, cluster: str) -> EvictionRequested:
    task = EvictionTask(from_cluster=cluster, reason="TaintUntolerated", producer="TaintManager")
    return EvictionRequested(key=key, uid="u", tasks=(task,))


def changed(name: str, *, deleting: bool = False, zones: tuple[str, ...] = (), **taint: str) -> ClusterChanged:
    spec = {"taints": [{"effect": "NoExecute", **taint}] if taint else [], "zones": zones, "region": "eu"}
    manifest = msgspec.Raw(msgspec.json.encode({"metadata": {"name": name}, "spec": spec}))
    return ClusterChanged(name=name, uid=f"c-{name}", manifest=manifest, deleting=deleting)


def running() -> World:
    """Two clusters run and export the workload; it is imported."""
    world = exporting()
    world.take(SELECTING, template(WEB, pods()), placed(WEB, "m1", "m2"))
    assert world.settle() == []
    return world


ONE = ["imported-m1-web-a"]
BOTH = ["imported-m1-web-a", "imported-m2-web-a"]


@pytest.mark.parametrize(
    ("close", "reason", "reopen"),
    [
        (changed("m2", key="k", value="v"), "m2 is tainted k=v:NoExecute", changed("m2")),
        (member("m2", ready="False"), "m2 is not ready", member("m2")),
        (changed("m2", deleting=True), "m2 is being removed", changed("m2")),
        (
            evicted(WEB, "m2"),
            "Deployment web is being evicted from m2 (TaintUntolerated)",
            placed(WEB, "m1", "m2", as_of=1000),
        ),
        (
            evicted(SERVICE, "m2"),
            "Service web is being evicted from m2 (TaintUntolerated)",
            EvictionFinished(key=SERVICE, uid="u"),
        ),
    ],
)
def test_a_cluster_leaves_and_comes_back(close: Known, reason: str, reopen: Known) -> None:
    world = running()
    assert NAME in world.take(close)
    (gone,) = world.settle()
    assert (type(gone), gone.cluster, gone.reason, gone.gated) == (EndpointsReleased, "m2", reason, True)
    assert list(world.addresses) == ONE
    assert world.control.export is not None
    assert f"m2: {reason}" in world.control.export.conditions[0]["message"]
    assert world.control.asked is not None
    assert world.control.asked.clusters == ("m1",)
    # The other one is the last: it stays, whatever happens to it.
    world.take(changed("m1", key="k", value="v"))
    settled = world.settle()
    assert list(world.addresses)[:1] == ONE
    assert [event.kept for event in settled if event.cluster == "m1"] == ["m1 is tainted k=v:NoExecute"]
    world.take(changed("m1"))
    world.settle()
    assert list(world.addresses) == ONE
    assert NAME in world.take(reopen)
    world.settle()
    assert list(world.addresses) == BOTH


def test_an_evicted_cluster_waits_for_its_replacement() -> None:
    world = exporting()
    world.take(SELECTING, template(WEB, pods()), placed(WEB, "m1", "m2"))
    world.take(report("m1", ()), evicted(WEB, "m2"))
    world.settle()
    assert list(world.addresses) == ["imported-m2-web-a"]
    # The pods of the replacement are ready: now it leaves, while its own still run.
    world.take(report("m1", slices("10.1.0.7")))
    world.settle()
    assert list(world.addresses) == ONE
    world.take(EvictionFinished(key=WEB, uid="u", left=("m2",), provenance=Provenance(decided_at=NOW)))
    assert world.settle() == []
    assert world.decide().wake_at == NOW + GONE_AFTER
    world.take(report("m2", ()))
    assert world.settle(NOW + GONE_AFTER) == []


@pytest.mark.parametrize(
    "given",
    [
        # Another workload, one that is not selected, and one of another uid.
        (template(ObjectKey("apps", "deployments", "default", "db"), pods("db")),),
        (placed(WEB, "m1", "m2", as_of=1000),),
        (template(WEB, pods("other")),),
        (TemplateDeleted(key=SERVICE, uid="u"),),
        (PlacementReleased(key=WEB, uid="u"),),
        (template(SERVICE, {"selector": None}),),
    ],
)
def test_what_the_service_does_not_select_closes_no_gate(given: tuple[Known, ...]) -> None:
    world = running()
    away = ObjectKey("apps", "deployments", "default", "db") if "db" in str(given) else WEB
    world.take(placed(away, "m1", "m2"), evicted(away, "m2"), *given)
    assert world.settle() == []
    assert list(world.addresses) == BOTH


def test_a_tolerated_taint_closes_no_gate() -> None:
    world = running()
    world.take(placed(WEB, "m1", "m2", tolerated="k"), changed("m2", key="k"))
    assert world.settle() == []
    world.take(placed(WEB, "m1", "m2"))
    (gone,) = world.settle()
    assert gone.reason == "m2 is tainted k:NoExecute"


def test_a_large_manifest_is_read_before_it_counts() -> None:
    world = running()
    world.take(template(WEB, pods(), inline=False))
    assert not [effect for effect in world.decide().effects if isinstance(effect, ReadManifest)]
    world.take(evicted(WEB, "m2"))
    made = world.decide()
    assert made.events == []
    assert [effect for effect in made.effects if isinstance(effect, ReadManifest)] == [ReadManifest(NAME, "d-web")]
    manifest = msgspec.json.encode({"metadata": {"name": "web"}, "spec": pods()})
    world.state.backing.read("default", "d-web", manifest)
    (gone,) = world.settle()
    assert gone.cluster == "m2"


def test_clients_get_endpoints_of_their_zone_by_hints() -> None:
    world = exporting()
    world.take(changed("m1", zones=("a",)), changed("m2", zones=("b",)))
    world.take(changed("m3", zones=("c",)), placed(IMPORT_KEY, "m1", "m3"))
    world.settle()

    def hints() -> list[list[str]]:
        return [
            [zone.name for zone in (endpoint.hints.for_zones or ())] if endpoint.hints else []
            for item in world.control.slices.values()
            for endpoint in item.content.endpoints
        ]

    assert hints() == [["a", "c"], ["b", "c"], ["b", "c"]]
    # A change of one slice leaves the others as they are.
    world.take(report("m2", slices("10.2.0.1")))
    assert [effect.item.name for effect in world.decide().effects if isinstance(effect, PutSlice)] == BOTH[1:]
    world.settle()
    assert world.control.asked is not None
    world.control.asked = msgspec.structs.replace(world.control.asked, topology_mode=TOPOLOGY_OFF)
    made = world.decide()
    offs = [effect.item.content.endpoints[0].hints for effect in made.effects if isinstance(effect, PutSlice)]
    assert offs == [None, None]
