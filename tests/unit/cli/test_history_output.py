"""How a history reads: steps after a pause stand below their own time."""

from __future__ import annotations

from services._rules.history.timeline import Entry
from services.cli.queries.history_output import PAUSE_MS, render_history

BEGAN = 1_793_232_000.0


def entry(offset_ms: float) -> Entry:
    return Entry(
        position=int(offset_ms) + 1,
        time=BEGAN + offset_ms / 1000,
        offset_ms=offset_ms,
        subject="template.1.x",
        event="TemplateChanged",
        summary="changed",
        causes=(),
    )


def test_steps_without_a_pause_count_from_the_first() -> None:
    shown = render_history([entry(0), entry(50), entry(PAUSE_MS)])
    assert [line.split("  ")[0] for line in shown.splitlines()] == ["+0 ms", "+50 ms", "+60.0 s"]


def test_steps_after_a_pause_stand_below_their_time() -> None:
    first, pause, second, third = render_history([entry(0), entry(PAUSE_MS + 1), entry(PAUSE_MS + 31)]).split("\n", 3)
    assert first.startswith("20")
    assert pause.startswith("+0 ms")
    assert second == ""
    when, *steps = third.splitlines()
    assert when.startswith("20")
    assert [line.split("  ")[0] for line in steps] == ["+0 ms", "+30 ms"]
