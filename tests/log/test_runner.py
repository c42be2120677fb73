"""What the runtime does with a service: project, decide once per change, append, recover, park, act."""

from __future__ import annotations

import asyncio
import time

import msgspec
from msgspec.structs import replace

from schemas.codec import decode
from schemas.envelope import HEADER_CORRELATION, HEADER_EVENT_ID
from schemas.keys import ObjectKey
from services._kit.log.stream_port import NewMessage
from services._rules.decision import Decision
from tests.log.faulty import FaultyLog
from tests.log.running import QUICK, eventually, running
from tests.log.toy import Reader, Toy, key, placed_on, placements, released, wanted
from tests.support.manual_clock import ManualClock


async def parked_keys(backend):
    return [decode(m.subject, m.data).key async for m in backend.logs["PARKED"].read(["parked.*"])]


async def until_parked(backend):
    """Return once something was recorded on PARKED."""
    pump = backend.logs["PARKED"].pump(["parked.*"], start=1)
    async for delivery in pump:
        if delivery.messages:
            break
    await pump.close()


async def test_what_is_asked_for_is_decided_and_appended(backend):
    async with running(Toy(), backend) as toy:
        await backend.facts.append([wanted(f"d{i}", "m2+m1") for i in range(20)])
        await toy.until(lambda: all(placed_on(toy.state, f"d{i}") == ["m1", "m2"] for i in range(20)))
    assert len(await placements(backend.facts)) == 20


async def test_provenance_names_position_causes_and_time(backend):
    async with running(Toy(), backend) as toy:
        await toy.until(lambda: toy.runner.active)
        asked = await backend.facts.append([wanted("a", **{HEADER_CORRELATION: "why", "traceparent": "00-1-2-01"})])
        await toy.until(lambda: placed_on(toy.state, "a"))
    ((message, event),) = await placements(backend.facts)
    assert event.provenance.as_of >= asked.last
    assert event.provenance.causes == (asked.last,)
    assert event.provenance.own == {"binding": asked.last}
    assert abs(event.provenance.decided_at - time.time()) < 60
    assert event.prev == 0
    assert message.headers[HEADER_CORRELATION] == "why"
    assert message.headers["traceparent"] == "00-1-2-01"


async def test_prev_links_the_events_of_a_subject(backend):
    async with running(Toy(), backend) as toy:
        for clusters in ("m1", "m2", "m3"):
            await backend.facts.append([wanted("a", clusters)])
            await toy.until(lambda c=clusters: placed_on(toy.state, "a") == [c])
    found = await placements(backend.facts)
    assert [event.prev for _, event in found] == [0, found[0][0].seq, found[1][0].seq]
    assert len({message.headers[HEADER_EVENT_ID] for message, _ in found}) == 3


async def test_an_unchanged_key_appends_nothing(backend):
    service = Toy()
    async with running(service, backend) as toy:
        await backend.facts.append([wanted("a")])
        await toy.until(lambda: placed_on(toy.state, "a"))
        await toy.until_idle(backend.facts)
        before = len(service.decided)
        await backend.facts.append([wanted("a")])
        await toy.until(lambda: len(service.decided) > before)
        await toy.until_idle(backend.facts)
    assert len(await placements(backend.facts)) == 1


async def test_many_changes_of_one_key_coalesce(backend):
    service = Toy()
    async with running(service, backend) as toy:
        await backend.facts.append([wanted("a", f"m{i}") for i in range(100)])
        await toy.until(lambda: placed_on(toy.state, "a") == ["m99"])
        await toy.until_idle(backend.facts)
    assert len(await placements(backend.facts)) < 50
    last = (await placements(backend.facts))[-1][1]
    assert len(last.provenance.causes) <= 3


async def test_key_in_flight_is_decided_again_after_its_events(backend):
    """Were it decided earlier, `prev` would repeat: every placement must name the one before."""
    async with running(Toy(), backend) as toy:
        for i in range(30):
            await backend.facts.append([wanted("a", f"m{i}")])
        await toy.until(lambda: placed_on(toy.state, "a") == ["m29"])
    found = await placements(backend.facts)
    assert [event.prev for _, event in found[1:]] == [message.seq for message, _ in found[:-1]]


