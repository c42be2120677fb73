"""Reads the log as it lies in its streams and checks that it is whole: JSON and positions alone, no code of ours."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Final

import nats
from msgspec import Struct
from nats.aio.client import Client
from nats.errors import TimeoutError as NoMessages
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

from schemas.manifest import Manifest
from tests.support.closing import closing

_BATCH: Final = 500
_WAIT: Final = 2.0
_CONTEXT: Final = ("cluster", "policy", "absence", "confirmation")
"""Subjects whose facts concern many objects."""
OURS: Final = "system:serviceaccount:karmada-cluster:"


class Fact(Struct, frozen=True):
    """What is kept of an event: its subject, its kind, and the object and cluster it names."""

    subject: str
    type: str
    key: tuple[str, ...]
    cluster: str
    causes: tuple[int, ...]


class Record(Struct, frozen=True):
    """A message as the server hands it out."""

    seq: int
    """Position in its stream."""
    origin: int
    """Position in FACTS."""
    subject: str
    id: str
    body: Manifest


class History:
    """All facts that HISTORY held when it was read last; each reading goes on where the one before ended."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._next = 1
        self._facts: dict[int, Fact] = {}
        self._ids: dict[int, str] = {}
        self._last: dict[str, int] = {}
        self._seen: set[str] = set()
        self._end = 0

    async def check(self, counts: Counter[str]) -> list[str]:
        """Read what came since, and what FACTS holds; every gap, every double, every withdrawal without a cause."""
        async with closing(await nats.connect(self._url, connect_timeout=10)) as client:
            end = await _end(client, "FACTS")
            complaints = [
                text async for record in _records(client, "HISTORY", self._next) for text in self.take(record, counts)
            ]
            if self._end < end:
                complaints.append(f"HISTORY ends at {self._end}, FACTS at {end}")
            async for record in _records(client, "FACTS", 1):
                counts["facts in the history"] += 1
                if record.origin <= self._end and self._ids.get(record.origin) != record.id:
                    complaints.append(
                        f"FACTS {record.origin} ({record.subject}) is event {record.id}, "
                        f"HISTORY has {self._ids.get(record.origin, 'nothing')} there"
                    )
            return complaints

    def take(self, record: Record, counts: Counter[str]) -> Iterator[str]:
        """Take in the next message of HISTORY; what is wrong with it."""
        if record.seq != self._next:
            yield f"HISTORY has no message between {self._next} and {record.seq}"
        self._next = record.seq + 1
        counts["history without gaps"] += 1
        if record.origin != self._end + 1:
            yield f"HISTORY {record.seq}: FACTS {record.origin} follows FACTS {self._end}"
        self._end = record.origin
        prev = int(record.body.get("prev", 0))
        named = prev if prev >= 0 else record.origin + prev
        last = self._last.get(record.subject, 0)
        if named != last:
            yield f"FACTS {record.origin} ({record.subject}) names {named} as the one before, that was {last}"
        self._last[record.subject] = record.origin
        if not record.id or record.id in self._seen:
            yield f"FACTS {record.origin} ({record.subject}) has the event id {record.id!r} of another"
        self._seen.add(record.id)
        self._ids[record.origin] = record.id
        fact = self._facts[record.origin] = _fact(record)
        if fact.type.startswith("WorkWithdrawn"):
            counts["withdrawals with a cause"] += 1
            yield from self._causes(record.origin, fact)

    def _causes(self, seq: int, fact: Fact) -> list[str]:
        if not fact.causes:
            return [f"FACTS {seq} ({fact.subject}) is a withdrawal without a cause"]
        complaints = []
        for cause in fact.causes:
            other = self._facts.get(cause)
            concerns = other is not None and (
                other.subject.partition(".")[0] in _CONTEXT or (fact.key and other.key == fact.key)
            )
            if cause >= seq or not concerns:
                complaints.append(f"FACTS {seq} ({fact.subject}) names {cause} ({other}) as the cause of a withdrawal")
        return complaints

    def withdrawals(self) -> Counter[tuple[str, tuple[str, ...]]]:
        """How often each object was withdrawn from each cluster."""
        return Counter(
            (fact.cluster, fact.key) for fact in self._facts.values() if fact.type.startswith("WorkWithdrawn")
        )


def _fact(record: Record) -> Fact:
    body = record.body
    key = body.get("key")
    causes = (body.get("provenance") or {}).get("causes") or ()
    return Fact(
        record.subject,
        str(body.get("type", "")),
        tuple(map(str, key)) if isinstance(key, list) else (),
        str(body.get("cluster", "")),
        tuple(causes),
    )


async def _end(client: Client, stream: str) -> int:
    return int((await client.jetstream().stream_info(stream)).state.last_seq)


async def _records(client: Client, stream: str, start: int) -> AsyncIterator[Record]:
    """Every message of a stream from a position on."""
    end = await _end(client, stream)
    if start > end:
        return
    config = ConsumerConfig(
        deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
        opt_start_seq=start,
        ack_policy=AckPolicy.NONE,
        inactive_threshold=60.0,
        mem_storage=True,
    )
    reader = await client.jetstream().pull_subscribe("", stream=stream, config=config)
    at = start - 1
    try:
        while at < end:
            try:
                messages = await reader.fetch(_BATCH, timeout=_WAIT)
            except NoMessages:
                return
            for message in messages:
                at = message.metadata.sequence.stream
                headers = message.headers or {}
                source = headers.get("Nats-Stream-Source", "").split(" ")
                origin = int(source[1]) if len(source) > 1 and source[1].isdecimal() else at
                body = json.loads(message.data)
                yield Record(at, origin, message.subject, headers.get("Fleetlog-Event-Id", ""), body)
    finally:
        await reader.unsubscribe()


class Deletions:
    """The members' audit logs: who deleted what."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        self._files = files
        self._places = dict.fromkeys(files, 0)
        self._ours: Counter[tuple[str, tuple[str, ...]]] = Counter()
        self._writes: dict[tuple[str, tuple[str, ...]], list[str]] = {}
        """What was written to each object, and by whom: told with a complaint."""

    def check(self, withdrawals: Counter[tuple[str, tuple[str, ...]]], counts: Counter[str]) -> list[str]:
        """Deletions by our identity that no withdrawal on the log stands for."""
        for member, path in self._files.items():
            with path.open("rb") as file:
                file.seek(self._places[member])
                for line in file:
                    if not line.endswith(b"\n"):
                        break
                    self._places[member] += len(line)
                    record = json.loads(line)
                    if record["subresource"] or record["resource"] == "leases" or record.get("refused"):
                        continue
                    key = (record["group"], record["resource"], record["namespace"], record["name"])
                    said = f"{record['time']} {record['verb']} by {record['user']}"
                    self._writes.setdefault((member, key), []).append(said)
                    if record["verb"] == "delete" and record["user"].startswith(OURS):
                        self._ours[member, key] += 1
        counts["deletions with a withdrawal"] += sum(self._ours.values())
        return [
            f"{member}: {'/'.join(key)} was deleted {count} times by us, {withdrawals[member, key]} withdrawals say so"
            f"; its last writes: {'; '.join(self._writes[member, key][-8:])}"
            for (member, key), count in self._ours.items()
            if count > withdrawals[member, key]
        ]
