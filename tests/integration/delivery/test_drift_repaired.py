"""What is changed in a member is put back, and told with the field and the writer; a fight about it calms down."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.events.observed import Drift
from schemas.manifest import Manifest
from services._kit.kube.client import ApiError
from services._rules.delivery.drift import WHOLE

pytestmark = pytest.mark.asyncio(loop_scope="module")


def config_map(name: str, **data: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": data}


def deployment(name: str) -> Manifest:
    labels = {"app": name}
    container = {"name": "web", "image": "web:1", "resources": {"limits": {"memory": "64Mi"}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def told(drift: tuple[Drift, ...]) -> list[tuple[str, str]]:
    return [(item.field, item.manager) for item in drift]


async def test_an_edited_field_is_put_back_and_told_with_its_writer(member: Any, fresh_name: str) -> None:
    web = deployment(fresh_name)
    await member.apply(web)
    containers = [{**web["spec"]["template"]["spec"]["containers"][0], "image": "web:evil"}]
    spec = {"replicas": 3, "template": {"spec": {"containers": containers}}}
    await member.patch(web, {"spec": spec}, manager="kubectl-edit")
    key = next(key for key in member.desk.works if key.name == fresh_name)
    event = await member.desk.until(key, lambda event: bool(event.drift))
    assert sorted(told(event.drift)) == [
        (".spec.replicas", "kubectl-edit"),
        ('.spec.template.spec.containers[name="web"].image', "kubectl-edit"),
    ]
    assert (event.operation, event.applied) == ("updated", True)
    assert all(item.operation == "Update" and item.at > 0 for item in event.drift)
    live = await member.live(web)
    assert (live["spec"]["replicas"], live["spec"]["template"]["spec"]["containers"][0]["image"]) == (1, "web:1")


async def test_scale_change_is_reported_with_its_manager(member: Any, fresh_name: str) -> None:
    web = deployment(fresh_name)
    await member.apply(web)
    await member.patch(web, {"spec": {"replicas": 4}}, "scale", "horizontal-pod-autoscaler")
    key = next(key for key in member.desk.works if key.name == fresh_name)
    event = await member.desk.until(key, lambda event: bool(event.drift))
    assert told(event.drift) == [(".spec.replicas", "horizontal-pod-autoscaler")]


async def test_what_was_deleted_is_created_again_and_told(member: Any, fresh_name: str) -> None:
    settings = config_map(fresh_name, a="1")
    before = await member.apply(settings)
    await member.client.delete(member.path(settings))
    key = next(key for key in member.desk.works if key.name == fresh_name)
    event = await member.desk.until(key, lambda event: bool(event.drift))
    assert (told(event.drift), event.operation) == ([(WHOLE, "")], "created")
    assert (await member.live(settings))["metadata"]["uid"] != before["metadata"]["uid"]


async def test_a_new_work_is_no_drift(member: Any, fresh_name: str) -> None:
    key = member.desk.give(config_map(fresh_name, a="1"))
    for text in ("1", "2", "3"):
        await member.apply(config_map(fresh_name, a=text))
    assert not any(event.drift for event in member.desk.reports if event.key == key)


async def test_an_object_withdrawn_and_given_again_is_no_drift(member: Any, fresh_name: str) -> None:
    settings = config_map(fresh_name, a="1")
    await member.apply(settings)
    key = member.desk.give(settings)
    member.desk.withdraw(key)
    member.lane.look_at(key)
    await member.desk.until(key, lambda event: event.absent)
    await member.apply(settings)
    assert not any(event.drift for event in member.desk.reports if event.key == key)


async def test_what_the_member_adds_is_neither_undone_nor_told(member: Any, fresh_name: str) -> None:
    web = deployment(fresh_name)
    await member.apply(web)
    await member.patch(web, {"metadata": {"annotations": {"team": "a"}}, "spec": {"minReadySeconds": 1}})
    generation = (await member.live(web))["metadata"]["generation"]
    key = next(key for key in member.desk.works if key.name == fresh_name)
    await member.desk.until(key, lambda event: event.member_generation == generation)
    live = await member.live(web)
    assert (live["spec"]["minReadySeconds"], live["metadata"]["annotations"]["team"]) == (1, "a")
    assert not any(event.drift for event in member.desk.reports if event.key == key)


async def test_values_of_a_secret_are_not_told(member: Any, fresh_name: str) -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": fresh_name, "namespace": "default"},
        "data": {"password": "b2xk"},
    }
    await member.apply(secret)
    await member.patch(secret, {"data": {"password": "bmV3", "more": "bmV3"}}, manager="kubectl-edit")
    key = next(key for key in member.desk.works if key.name == fresh_name)
    event = await member.desk.until(key, lambda event: bool(event.drift))
    assert told(event.drift) == [(".data", "kubectl-edit")]
    assert (await member.live(secret))["data"] == {"password": "b2xk"}


async def test_object_of_another_manager_is_refused(member: Any, fresh_name: str) -> None:
    settings = config_map(fresh_name, a="1")
    live = await member.apply(settings)
    label = dict.fromkeys(live["metadata"]["labels"])
    await member.patch(settings, {"metadata": {"labels": label}, "data": {"a": "theirs"}})
    key = next(key for key in member.desk.works if key.name == fresh_name)
    event = await member.desk.until(key, lambda event: not event.applied)
    assert "is not managed from here" in event.message
    assert "conflictResolution: Overwrite" in event.message
    assert (await member.live(settings))["data"] == {"a": "theirs"}
    with pytest.raises(ApiError):
        await member.client.get(member.path(config_map(f"{fresh_name}-other")))


async def test_a_fight_over_a_field_is_fought_ever_more_seldom(member: Any, fresh_name: str) -> None:
    settings = config_map(fresh_name, a="ours")
    await member.apply(settings)
    key = next(key for key in member.desk.works if key.name == fresh_name)
    for turn in range(3):
        await member.patch(settings, {"data": {"a": f"theirs {turn}"}}, manager="intruder")
        await member.until_live(settings, lambda live: live["data"] == {"a": "ours"})
    repaired = sum(bool(event.drift) for event in member.desk.reports if event.key == key)
    assert repaired == 3
    await member.patch(settings, {"data": {"a": "theirs for now"}}, manager="intruder")
    await member.desk.until(key, lambda event: event.operation == "updated")
    assert (await member.live(settings))["data"] == {"a": "theirs for now"}
    changed = await member.apply(config_map(fresh_name, a="ours again"))
    assert changed["data"] == {"a": "ours again"}


async def test_drift_during_a_stop_is_reported_after_the_start(member: Any, fresh_name: str) -> None:
    settings, desk = config_map(fresh_name, a="1"), member.new_desk()
    key = desk.give(settings)
    async with member.lane_of(desk) as lane:
        lane.look_at(key)
        await desk.until(key, lambda event: event.applied)
    await member.patch(settings, {"data": {"a": "theirs"}}, manager="kubectl-edit")
    async with member.lane_of(desk) as lane:
        lane.look_at(key)
        event = await desk.until(key, lambda event: bool(event.drift))
    assert told(event.drift) == [(".data.a", "kubectl-edit")]
    assert (await member.live(settings))["data"] == {"a": "1"}


async def test_a_version_that_came_while_nobody_delivered_is_no_drift(member: Any, fresh_name: str) -> None:
    desk = member.new_desk()
    key = desk.give(config_map(fresh_name, a="1"))
    async with member.lane_of(desk) as lane:
        lane.look_at(key)
        await desk.until(key, lambda event: event.applied)
    await member.patch(config_map(fresh_name), {"data": {"a": "theirs"}}, manager="kubectl-edit")
    desk.give(config_map(fresh_name, a="2"))
    async with member.lane_of(desk) as lane:
        lane.look_at(key)
        event = await desk.until(key, lambda event: event.work_seq == 2)
    assert (event.operation, event.drift) == ("updated", ())