async def test_nothing_is_appended_by_a_restart_but_the_lease(backend):
    async with running(Toy(), backend) as toy:
        await backend.facts.append([wanted(f"d{i}") for i in range(50)])
        await toy.until(lambda: len(toy.state.placements) == 50)
        await toy.until_idle(backend.facts)
    before = (await backend.facts.identity()).last_seq
    service = Toy()
    async with running(service, backend) as toy:
        await toy.until_idle(backend.facts)
        assert len(toy.state.placements) == 50
    assert (await backend.facts.identity()).last_seq == before + 1
    assert service.decided == []


async def test_what_came_while_nobody_ran_is_recovered(backend):
    await backend.facts.append([wanted("a"), wanted("b", "m7")])
    async with running(Toy(), backend) as toy:
        await toy.until(lambda: placed_on(toy.state, "b") == ["m7"] and placed_on(toy.state, "a") == ["m1"])


async def test_a_recovered_key_names_what_it_saw_as_its_cause(backend):
    asked = await backend.facts.append([wanted("b"), wanted("a")])
    async with running(Toy(), backend) as toy:
        await toy.until(lambda: placed_on(toy.state, "a"))
    assert [event.provenance.causes for _, event in await placements(backend.facts)] == [(asked.first,), (asked.last,)]


async def test_a_broken_key_is_parked_and_the_others_go_on(backend):
    service = Toy()
    service.broken = {"bad"}
    async with running(service, backend) as toy:
        await backend.facts.append([wanted("bad"), *(wanted(f"d{i}") for i in range(10))])
        await toy.until(lambda: len(toy.state.placements) == 10)
        await toy.until(lambda: toy.runner.deciding.troubles.parked)
        assert service.decided.count("bad") == QUICK.attempts
        assert toy.runner.health.reasons() == {}
        service.broken = set()
        await backend.facts.append([wanted("bad", "m2")])
        await toy.until(lambda: placed_on(toy.state, "bad") == ["m2"])
        await toy.until(lambda: not toy.runner.deciding.troubles.parked)
        await until_parked(backend)
    assert await parked_keys(backend) == [str(key("bad"))]


async def test_too_many_parked_keys_take_the_brake(backend):
    service = Toy()
    service.broken = {f"d{i}" for i in range(30)}
    clock = ManualClock()
    options = replace(QUICK, attempts=1, brake_sample=20, brake_pause=600)
    async with running(service, backend, options=options, clock=clock) as toy:
        await backend.facts.append([wanted(f"d{i}") for i in range(30)])
        await toy.until(lambda: toy.runner.deciding and toy.runner.deciding.braked)
        assert "parked" in toy.runner.health.reasons()
        service.broken = set()
        await backend.facts.append([wanted("good")])
        await toy.until(lambda: key("good") in toy.state.bindings)
        assert placed_on(toy.state, "good") is None
        clock.advance(601)
        toy.runner.deciding.wake()
        await toy.until(lambda: len(toy.state.placements) == 31)
        await toy.until(lambda: toy.runner.health.reasons() == {})


async def test_an_event_of_a_newer_version_holds_only_its_key(backend):
    service = Toy()
    async with running(service, backend) as toy:
        subject = wanted("a").subject
        await backend.facts.append([NewMessage(subject, msgspec.json.encode({"type": "BindingRequested.v9"}))])
        await backend.facts.append([wanted("b")])
        await toy.until(lambda: placed_on(toy.state, "b"))
        assert toy.runner.projection.stats.unknown == 1
        assert key("a") in toy.runner.projection.blocked
        toy.runner.mark([key("a")])
        await toy.until(lambda: not toy.runner.projection.dirty)
        assert "a" not in service.decided
        assert toy.runner.health.reasons() == {}
        await backend.facts.append([wanted("a")])
        await toy.until(lambda: placed_on(toy.state, "a"))
        await until_parked(backend)
    (record,) = await parked_keys(backend)
    assert record == subject


