"""Faults: exported Services while the networking service dies, and while a cluster that exports is not heard.

EndpointSlices are written into the exporting members directly and change all the time; a third member imports them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Final

from schemas.codec import decode
from schemas.events.endpoints import EndpointsCollected, EndpointsEvent, EndpointsReleased
from schemas.manifest import Manifest
from schemas.subjects import escape
from services._kit.base.fault_points import Point
from services._kit.kube.client import ApiError, resource_path
from services._rules.names import imported_endpoint_slice_name
from services.cli.common.layout import CONTROL
from tests.e2e.space import clusters, propagation
from tests.faults.checker import Audits
from tests.faults.checker_log import chains
from tests.faults.checker_services import content, differences, facts, rewritten
from tests.faults.checker_writes import writes
from tests.faults.ground_network import Faraway
from tests.faults.scene import Scene

SERVICE: Final = "networking"
SILENT_AFTER: Final = 8.0
"""Seconds after which a cluster that is not heard does not count in these rounds."""
FLAPS: Final = 3
FLAP_SECONDS: Final = 5.0
LATE_SECONDS: Final = 10.0
"""Within which an importing member follows; on a busy machine."""
_LOOK: Final = 0.2
_GROUP: Final = "multicluster.x-k8s.io"
_NEAR: Final = "member1"
_FAR: Final = "member3"
"""A pull member: its agent is what is cut off."""
_IMPORTER: Final = "member2"
_KILLS: Final[tuple[tuple[Point, str], ...]] = (
    ("before_append", ""),
    ("after_append", ""),
    ("before_act", "/endpointslices"),
    ("after_act", "/endpointslices"),
)
"""Where it dies: around storing facts, and around writing what follows from them."""


class Unheard(Faraway):
    """The agent's network can be taken away, and what it reported last counts for a few seconds."""

    def environment(self) -> dict[str, str]:
        """Settings of every service."""
        return {**super().environment(), "FLEETLOG_SILENT_ENDPOINTS_AFTER": str(SILENT_AFTER)}


