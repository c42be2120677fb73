"""An agent interprets objects as users configured it: from its consumer, from its disk while the hub is away."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UnsetType

from schemas.events.policy import PolicyDeleted
from schemas.subjects import policy
from tests.integration.agent.conftest import Agents, Hub, Member
from tests.support import widgets
from tests.support.waiting import eventually
from tests.support.widgets import SCRIPTS, customization, key_of, path_of, widget_work

W = key_of()


async def reported(hub: Hub) -> Any:
    """Health and status in the last report."""
    seen = await hub.last_seen("m1", W)
    if seen is None or isinstance(seen.status, UnsetType):
        return None
    return seen.health, msgspec.json.decode(seen.status)


async def become(member: Member, phase: str, **spec: Any) -> None:
    """What happens to the Widget in the member."""
    if spec:
        await member.client.patch(path_of(W), {"spec": spec})
    await member.client.patch(f"{path_of(W)}/status", {"status": {"phase": phase}})


async def test_agent_runs_scripts_while_its_hub_is_away(hub: Hub, member: Member, agents: Agents) -> None:
    await widgets.define(member.client)
    await hub.join("m1")
    await hub.say(customization(**SCRIPTS), widget_work(size=1, colour="red"))
    agent = agents.start()

    async def spec(**expected: Any) -> bool:
        found: bool = (await member.client.get(path_of(W)))["spec"] == expected
        return found

    async def told(*expected: Any) -> bool:
        return await reported(hub) == expected

    async def there() -> bool:
        return await hub.last_seen("m1", W) is not None

    await eventually(there, "a first report")
    await become(member, "Up", size=5)
    await eventually(lambda: told("Healthy", {"phase": "Up", "size": 5}), "the scripts' report")
    await agents.stop(agent)
    hub.server.stop()
    agent = agents.start()
    # The member's own is kept, ours is put back: both by what was on disk.
    await become(member, "Down", size=7, colour="green")
    await eventually(lambda: spec(size=7, colour="red"), "the repair without the hub")
    assert not agent.link.is_connected
    hub.server.start()
    await eventually(lambda: hub.connection.is_connected, "the hub's own connection")
    await eventually(lambda: told("Unhealthy", {"phase": "Down", "size": 7}), "the report afterwards")
    await hub.say(customization(statusReflection="function ReflectStatus(o) return {last = o.status.phase} end"))
    await eventually(lambda: told("Healthy", {"last": "Down"}), "the other interpretation")
    assert await spec(size=1, colour="red")


async def test_a_customization_that_ended_unheard_is_in_force_no_more(hub: Hub, member: Member, agents: Agents) -> None:
    await widgets.define(member.client)
    await hub.join("m1")
    change = customization(healthInterpretation="function InterpretHealth(o) return false end")
    await hub.say(change, widget_work(size=1))
    agent = agents.start()

    async def health(expected: str) -> bool:
        seen = await hub.last_seen("m1", W)
        return seen is not None and seen.health == expected

    await eventually(lambda: health("Unhealthy"), "the script's answer")
    await agents.stop(agent)
    await hub.say(PolicyDeleted(key=change.key, uid=change.uid))
    state = hub.registrar._context.projection.state  # type: ignore[attr-defined]  # set by the fixture
    await eventually(lambda: not state.configured, "the registrar's own reading")
    # As after its end was forgotten: nothing on the log tells of it any more.
    filter_ = msgspec.json.encode({"filter": policy(change.key)})
    assert await hub.connection.request("$JS.API.STREAM.PURGE.FACTS", filter_)
    agents.start()
    await eventually(lambda: health("Healthy"), "the built-in answer")
