"""Rounds: who waits for which member, whose pods are whose, and how scales are read and written."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from schemas.codec import subject_of
from schemas.keys import ObjectKey, PolicyKey
from services._kit.kube.client import JSON_PATCH, ApiError, Unreachable
from services.autoscaler.reading import sample_questions
from services.autoscaler.reading.member_pods import PodUse
from services.autoscaler.reading.object_watch import Watched
from services.autoscaler.reading.pod_index import PodIndex, Shapes
from services.autoscaler.reading.pod_owners import PodOwners
from services.autoscaler.reading.rounds import Rounds
from services.autoscaler.reading.scale_access import Moved, Scale, Scales
from services.autoscaler.scaling_effects import Round
from services.autoscaler.settings import AutoscalerSettings
from services.autoscaler.state import AutoscalerState, fold
from tests.support import facts

NOW = 1_793_232_000.0
SETTINGS = AutoscalerSettings(control_kubeconfig="unused")


class Member:
    """A member whose pods are known; it answers with samples once it may."""

    def __init__(self, *pods: str) -> None:
        self.index = PodIndex()
        self.known = ""
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.refuses = False
        self.pods = pods
        shapes = Shapes(frozenset({"default"}))
        found = [shapes.shape(_pod(name)) for name in pods]
        self.index.listed([shape for shape in found if shape is not None])

    async def opened(self, timeout: float) -> None:
        del timeout

    async def samples(self, namespace: str, timeout: float) -> dict[tuple[str, str], PodUse]:
        del timeout
        assert namespace == "default"
        await self.may_answer.wait()
        if self.refuses:
            raise Unreachable("no answer within 5 s")
        return {("default", name): PodUse(NOW, 15.0, (("app", {"cpu": 80}),)) for name in self.pods}


def _pod(name: str) -> bytes:
    return msgspec.json.encode(
        {
            "metadata": {"name": name, "namespace": "default", "labels": {"app": name.split("-")[0]}},
            "spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "100m"}}}]},
            "status": {
                "phase": "Running",
                "startTime": "2020-01-01T00:00:00Z",
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2020-01-01T00:01:00Z"}],
            },
        }
    )


class KnownScales:
    """Scales that need no request: every target has one replica, and a selector by its name or another one."""

    def __init__(self, selectors: Mapping[str, str]) -> None:
        self._selectors = selectors

    def known(self, key: ObjectKey, uid: str, generation: int) -> Scale:
        del uid, generation
        return Scale(1, self._selectors.get(key.name, f"app={key.name}"))


class Ground:
    """FederatedHPAs of Deployments, each with one replica in one cluster: `placed` is cluster by name."""

    def __init__(
        self,
        selectors: Mapping[str, str] | None = None,
        settings: AutoscalerSettings = SETTINGS,
        /,
        **placed: str,
    ) -> None:
        self.state = AutoscalerState()
        self.members = {cluster: Member() for cluster in placed.values()}
        events: list[Any] = [facts.member(cluster) for cluster in self.members]
        for name, cluster in placed.items():
            key = facts.key(name)
            given = msgspec.structs.replace(facts.placement(**{cluster: 1}), key=key, binding_generation=1)
            events += [facts.binding(1, name=name), given, facts.rollup(name=name, **{cluster: {"replicas": 1}})]
        for cluster in self.members:
            names = [f"{name}-0" for name, place in placed.items() if place == cluster]
            self.members[cluster] = Member(*names)
        for seq, event in enumerate(events, 1):
            list(fold(self.state, seq, subject_of(event), event))
        self.followed: list[Mapping[str, frozenset[str]]] = []
        self.watched = {PolicyKey("FederatedHPA", "default", name): _watched(name) for name in placed}
        scales: Any = KnownScales(selectors or {})
        members: Any = self.members
        source: Any = None
        self.rounds = Rounds(settings, self.state, scales, source, members, self.followed.append)
        self.found: list[Round] = []

    async def read(self, *only: str) -> list[Round]:
        """One round, of all or of some; what is handed over is in `found`."""
        self.found.clear()
        keys = {PolicyKey("FederatedHPA", "default", name) for name in only} or None
        return await self.rounds.read(self.watched, lambda: NOW, self.found.extend, keys)

    def names(self) -> list[str]:
        return sorted(given.key.name for given in self.found)


def _watched(name: str) -> Watched:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}
    spec = {"scaleTargetRef": target, "maxReplicas": 5, "metrics": [{"type": "Resource", "resource": cpu}]}
    metadata = {"uid": f"h-{name}", "labels": {}, "annotations": {}}
    return Watched(f"h-{name}", 1, Raw(msgspec.json.encode(spec)), metadata, {}, target)


def usage(given: Round) -> int:
    (reading,) = given.readings
    assert reading.pods is not None, reading.problem
    return reading.pods.usage


async def test_member_that_is_slow_holds_up_only_what_runs_there() -> None:
    ground = Ground(web="m1", api="m2")
    await ground.read()
    ground.members["m2"].may_answer.clear()
    ground.found.clear()
    reading = asyncio.create_task(ground.read())
    async with asyncio.timeout(30):
        while not ground.found:  # noqa: ASYNC110 - what it waits for is in its own loop
            await asyncio.sleep(0)
        assert (ground.names(), reading.done()) == (["web"], False)
        assert usage(ground.found[0]) == 80
        ground.members["m2"].may_answer.set()
        assert len(await reading) == 2
    assert ground.names() == ["api", "web"]


async def test_first_round_is_handed_over_once_all_of_it_is_known() -> None:
    ground = Ground(web="m1", api="m2")
    ground.members["m2"].may_answer.clear()
    reading = asyncio.create_task(ground.read())
    for _ in range(50):
        await asyncio.sleep(0)
    assert (ground.found, reading.done()) == ([], False)
    ground.members["m2"].may_answer.set()
    async with asyncio.timeout(30):
        await reading
    assert ground.names() == ["api", "web"]


async def test_member_without_an_answer_is_a_problem_of_the_metric() -> None:
    ground = Ground(web="m1", api="m2")
    ground.members["m2"].refuses = True
    found = {given.key.name: given for given in await ground.read()}
    assert usage(found["web"]) == 80
    assert "no answer within 5 s" in found["api"].readings[0].problem
    assert ground.rounds.samples.problems == {"m1": "", "m2": "no answer within 5 s"}


async def test_members_that_did_not_answer_are_asked_last() -> None:
    one = AutoscalerSettings(control_kubeconfig="unused", metrics_at_once=1)
    ground = Ground({}, one, web="m1", api="m2")
    ground.members["m1"].refuses = True
    await ground.read()
    ground.members["m1"].may_answer.clear()
    ground.found.clear()
    reading = asyncio.create_task(ground.read())
    async with asyncio.timeout(30):
        while not ground.found:  # noqa: ASYNC110 - what it waits for is in its own loop
            await asyncio.sleep(0)
    assert ground.names() == ["api"]
    ground.members["m1"].may_answer.set()
    async with asyncio.timeout(30):
        await reading


async def test_members_beyond_the_first_are_asked_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample_questions, "_LONGEST_GAP", 1000.0)
    patient = AutoscalerSettings(control_kubeconfig="unused", horizontal_pod_autoscaler_sync_period=1e6)
    ground = Ground({}, patient, **{f"app{number}": f"m{number:02}" for number in range(20)})
    reading = asyncio.create_task(ground.read())
    async with asyncio.timeout(30):
        while len(ground.rounds.samples.problems) < 8:  # noqa: ASYNC110 - what it waits for is in its own loop
            await asyncio.sleep(0)
    for _ in range(50):
        await asyncio.sleep(0)
    assert sorted(ground.rounds.samples.problems) == [f"m{number:02}" for number in range(8)]
    reading.cancel()
    monkeypatch.setattr(sample_questions, "_LONGEST_GAP", 0.001)
    async with asyncio.timeout(30):
        assert len(await ground.read()) == 20


async def test_conflict_outlives_a_round_that_broke_off() -> None:
    owners, (first, second) = PodOwners(), [PolicyKey("FederatedHPA", "default", name) for name in ("web", "api")]
    owners.begin({}, [first, second], everything=True)
    for key in (first, second):
        owners.take(("m1", "default", "web-0"), key)
    assert not owners.known
    owners.begin({}, [first, second], everything=True)
    assert owners.rival(first) == "api"
    owners.end(everything=True)
    assert (owners.known, owners.rival(first)) == (True, None)


async def test_pods_of_two_autoscalers_are_scaled_by_neither() -> None:
    ground = Ground({"web": "app in (web,api)"}, web="m1", api="m1", db="m1")
    refused = {given.key.name: given.refusal for given in await ground.read()}
    assert refused["db"] is None
    for name, other in (("web", "api"), ("api", "web")):
        refusal = refused[name]
        assert refusal is not None
        assert (refusal.reason, f"default/{other}" in refusal.message) == ("AmbiguousSelector", True)
    # Whichever is read first in the next round, both are known.
    await ground.read("web")
    assert ground.found[0].refusal is not None
    ground.watched.pop(PolicyKey("FederatedHPA", "default", "api"))
    await ground.read()
    await ground.read()
    assert [given.refusal for given in ground.found if given.key.name == "web"] == [None]


async def test_autoscaler_of_pods_of_another_is_refused_at_once() -> None:
    ground = Ground({"api": "app in (web,api)"}, web="m1", api="m1")
    late = ground.watched.pop(PolicyKey("FederatedHPA", "default", "api"))
    await ground.read()
    ground.watched[PolicyKey("FederatedHPA", "default", "api")] = late
    await ground.read("api")
    assert ground.found[0].refusal is not None


async def test_an_error_of_one_is_an_error_of_the_round() -> None:
    ground = Ground(web="m1")

    async def broken(namespace: str, timeout: float) -> dict[tuple[str, str], PodUse]:
        raise ZeroDivisionError(f"{namespace} {timeout}")

    ground.members["m1"].samples = broken  # type: ignore[method-assign]
    with pytest.raises(ZeroDivisionError):
        await ground.read()


class Control:
    """A control plane with one scale; `requests` are what it was asked."""

    def __init__(self, replicas: int, refuses: int = 0) -> None:
        self.replicas, self.refuses = replicas, refuses
        self.requests: list[str] = []

    def _scale(self) -> dict[str, Any]:
        return {"spec": {"replicas": self.replicas}, "status": {"selector": "app=web"}}

    async def get(self, path: str) -> dict[str, Any]:
        self.requests.append(f"GET {path}")
        return self._scale()

    async def update(self, path: str, scale: Mapping[str, Any]) -> None:
        self.requests.append(f"PUT {path}")
        self.replicas = scale["spec"]["replicas"]

    async def patch(self, path: str, body: bytes, content_type: str) -> dict[str, Any]:
        self.requests.append(f"PATCH {path}")
        assert content_type == JSON_PATCH
        if self.refuses:
            raise ApiError(self.refuses, "Refused", "no")
        test, change = msgspec.json.decode(body)
        assert (test["op"], test["path"], change["path"]) == ("test", "/spec/replicas", "/spec/replicas")
        if test["value"] != self.replicas:
            raise ApiError(422, "Invalid", "the test failed")
        self.replicas = change["value"]
        return self._scale()

    @property
    def verbs(self) -> list[str]:
        return [request.split()[0] for request in self.requests]


WEB = facts.key("web")


def scales(control: Control) -> Scales:
    return Scales(control)  # type: ignore[arg-type]  # only these requests are used


async def test_replicas_are_changed_by_one_request_and_known_then() -> None:
    control = Control(2)
    known = scales(control)
    await known.read(WEB, "apps/v1", "u1", 7)
    control.requests.clear()
    assert await known.write(WEB, "apps/v1", 4, 2)
    assert control.verbs == ["PATCH"]
    assert known.known(WEB, "u1", 7) is None
    assert known.known(WEB, "u1", 8) == Scale(4, "app=web")
    assert known.known(WEB, "u1", 9) is None
    assert known.known(WEB, "u2", 8) is None


async def test_replicas_that_others_changed_are_left_alone() -> None:
    control = Control(3)
    with pytest.raises(Moved, match="the target has 3 replicas by now, the decision was made from 2"):
        await scales(control).write(WEB, "apps/v1", 4, 2)
    assert (control.replicas, control.verbs) == (3, ["PATCH", "GET"])
    assert not await scales(Control(4)).write(WEB, "apps/v1", 4, 2)


@pytest.mark.parametrize("status", [403, 405, 415])
async def test_scale_that_takes_no_such_patch_is_written_whole(status: int) -> None:
    control = Control(2, refuses=status)
    known = scales(control)
    await known.read(WEB, "apps/v1", "u1", 7)
    assert await known.write(WEB, "apps/v1", 4, 2)
    assert (control.replicas, control.verbs) == (4, ["GET", "PATCH", "GET", "PUT"])
    assert known.known(WEB, "u1", 8) is None


async def test_missing_target_is_an_error() -> None:
    with pytest.raises(ApiError):
        await scales(Control(2, refuses=404)).write(WEB, "apps/v1", 4, 2)
