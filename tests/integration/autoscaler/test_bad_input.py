"""The service does not scale on what it does not know, and says so: metrics, members, targets, schedules, clocks."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Raw

from schemas.events.autoscaling import ReplicasRecommended, ScheduleAdvanced
from schemas.keys import PolicyKey
from schemas.manifest import Manifest
from schemas.subjects import autoscaling
from services._kit.kube.client import resource_path
from services.autoscaler.decide import ASKED, DONE
from tests.integration.autoscaler.conftest import CPU, Stage
from tests.support.metric_member import CUSTOM, newer_value
from tests.support.waiting import comes_to, eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")
MINUTE = 60
RATE: Manifest = {
    "type": "Pods",
    "pods": {"metric": {"name": "rate"}, "target": {"type": "AverageValue", "averageValue": "10"}},
}


def facts_of(stage: Stage, name: str, kind: str = "FederatedHPA") -> list[Any]:
    """Facts about one autoscaler, from old to new."""
    return stage.house.read(autoscaling(PolicyKey(kind, "default", name)))


async def test_metric_that_hangs_scales_nothing_and_holds_up_no_other(stage: Stage) -> None:
    ground = stage.ground
    mute, busy = await stage.target(), await stage.target()
    ground.source.hangs = True
    await ground.use(mute.name, "5%")
    await ground.use(busy.name, "100%")
    async with stage.service():
        await ground.autoscaler(mute.name, metrics=[CPU, RATE])
        await ground.autoscaler(busy.name)
        message = await ground.says(mute.name, "ScalingActive", "FailedGetPodsMetric")
        assert "rate" in message
        await ground.come_to(busy.name, 8)
        assert await ground.replicas(mute.name) == 4
        # What one of its metrics asks for may be done: the other could only ask for more.
        await ground.use(mute.name, "100%")
        await ground.come_to(mute.name, 8)


@pytest.mark.parametrize("value", ["NaN", "-3"])
async def test_value_that_cannot_be_lowers_nothing(stage: Stage, value: str) -> None:
    ground = stage.ground
    web = await stage.target()
    pods = [pod for client in ground.clients.values() for pod in (await client.get("/api/v1/pods"))["items"]]
    names = [pod["metadata"]["name"] for pod in pods if pod["metadata"]["name"].startswith(web.name)]
    path, good = "namespaces/default/pods/*/rate", [newer_value(name, "1") for name in names]
    ground.source.custom(path, "v1beta2", *good[1:], newer_value(names[0], value))
    async with stage.service():
        await ground.autoscaler(web.name, metrics=[RATE])
        message = await ground.says(web.name, "ScalingActive", "FailedGetPodsMetric")
        assert value in message
        assert await ground.replicas(web.name) == 4
        ground.source.custom(path, "v1beta2", *good)
        await ground.come_to(web.name, 1)
    assert ground.source.heard[-1].path == f"/apis/{CUSTOM}/v1beta2/{path}"


async def test_member_that_is_lost_in_mid_scale_lowers_nothing(stage: Stage) -> None:
    ground, house = stage.ground, stage.house
    web = await stage.target()
    await ground.use(web.name, "100%")
    async with stage.service():
        await ground.autoscaler(web.name, maxReplicas=8)
        await ground.come_to(web.name, 8)
        await ground.says(web.name, "AbleToScale", "PlacementPending")
        # The replicas are on their way into the members when one of them is lost.
        await house.given(ground.cluster("m2", ready=False))
        await web.divided(4, 4)
        await ground.use(web.name, "5%")
        message = await ground.says(web.name, "ScalingLimited", "MembersUnknown")
        assert "cluster m2: the cluster is not ready" in message
        assert await ground.replicas(web.name) == 8
        await web.follows(4, 4)
        await house.given(ground.cluster("m2"))

        async def lowered() -> bool:
            return await ground.replicas(web.name) < 8

        await eventually(lowered, "fewer replicas")


async def test_member_that_refuses_to_answer_lowers_nothing(stage: Stage) -> None:
    ground = stage.ground
    web = await stage.target()
    await ground.ask("m2", "/faults", mode="refuse", status=503)
    await ground.use(web.name, "5%")
    async with stage.service():
        await ground.autoscaler(web.name)
        message = await ground.says(web.name, "ScalingActive", "FailedGetResourceMetric")
        assert "pods of cluster m2 are not known" in message
        assert await ground.replicas(web.name) == 4
        await ground.ask("m2", "/faults", mode="none")
        await ground.come_to(web.name, 1)


async def test_two_autoscalers_of_one_target_scale_nothing(stage: Stage) -> None:
    ground = stage.ground
    web = await stage.target()
    async with stage.service():
        await ground.autoscaler(web.name)
        await ground.autoscaler(f"{web.name}-other", web.name)
        for name in (web.name, f"{web.name}-other"):
            message = await ground.says(name, "ScalingActive", "AmbiguousSelector")
            assert web.name in message
        await ground.use(web.name, "100%")
        before = stage.rounds
        # One that began before may be under way.
        await eventually(lambda: stage.rounds > before + 1, "another round")
        assert await ground.replicas(web.name) == 4
        await ground.control.delete(ground.scaling("federatedhpas", f"{web.name}-other"))
        await ground.come_to(web.name, 8)


async def test_targets_and_limits_that_cannot_be_are_named(stage: Stage) -> None:
    ground, control = stage.ground, stage.ground.control
    web, swapped = await stage.target(), await stage.target()
    for name in (web.name, swapped.name):
        await ground.use(name, "100%")
    await control.create(resource_path("", "v1", "configmaps", "default"), {"metadata": {"name": "settings"}})
    await control.create(
        ground.path(), {**(await control.get(ground.path(web.name))), "metadata": {"name": "unbound"}, "status": {}}
    )
    without = {"scaleTargetRef": {"apiVersion": "v1", "kind": "ConfigMap", "name": "settings"}}
    unknown = {"scaleTargetRef": {"apiVersion": "example.io/v1", "kind": "Widget", "name": "w"}}
    async with stage.service():
        await ground.autoscaler(swapped.name, minReplicas=6, maxReplicas=3)
        await ground.autoscaler("settings", **without)
        await ground.autoscaler("unknown", **unknown)
        await ground.autoscaler("missing")
        await ground.autoscaler("unbound")
        assert "minReplicas 6 is above maxReplicas 3" in await ground.says(swapped.name, "AbleToScale", "InvalidLimits")
        for name, words in (
            ("settings", "ConfigMap default/settings does not exist, or has no scale"),
            ("unknown", "the control plane serves no Widget of example.io/v1"),
            ("missing", "Deployment default/missing does not exist, or has no scale"),
        ):
            assert words in await ground.says(name, "AbleToScale", "FailedGetScaleTargetRef")
        assert "no policy propagates" in await ground.says("unbound", "AbleToScale", "FailedGetBinding")
        # The others go on beside them.
        await ground.autoscaler(web.name)
        await ground.come_to(web.name, 8)
    assert (await ground.replicas(swapped.name), await ground.replicas("unbound")) == (4, 4)
    await control.delete(resource_path("", "v1", "configmaps", "default", "settings"))


async def test_change_asked_for_before_the_start_is_settled_once(stage: Stage) -> None:
    ground = stage.ground
    written, lost = await stage.target(3, 3), await stage.target(2, 2)
    for target in (written, lost):
        await ground.use(target.name, "50%")
        await ground.autoscaler(target.name)
        live = await ground.control.get(ground.scaling("federatedhpas", target.name))
        asked = ReplicasRecommended(
            key=PolicyKey("FederatedHPA", "default", target.name),
            uid=live["metadata"]["uid"],
            spec=Raw(b'{"maxReplicas": 10}'),
            generation=1,
            target=target.key,
            current=4,
            desired=6,
            recommended=6,
            reason="cpu above target",
            write=ASKED,
        )
        await stage.house.given(asked)
    async with stage.service():
        await eventually(lambda: all(len(facts_of(stage, each.name)) > 1 for each in (written, lost)))
        assert [facts_of(stage, each.name)[1].desired for each in (written, lost)] == [6, 6]
        done, failed = (facts_of(stage, each.name)[1].write for each in (written, lost))
        assert (done, "the target has 4 replicas" in failed) == (DONE, True)
        # What was not written is decided again, from what is read now.
        await ground.come_to(lost.name, 6)
        await eventually(lambda: [event.write for event in facts_of(stage, lost.name)][2:4] == [ASKED, DONE])
    assert [event.write for event in facts_of(stage, written.name)].count(DONE) == 1


async def test_schedule_that_cannot_be_read_is_named_and_others_go_on(stage: Stage) -> None:
    ground = stage.ground
    web = await stage.target()
    async with stage.service():
        bad = {"name": "last", "schedule": "0 0 L * *", "targetReplicas": 9}
        nowhere = {"name": "nowhere", "schedule": "* * * * *", "timeZone": "Mars/Olympus", "targetReplicas": 9}
        await ground.schedule(web.name, bad, nowhere, {"name": "good", "schedule": "* * * * *", "targetReplicas": 3})

        async def told() -> bool:
            return "StartRuleFailed" in await ground.warnings(web.name)

        await eventually(told, "the Event")
        await eventually(lambda: facts_of(stage, web.name, "CronFederatedHPA"))
        last, second, good = facts_of(stage, web.name, "CronFederatedHPA")[-1].rules
        assert "schedule '0 0 L * *' cannot be run" in last.problem
        assert "Mars/Olympus" in second.problem
        stage.clock.set(good.due + 1)
        await ground.come_to(web.name, 3)

        async def history() -> list[str]:
            found = await ground.control.get(ground.scaling("cronfederatedhpas", web.name))
            histories = (found.get("status") or {}).get("executionHistories") or ()
            return [item["ruleName"] for item in histories if item.get("successfulExecutions")]

        await comes_to("its history", history, ["good"])


async def test_clock_that_is_set_back_runs_no_rule_again(stage: Stage) -> None:
    ground = stage.ground
    web, other = await stage.target(), await stage.target()
    rule = {"name": "up", "schedule": "* * * * *", "targetReplicas": 6}

    def due(name: str) -> float:
        facts = facts_of(stage, name, "CronFederatedHPA")
        return (facts[-1].rules[0].due or 0.0) if facts else 0.0

    def ran(name: str) -> list[float]:
        facts = [event for event in facts_of(stage, name, "CronFederatedHPA") if isinstance(event, ScheduleAdvanced)]
        return sorted({run.scheduled for event in facts for run in event.rules[0].successes})

    async with stage.service():
        await ground.schedule(web.name, rule)
        served = await eventually(lambda: due(web.name), "its next run")
        stage.clock.set(served + 1)
        await eventually(lambda: ran(web.name) == [served])
        await ground.come_to(web.name, 6)
        await ground.control.patch(ground.path(web.name), {"spec": {"replicas": 1}})
        stage.clock.set(served - 2 * MINUTE + 1)
        # Another schedule, for which this minute is still to come, shows when it has come again.
        await ground.schedule(other.name, rule)
        await eventually(lambda: due(other.name) == served - MINUTE)
        stage.clock.set(served - MINUTE + 1)
        await eventually(lambda: ran(other.name) == [served - MINUTE])
        stage.clock.set(served + 1)
        await eventually(lambda: ran(other.name) == [served - MINUTE, served])
        assert (ran(web.name), await ground.replicas(web.name)) == ([served], 1)
        stage.clock.set(served + MINUTE + 1)
        await eventually(lambda: ran(web.name) == [served, served + MINUTE])
        await ground.come_to(web.name, 6)
