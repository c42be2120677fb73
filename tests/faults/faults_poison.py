"""Fault: among a thousand templates some make a service fail every time; the others do not notice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec

from schemas.codec import decode, encode
from schemas.events.parked import KeyParked
from schemas.events.work import WorkRendered
from schemas.keys import ObjectKey
from schemas.manifest import Manifest
from schemas.subjects import facet, work
from services._kit.log.stream_port import Message
from services.cli.installation.up import SERVICES
from tests.faults.ground_thousand import NAMES, NAMESPACE, contents, path, policies
from tests.faults.leading import primaries_lead
from tests.faults.scene import Scene

CHANGED: Final = 200
"""Templates that a round changes, the poisoned ones among them."""
_VICTIMS: Final = ("override_renderer", "detector", "executor", "scheduler", "status_aggregator", "gateway")
_AT_ONCE: Final = 16


async def poisoned(scene: Scene) -> None:
    """Two by overrides that cannot be carried out, two by what stands on the log in place of an event of theirs."""
    await primaries_lead(scene)
    scene.eyes.forgiven = frozenset({"fleetlog_unreadable_total", "fleetlog_log_gaps_total"})
    since = {name: await scene.eyes.end_of(name) for name in ("FACTS", "PARKED")}
    chosen = scene.chance.sample(NAMES, CHANGED)
    refused, raising, malformed, newer = chosen[:4]
    token = f"{scene.namespace}"
    await _override(scene, refused, {"path": "/data/nothing/here", "operator": "replace", "value": "x"})
    await _override(scene, raising, {"path": "/metadata", "operator": "replace", "value": "x"})
    spoilt = [
        await _inject(scene, facet("template", _key(malformed)), lambda data: data[: len(data) // 2]),
        await _inject(scene, facet("binding", _key(newer)), _of_a_newer_version),
    ]

    async def change() -> None:
        free = asyncio.Semaphore(_AT_ONCE)

        async def one(name: str) -> None:
            async with free:
                await scene.load.insist(
                    lambda: scene.eyes.control.patch(path(name), {"data": {"round": token}}), "patch"
                )

        async with asyncio.TaskGroup() as group:
            for name in chosen:
                group.create_task(one(name))

    await scene.under_load(change, at=0.1)
    poison, healthy = set(chosen[:4]), set(chosen[4:])
    await scene.wait("all others are delivered", lambda: _delivered(scene, healthy, token))
    await scene.wait("what is poison is named", lambda: _named(scene, poison, since))
    victim = scene.chance.choice(_VICTIMS)
    scene.fleet.kill(victim)
    await scene.wait("every service is ready in spite of it", lambda: _ready(scene))
    scene.outcome.complaints += [
        f"{member} got {name} though it is poison"
        for member, held in (await contents(scene.eyes)).items()
        for name in (refused, raising, newer)
        if held.get(name) == token
    ]
    for name in (refused, raising):
        await scene.eyes.control.delete(f"{policies('overridepolicies')}/{name}")
    for before, by_hand in spoilt:
        await _restore(scene, before, by_hand)
    await scene.wait("what was poison is delivered once it is repaired", lambda: _delivered(scene, poison, token))
    scene.outcome.notes.append(f"4 of {len(NAMES)} poisoned, {len(healthy)} others changed, killed {victim}")


async def _override(scene: Scene, name: str, item: Manifest) -> None:
    selector = {"apiVersion": "v1", "kind": "ConfigMap", "name": name}
    body = {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "OverridePolicy",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"resourceSelectors": [selector], "overrideRules": [{"overriders": {"plaintext": [item]}}]},
    }
    await scene.load.insist(lambda: scene.eyes.control.create(policies("overridepolicies"), body), "create")


def _key(name: str) -> ObjectKey:
    return ObjectKey("", "configmaps", NAMESPACE, name)


def _of_a_newer_version(data: bytes) -> bytes:
    event = msgspec.json.decode(data)
    tag = str(event["type"]).partition(".")[0]
    return msgspec.json.encode({**event, "type": f"{tag}.v99", "surprise": {"of": "tomorrow"}})


async def _inject(scene: Scene, subject: str, spoil: Callable[[bytes], bytes]) -> tuple[Message, int]:
    """Store something unreadable as the newest event of a subject; what stood there, and the position of the new."""
    last = await scene.eyes.last("FACTS", subject)
    return last, await scene.eyes.store("FACTS", last, spoil(last.data))


async def _restore(scene: Scene, before: Message, by_hand: int) -> None:
    """Store the event again that stood there before, as who repairs a log does; a later one has repaired it already."""
    last = await scene.eyes.last("FACTS", before.subject)
    if last.seq == by_hand:
        event = msgspec.structs.replace(decode(before.subject, before.data), prev=last.seq)
        await scene.eyes.store("FACTS", last, encode(event))


async def _delivered(scene: Scene, names: set[str], token: str) -> bool:
    return all(held.get(name) == token for held in (await contents(scene.eyes)).values() for name in names)


async def _named(scene: Scene, poison: set[str], since: dict[str, int]) -> bool:
    """Whether a parked key, or a work with a problem, names each."""
    named: set[str] = set()
    for message in await scene.eyes.messages("PARKED"):
        event = decode(message.subject, message.data)
        if message.seq > since["PARKED"] and isinstance(event, KeyParked):
            named |= {name for name in poison if name in event.key or name in event.subject}
    subjects = tuple(work(member, _key(name)) for member in scene.fleet.members for name in poison)
    for message in await scene.eyes.messages("FACTS", subjects):
        if message.seq > since["FACTS"]:
            event = decode(message.subject, message.data)
            if isinstance(event, WorkRendered) and event.problem:
                named.add(event.key.name)
    return named == poison


async def _ready(scene: Scene) -> bool:
    """Every service answers that it is ready."""
    return not await scene.eyes.unready(SERVICES)
