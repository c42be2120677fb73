"""Reads from the log what a trace is made of: events with their headers, and the writes of the embedded API server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from schemas.envelope import HEADER_CORRELATION, HEADER_EVENT_ID, HEADER_PRODUCER, HEADER_TRACEPARENT
from schemas.events.autoscaling import ReplicasRecommended
from schemas.events.binding import BindingRequested
from schemas.events.policy import PolicyChanged, PolicyDeleted
from schemas.events.template import TemplateChanged, TemplateDeleted
from schemas.keys import ObjectKey
from schemas.subjects import NO_NAMESPACE, escape, policy
from schemas.topology import FACTS, OBJECTS, OBSERVED
from services._kit.base.log_errors import LogError
from services._kit.log.fact_history import merged, stored_at
from services._kit.log.stream_port import Log, Message
from services._rules.constants import FEDERATED_HPA
from services._rules.history.timeline import object_of, subjects_of
from services._rules.tracing.api_requests import StoredWrite, request_behind
from services._rules.tracing.logged_event import LoggedEvent, Position, Step, named_causes, step_of
from services.apiserver.store.store_port import Key
from services.apiserver.store.subject_names import DELETED, PREV, subject_of

FOREIGN: Final = 200
"""Facts of other objects that are looked up for the traces of one."""
ROUNDS: Final = 6
"""How many causes of causes are looked up."""
_PREFIX: Final = OBJECTS.subjects[0].partition(".")[0]
OBJECTS_ASKED: Final = 64
"""Objects whose writes are looked up at once."""
WRITES: Final = 8
"""Writes of one object that are read: as many as the embedded API server keeps."""
PATIENCE: Final = 2.0
"""Seconds for the writes of one object; a trace does without them where that is not enough."""


class _Metadata(Struct):
    uid: str = ""
    generation: int = 0


class _Stored(Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


def logged_event(message: Message, seq: int, stream: str) -> LoggedEvent:
    """A message as traces take it, under its position in FACTS or OBSERVED."""
    headers = message.headers
    return LoggedEvent(
        stream,
        seq,
        stored_at(message),
        message.subject,
        message.data,
        headers.get(HEADER_EVENT_ID, ""),
        headers.get(HEADER_CORRELATION, ""),
        headers.get(HEADER_PRODUCER, ""),
    )


async def steps_about(logs: Mapping[str, Log], store: Log, key: ObjectKey) -> list[Step]:
    """Everything about an object, what caused it, its policies, and the autoscalers that scale it.

    `store` is the stream of the embedded API server, which need not be there.
    """
    subjects = subjects_of(key)
    facts = await merged(logs, subjects[FACTS.name])
    found = {(FACTS.name, seq): logged_event(message, seq, FACTS.name) for seq, message in facts.items()}
    if not found:
        return []
    async for message in logs[OBSERVED.name].read(subjects[OBSERVED.name]):
        found[OBSERVED.name, message.seq] = logged_event(message, message.seq, OBSERVED.name)
    steps = {position: step_of(one) for position, one in found.items()}
    for step in await _related(logs, key, steps.values()):
        steps.setdefault(step.at.position, step)
    for _ in range(ROUNDS):
        lacking = _lacking(steps)
        if not lacking:
            break
        fetched = await asyncio.gather(*(logs[stream].get(seq) for stream, seq in lacking))
        for (stream, seq), stored in zip(lacking, fetched, strict=True):
            if stored is not None:
                steps[stream, seq] = step_of(logged_event(stored, seq, stream))
        if not any(fetched):
            break
    return await with_requests(store, list(steps.values()))


def _lacking(steps: Mapping[Position, Step]) -> list[Position]:
    """Causes that are not at hand, as many as are looked up."""
    causes = {cause for step in steps.values() for cause in named_causes(step)}
    return sorted(cause for cause in causes if cause not in steps)[-FOREIGN:]


async def _related(logs: Mapping[str, Log], key: ObjectKey, steps: Iterable[Step]) -> list[Step]:
    """Facts that steps of an object follow from without naming them: its policies, and what scales it."""
    policies = {
        event.policy.key for step in steps if isinstance(event := step.event, BindingRequested) and event.policy
    }
    namespace = escape(key.namespace) if key.namespace else NO_NAMESPACE
    subjects = [*map(policy, sorted(policies)), f"autoscaling.{FEDERATED_HPA}.{namespace}.*"]
    messages = await merged(logs, subjects)
    related = [step_of(logged_event(message, seq, FACTS.name)) for seq, message in messages.items()]
    return [step for step in related if not isinstance(step.event, ReplicasRecommended) or step.event.target == key]


async def with_requests(store: Log, steps: Sequence[Step]) -> list[Step]:
    """Steps with the requests that they follow from, as far as the embedded API server still holds those."""
    changed = {key for step in steps if (key := changed_object(step)) is not None}
    asked = sorted(changed)[:OBJECTS_ASKED]
    found = dict(zip(asked, await asyncio.gather(*(_writes_of(store, key) for key in asked)), strict=True))
    return [_with_request(step, found) for step in steps]


async def _writes_of(store: Log, key: ObjectKey) -> list[StoredWrite]:
    subject = subject_of(_PREFIX, Key(key.group, key.resource, key.namespace, key.name))
    try:
        async with asyncio.timeout(PATIENCE):
            found: list[StoredWrite] = []
            message = await store.last(subject)
            while message is not None and message.subject == subject:
                found.insert(0, _write(message))
                previous = found[0].previous
                if not previous or len(found) == WRITES:
                    break
                message = await store.get(previous)
            return found
    except (LogError, TimeoutError):
        # A kube-apiserver keeps its objects elsewhere, and observers may not read this stream.
        return []


def _write(message: Message) -> StoredWrite:
    headers = message.headers
    previous = headers.get(PREV, "0")
    try:
        metadata = msgspec.json.decode(message.data, type=_Stored).metadata
    except msgspec.MsgspecError:
        # A Secret is stored encrypted.
        metadata = _Metadata()
    return StoredWrite(
        message.seq,
        stored_at(message),
        int(previous) if previous.isdecimal() else 0,
        DELETED in headers,
        metadata.uid,
        metadata.generation,
        headers.get(HEADER_TRACEPARENT, ""),
    )


def _with_request(step: Step, writes: Mapping[ObjectKey, Sequence[StoredWrite]]) -> Step:
    key = changed_object(step)
    if key is None or step.event is None:
        return step
    request = request_behind(step.event, step.at.time, writes.get(key, ()), key.resource)
    return step if request is None else replace(step, at=replace(step.at, request=request))


def changed_object(step: Step) -> ObjectKey | None:
    """The object of the control plane whose change a step tells of; None of other steps."""
    event = step.event
    match event:
        case TemplateChanged() | TemplateDeleted():
            return event.key
        case PolicyChanged() | PolicyDeleted():
            return object_of(event.key)
        case _:
            return None
