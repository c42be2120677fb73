"""Answers what happened to one object: every fact and observation of it, in order, with causes and one line each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import to_builtins

from schemas.keys import ObjectKey
from services._kit.log import Log, Message
from services._rules.timeline import FACTS, OBSERVED, Entry, Fact, foreign_causes, line, subjects_of, timeline
from services.gateway.answers import Failure, bad_request
from services.gateway.shapes import Manifest, encode, time_text

HISTORY: Final = "HISTORY"
SOURCE_HEADER: Final = "Nats-Stream-Source"
FOREIGN: Final = 100
"""Causes of other objects that are looked up for one answer."""


class Histories:
    """Reads the streams when somebody asks; nothing of it is kept."""

    def __init__(self, logs: Mapping[str, Log]) -> None:
        self._logs = logs

    async def document(self, resource: str, namespace: str, name: str) -> bytes:
        """The history of an object as JSON; raises Failure 404 when the log knows nothing of it."""
        key = key_of(resource, namespace, name)
        entries = await self.entries(key)
        if not entries:
            raise Failure(404, "NotFound", f"the log holds no fact about {key}; is it claimed by a policy?")
        body: Manifest = {
            "kind": "History",
            "apiVersion": "fleetlog/v1",
            "object": {"resource": key.group_resource, "namespace": key.namespace, "name": key.name},
            "began": time_text(entries[0].time),
            "entries": [_shown(entry) for entry in entries],
        }
        return encode(body)

    async def entries(self, key: ObjectKey) -> list[Entry]:
        """The steps of an object's story."""
        subjects = subjects_of(key)
        facts = await self._facts(subjects[FACTS])
        facts += [
            Fact(message.seq, message.time, message.subject, message.data, OBSERVED)
            async for message in self._logs[OBSERVED].read(subjects[OBSERVED])
        ]
        entries = timeline(facts)
        foreign = foreign_causes(entries)[-FOREIGN:]
        if not foreign:
            return entries
        return timeline(facts, await self._at(foreign))

    async def _facts(self, subjects: Sequence[str]) -> list[Fact]:
        """Facts of the tail, and the older ones that only the history holds, each once under its own position."""
        found = {message.seq: _fact(message, message.seq) async for message in self._logs[FACTS].read(subjects)}
        async for message in self._logs[HISTORY].read(subjects):
            seq = origin(message)
            if seq not in found:
                found[seq] = _fact(message, seq)
        return list(found.values())

    async def _at(self, positions: Iterable[int]) -> list[Fact]:
        messages = [await self._logs[FACTS].get(position) for position in positions]
        return [_fact(message, message.seq) for message in messages if message is not None]


def _fact(message: Message, seq: int) -> Fact:
    return Fact(seq, message.time, message.subject, message.data)


def origin(message: Message) -> int:
    """Position in FACTS of a message of HISTORY: its own position there is another one."""
    stream, _, rest = message.headers.get(SOURCE_HEADER, "").partition(" ")
    number = rest.partition(" ")[0]
    return int(number) if stream.partition(":")[0] == FACTS and number.isdecimal() else message.seq


def _shown(entry: Entry) -> Manifest:
    """A step with the line that people read."""
    return {**to_builtins(entry), "line": line(entry)}


def key_of(resource: str, namespace: str, name: str) -> ObjectKey:
    """Key of `<resource.group>`, `<namespace or _>` and a name; raises Failure 400 for an empty part."""
    plural, _, group = resource.partition(".")
    if not plural or not name or not namespace:
        raise bad_request("use /fleetlog/v1/history/<resource.group>/<namespace or _>/<name>")
    return ObjectKey(group=group, resource=plural, namespace="" if namespace == "_" else namespace, name=name)
