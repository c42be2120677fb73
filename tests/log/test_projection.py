"""The projection alone, its causes and gaps; deadlines; and the bookkeeping of failing keys."""

from __future__ import annotations

import asyncio

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from schemas.codec import encode
from schemas.events.binding import BindingReleased
from services._kit.log.stream_port import Delivery, Message
from services._kit.runtime.decision_loop import LoopOptions
from services._kit.runtime.failure_tracker import FailureTracker
from services._kit.runtime.projection import Projection
from services._kit.runtime.timers import Timers
from tests.log.toy import Toy, key, wanted


def message(name, seq, prev=0, **headers):
    event = msgspec.json.decode(wanted(name).data)
    event["prev"] = prev
    return Message(wanted(name).subject, seq, float(seq), headers, msgspec.json.encode(event))


def fed(*messages, caught_up=True):
    return Delivery(list(messages), caught_up, messages[-1].seq if messages else 0)


def test_a_key_remembers_its_first_and_two_latest_causes():
    projection = Projection(Toy())
    projection.feed(fed(*(message("a", seq) for seq in range(1, 8))))
    assert projection.dirty[key("a")].seqs == (1, 6, 7)
    assert projection.position == {"FACTS": 7}


def test_no_marks_while_not_asked_for():
    projection = Projection(Toy())
    projection.marking = False
    projection.feed(fed(message("a", 1)))
    projection.mark([key("b")])
    assert projection.dirty == {}
    assert key("a") in projection.state.bindings


def test_a_missed_predecessor_is_counted():
    projection = Projection(Toy())
    projection.feed(fed(message("a", 1), message("a", 2, prev=1), message("a", 9, prev=7)))
    assert projection.stats.gaps == 1


def test_a_fold_that_fails_costs_one_message():
    class Picky(Toy):
        def fold(self, state, message, event):
            if isinstance(event, BindingReleased):
                raise KeyError("no such thing")
            return super().fold(state, message, event)

    problems = []
    projection = Projection(Picky(), on_problem=lambda m, e: problems.append((m.seq, str(e))))
    gone = encode(BindingReleased(key=key("a"), uid="u"))
    projection.feed(fed(message("a", 1), Message(wanted("a").subject, 2, 2.0, {}, gone), message("b", 3)))
    assert set(projection.state.bindings) == {key("a"), key("b")}
    assert problems == [(2, "'no such thing'")]


def test_a_lazy_fold_is_consumed_even_when_nobody_marks():
    class Lazy(Toy):
        def fold(self, state, message, event):
            state.bindings[event.key] = (message.seq, event)
            yield event.key

    projection = Projection(Lazy())
    projection.marking = False
    projection.feed(fed(message("a", 1)))
    assert key("a") in projection.state.bindings


async def test_waiters_are_released_in_any_order():
    projection = Projection(Toy(), ("FACTS", "OBSERVED"))
    tasks = [asyncio.create_task(projection.wait_for(seq)) for seq in (5, 2, 9)]
    other = asyncio.create_task(projection.wait_for(1, "OBSERVED"))
    await asyncio.sleep(0)
    projection.feed(fed(message("a", 5)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert [task.done() for task in tasks] == [True, True, False]
    assert not other.done()
    projection.feed(fed(message("a", 9)))
    projection.feed(Delivery([], True, 1), "OBSERVED")
    await asyncio.gather(*tasks, other)


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.one_of(st.none(), st.integers(0, 20)))))
def test_timers_ring_each_key_once_at_its_last_deadline(steps):
    timers = Timers()
    expected = {}
    for name, at in steps:
        timers.set(name, at)
        if at is None:
            expected.pop(name, None)
        else:
            expected[name] = at
    assert len(timers) == len(expected)
    assert timers.next() == (min(expected.values()) if expected else None)
    assert sorted(timers.due(10)) == sorted(name for name, at in expected.items() if at <= 10)
    assert sorted(timers.due(100)) == sorted(name for name, at in expected.items() if at > 10)
    assert timers.next() is None


def test_backoff_doubles_up_to_its_bound_and_then_parks():
    troubles = FailureTracker(LoopOptions(attempts=5, backoff=1, longest_backoff=3))
    waits = []
    for _ in range(4):
        assert not troubles.failed("k", "why", 100)
        assert troubles.waits("k")
        waits.append(troubles.next() - 100)
        assert troubles.due(99) == []
        assert troubles.due(110) == ["k"]
    assert waits == [1, 2, 3, 3]
    assert troubles.failed("k", "why", 100)
    assert troubles.parked == {"k": "why"}
    assert not troubles.failed("k", "why", 100), "the same reason is no news"
    assert troubles.failed("k", "another reason", 100)
    troubles.succeeded("k")
    assert troubles.parked == {}


def test_the_brake_needs_a_sample_and_a_majority():
    troubles = FailureTracker(LoopOptions(brake_ratio=0.5, brake_sample=10))
    for i in range(9):
        troubles.park(i, "why")
    assert not troubles.too_many
    for i in range(9):
        troubles.succeeded(100 + i)
    assert not troubles.too_many
    troubles.park("one more", "why")
    assert troubles.too_many
    assert len(troubles.forgive()) == 10
    assert not troubles.too_many
