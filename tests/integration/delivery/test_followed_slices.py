"""What a cluster reports of the EndpointSlices of the Services that it exports."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from schemas.keys import ObjectKey
from schemas.manifest import Manifest
from services._kit.delivery.exported_endpoints import ExportedEndpoints
from services._kit.kube.client import KubeClient, resource_path
from services._rules.constants import DISPATCH_CONTROLLER, IMPORT_CONTROLLER, SLICE_MANAGED_BY_LABEL
from services.apiserver.kinds.kind_catalog import builtin_registry
from tests.support.serving import api_server
from tests.support.waiting import comes_to, eventually

KEY = ObjectKey("multicluster.x-k8s.io", "serviceexports", "default", "web")
SLICES = resource_path("discovery.k8s.io", "v1", "endpointslices", "default")


def slice_of(name: str, address: str, service: str = "web", manager: str = "", family: str = "IPv4") -> Manifest:
    labels = {"kubernetes.io/service-name": service, **({SLICE_MANAGED_BY_LABEL: manager} if manager else {})}
    return {
        "metadata": {"name": name, "labels": labels},
        "addressType": family,
        "endpoints": [{"addresses": [address]}],
        "ports": [{"name": "http", "port": 8080}],
    }


class Ground:
    """A member, and what is known of the slices of the exported Service."""

    def __init__(self, member: KubeClient) -> None:
        self.member = member
        self.told = 0
        self.exported = ExportedEndpoints(member, self._changed)

    def _changed(self, key: ObjectKey) -> None:
        assert key == KEY
        self.told += 1

    async def slices(self) -> dict[str, list[str]] | None:
        """Addresses by slice; None while they are not known."""
        found = self.exported.of(KEY)
        if found.slices is None:
            return None
        return {item.name: [each.addresses[0] for each in item.endpoints] for item in found.slices}


@pytest.fixture
async def ground(tmp_path: Path) -> AsyncIterator[Ground]:
    """A member whose slices are followed."""
    async with AsyncExitStack() as stack:
        member, _, _ = await api_server(stack, tmp_path, builtin_registry(), "member1")
        made = Ground(member)
        stack.callback(made.exported.close)
        yield made


async def test_only_slices_of_the_service_and_of_its_cluster_count(ground: Ground) -> None:
    await ground.member.create(SLICES, slice_of("web-a", "10.1.0.1", manager="endpointslice-controller.k8s.io"))
    await ground.member.create(SLICES, slice_of("web-6", "fd00::1", family="IPv6"))
    await ground.member.create(SLICES, slice_of("imported-m2-web-a", "10.2.0.1", manager=IMPORT_CONTROLLER))
    await ground.member.create(SLICES, slice_of("m2-web-a", "10.2.0.2", manager=DISPATCH_CONTROLLER))
    await ground.member.create(SLICES, slice_of("other-a", "10.3.0.1", service="other"))
    own = {"web-6": ["fd00::1"], "web-a": ["10.1.0.1"]}
    await comes_to("slices", ground.slices, own)
    # One is delivered later, another one is changed, moved to another Service, and back.
    await ground.member.create(SLICES, slice_of("imported-m2-web-b", "10.2.0.3", manager=IMPORT_CONTROLLER))
    await ground.member.patch(f"{SLICES}/web-a", {"endpoints": [{"addresses": ["10.1.0.9"]}]})
    await comes_to("slices", ground.slices, {**own, "web-a": ["10.1.0.9"]})
    moved = {"metadata": {"labels": {"kubernetes.io/service-name": "other"}}}
    await ground.member.patch(f"{SLICES}/web-a", moved)
    await comes_to("slices", ground.slices, {"web-6": ["fd00::1"]})
    await ground.member.patch(f"{SLICES}/other-a", {"metadata": {"labels": {"kubernetes.io/service-name": "web"}}})
    await comes_to("slices", ground.slices, {"web-6": ["fd00::1"], "other-a": ["10.3.0.1"]})
    await ground.member.delete(f"{SLICES}/web-6")
    await comes_to("slices", ground.slices, {"other-a": ["10.3.0.1"]})


async def test_a_service_without_slices_is_known_to_have_none(ground: Ground) -> None:
    await comes_to("slices", ground.slices, {})
    told = ground.told
    assert told > 0
    await ground.member.create(SLICES, slice_of("web-a", "10.1.0.1"))
    await comes_to("slices", ground.slices, {"web-a": ["10.1.0.1"]})
    await eventually(lambda: ground.told > told)
    ground.exported.leave(KEY)
    assert await ground.slices() is None