class _Exports:
    """The Services of a round: `web` of two members and `solo` of the pull member alone, imported by a third."""

    exporters: Final = {"web": (_NEAR, _FAR), "solo": (_FAR,)}

    def __init__(self, scene: Scene) -> None:
        self.namespace = f"{scene.namespace}-services"
        self._scene = scene
        self._count = 0
        self._slices = self.path("discovery.k8s.io", "v1", "endpointslices")

    def path(self, group: str, version: str, plural: str, name: str = "") -> str:
        """URL path of objects of the round."""
        return resource_path(group, version, plural, self.namespace, name)

    async def prepare(self) -> None:
        """Export, import, and wait until the importing member has what is exported."""
        control, members = self._scene.eyes.control, self._scene.eyes.members
        named = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
        kinds = [{**named, "name": f"{kind}.{_GROUP}"} for kind in ("serviceexports", "serviceimports")]
        spec = {"resourceSelectors": kinds, "placement": clusters(*members), "conflictResolution": "Overwrite"}
        policies = resource_path("policy.karmada.io", "v1alpha1", "clusterpropagationpolicies")
        with suppress(ApiError):
            # Rounds of one installation share it.
            await control.create(policies, {"metadata": {"name": "multicluster-services"}, "spec": spec})
        await control.create(resource_path("", "v1", "namespaces"), {"metadata": {"name": self.namespace}})
        for name, exporters in self.exporters.items():
            await self._policy("ServiceExport", name, exporters)
            await self._policy("ServiceImport", name, (_IMPORTER,))
        for name, exporters in self.exporters.items():
            api = {"apiVersion": f"{_GROUP}/v1alpha1", "metadata": {"name": name}}
            await control.create(self.path(_GROUP, "v1alpha1", "serviceexports"), {**api, "kind": "ServiceExport"})
            asked = {"type": "ClusterSetIP", "ports": [{"name": "http", "port": 80}]}
            item = {**api, "kind": "ServiceImport", "spec": asked}
            await control.create(self.path(_GROUP, "v1alpha1", "serviceimports"), item)
            for member in exporters:
                await self._scene.wait(f"{member} has the namespace", self._has_namespace(member))
                for slice_name in (f"{name}-a", f"{name}-b"):
                    await members[member].create(self._slices, self._slice(slice_name, name))
        await self.arrive()

    async def _policy(self, kind: str, name: str, members: Iterable[str]) -> None:
        selector = {"apiVersion": f"{_GROUP}/v1alpha1", "kind": kind, "name": name}
        path = self.path("policy.karmada.io", "v1alpha1", "propagationpolicies")
        policy = propagation(f"{kind.lower()}-{name}", [selector], clusters(*members))
        await self._scene.eyes.control.create(path, policy)

    def _has_namespace(self, member: str) -> Callable[[], Awaitable[bool]]:
        async def look() -> bool:
            with suppress(ApiError):
                return bool(
                    await self._scene.eyes.members[member].get(
                        resource_path("", "v1", "namespaces", "", self.namespace)
                    )
                )
            return False

        return look

    def _slice(self, name: str, service: str) -> Manifest:
        return {
            "metadata": {"name": name, "labels": {"kubernetes.io/service-name": service}},
            "addressType": "IPv4",
            "endpoints": [self._endpoint() for _ in range(self._scene.chance.randint(1, 4))],
            "ports": [{"name": "http", "port": 8080}],
        }

    def _endpoint(self) -> Manifest:
        self._count += 1
        return {"addresses": [f"10.77.{self._count >> 8 & 255}.{self._count & 255}"], "conditions": {"ready": True}}

    async def change(self, member: str = "") -> None:
        """One endpoint of a member comes, goes, or turns; or a slice comes or goes. `web-a` always has a ready one."""
        chance = self._scene.chance
        member = member or chance.choice((_NEAR, _FAR))
        service = chance.choice([name for name, members in self.exporters.items() if member in members])
        client, name = self._scene.eyes.members[member], f"{service}-{chance.choice('abc')}"
        path = f"{self._slices}/{name}"
        try:
            endpoints = list((await client.get(path)).get("endpoints") or ())
        except ApiError as error:
            if error.status != 404:
                raise
            await client.create(self._slices, self._slice(name, service))
            return
        if name.endswith("c") and chance.random() < 0.3:
            await client.delete(path)
            return
        first, others = endpoints[:1], endpoints[1:]
        if others and chance.random() < 0.4:
            others.pop(chance.randrange(len(others)))
        elif others and chance.random() < 0.4:
            turned = others[chance.randrange(len(others))]
            turned["conditions"] = {"ready": not turned["conditions"]["ready"]}
        else:
            others.append(self._endpoint())
        await client.patch(path, {"endpoints": first + others})

    async def offered(self) -> dict[tuple[str, str], dict[str, bool]]:
        """What members have, by member and name of the slice."""
        found = {}
        for member in (_NEAR, _FAR):
            listed = await self._scene.eyes.members[member].get(self._slices)
            found.update({(member, item["metadata"]["name"]): content(item) for item in listed["items"]})
        return found

    async def imported(self) -> dict[str, dict[str, bool]]:
        """What the importing member has, by name of the slice."""
        found = await self._scene.eyes.members[_IMPORTER].get(self._slices)
        return {item["metadata"]["name"]: content(item) for item in found["items"]}

    async def arrive(self, left_out: Callable[[str, str], bool] = lambda _member, _slice: False) -> None:
        """Wait until the importing member has exactly what is offered, less what is left out (by member and slice)."""

        async def look() -> bool:
            return not await self.lacking(left_out)

        await self._scene.wait("the importing member has what is offered", look)
        self._scene.outcome.complaints += await self.lacking(left_out)

    async def lacking(self, left_out: Callable[[str, str], bool]) -> list[str]:
        """What the importing member has too much, too little, or otherwise."""
        wanted = {
            imported_endpoint_slice_name(name, member): found
            for (member, name), found in (await self.offered()).items()
            if not left_out(member, name)
        }
        return differences(_IMPORTER, wanted, await self.imported())

    async def check(self, control: Audits, members: Audits, since: int) -> list[str]:
        """What the log and the audit logs say of all that happened."""
        messages = await self._scene.history(f"endpoints.*.{escape(self.namespace)}.*")
        found: dict[tuple[str, str], list[EndpointsEvent]] = {}
        for message in messages:
            event = decode(message.subject, message.data)
            assert isinstance(event, EndpointsCollected | EndpointsReleased)
            found.setdefault((event.cluster, event.name), []).append(event)
        offered = await self.offered()
        complaints = chains(messages, since)
        for place in sorted(found.keys() | offered.keys()):
            complaints += facts(found.get(place, ()), offered.get(place))
        given = {
            imported_endpoint_slice_name(name, member): sum(isinstance(event, EndpointsCollected) for event in events)
            for (member, name), events in found.items()
        }
        complaints += rewritten((record for _, record in control.by("fleetlog:networking")), self.namespace, given)
        works = await self._scene.history(f"work.*.*.{escape(self.namespace)}.*")
        complaints += writes(works, members.ours(), self.namespace)
        complaints += await self.lacking(lambda _member, _slice: False)
        self._scene.outcome.checks |= {"facts about endpoints": len(messages), "imported slices": len(offered)}
        self._scene.outcome.notes.append(f"{len(messages)} facts about endpoints")
        return complaints

    async def remove(self) -> None:
        """Delete everything."""
        await self._scene.eyes.control.delete(resource_path("", "v1", "namespaces", "", self.namespace))


