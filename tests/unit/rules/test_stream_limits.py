"""How large streams are made, and when one raises an alarm."""

from __future__ import annotations

import pytest

from schemas.topology import FACTS, HISTORY, STREAMS
from services._rules.history.retention import trim_position
from services._rules.log.stream_limits import Fill, RoomError, alarms, most_bytes, sizes

GIB = 1 << 30


def filled(stream: str, ratio: float, *, refuses: bool = True, passing: bool = False) -> Fill:
    return Fill(stream=stream, bytes=int(ratio * 1000), most=1000, messages=1, refuses=refuses, passing=passing)


def test_every_stream_is_bounded_and_so_is_each_of_its_messages() -> None:
    assert all(stream.max_bytes > 0 for stream in STREAMS)
    assert all(0 < stream.max_message <= 8 << 20 for stream in STREAMS if not stream.sources)
    assert sum(stream.max_bytes for stream in STREAMS) < 20 * GIB, "the volume of k8s/base/nats.yaml"


@pytest.mark.parametrize(
    ("present", "used", "wanted", "found"),
    [
        (None, 0, {}, FACTS.max_bytes),
        (-1, GIB, {}, FACTS.max_bytes),
        (-1, 5 * GIB, {}, 10 * GIB),
        (3 * GIB, GIB, {}, 3 * GIB),
        (3 * GIB, GIB, {"FACTS": 9 * GIB}, 9 * GIB),
        (9 * GIB, 4 * GIB, {"FACTS": GIB}, 6 * GIB),
        (None, 0, {"FACTS": GIB}, GIB),
        (None, 0, {"HISTORY": GIB}, FACTS.max_bytes),
    ],
    ids=["new", "unbounded", "unbounded and large", "set by hand", "more", "less than it holds", "small", "another"],
)
def test_the_size_of_facts(present: int | None, used: int, wanted: dict[str, int], found: int) -> None:
    assert most_bytes(FACTS, present, used, wanted) == found


def test_history_stream_may_shrink() -> None:
    assert most_bytes(HISTORY, 8 * GIB, 8 * GIB, {"HISTORY": GIB}) == GIB


def test_sizes_are_written_as_quantities() -> None:
    assert sizes(["FACTS=20Gi", "HISTORY=1G"]) == {"FACTS": 20 * GIB, "HISTORY": 10**9}
    for wrong in ("FACTS", "FACTS=", "FACTS=many", "FACT=1Gi", "FACTS=1Ki", "=1Gi"):
        with pytest.raises(RoomError):
            sizes([wrong])


def test_an_alarm_begins_at_seventy_percent_and_ends_below() -> None:
    none = frozenset[str]()
    assert alarms(none, [filled("FACTS", 0.69)]) == none
    raised = alarms(none, [filled("FACTS", 0.7), filled("OBSERVED", 0.8, refuses=False)])
    assert raised == {"FACTS", "OBSERVED"}
    assert alarms(raised, [filled("FACTS", 0.66), filled("OBSERVED", 0.5)]) == {"FACTS"}
    assert alarms(raised, [filled("FACTS", 0.64)]) == none


def test_full_history_and_unbounded_streams_raise_no_alarm() -> None:
    history = filled("HISTORY", 1.0, refuses=False, passing=True)
    unbounded = Fill(stream="OBJECTS", bytes=1 << 50, most=-1, messages=1)
    assert not alarms(frozenset(), [history, unbounded])
    assert unbounded.ratio == 0.0


def test_alarm_names_consequence_and_remedy() -> None:
    words = Fill(stream="FACTS", bytes=7 << 28, most=10 << 28, messages=1, refuses=True).words
    assert "1792 of 2560 MiB (70%) and refuses writes" in words
    assert "FLEETLOG_TOPOLOGY_BYTES=FACTS=" in words


def test_large_events_of_a_subject_are_trimmed_to_the_newest() -> None:
    positions = [10, 20, 30, 40]
    assert trim_position(positions, 64, 100, [5, 5, 5, 5], 10) == 20
    assert trim_position(positions, 64, 100, [5, 5, 5, 50], 10) == 30
    assert trim_position(positions, 64, 15, [5, 5, 5, 50], 10) == 10, "HISTORY does not hold more yet"
    assert trim_position(positions, 2, 100, [1, 1, 1, 1], 10) == 20
    assert trim_position(positions, 64, 100, [1, 1, 1, 1], 10) == 0
    assert trim_position([], 64, 100, [], 10) == 0
