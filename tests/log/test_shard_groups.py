"""Shard groups: shared among instances, moved when one dies, and never led by instances that divide differently."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from schemas.codec import decode, encode
from schemas.envelope import HEADER_PRODUCER
from schemas.events.lease import LeaseTaken
from schemas.shard_groups import ShardGroup, group_name, groups_of
from schemas.subjects import lease
from services._kit.base.log_errors import FenceLost
from services._kit.leadership.lease import Lease
from services._kit.leadership.shard_balance import Presence, ShardBalance
from services._kit.leadership.sharding import ENDED
from services._kit.log.stream_port import Fence, NewMessage
from tests.log.running import QUICK, TAKEOVER_AFTER, Running, as_time_passes, eventually
from tests.log.toy import Toy, key, placed_on, wanted
from tests.support.manual_clock import ManualClock

NAMES = [f"app-{number}" for number in range(24)]


class Divided(Toy):
    """The toy under the name of a service that is divided."""

    name = "executor"


class Instance:
    """One process: a runner for every group, and what shares them."""

    def __init__(self, backend, name, count, clock):
        self.name = name
        self.groups = [Running(Divided(), backend, name, clock=clock, group=group) for group in groups_of(count)]
        leases = [running.runner.lease for running in self.groups]
        self.balance = ShardBalance("executor", name, leases, backend.bus, self._ready, clock, QUICK.heartbeat)
        self._task = asyncio.create_task(self.balance.run())

    def _ready(self):
        return all(running.runner.projection.ready for running in self.groups)

    @property
    def leads(self):
        return {running.runner.group.index for running in self.groups if running.runner.active}

    async def kill(self):
        self._task.cancel()
        await asyncio.gather(self._task, *(running.kill() for running in self.groups), return_exceptions=True)


@pytest.fixture
def clock():
    """The time of all instances of a test."""
    return ManualClock()


@pytest.fixture
async def instances():
    """All that were started; they are killed after the test."""
    made = []
    yield made
    for instance in made:
        await instance.kill()


@pytest.fixture
def start(backend, clock, instances):
    def begin(name, count=2):
        instances.append(Instance(backend, name, count, clock))
        return instances[-1]

    return begin


@pytest.fixture
def until(clock, instances):
    """Waits while time passes for all instances; those that were killed lead nothing."""

    async def wait(condition, what):
        living = [running.runner.lease for instance in instances for running in instance.groups]
        await as_time_passes(clock, condition, what, living)

    return wait


async def placed(backend):
    """Who placed each object last, by the names on the log."""
    last = {}
    async for message in backend.facts.read(["placement.>"]):
        last[decode(message.subject, message.data).key.name] = message.headers[HEADER_PRODUCER]
    return last


async def leases_of(backend, index):
    return [decode(m.subject, m.data) async for m in backend.facts.read([lease(group_name("executor", index))])]


async def test_instances_share_groups_of_objects(backend, start, until):
    first = start("a")
    await until(lambda: first.leads == {0, 1}, "the first instance leads all")
    second = start("b")
    await until(lambda: sorted(map(len, (first.leads, second.leads))) == [1, 1], "each leads one")
    await backend.facts.append([wanted(name) for name in NAMES])

    async def all_placed():
        return set(await placed(backend)) == set(NAMES)

    await eventually(all_placed, "all are placed")
    leaders = {}
    async for message in backend.facts.read(["lease.*", "placement.>"]):
        event = decode(message.subject, message.data)
        if isinstance(event, LeaseTaken):
            leaders[event.service] = event.instance
            continue
        (name,) = [group.named("executor") for group in groups_of(2) if group.owns(str(event.key))]
        assert message.headers[HEADER_PRODUCER] == f"{name}/{leaders[name]}"
    for running in (*first.groups, *second.groups):
        assert {name for name in NAMES if not running.runner.group.owns(str(key(name)))}.isdisjoint(
            running.service.decided
        )


async def test_the_groups_of_a_dead_instance_move(backend, start, until, clock):
    first, second = start("a"), start("b")
    await until(lambda: sorted(map(len, (first.leads, second.leads))) == [1, 1], "each leads one")
    await first.kill()
    await backend.facts.append([wanted(name) for name in NAMES])
    await until(lambda: second.leads == {0, 1}, "the other leads all")

    async def all_placed():
        return set(await placed(backend)) == set(NAMES)

    await eventually(all_placed, "all are placed")
    # Nothing is handed over to the dead one any more.
    clock.advance(TAKEOVER_AFTER)
    third = start("c")
    await until(lambda: sorted(map(len, (second.leads, third.leads))) == [1, 1], "each leads one again")


async def test_three_instances_lead_four_groups(backend, start, until):
    instances = [start(name, 4) for name in "abc"]
    await until(
        lambda: (
            sorted(index for one in instances for index in one.leads) == [0, 1, 2, 3]
            and sorted(len(one.leads) for one in instances) == [1, 1, 2]
        ),
        "all have work",
    )


async def test_taking_the_first_lease_ends_other_shardings(backend, start, until):
    first = start("a")
    await until(lambda: first.leads == {0, 1}, "the first instance leads all")
    whole = start("whole", 1)
    await whole.groups[0].until(lambda: whole.groups[0].runner.projection.ready)
    await first.kill()
    await until(lambda: whole.leads == {0}, "the undivided instance leads")
    ended = (await leases_of(backend, 1))[-1]
    assert (ended.instance, ended.reason, ended.groups) == ("whole", ENDED, 1)
    await backend.facts.append([wanted(name) for name in NAMES])
    runner = whole.groups[0]
    await runner.until(lambda: all(placed_on(runner.state, name) for name in NAMES))
    # Those who divide come back, and wait for the undivided one.
    third = start("c")
    await eventually(lambda: third.groups[1].runner.projection.ready, "the projections are complete")
    await whole.kill()
    await until(lambda: third.leads == {0, 1}, "the dividing instance leads all")


class Competing:
    """A lease that runs without a runner."""

    def __init__(self, backend, name, group, clock):
        self.lease = Lease(
            backend.facts,
            backend.bus,
            "executor",
            name,
            interval=QUICK.heartbeat,
            takeover_after=TAKEOVER_AFTER,
            clock=clock,
            group=group,
        )
        self._task = asyncio.create_task(self.lease.run())

    async def kill(self):
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


@pytest.fixture
async def compete(backend, clock):
    made = []

    def begin(name, group):
        made.append(Competing(backend, name, group, clock))
        return made[-1]

    yield begin
    for one in made:
        await one.kill()


async def test_a_leader_of_another_sharding_writes_nothing_any_more(backend, compete, clock):
    zero = compete("a", ShardGroup(0, 2))
    await eventually(lambda: zero.lease.is_leader, "the first group is led")
    one = compete("b", ShardGroup(1, 2))
    await eventually(lambda: one.lease.is_leader, "the second group is led")
    fence = one.lease.fence()
    await zero.kill()
    whole = compete("c", ShardGroup())
    await as_time_passes(clock, lambda: whole.lease.is_leader, "the undivided instance leads")
    with pytest.raises(FenceLost):
        await backend.facts.append([wanted("x")], Fence(fence.subject, fence.seq))
    one.lease.observe(await backend.facts.last(lease("executor-1")))
    assert not one.lease.is_leader
    assert [event.instance for event in await leases_of(backend, 1)][-1] == "c"


async def test_the_first_lease_ends_terms_of_other_shardings(backend, compete):
    zero = compete("a", ShardGroup(0, 2))
    await eventually(lambda: zero.lease.is_leader, "the first group is led")
    one = compete("b", ShardGroup(1, 2))
    await eventually(lambda: one.lease.is_leader, "the second group is led")
    # As by a version that knows of no groups: it ends no other lease.
    await zero.kill()
    first = (await leases_of(backend, 0))[-1]
    old = LeaseTaken(prev=zero.lease.known, service="executor", instance="old")
    await backend.facts.append([NewMessage(lease("executor"), encode(old))])
    message = await backend.facts.last(lease("executor"))
    assert first.groups == 2
    one.lease.observe(message)
    assert not one.lease.is_leader
    assert not await one.lease.sharding.stands()


async def test_only_the_heir_takes_what_is_handed_over(backend, compete):
    zero = compete("a", ShardGroup(0, 2))
    await eventually(lambda: zero.lease.is_leader, "the first group is led")
    one = compete("a", ShardGroup(1, 2))
    await eventually(lambda: one.lease.is_leader, "the second group is led")
    others = [compete(name, ShardGroup(1, 2)) for name in "bcd"]
    await eventually(lambda: all(other.lease.known == one.lease.seq for other in others), "all know the leader")
    one.lease.hand_over("c")
    assert not one.lease.is_leader
    await one.lease.announce()
    await eventually(lambda: others[1].lease.is_leader, "the heir leads")
    taken = (await leases_of(backend, 1))[-1]
    assert (taken.instance, taken.reason) == ("c", "the leader resigned")


async def test_instances_that_divide_otherwise_get_nothing(backend, start, until):
    first = start("a")
    await until(lambda: first.leads == {0, 1}, "the first instance leads all")
    heard = first.balance
    for data in (b"no json", b'{"instance": "b", "groups": 3}', b'{"instance": "a", "groups": 2}'):
        heard._hear(data)
    heard._hand_over()
    assert first.leads == {0, 1}
    heard._hear(msgspec.json.encode(Presence("b", 2)))
    heard._hand_over()
    await until(lambda: first.groups[0].runner.lease.is_leader != first.groups[1].runner.lease.is_leader, "one goes")