async def _round(scene: Scene, play: Callable[[_Exports], Awaitable[None]]) -> None:
    """Export, play a fault, and check that everything that is offered is imported, and nothing else."""
    control = Audits({CONTROL: scene.fleet.layout.audit(CONTROL)})
    members = Audits({name: scene.fleet.layout.audit(name) for name in scene.fleet.members})
    before = await scene.eyes.last_seq()
    exports = _Exports(scene)
    await exports.prepare()
    await play(exports)
    await exports.arrive()
    scene.outcome.complaints += await scene.settle()
    scene.outcome.complaints += await exports.check(control, members, before)
    await exports.remove()


async def killed(scene: Scene) -> None:
    """kill -9 of networking at every one of its points in turn, while endpoints change."""
    points = list(_KILLS)
    scene.chance.shuffle(points)

    async def play(exports: _Exports) -> None:
        async def kill() -> None:
            for point, what in points:
                await _kill_at(scene, exports, point, what)

        await scene.under_load(kill, at=0.0)

    await _round(scene, play)


async def _kill_at(scene: Scene, exports: _Exports, point: Point, what: str) -> None:
    dead = scene.fleet.pid(SERVICE)
    scene.ground.order(SERVICE, point, scene.chance.randint(1, 4), what)

    async def died() -> bool:
        if SERVICE not in scene.ground.ordered():
            return True
        await exports.change()
        return False

    async def back() -> bool:
        await exports.change()
        return await scene.back(SERVICE, dead)

    await scene.wait(f"networking comes to {point} {what}", died)
    await scene.wait(f"networking is back after {point} {what}", back)


def _unheard(scene: Scene) -> Unheard:
    assert isinstance(scene.ground, Unheard)
    return scene.ground


async def away(scene: Scene, seconds: float = 24.0) -> None:
    """A cluster is not heard for a while: what others offer leaves at once, what only it offers in its time."""
    ground = _unheard(scene)
    cut = scene.outcome.number % 2 == 0

    async def play(exports: _Exports) -> None:
        await scene.under_load()
        await asyncio.to_thread(ground.away, cut)
        ends = time.monotonic() + seconds
        await scene.wait(f"{_FAR} is Unknown", lambda: scene.shown(_FAR, "Unknown"))
        noticed = time.monotonic()
        solo = {imported_endpoint_slice_name(f"solo-{which}", _FAR) for which in "ab"}
        web = {imported_endpoint_slice_name(f"web-{which}", _FAR) for which in "abc"}
        kept = 0.0
        while time.monotonic() < ends:
            await exports.change(_NEAR)
            found, since = await exports.imported(), time.monotonic() - noticed
            if since > LATE_SECONDS and web & found.keys():
                scene.outcome.complaints.append(f"{since:.1f} s after {_FAR} was lost web is sent there")
            if solo <= found.keys():
                kept = since
            elif since < SILENT_AFTER - 2.0:
                scene.outcome.complaints.append(f"{since:.1f} s after {_FAR} was lost its own Service is gone")
            if since > SILENT_AFTER + LATE_SECONDS and solo & found.keys():
                scene.outcome.complaints.append(f"{since:.1f} s after {_FAR} was lost its endpoints are there")
            await asyncio.sleep(_LOOK)
        await exports.arrive(lambda member, _slice: member == _FAR)
        # What changes there while it is not heard is offered once it is.
        for _ in range(5):
            await exports.change(_FAR)
        await asyncio.to_thread(ground.back)
        await scene.wait(f"{_FAR} is Ready", lambda: scene.shown(_FAR, "True"))
        how = "connections cut" if cut else "everything held back"
        scene.outcome.notes.append(f"{how} for {seconds:.0f} s, the only one of a Service kept for {kept:.1f} s")

    await _round(scene, play)


async def long_away(scene: Scene) -> None:
    """The same, for two minutes."""
    await away(scene, 120.0)


async def flapping(scene: Scene) -> None:
    """A cluster comes and goes: the endpoints of the other are there all the time, and no change is lost."""
    ground = _unheard(scene)

    async def play(exports: _Exports) -> None:
        steady = imported_endpoint_slice_name("web-a", _NEAR)
        lost = 0

        async def churn(ends: float) -> bool:
            unknown = False
            while time.monotonic() < ends:
                await exports.change()
                if not (await exports.imported()).get(steady):
                    scene.outcome.complaints.append(f"{steady} was not there while {_FAR} came and went")
                unknown = unknown or await scene.shown(_FAR, "Unknown")
                await asyncio.sleep(_LOOK)
            return unknown

        async def flap() -> None:
            nonlocal lost
            for number in range(FLAPS):
                await asyncio.to_thread(ground.away, bool(number % 2))
                lost += await churn(time.monotonic() + FLAP_SECONDS)
                await asyncio.to_thread(ground.back)
                await churn(time.monotonic() + FLAP_SECONDS / 2)

        await scene.under_load(flap, at=0.1)
        await scene.wait(f"{_FAR} is Ready", lambda: scene.shown(_FAR, "True"))
        if not lost:
            scene.outcome.complaints.append(f"{_FAR} was never shown as Unknown")
        scene.outcome.notes.append(f"{FLAPS} times away, {lost} times shown as Unknown")

    await _round(scene, play)
