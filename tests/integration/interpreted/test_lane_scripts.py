"""Lua scripts of users decide what is kept of a member's object, its status and its health."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import UnsetType

from services._kit.interpretation.lua.pool import LuaPool
from tests.integration.interpreted.conftest import Ground
from tests.support.widgets import (
    HEALTH,
    SCRIPTS,
    STATUS,
    config_map_work,
    customization,
    key_of,
    path_of,
    widget_work,
)

W = key_of()


@pytest.fixture
def pool() -> LuaPool:
    """One process for scripts; the first loop is one too many."""
    return LuaPool(1, seconds=0.2, strikes=1)


def status(ground: Ground) -> Any:
    """The status in the last report."""
    seen = ground.seen.get(W)
    return None if seen is None or isinstance(seen.status, UnsetType) else msgspec.json.decode(seen.status)


async def test_custom_kind_is_interpreted_by_its_scripts(ground: Ground) -> None:
    ground.configure(**SCRIPTS)
    ground.want(widget_work(size=1, colour="red"))
    await ground.reported(lambda: W in ground.seen)
    assert ground.seen[W].health == "Unknown", "a Widget without a status makes the scripts fail"
    assert "InterpretStatus for example.io/v1 Widget in cluster m1" in ground.seen[W].message
    await ground.client.patch(path_of(W), {"spec": {"size": 5}})
    await ground.become("Up")
    await ground.reported(lambda: status(ground) == {"phase": "Up", "size": 5})
    assert (ground.seen[W].health, ground.seen[W].message) == ("Healthy", "")
    assert (await ground.widget())["spec"] == {"size": 5, "colour": "red"}, "the size is the member's"
    ground.want(widget_work(size=2, colour="blue"))
    await ground.reported(lambda: ground.seen[W].work_seq == 2)
    assert (await ground.widget())["spec"] == {"size": 5, "colour": "blue"}
    await ground.become("Down")
    await ground.reported(lambda: ground.seen[W].health == "Unhealthy")


async def test_another_customization_is_in_force_at_once(ground: Ground) -> None:
    ground.configure(**SCRIPTS)
    ground.want(widget_work(size=1))
    await ground.reported(lambda: W in ground.seen)
    await ground.client.patch(path_of(W), {"spec": {"size": 5}})
    await ground.become("Up")
    await ground.reported(lambda: status(ground) == {"phase": "Up", "size": 5})
    ground.configure(
        statusReflection="function ReflectStatus(o) return {was = o.status.phase, size = o.spec.size} end",
        healthInterpretation="function InterpretHealth(o) return false end",
    )
    await ground.reported(lambda: status(ground) == {"was": "Up", "size": 1})
    assert ground.seen[W].health == "Unhealthy"
    assert (await ground.widget())["spec"]["size"] == 1, "what is kept was compared anew"
    assert not ground.seen[W].drift, "nobody in the member changed it"


async def test_failed_retention_script_stops_writes(ground: Ground) -> None:
    ground.configure(retention="function Retain(desired, observed) error('no luck') end")
    ground.want(widget_work(size=1))
    await ground.reported(lambda: W in ground.seen and ground.seen[W].applied)
    before = (await ground.widget())["metadata"]["resourceVersion"]
    ground.want(widget_work(size=2))
    await ground.reported(lambda: ground.seen[W].reason == "AppliedFailed")
    for word in (
        "Retain for example.io/v1 Widget in cluster m1",
        "ResourceInterpreterCustomization widgets",
        "no luck",
        "left as it is",
    ):
        assert word in ground.seen[W].message
    assert (await ground.widget())["metadata"]["resourceVersion"] == before
    ground.configure(retention="function Retain(desired, observed) desired.spec.kept = true return desired end")
    await ground.reported(lambda: ground.seen[W].applied and ground.seen[W].work_seq == 2)
    assert (await ground.widget())["spec"] == {"size": 2, "kept": True}


async def test_a_status_that_cannot_be_read_any_more_stays_as_it_was(ground: Ground) -> None:
    ground.configure(statusReflection=STATUS, healthInterpretation=HEALTH)
    ground.want(widget_work(size=1))
    await ground.reported(lambda: W in ground.seen)
    await ground.become("Up")
    await ground.reported(lambda: status(ground) == {"phase": "Up", "size": 1})
    ground.configure(statusReflection="function ReflectStatus(o) return 3 end", healthInterpretation="oops")
    await ground.reported(lambda: ground.seen[W].health == "Unknown")
    assert status(ground) == {"phase": "Up", "size": 1}
    assert "InterpretStatus" in ground.seen[W].message
    assert ground.seen[W].applied


async def test_endless_script_delays_no_other_kind(ground: Ground) -> None:
    loop = "function ReflectStatus(o) while true do end end"
    keys = "function ReflectStatus(o) return {text = o.data.text} end"
    ground.configure(statusReflection=loop)
    ground.take(customization("v1", "ConfigMap", statusReflection=keys))
    bad = [widget_work(f"bad{number}") for number in range(12)]
    good = config_map_work("good", text="a")
    ground.want(*bad, good)
    await ground.reported(lambda: all(work.key in ground.seen for work in (*bad, good)))
    assert msgspec.json.decode(ground.seen[good.key].status) == {"text": "a"}
    for work in bad:
        seen = ground.seen[work.key]
        assert seen.applied
        assert "InterpretStatus for example.io/v1 Widget in cluster m1" in seen.message
        assert "was stopped" in seen.message
