"""What operators want done about parked keys is done by the service that leads, and remembered by its successors."""

from __future__ import annotations

from schemas.codec import decode, encode, subject_of
from schemas.events.parked import KeyDropped, KeyRetried
from services._kit.log.stream_port import NewMessage
from tests.log.running import eventually, running
from tests.log.toy import Toy, key, placed_on, wanted

WHY = "RuntimeError: bad is broken"


def said(kind, reason=WHY):
    event = kind(service="toy", key=str(key("bad")), by="anna@console", at=1.0, reason=reason)
    return NewMessage(subject_of(event), encode(event))


async def records(backend):
    found = [message async for message in backend.logs["PARKED"].read(["parked.*"])]
    return [decode(message.subject, message.data).reason for message in found]


async def parked(backend, toy, service):
    """Have key `bad` parked."""
    service.broken = {"bad"}
    await backend.facts.append([wanted("bad")])
    await toy.until(lambda: toy.runner.active and toy.runner.report().parked == 1)


async def test_a_retried_key_is_decided_again(backend):
    service = Toy()
    async with running(service, backend) as toy:
        await parked(backend, toy, service)
        assert [(one.key, one.reason, one.dropped) for one in toy.runner.report().keys] == [
            (str(key("bad")), WHY, False)
        ]
        service.broken = set()
        asked = await backend.facts.append([said(KeyRetried)])
        await toy.until(lambda: placed_on(toy.state, "bad") == ["m1"])
        await toy.until(lambda: toy.runner.report().parked == 0)
        placed = await backend.facts.last(f"placement.{wanted('bad').subject.partition('.')[2]}")
        assert decode(placed.subject, placed.data).provenance.causes == (asked.last,)


async def test_a_key_that_fails_again_is_recorded_again(backend):
    service = Toy()
    async with running(service, backend) as toy:
        await parked(backend, toy, service)
        before = service.decided.count("bad")
        await backend.facts.append([said(KeyRetried)])

        async def twice():
            return await records(backend) == [WHY, WHY]

        await eventually(twice)
        assert service.decided.count("bad") == before + 1
        assert toy.runner.report().parked == 1


async def test_a_dropped_key_is_no_trouble_until_it_fails_otherwise(backend):
    service = Toy()
    async with running(service, backend) as toy:
        await parked(backend, toy, service)
        await backend.facts.append([said(KeyDropped)])
        await toy.until(lambda: (toy.runner.report().parked, toy.runner.report().dropped) == (0, 1))
        before = service.decided.count("bad")
        await backend.facts.append([wanted("bad", "m2")])
        await toy.until(lambda: service.decided.count("bad") > before)
        await toy.until(lambda: not toy.runner.projection.dirty)
        assert (toy.runner.report().parked, toy.runner.report().dropped) == (0, 1)
        service.reason = "another one"
        await backend.facts.append([wanted("bad", "m3")])
        await toy.until(lambda: toy.runner.report().parked == 1)
        assert toy.runner.report().dropped == 0

        async def recorded():
            return (await records(backend))[-1] == "RuntimeError: another one"

        await eventually(recorded)


async def test_the_next_leader_knows_what_was_dropped(backend):
    service = Toy()
    async with running(service, backend) as toy:
        await parked(backend, toy, service)
        await backend.facts.append([said(KeyDropped)])
        await toy.until(lambda: toy.runner.report().dropped == 1)
    again = Toy()
    again.broken = {"bad"}
    async with running(again, backend, "toy-1") as toy:
        await toy.until(lambda: toy.runner.active and toy.runner.report().dropped == 1)
        assert toy.runner.report().parked == 0
        await backend.facts.append([said(KeyRetried)])
        await toy.until(lambda: toy.runner.report().parked == 1)


async def test_words_about_keys_of_another_service_are_not_heard(backend):
    service = Toy()
    async with running(service, backend) as toy:
        await parked(backend, toy, service)
        event = KeyDropped(service="other", key=str(key("bad")), by="anna", at=1.0, reason=WHY)
        await backend.facts.append([NewMessage(subject_of(event), encode(event)), wanted("good")])
        await toy.until(lambda: placed_on(toy.state, "good"))
        assert toy.runner.report().parked == 1
