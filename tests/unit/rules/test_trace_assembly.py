"""Events in, traces out: when a trace ends, what is remembered of it, and that nothing grows without a bound."""

from __future__ import annotations

from msgspec.structs import replace

from schemas.events.lease import LeaseTaken
from services._rules.tracing.logged_event import LoggedEvent
from services._rules.tracing.span_model import sampled
from services._rules.tracing.trace_assembly import Bounds, TraceAssembly
from tests.support.facts import binding, cluster, evicted, placement, rollup, seen, template, work
from tests.support.traced import logged, outline

BOUNDS = Bounds(hold=1.0, idle=5.0, longest=60.0)
CHANGE = [
    logged(1, 0.010, template(), by="detector", decided=0.005),
    logged(2, 0.011, binding(), by="detector", decided=0.005),
    logged(3, 0.020, placement(m1=1), 2),
    logged(4, 0.030, work("m1"), 3, by="override_renderer"),
]
REPORT = logged(1, 0.080, seen("m1", work_seq=4, operation="created"), by="executor")


def fed(bounds: Bounds, *events: LoggedEvent, now: float = 0.0) -> TraceAssembly:
    """An assembly that these came to at one time."""
    made = TraceAssembly(bounds)
    for event in events:
        made.add(event, now)
    return made


def test_a_trace_is_handed_out_once_nothing_comes_any_more() -> None:
    assembly = fed(BOUNDS, *CHANGE)
    assert assembly.due(1.0) == []
    assembly.add(REPORT, 3.0)
    assert assembly.due(5.9) == []
    assert assembly.due(8.0) == []
    (trace,) = assembly.due(10.95)
    assert outline(trace.spans)[-1] == "        apply work m1"
    assert len(trace.spans) == 5
    assert assembly.due(99.0) == []
    assert assembly.size == (0, 0)


def test_causes_from_the_other_stream_may_come_later() -> None:
    assembly = fed(BOUNDS, REPORT)
    for event in CHANGE:
        assembly.add(event, 0.9)
    assembly.due(1.0)
    (trace,) = assembly.due(7.0)
    assert outline(trace.spans) == [
        "detect template",
        "  request binding",
        "    schedule placement",
        "      render work m1",
        "        apply work m1",
    ]


def test_what_comes_later_is_another_part_of_the_same_trace() -> None:
    assembly = fed(BOUNDS, *CHANGE)
    (first,) = assembly.due(0.0, everything=True)
    assembly.add(REPORT, 20.0)
    (second,) = assembly.due(30.0, everything=True)
    assert first.trace_id == second.trace_id
    assert second.spans[0].parent_id == first.spans[-1].span_id


def test_a_trace_that_goes_on_is_handed_out_in_parts() -> None:
    assembly = fed(replace(BOUNDS, longest=10.0), *CHANGE)
    assembly.due(1.0)
    handed = []
    for second in range(2, 14):
        assembly.add(logged(10 + second, second, rollup(m1={}), 9 + second if second > 2 else 4), float(second))
        handed += assembly.due(float(second))
    assert [trace.trace_id for trace in handed] == [handed[0].trace_id]
    assert len(handed[0].spans) > len(CHANGE)


def test_steps_without_consequence_are_no_traces() -> None:
    lease = logged(7, 0.3, LeaseTaken(service="scheduler", instance="a"))
    assembly = fed(BOUNDS, logged(1, 0.0, cluster("m1")), logged(1, 0.1, seen("m1")), lease)
    assert assembly.due(9.0) == []
    assert assembly.due(99.0) == []


def test_a_step_is_kept_until_something_follows_from_it() -> None:
    assembly = fed(BOUNDS, logged(1, 0.0, cluster("m1")))
    assert assembly.due(0.0, everything=True) == []
    assembly.add(logged(2, 300.0, evicted("m1"), 1, by="failover"), 300.0)
    (trace,) = assembly.due(300.0, everything=True)
    assert outline(trace.spans) == ["probe cluster m1", "  evict eviction"]


def test_an_event_that_comes_twice_is_one_span() -> None:
    (trace,) = fed(BOUNDS, *CHANGE, *CHANGE).due(0.0, everything=True)
    assert len(trace.spans) == len(CHANGE)


def test_a_large_trace_says_what_it_leaves_out() -> None:
    many = [logged(10 + number, 0.1, work(f"m{number}"), 3) for number in range(50)]
    (trace,) = fed(replace(BOUNDS, spans=10), *CHANGE, *many).due(0.0, everything=True)
    assert (len(trace.spans), trace.left_out) == (10, 44)


def test_open_traces_are_bounded_and_the_oldest_leaves_first() -> None:
    bounds = replace(BOUNDS, open_spans=5)
    changes = [logged(10 + number, 0.1, evicted("m1", name=f"app-{number}")) for number in range(20)]
    assembly = fed(bounds, *changes)
    handed = assembly.due(1.0)
    assert assembly.size == (0, 5)
    assert [trace.spans[0].attributes["fleetlog.log.position"] for trace in handed] == list(range(10, 25))


def test_waiting_events_are_bounded_in_number_and_bytes() -> None:
    changes = [logged(10 + number, 0.1, evicted("m1", name=f"app-{number}")) for number in range(100)]
    assert fed(replace(BOUNDS, waiting=10), *changes).size[0] <= 10
    size = len(changes[0].data)
    assert fed(replace(BOUNDS, waiting_bytes=10 * size), *changes).size[0] <= 10


def test_only_the_share_that_is_wanted_is_kept() -> None:
    changes = [logged(10 + number, 0.1, evicted("m1", name=f"app-{number}")) for number in range(40)]
    every = fed(BOUNDS, *changes).due(0.0, everything=True)
    some = fed(replace(BOUNDS, ratio=0.5), *changes).due(0.0, everything=True)
    assert {trace.trace_id for trace in some} == {trace.trace_id for trace in every if sampled(trace.trace_id, 0.5)}
    assert 0 < len(some) < len(every)
