"""Who leads: takeover after silence, goodbye, zombies, and standbys that keep still while the log is away."""

from __future__ import annotations

import asyncio

import pytest

from schemas.codec import decode
from services._kit.base.log_errors import FenceLost, Unavailable
from services._kit.leadership.lease import Lease
from services._kit.leadership.write_guard import LeaderGuard
from services._kit.log.stream_port import NewMessage
from tests.log.running import TAKEOVER_AFTER, as_time_passes, eventually, running
from tests.log.toy import Toy, placed_on, wanted
from tests.support.manual_clock import ManualClock


async def lease_events(backend):
    return [decode(m.subject, m.data) async for m in backend.facts.read(["lease.*"])]


class Instance:
    """A lease that runs."""

    def __init__(self, backend, name, log=None, takeover_after=TAKEOVER_AFTER, bus=None, clock=None):
        self.lease = Lease(
            log or backend.facts,
            bus or backend.bus,
            "toy",
            name,
            interval=0.02,
            takeover_after=takeover_after,
            clock=clock,
        )
        self.task = asyncio.create_task(self.lease.run())

    async def leads(self):
        await eventually(lambda: self.lease.is_leader, f"{self.lease.instance} leads")
        return self

    async def kill(self):
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    async def stop(self):
        await self.lease.resign()
        await self.kill()


@pytest.fixture
def clock():
    """The time of all instances of a test."""
    return ManualClock()


@pytest.fixture
async def start(backend, clock):
    """Starts instances, and kills them after the test."""
    made = []

    def begin(name, *arguments, **options):
        made.append(Instance(backend, name, *arguments, clock=clock, **options))
        return made[-1]

    yield begin
    for one in made:
        await one.kill()


@pytest.fixture
async def deaf(backend, start, clock):
    """A leader, its clock, and its bus, which may stop answering."""
    bus = DeafBus(backend.bus)
    return await start("a", bus=bus).leads(), clock, bus


async def silence(clock, *instances):
    """Let time pass until one of these leads."""
    await as_time_passes(clock, lambda: any(one.lease.is_leader for one in instances), "a takeover")


async def test_the_first_instance_leads_at_once(backend, start):
    one = await start("a", takeover_after=3600).leads()
    assert one.lease.fence().seq == (await backend.facts.last("lease.toy")).seq


async def test_a_standby_keeps_still_while_the_leader_shows_heartbeats(backend, start, clock):
    await start("a").leads()
    heard = []
    await backend.bus.subscribe("alive.toy", heard.append)
    two = start("b")
    await eventually(lambda: two.lease.known)

    async def more():
        before = len(heard)
        await eventually(lambda: len(heard) > before + 2)

    for _ in range(10):
        await more()
        # Together this is far more than the time until a takeover.
        clock.advance(0.6 * TAKEOVER_AFTER)
    await more()
    assert not two.lease.is_leader
    assert len(await lease_events(backend)) == 1


async def test_a_standby_takes_over_from_a_silent_leader(backend, start, clock):
    one = await start("a").leads()
    two = start("b")
    await eventually(lambda: two.lease.known)
    await one.kill()
    await silence(clock, two)
    assert two.lease.seq > one.lease.seq
    assert "silent" in (await lease_events(backend))[-1].reason


async def test_a_goodbye_hands_over_without_waiting(backend, start):
    one = await start("a").leads()
    two = start("b", takeover_after=3600)
    await eventually(lambda: two.lease.known == one.lease.seq)
    await one.stop()
    await two.leads()
    assert "resigned" in (await lease_events(backend))[-1].reason


async def test_an_instance_that_starts_again_does_not_wait_for_itself(backend, start):
    one = await start("a", takeover_after=3600).leads()
    await one.kill()
    await start("a", takeover_after=3600).leads()


async def test_of_many_standbys_one_takes_over(backend, start, clock):
    one = await start("a").leads()
    others = [start(name) for name in "bcdef"]
    await eventually(lambda: all(other.lease.known for other in others))
    await one.kill()
    await silence(clock, *others)
    assert sum(other.lease.is_leader for other in others) == 1
    assert len(await lease_events(backend)) == 2


class SilentLog:
    """A log that stops answering."""

    def __init__(self, inner):
        self.inner = inner
        self.silent = False
        self.asked = 0

    def __getattr__(self, name):
        return getattr(self.inner, name)

    async def last(self, subject):
        self.asked += 1
        if self.silent:
            raise Unavailable("the test made the log silent")
        return await self.inner.last(subject)


async def test_nobody_is_deposed_while_the_log_is_silent(backend, start, clock):
    one = await start("a").leads()
    log = SilentLog(backend.facts)
    two = start("b", log)
    await eventually(lambda: two.lease.known)
    log.silent = True
    await one.kill()
    before = log.asked

    def asked():
        clock.advance(1.0)
        return log.asked > before + 5

    await eventually(asked)
    assert not two.lease.is_leader
    log.silent = False
    await silence(clock, two)


