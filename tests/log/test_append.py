"""What the appender makes of every answer of the log."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from schemas.codec import decode
from schemas.envelope import HEADER_CORRELATION, HEADER_EVENT_ID, HEADER_PRODUCER, Provenance
from schemas.events.binding import BindingReleased
from schemas.events.cluster import ClusterChanged, ClusterRemoved
from schemas.events.lease import LeaseTaken
from schemas.events.observed import WorkObserved
from schemas.events.template import TemplateChanged
from schemas.keys import ObjectKey
from services._kit.base.log_errors import Ambiguous, FenceLost, StreamFull, Unavailable
from services._kit.log.stream_port import MAX_BATCH, Fence, NewMessage
from services._kit.runtime.appender import Appender
from services._kit.runtime.outbox import KeyedEvents
from tests.log.faulty import FaultyLog


def changed(name, size=2):
    return ClusterChanged(name=name, uid="u", manifest=msgspec.Raw(b'"' + b"x" * (size - 2) + b'"'))


def group(name, *events, **more):
    return KeyedEvents(name, events or (changed(name),), **more)


@pytest.fixture(params=["batches", "few apart"])
def faulty(request, backend):
    """With and without the right to store few messages one by one."""
    faulty = FaultyLog(backend.facts)
    if request.param == "batches":
        faulty.apart = 0
    return faulty


@pytest.fixture
def appender(backend, faulty):
    return Appender({**backend.logs, "FACTS": faulty}, "monitor", instance="monitor-0")


async def all_of(log, *filters):
    return [message async for message in log.read(filters or ("cluster.*",))]


async def parked(backend):
    return [decode(m.subject, m.data) async for m in backend.logs["PARKED"].read(["parked.*"])]


async def test_events_of_many_keys_go_out_as_one_batch(appender, faulty):
    outcome = await appender.append([group(f"c{i}") for i in range(30)])
    assert faulty.sizes == [30]
    assert outcome.stored == {f"c{i}": {"FACTS": i + 1} for i in range(30)}
    assert outcome.parked == {}


async def test_few_events_of_several_keys_go_out_one_by_one(appender, faulty):
    outcome = await appender.append([group("a"), group("b", changed("b1"), changed("b2")), group("c")])
    assert faulty.sizes == ([1, 1, 1, 1] if faulty.apart else [4])
    assert outcome.stored == {"a": {"FACTS": 1}, "b": {"FACTS": 3}, "c": {"FACTS": 4}}


async def test_what_ends_one_life_and_begins_the_next_goes_out_at_once(backend, appender, faulty):
    await appender.append([group("a", ClusterRemoved(name="a", uid="1"), changed("a"))])
    assert faulty.sizes == [2]


@pytest.mark.parametrize(("known", "sizes"), [(0, [1, 1]), (7, [2])])
async def test_events_of_two_families_are_single_on_new_subjects_only(faulty, known, sizes):
    """A reader of a new template beside the binding of the old one would mix them up."""
    faulty.apart = 8
    appender = Appender({"FACTS": faulty}, "detector", last_seq_of=lambda _: known)
    key = ObjectKey("apps", "deployments", "default", "web")
    template = TemplateChanged(key=key, uid="u", api_version="apps/v1", kind="Deployment", digest="d")
    binding = BindingReleased(key=key, uid="u", reason="r")
    await appender.append([group("web", template, binding)])
    assert faulty.sizes == sizes


async def test_events_of_one_subject_keep_their_order_on_lost_answers(backend, appender, faulty):
    groups = [group("one", changed("a", 10)), group("two", changed("a", 20)), group("three", changed("a", 30))]
    faulty.fail_next = [Ambiguous("never arrived")]
    await appender.append(groups)
    assert [len(m.data) for m in await all_of(backend.facts)] == sorted(
        len(m.data) for m in await all_of(backend.facts)
    )


async def test_one_of_several_that_is_refused_sets_its_key_aside(backend, appender, faulty):
    faulty.refuse = lambda message: message.subject == "cluster.b2"
    outcome = await appender.append([group("a"), group("b", changed("b1"), changed("b2"), changed("b3")), group("c")])
    assert (set(outcome.stored), set(outcome.parked)) == ({"a", "c"}, {"b"})
    assert [record.subject.startswith("cluster.b") for record in await parked(backend)] == [True]


async def test_every_event_gets_its_position_between_others(backend, faulty):
    class Crowded(FaultyLog):
        async def append(self, messages, fence=None):
            await backend.facts.append([NewMessage("policy.propagation.ns.other", b"{}")])
            return await super().append(messages, fence)

    log = Crowded(backend.facts)
    log.apart = faulty.apart
    outcome = await Appender({"FACTS": log}, "monitor").append([group("a", changed("a1"), changed("a2"))])
    places = [message.seq for message in await all_of(backend.facts)]
    assert [outcome.position("a", "FACTS", behind) for behind in (1, 0)] == places
    assert outcome.stored == {"a": {"FACTS": places[-1]}}


async def test_single_stored_event_proves_no_unanswered_batch(backend, faulty):
    faulty.apart = 0
    appender = Appender({"FACTS": faulty}, "monitor")
    await appender.append([group("known")])
    faulty.fail_next = [Ambiguous("never arrived")]
    outcome = await appender.append([group("new"), group("known")])
    assert outcome.stored["new"] == {"FACTS": 2}
    assert "cluster.new" in {message.subject for message in await all_of(backend.facts)}


async def test_headers_and_provenance_tell_where_an_event_came_from(backend, faulty):
    appender = Appender({"FACTS": faulty}, "monitor", instance="monitor-0", last_seq_of=lambda subject: 41)
    event = ClusterRemoved(name="a", uid="u", provenance=Provenance(own={"cluster": 7}, inputs="abc"))
    await appender.append([group("a", event, causes=(3, 5), correlation="corr", as_of=9, decided_at=12.5)])
    (message,) = await all_of(backend.facts)
    stored = decode(message.subject, message.data)
    assert stored.prev == 41
    assert stored.provenance == Provenance(as_of=9, causes=(3, 5), own={"cluster": 7}, inputs="abc", decided_at=12.5)
    assert message.headers[HEADER_CORRELATION] == "corr"
    assert message.headers[HEADER_PRODUCER] == "monitor/monitor-0"
    assert len(message.headers[HEADER_EVENT_ID]) == 36


async def test_an_event_without_a_correlation_starts_one(backend, appender):
    await appender.append([group("a")])
    (message,) = await all_of(backend.facts)
    assert message.headers[HEADER_CORRELATION] == message.headers[HEADER_EVENT_ID]


async def test_events_of_one_subject_in_a_batch_are_linked(backend, faulty):
    appender = Appender({"FACTS": faulty}, "monitor", last_seq_of={"cluster.a": 0}.get)
    await appender.append([group("a", ClusterRemoved(name="a", uid="1"), changed("a"))])
    first, second = await all_of(backend.facts)
    assert decode(first.subject, first.data).prev == 0
    assert decode(second.subject, second.data).prev == -1


async def test_many_keys_are_cut_into_batches_without_tearing_a_key(appender, faulty):
    groups = [group(i, *(changed(f"c{i}-{n}") for n in range(3))) for i in range(MAX_BATCH // 2)]
    outcome = await appender.append(groups)
    assert len(outcome.stored) == len(groups)
    assert sum(faulty.sizes) == 3 * len(groups)
    assert all(size <= MAX_BATCH and size % 3 == 0 for size in faulty.sizes)


async def test_large_events_are_cut_by_size(appender, faulty):
    outcome = await appender.append([group(f"c{i}", changed(f"c{i}", 1 << 20)) for i in range(6)])
    assert faulty.sizes == [3, 3]
    assert len(outcome.stored) == 6


async def test_key_with_too_many_events_is_sent_in_parts(backend, appender):
    outcome = await appender.append([group("big", *(changed(f"c{i}") for i in range(MAX_BATCH + 20)))])
    assert outcome.stored == {"big": {"FACTS": MAX_BATCH + 20}}
    assert len(await all_of(backend.facts)) == MAX_BATCH + 20


async def test_the_guilty_key_is_parked_and_the_others_go_through(backend, appender, faulty):
    faulty.refuse = lambda message: message.subject == "cluster.c5"
    outcome = await appender.append([group(f"c{i}") for i in range(9)])
    assert set(outcome.stored) == {f"c{i}" for i in range(9)} - {"c5"}
    assert list(outcome.parked) == ["c5"]
    assert {m.subject for m in await all_of(backend.facts)} == {f"cluster.c{i}" for i in range(9)} - {"cluster.c5"}
    (record,) = await parked(backend)
    assert (record.service, record.key, record.subject) == ("monitor", "c5", "cluster.c5")
    assert "refused by the test" in record.reason


async def test_a_message_the_server_cannot_take_parks_only_its_key(backend, appender):
    if not backend.real:
        pytest.skip("the limit is the server's")
    outcome = await appender.append([group("a"), group("huge", changed("huge", 9 << 20)), group("b")])
    assert set(outcome.stored) == {"a", "b"}
    assert list(outcome.parked) == ["huge"]


async def test_a_lost_answer_is_found_out_and_nothing_is_stored_twice(backend, appender, faulty):
    faulty.swallow_answers = 1
    outcome = await appender.append([group(f"c{i}") for i in range(4)])
    assert outcome.stored == {f"c{i}": {"FACTS": i + 1} for i in range(4)}
    assert len(await all_of(backend.facts)) == 4
    assert appender.stats.ambiguous == 1


async def test_an_unsent_batch_without_an_answer_is_sent_again(backend, appender, faulty):
    faulty.fail_next = [Ambiguous("never arrived"), Unavailable("no leader")]
    outcome = await appender.append([group("a"), group("b")])
    assert outcome.stored == {"a": {"FACTS": 1}, "b": {"FACTS": 2}}
    assert appender.trouble == ""


async def test_a_full_stream_is_waited_for_and_nobody_is_parked(appender, faulty):
    faulty.fail_next = [StreamFull(10077, "maximum bytes exceeded")]
    outcome = await appender.append([group("a")])
    assert (outcome.stored, outcome.parked) == ({"a": {"FACTS": 1}}, {})


async def test_a_lost_fence_is_raised_and_nobody_is_parked(backend, faulty):
    lease = LeaseTaken(service="monitor", instance="other")
    await backend.facts.append([NewMessage("lease.monitor", msgspec.json.encode(lease))])
    appender = Appender({"FACTS": faulty}, "monitor", lambda: Fence("lease.monitor", 77))
    with pytest.raises(FenceLost):
        await appender.append([group(f"c{i}") for i in range(4)])
    assert await all_of(backend.facts) == []
    assert faulty.sizes == ([1] * 4 if faulty.apart else [4])


async def test_without_the_lease_nothing_is_sent(faulty):
    appender = Appender({"FACTS": faulty}, "monitor", lambda: None)
    with pytest.raises(FenceLost):
        await appender.append([group("a")])
    assert faulty.sizes == []


async def test_observations_go_to_their_own_stream_without_a_fence(backend, faulty):
    appender = Appender({**backend.logs, "FACTS": faulty}, "executor", lambda: None)
    key = ObjectKey("apps", "deployments", "default", "web")
    events = [WorkObserved(cluster="m", key=key, uid="u", at=float(at)) for at in range(2)]
    for event in events:
        outcome = await appender.append([KeyedEvents(key, [event])])
    assert outcome.stored == {key: {"OBSERVED": 2}}


async def test_halving_does_not_confuse_ids_of_parts(backend, appender, faulty):
    """The first part of a refused batch starts with the same message id as the whole."""
    faulty.refuse = lambda message: message.subject == "cluster.c3"
    faulty.swallow_answers = 1
    outcome = await appender.append([group(f"c{i}") for i in range(4)])
    assert set(outcome.stored) == {"c0", "c1", "c2"}
    assert sorted(m.subject for m in await all_of(backend.facts)) == ["cluster.c0", "cluster.c1", "cluster.c2"]


async def test_concurrent_appends_keep_their_own_positions(appender):
    outcomes = await asyncio.gather(*(appender.append([group(f"b{b}c{i}") for i in range(10)]) for b in range(5)))
    positions = [seq["FACTS"] for outcome in outcomes for seq in outcome.stored.values()]
    assert sorted(positions) == list(range(1, 51))