async def test_malformed_bytes_do_not_stop_the_service(backend):
    async with running(Toy(), backend) as toy:
        await backend.facts.append([NewMessage(wanted("a").subject, b"{not json"), wanted("b")])
        await toy.until(lambda: placed_on(toy.state, "b"))
        assert toy.runner.projection.stats.malformed == 1


async def test_a_deadline_decides_a_key_again(backend):
    service = Toy()
    clock = ManualClock()
    service.wake_at = clock.now() + 50
    async with running(service, backend, clock=clock) as toy:
        await backend.facts.append([wanted("a")])
        await toy.until(lambda: placed_on(toy.state, "a"))
        await toy.until_idle(backend.facts)
        await toy.until(lambda: len(toy.runner.deciding.timers) == 1)
        before = len(service.decided)
        service.wake_at = None
        clock.advance(51)
        toy.runner.deciding.wake()
        await toy.until(lambda: len(service.decided) == before + 1)


async def test_a_deadline_that_has_passed_is_not_looked_at_without_end(backend):
    service = Toy()
    clock = ManualClock()
    service.wake_at = clock.now() - 50
    async with running(service, backend, clock=clock) as toy:
        await backend.facts.append([wanted("a")])
        await toy.until(lambda: placed_on(toy.state, "a"))
        await toy.until_idle(backend.facts)
        before = len(service.decided)
        for number in range(100):
            await backend.facts.append([wanted(f"b{number}")])
        await toy.until(lambda: placed_on(toy.state, "b99"))
        await toy.until_idle(backend.facts)
        assert service.decided[before:].count("a") == 0
        clock.advance(1)
        toy.runner.deciding.wake()
        await toy.until(lambda: "a" in service.decided[before:])


async def test_effects_follow_the_stored_events(backend):
    service = Toy()
    service.effect_for = {"a"}
    async with running(service, backend) as toy:
        await backend.facts.append([wanted("a"), wanted("b")])
        await toy.until(lambda: service.effects == ["explain a"])
        assert len(await placements(backend.facts)) == 2


async def test_a_refused_event_parks_its_key_only(backend):
    faulty = FaultyLog(backend.facts)
    faulty.refuse = lambda message: message.subject.startswith("placement.") and message.subject.endswith(".bad")
    async with running(Toy(), backend, logs={**backend.logs, "FACTS": faulty}) as toy:
        await backend.facts.append([wanted("bad"), wanted("a"), wanted("b")])
        await toy.until(lambda: placed_on(toy.state, "a") and placed_on(toy.state, "b"))
        await toy.until(lambda: toy.runner.deciding.troubles.parked)
        await until_parked(backend)
    assert await parked_keys(backend) == [str(key("bad"))]


async def test_an_event_without_a_subject_parks_its_key_only(backend):
    class Careless(Toy):
        def decide(self, state, key, now):
            decision = super().decide(state, key, now)
            if key.name != "bad":
                return decision
            nameless = [msgspec.structs.replace(event, key=ObjectKey("", "", "", "")) for event in decision.events]
            return Decision(nameless)

    async with running(Careless(), backend) as toy:
        await backend.facts.append([wanted("bad"), wanted("a"), wanted("b")])
        await toy.until(lambda: placed_on(toy.state, "a") and placed_on(toy.state, "b"))
        await toy.until(lambda: toy.runner.deciding.troubles.parked)
        await eventually(lambda: toy.runner.appender.stats.parked == 1)
    assert toy.runner.stats.failures == QUICK.attempts


async def test_failing_effects_do_not_stop_decisions(backend):
    class Clumsy(Toy):
        async def perform(self, effects):
            raise OSError("no such place")

    service = Clumsy()
    service.effect_for = {"a"}
    async with running(service, backend) as toy:
        await backend.facts.append([wanted("a")])
        await toy.until(lambda: placed_on(toy.state, "a"))
        await backend.facts.append([wanted("a", "m2"), wanted("b")])
        await toy.until(lambda: placed_on(toy.state, "a") == ["m2"] and placed_on(toy.state, "b"))


