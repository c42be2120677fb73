"""While answers of scripts are waited for, others proceed, and one call per object is enough."""

from __future__ import annotations

from typing import Any

import msgspec

from services._kit.delivery.lane_parts import LaneSettings
from tests.integration.interpreted.conftest import Ground, Scripts
from tests.support.waiting import eventually
from tests.support.widgets import API_VERSION, SCRIPTS, config_map_work, key_of, widget_work

W = key_of()


async def test_silent_scripts_delay_no_other_objects(ground: Ground, scripts: Scripts) -> None:
    scripts.open.clear()
    ground.configure(**SCRIPTS)
    settings = LaneSettings()
    names = [f"w{number}" for number in range(settings.concurrency + settings.scripted_concurrency)]
    ground.want(*(widget_work(name, size=1) for name in names))
    maps = [config_map_work(f"c{number}") for number in range(40)]
    ground.want(*maps)
    await ground.reported(lambda: all(work.key in ground.seen for work in maps))
    assert all(event.key.resource == "configmaps" for event in ground.reports)
    assert all(event.applied for event in ground.reports)
    scripts.open.set()
    await ground.reported(lambda: all(key_of(name) in ground.seen for name in names))
    assert (await ground.widget(names[-1]))["apiVersion"] == API_VERSION


async def test_many_changes_are_one_call_at_a_time(ground: Ground, scripts: Scripts) -> None:
    def phase(_: str, arguments: Any) -> Any:
        return {"phase": arguments[-1].get("status", {}).get("phase", "")}

    scripts.answer = phase
    ground.configure(statusReflection="s")
    ground.want(widget_work(size=1))
    await ground.reported(lambda: W in ground.seen)
    scripts.open.clear()
    scripts.calls.clear()
    await ground.become("p0")
    await eventually(lambda: scripts.calls, "the first call")
    for number in range(1, 30):
        await ground.become(f"p{number}")
    await ground.watched(W, "p29")
    scripts.open.set()
    await ground.reported(lambda: msgspec.json.decode(ground.seen[W].status)["phase"] == "p29")
    told = [observed["status"]["phase"] for _, observed in scripts.calls]
    assert (len(told), told[-1]) == (2, "p29"), "those between were passed over"
