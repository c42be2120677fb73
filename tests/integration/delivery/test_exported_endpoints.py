"""A lane reports the endpoints of the Services that its cluster exports, and only those."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec import UnsetType

from schemas.events.observed import WorkObserved
from schemas.keys import ObjectKey
from schemas.manifest import Manifest
from services._rules.constants import DISPATCH_CONTROLLER, IMPORT_CONTROLLER, SERVICE_NAME_LABEL, SLICE_MANAGED_BY_LABEL
from services.apiserver.crds import generate

pytestmark = pytest.mark.asyncio(loop_scope="module")

DEFINITION = next(
    item for item in generate.definitions(optional=False) if item["spec"]["names"]["kind"] == "ServiceExport"
)


def service(name: str) -> Manifest:
    """A Service that selects pods of its name."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"app": name}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]},
    }


def deployment(name: str, replicas: int) -> Manifest:
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}},
        },
    }


def endpoint_slice(name: str, of: str, *addresses: str, manager: str = "") -> Manifest:
    labels = {SERVICE_NAME_LABEL: of, **({SLICE_MANAGED_BY_LABEL: manager} if manager else {})}
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address]} for address in addresses],
        "ports": [{"name": "http", "port": 8080}],
    }


def export(name: str) -> Manifest:
    return {
        "apiVersion": "multicluster.x-k8s.io/v1alpha1",
        "kind": "ServiceExport",
        "metadata": {"name": name, "namespace": "default"},
    }


async def write(member: Any, *manifests: Manifest) -> None:
    """What somebody in the member writes."""
    for manifest in manifests:
        await member.client.create(member.path(manifest).rpartition("/")[0], manifest)


def reported(event: WorkObserved) -> dict[str, list[str]] | None:
    """Addresses by slice, None where they are not known."""
    if isinstance(event.endpoints, UnsetType):
        return None
    return {item.name: sorted(a for each in item.endpoints for a in each.addresses) for item in event.endpoints}


async def exported(member: Any, name: str) -> ObjectKey:
    """The Service of this name is exported from now on; the key of its ServiceExport."""
    await member.apply(DEFINITION)
    event = await member.deliver(export(name))
    key: ObjectKey = event.key
    return key


async def until(member: Any, key: ObjectKey, holds: Callable[[dict[str, list[str]]], bool]) -> dict[str, list[str]]:
    event = await member.desk.until(key, lambda event: (found := reported(event)) is not None and holds(found))
    found = reported(event)
    assert found is not None
    return found


async def test_endpoints_follow_the_pods_of_an_exported_service(member: Any, fresh_name: str) -> None:
    await write(member, service(fresh_name), deployment(fresh_name, 2))
    key = await exported(member, fresh_name)
    # A slice that was made before the pods goes when there is one with their ports.
    found = await until(member, key, lambda found: [*map(len, found.values())] == [2])
    (live,) = [
        item
        for item in (await member.client.get("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"))["items"]
        if (item["metadata"].get("labels") or {}).get(SERVICE_NAME_LABEL) == fresh_name
    ]
    assert found == {live["metadata"]["name"]: sorted(each["addresses"][0] for each in live["endpoints"])}
    event = member.desk.latest[key]
    assert [(port.name, port.port) for port in event.endpoints[0].ports] == [("http", 8080)]
    await member.patch(deployment(fresh_name, 2), {"spec": {"replicas": 3}}, "scale")
    await until(member, key, lambda found: sum(map(len, found.values())) == 3)
    # Another lane, as after a restart, reports the same without being told of a change.
    desk = member.new_desk()
    other = desk.give(export(fresh_name))
    async with member.lane_of(desk) as lane:
        lane.look_at(other)
        again = await desk.until(other, lambda event: bool(reported(event)))
    assert reported(again) == reported(member.desk.latest[key])