async def test_marks_from_outside_the_log_are_decided(backend):
    service = Toy()
    async with running(service, backend) as toy:
        await backend.facts.append([wanted("a")])
        await toy.until(lambda: placed_on(toy.state, "a"))
        await toy.until_idle(backend.facts)
        before = len(service.decided)
        toy.runner.mark([key("a")])
        await toy.until(lambda: len(service.decided) == before + 1)


async def test_hooks_are_called_in_order(backend):
    service = Toy()
    async with running(service, backend) as toy:
        await toy.until(lambda: toy.runner.active)
        await eventually(lambda: "leading" in service.hooks)
    assert service.hooks == ["caught up", "leading", "following"]


class Actor(Reader):
    """A service that acts on dirty keys and decides nothing; it needs no lease."""

    leads = False

    def __init__(self):
        super().__init__()
        self.acted = []

    def on_dirty(self, keys):
        self.acted += [k.name for k in keys]


async def test_an_acting_service_gets_dirty_keys_without_a_lease(backend):
    service = Actor()
    async with running(service, backend) as actor:
        await actor.until(lambda: actor.runner.active)
        await backend.facts.append([wanted("a"), released("a"), wanted("b")])
        await actor.until(lambda: {"a", "b"} <= set(service.acted))
    assert await backend.facts.last("lease.toy") is None


async def test_waiting_for_a_position(backend):
    async with running(Toy(), backend) as toy:
        appended = await backend.facts.append([wanted("a")])
        async with asyncio.timeout(60):
            await toy.runner.projection.wait_for(appended.last)
        assert key("a") in toy.state.bindings


class Hesitant(Toy):
    """Puts every decision off for a moment."""

    def __init__(self):
        super().__init__()
        self.put_off = set()

    def decide(self, state, key, now):
        if key not in self.put_off:
            self.put_off.add(key)
            return Decision(wake_at=now + 0.01)
        return super().decide(state, key, now)


async def test_a_decision_that_was_put_off_keeps_its_cause(backend):
    async with running(Hesitant(), backend) as toy:
        await toy.until(lambda: toy.runner.active)
        asked = await backend.facts.append([wanted("a")])
        await toy.until(lambda: placed_on(toy.state, "a"))
    ((_, event),) = await placements(backend.facts)
    assert event.provenance.causes == (asked.last,)


async def test_backoff_of_a_key_survives_a_clock_step(backend):
    service = Toy()
    service.broken = {"a"}
    clock = ManualClock()
    async with running(service, backend, options=replace(QUICK, backoff=5.0, longest_backoff=5.0), clock=clock) as toy:
        await backend.facts.append([wanted("a")])
        await toy.until(lambda: service.decided)
        clock.set(clock.now() - 3600)
        service.broken = set()
        clock.advance(5.1)
        await toy.until(lambda: placed_on(toy.state, "a") == ["m1"])


async def test_brake_is_released_in_time_after_a_clock_step(backend):
    service = Toy()
    service.broken = {f"d{i}" for i in range(20)}
    clock = ManualClock()
    options = replace(QUICK, attempts=1, brake_sample=10, brake_pause=5.0)
    async with running(service, backend, options=options, clock=clock) as toy:
        await backend.facts.append([wanted(name) for name in sorted(service.broken)])
        await toy.until(lambda: toy.runner.deciding and toy.runner.deciding.braked)
        clock.set(clock.now() - 3600)
        service.broken = set()
        clock.advance(5.1)
        await toy.until(lambda: len(toy.state.placements) == 20)


async def test_deadline_is_computed_again_after_a_clock_step(backend):
    """Computed before, it would be an hour away."""
    service = Toy()
    clock = ManualClock()
    async with running(service, backend, clock=clock) as toy:
        service.wake_at = clock.now() + 10
        await backend.facts.append([wanted("a")])
        await toy.until(lambda: placed_on(toy.state, "a"))
        await toy.until_idle(backend.facts)
        service.wake_at = None
        before = len(service.decided)
        clock.set(clock.now() - 3600)
        await toy.until(lambda: len(service.decided) > before)
