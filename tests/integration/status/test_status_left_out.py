"""A report that keeps an object's status from being summed is found, left out and told; the others count."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.status.summing import SUMS, Control, control_plane, customization, definition, key_of
from tests.support.facts import raw, seen

READY = {"ready": {"type": "integer", "maximum": 100}, "by": {"type": "string"}}
DEMANDING = """
function AggregateStatus(desired, items)
  local ready = 0
  for _, item in ipairs(items or {}) do
    ready = ready + item.status.ready
  end
  desired.status = {ready = ready, by = "script"}
  return desired
end
"""


@pytest.fixture
async def control(tmp_path: Path) -> AsyncIterator[Control]:
    """A control plane with a kind of any status, and one whose status has a schema."""
    async with control_plane(tmp_path, definition("Widget"), definition("Gadget", fields=READY)) as made:
        yield made


async def says(control: Control, kind: str, member: str, status: Any) -> None:
    """A member reports a status of any shape."""
    key = key_of(kind, "o")
    await control.say(seen(member, key=key, uid=control.uids[key], status=raw(status)))


@pytest.mark.parametrize("script", [SUMS, DEMANDING], ids=["a patient script", "a script that demands every status"])
async def test_a_report_that_a_script_fails_of_is_left_out(control: Control, script: str) -> None:
    await control.say(customization("Widget", script))
    await control.make("Widget", "o")
    await control.report("Widget", "o", m1=1, m2=2)
    async with control.aggregator():
        await control.shows("Widget", "o", ready=3, by="script")
        await says(control, "Widget", "m2", {"ready": {"not": "a number"}})
        await control.shows("Widget", "o", ready=1, by="script")
        await control.warned("o", "cluster m2: ", "the others are summed without them")
        for number in (4, 5, 6):
            await control.report("Widget", "o", m1=number)
            await control.shows("Widget", "o", ready=number, by="script")
        assert not [message for message in await control.warnings("o") if "cluster m1" in message]
        await control.report("Widget", "o", m2=2)
        await control.shows("Widget", "o", ready=8, by="script")


async def test_report_refused_by_the_control_plane_is_left_out(control: Control) -> None:
    await control.say(customization("Gadget", SUMS))
    await control.make("Gadget", "o")
    await control.report("Gadget", "o", m1=1, m2=2)
    async with control.aggregator():
        await control.shows("Gadget", "o", ready=3, by="script")
        await says(control, "Gadget", "m1", {"ready": 1_000})
        await control.shows("Gadget", "o", ready=2, by="script")
        await control.warned("o", "cluster m1: ", "status.ready")
        await control.report("Gadget", "o", m2=7)
        await control.shows("Gadget", "o", ready=7, by="script")
        await control.report("Gadget", "o", m1=3)
        await control.shows("Gadget", "o", ready=10, by="script")


async def test_implausible_numbers_are_left_out(control: Control) -> None:
    summing = SUMS.replace("(item.status or {}).ready", "(item.status or {}).readyReplicas")
    await control.say(customization("Widget", summing))
    await control.make("Widget", "o")
    async with control.aggregator():
        for number, wrong in enumerate((-1000, 2**63 - 1, 1.5, 10**7), 1):
            await says(control, "Widget", "m1", {"readyReplicas": number})
            await says(control, "Widget", "m2", {"readyReplicas": wrong})
            await control.shows("Widget", "o", ready=number, by="script")
        await control.warned("o", "cluster m2: status.readyReplicas")


async def test_report_that_hangs_a_script_is_left_out(
    control: Control,
) -> None:
    endless = "for _, item in ipairs(items or {}) do while (item.status or {}).loop do end end"
    counting = SUMS.replace("local ready = 0", f"local ready = 0\n  {endless}")
    await control.say(customization("Widget", counting))
    await control.make("Widget", "o")
    await control.report("Widget", "o", m1=1, m2=2)
    async with control.aggregator():
        await control.shows("Widget", "o", ready=3, by="script")
        await says(control, "Widget", "m2", {"ready": 2, "loop": 1})
        await control.shows("Widget", "o", ready=1, by="script")
        await control.warned("o", "cluster m2: ", "processor time")
        await control.report("Widget", "o", m1=5)
        await control.shows("Widget", "o", ready=5, by="script")