async def test_slices_of_others_and_imported_ones_are_not_exported(member: Any, fresh_name: str) -> None:
    key = await exported(member, fresh_name)
    assert await until(member, key, lambda found: True) == {}, "a Service without slices is known to have none"
    own, other, moves = f"{fresh_name}-b", f"{fresh_name}-other", endpoint_slice(f"{fresh_name}-b", fresh_name)
    six = endpoint_slice(f"{fresh_name}-6", fresh_name, "fd00::1") | {"addressType": "IPv6"}
    await write(
        member,
        endpoint_slice(f"imported-m2-{fresh_name}", fresh_name, "10.8.0.1", manager=IMPORT_CONTROLLER),
        endpoint_slice(f"m2-{fresh_name}", fresh_name, "10.8.0.2", manager=DISPATCH_CONTROLLER),
        endpoint_slice(other, other, "10.9.0.3"),
        endpoint_slice(own, fresh_name, "10.9.0.2", manager="endpointslice-controller.k8s.io"),
        six,
    )
    assert await until(member, key, lambda found: len(found) == 2) == {
        own: ["10.9.0.2"],
        f"{fresh_name}-6": ["fd00::1"],
    }
    await member.client.delete(member.path(six))
    # One is changed, belongs to another Service from now on, and one of the other Service comes instead.
    await member.patch(moves, {"endpoints": [{"addresses": ["10.9.0.9"]}]})
    await until(member, key, lambda found: found == {own: ["10.9.0.9"]})
    await member.patch(moves, {"metadata": {"labels": {SERVICE_NAME_LABEL: other}}})
    await until(member, key, lambda found: found == {})
    await member.patch(endpoint_slice(other, other), {"metadata": {"labels": {SERVICE_NAME_LABEL: fresh_name}}})
    await until(member, key, lambda found: found == {other: ["10.9.0.3"]})


async def test_a_withdrawn_export_is_followed_no_more(member: Any, fresh_name: str) -> None:
    await write(member, endpoint_slice(fresh_name, fresh_name, "10.9.1.1"))
    key = await exported(member, fresh_name)
    await until(member, key, bool)
    member.desk.withdraw(key)
    member.lane.look_at(key)
    event = await member.desk.until(key, lambda event: event.absent)
    assert reported(event) is None
    count = len(member.desk.reports)
    await write(member, endpoint_slice(f"{fresh_name}-2", fresh_name, "10.9.1.2"))
    # What is given after it comes after it: nothing was said of the Service in between.
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": fresh_name, "namespace": "default"}}
    await member.apply(settings)
    assert [event.key.name for event in member.desk.reports[count:] if event.key == key] == []


def marker(name: str) -> Manifest:
    """What asks for the endpoints of a Service without being applied; the member does not serve its kind."""
    return {
        "apiVersion": "networking.karmada.io/v1alpha1",
        "kind": "MultiClusterService",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"types": ["CrossCluster"]},
    }


async def test_a_marker_is_answered_with_endpoints_only(member: Any, fresh_name: str) -> None:
    await write(member, endpoint_slice(fresh_name, fresh_name, "10.9.3.1"))
    assert reported(await member.deliver(service(f"{fresh_name}-alone"))) is None, "a Service exports nothing"
    key = member.desk.give(marker(fresh_name))
    member.lane.look_at(key)
    assert await until(member, key, bool) == {fresh_name: ["10.9.3.1"]}
    event = member.desk.latest[key]
    assert (event.applied, event.absent, event.reason) == (False, False, "")
    member.desk.withdraw(key)
    member.lane.look_at(key)
    await member.desk.until(key, lambda event: event.absent)


async def test_an_export_and_a_marker_share_their_slices(member: Any, fresh_name: str) -> None:
    await write(member, endpoint_slice(fresh_name, fresh_name, "10.9.4.1"))
    key = await exported(member, fresh_name)
    other = member.desk.give(marker(fresh_name))
    member.lane.look_at(other)
    for asked in (key, other):
        assert await until(member, asked, bool) == {fresh_name: ["10.9.4.1"]}
    member.desk.withdraw(key)
    member.lane.look_at(key)
    await member.desk.until(key, lambda event: event.absent)
    # The one that is left is told on.
    await write(member, endpoint_slice(f"{fresh_name}-b", fresh_name, "10.9.4.2"))
    await until(member, other, lambda found: len(found) == 2)