async def test_a_zombie_steps_down_when_it_hears_of_a_newer_lease(backend, start):
    one = await start("a").leads()
    await backend.facts.append([NewMessage("lease.toy", (await backend.facts.last("lease.toy")).data)])
    one.lease.observe(await backend.facts.last("lease.toy"))
    assert one.lease.fence() is None


async def test_a_zombie_leader_cannot_write_and_becomes_a_standby(backend, clock):
    async with running(Toy(), backend, "toy-a", clock=clock) as one:
        await one.until(lambda: one.runner.active)
        first = one.runner.lease.fence()
        await one.runner.lease._bus.publish("alive.toy", b"garbage")
        taken = await backend.facts.append([(NewMessage("lease.toy", (await backend.facts.last("lease.toy")).data))])
        await one.until(lambda: one.runner.lease.known >= taken.last)
        try:
            await backend.facts.append([wanted("zombie")], first)
        except FenceLost:
            pass
        else:
            raise AssertionError("the old fence still let a batch through")
        # Nobody really leads: the instance takes the lease again and goes on.
        await backend.facts.append([wanted("a")])
        await as_time_passes(clock, lambda: placed_on(one.state, "a"), "the placement")
        assert one.runner.terms == 2


async def test_a_warm_standby_goes_on_where_the_leader_was_killed(backend, clock):
    first, second = Toy(), Toy()
    async with (
        running(first, backend, "toy-a", clock=clock) as one,
        running(second, backend, "toy-b", clock=clock) as two,
    ):
        await one.until(lambda: one.runner.active or two.runner.active)
        leader, standby = (one, two) if one.runner.active else (two, one)
        await backend.facts.append([wanted(f"d{i}") for i in range(20)])
        await leader.until(lambda: len(leader.state.placements) == 20)
        await standby.until(lambda: len(standby.state.placements) == 20)
        assert standby.service.decided == []
        await leader.kill()
        await silence(clock, standby.runner)
        await backend.facts.append([wanted("late", "m3")])
        await standby.until(lambda: placed_on(standby.state, "late") == ["m3"])
        assert standby.service.decided == ["late", "late"] or standby.service.decided == ["late"]


class DeafBus:
    """A bus whose server tells nobody that it has got something, while `deaf`."""

    def __init__(self, bus):
        self._bus = bus
        self.deaf = False
        self.sent = 0

    async def deliver(self, subject, data, timeout):
        self.sent += 1
        return False if self.deaf else await self._bus.deliver(subject, data, timeout)

    async def publish(self, subject, data):
        await self._bus.publish(subject, data)

    async def subscribe(self, subject, listener):
        await self._bus.subscribe(subject, listener)


async def beats(bus, count=3):
    """Return after so many further heartbeats."""
    before = bus.sent
    await eventually(lambda: bus.sent >= before + count)


async def test_a_term_is_over_before_a_standby_may_take_over(backend, deaf):
    one, clock, bus = deaf
    await beats(bus)
    assert one.lease.holds
    bus.deaf = True
    await beats(bus)
    clock.advance(7.9)
    assert one.lease.holds
    clock.advance(0.2)
    assert not one.lease.holds, "no heartbeat went through for four fifths of the time"
    assert one.lease.is_leader, "only somebody else's lease deposes it"


async def test_paused_leader_sends_nothing_before_confirmation(backend, deaf):
    one, clock, bus = deaf
    guard = LeaderGuard(one.lease)
    assert not guard.holds, "no term of acting has begun"
    guard.begin()
    await beats(bus)
    assert guard.holds
    bus.deaf = True
    await beats(bus)
    clock.advance(60.0)
    waiting = asyncio.create_task(guard.wait())
    await beats(bus)
    assert not waiting.done()
    bus.deaf = False
    await waiting
    assert guard.holds


async def test_a_replaced_leader_learns_of_it_before_it_sends_anything(backend, deaf):
    one, clock, bus = deaf
    guard = LeaderGuard(one.lease)
    guard.begin()
    bus.deaf = True
    await beats(bus)
    clock.advance(60.0)
    waiting = asyncio.create_task(guard.wait())
    await beats(bus)
    await backend.facts.append([NewMessage("lease.toy", (await backend.facts.last("lease.toy")).data)])
    bus.deaf = False
    with pytest.raises(FenceLost):
        await waiting
    assert not guard.holds


async def test_nothing_of_an_earlier_term_is_sent_in_a_later_one(backend, start):
    one = await start("a", takeover_after=3600).leads()
    guard = LeaderGuard(one.lease)
    guard.begin()
    guard.end()
    assert not guard.holds
    with pytest.raises(FenceLost):
        await guard.wait()
