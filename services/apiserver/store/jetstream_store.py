"""A store whose truth is one JetStream stream: a subject per object, the stream sequence as revision, group commit.

All requests of one moment are sent together: a few as pipelined messages, many as one atomic batch (ADR-50 of
NATS). The present state and recent history are kept in memory and updated from acknowledgements; messages that were not
acknowledged to us (a publish that arrived after its time-out) are found by the hole they leave in the sequence and read
before anything later is applied.
"""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections.abc import Sequence
from typing import Any

import structlog

from schemas.envelope import HEADER_TRACEPARENT
from schemas.manifest import Manifest
from services._kit.base.log_errors import LogError
from services._kit.base.settings import SettingsError
from services._kit.concurrency.supervision import Supervised, spawn, supervise
from services._kit.concurrency.tasks import end
from services.apiserver.store.follower import Following
from services.apiserver.store.secret_encryption import Sealing, Secrets
from services.apiserver.store.store_port import (
    MOST_SET_BYTES,
    MOST_SET_OBJECTS,
    Conflict,
    Entry,
    Key,
    StoreTooLarge,
    StoreUnavailable,
)
from services.apiserver.store.stream_connection import NO_MESSAGE, ObjectStream
from services.apiserver.store.subject_names import (
    BATCH_ID,
    BATCH_SEQUENCE,
    DELETED,
    EXPECTED,
    PREV,
    WRITE,
    forget_subject,
    head_in_batch,
    headers_of,
)
from services.apiserver.store.write_queue import Write, WriteQueue, Writes, fail_all

log = structlog.get_logger(__name__)

# What an atomic batch costs before its first message (measured, nats-server 2.15).
_BATCH_SECONDS = 0.0035
# Seconds without an answer after which a server may be cut off from its peers.
_MOVE_AFTER = 6.0
_REFUSED = {10071, 10164, 10201, 10174}


class JetStreamStore(Following):
    """The store port on a stream; the only writer of that stream.

    `keep` messages per object stay in the stream (its history after a restart); `history` events per resource stay in
    memory; deletions are forgotten once more than `tombstones` of them are kept.
    """

    def __init__(
        self,
        servers: str | list[str],
        *,
        stream: str = "OBJECTS",
        prefix: str = "obj",
        history: int = 8192,
        keep: int = 8,
        tombstones: int = 20_000,
        replicas: int = 1,
        ack_timeout: float = 5.0,
        connect_options: dict[str, Any] | None = None,
        sealing: Sealing | None = None,
        drop_unreadable: bool = False,
    ) -> None:
        made = ObjectStream(
            servers,
            name=stream,
            prefix=prefix,
            keep=keep,
            replicas=replicas,
            answer_seconds=ack_timeout,
            options=connect_options or {},
        )
        super().__init__(made, history, sealing)
        self._secrets = Secrets(self, sealing) if sealing is not None else None
        self._tombstone_limit = tombstones
        self._drop_unreadable = drop_unreadable
        self._queue = WriteQueue()
        self._wake = asyncio.Event()
        self._committing = asyncio.Lock()
        self._writer: Supervised | None = None
        self._looks: set[asyncio.Task[None]] = set()
        self._closing = False
        self._ids = itertools.count(1)
        self._single_seconds = _BATCH_SECONDS / 16
        self._boot = uuid.uuid4().hex[:12]

    async def start(self) -> None:
        try:
            await self._start()
        except BaseException:
            await self._disconnect()
            raise

    async def _start(self) -> None:
        stream = self._stream
        await stream.open(self._regained)
        if self._sealing is not None:
            try:
                await self._sealing.start(stream.servers, stream.name, stream.prefix, stream.replicas, stream.options)
            except (LogError, SettingsError) as e:
                raise StoreUnavailable(f"the keys of the Secrets: {e}") from e
        await self._load()
        self._judge_unreadable(drop=self._drop_unreadable)
        self._writer = supervise(f"store-writer:{stream.name}", self._write_loop, returns=True)
        if self._secrets is not None:
            await self._secrets.seal_what_is_clear()
            await stream.nc.subscribe(forget_subject(self._prefix), cb=self._secrets.asked_to_forget)

    async def stop(self) -> None:
        self._closing = True
        self._wake.set()
        if self._writer is not None:
            await asyncio.wait({self._writer.task})
        await end(*self._looks)
        await self._disconnect()

    async def _disconnect(self) -> None:
        if self._sealing is not None:
            await self._sealing.stop()
        await self._stream.close()

    async def _regained(self) -> None:
        """Connected again, perhaps to a restarted server."""
        task = spawn("store-look", self._check_confirmed())
        self._looks.add(task)
        task.add_done_callback(self._looks.discard)

    async def _check_confirmed(self) -> None:
        """Check whether the server lost writes that it had confirmed, before they are served further."""
        try:
            async with self._committing:
                await self._catch_up()
        except Exception as e:  # noqa: BLE001 - the next write or connection checks again
            log.warning("the log does not answer", stream=self._name, error=type(e).__name__)

    async def put(self, key: Key, obj: Manifest, expected: int) -> Entry:
        if self._secrets is not None:
            await self._secrets.prepare(key)
        return await self._submit(Write(key, obj, expected, deleted=False))

    async def put_all(self, puts: Sequence[tuple[Key, Manifest, int]]) -> list[Entry]:
        if self._secrets is not None:
            for key, _, _ in puts:
                await self._secrets.prepare(key)
        batch = [Write(key, obj, expected, deleted=False) for key, obj, expected in puts]
        if len(batch) > MOST_SET_OBJECTS or sum(len(write.value) for write in batch) > MOST_SET_BYTES:
            raise StoreTooLarge(f"a set has at most {MOST_SET_OBJECTS} objects with {MOST_SET_BYTES} bytes")
        # Nothing else is written meanwhile; once it is sent, a caller that goes away does not stop it half-way.
        committed = spawn("store-set", self._commit_set(batch))
        self._looks.add(committed)
        committed.add_done_callback(self._looks.discard)
        await asyncio.shield(committed)
        return await asyncio.gather(*(write.done for write in batch))

    async def _commit_set(self, batch: Writes) -> None:
        """Append a set as one batch, which is never cut; what became of it is told to each of its writes."""
        async with self._committing:
            try:
                if self._closing or self._lost:
                    raise StoreUnavailable(self._lost or "the store is closing")
                for write in batch:
                    self._prepare(write)
                await self._commit_batch(batch, whole=True)
            except (Conflict, StoreUnavailable) as error:
                fail_all(batch, error)

    def _prepare(self, write: Write) -> None:
        """Complete a write for the stream: what it follows, and the encryption of a Secret; raises Conflict."""
        self._check(write)
        write.sequence = write.expected or self._tombs.get(write.key, 0)
        if self._sealing is not None and self._sealing.covers(write.key):
            write.stored = self._sealing.seal(write.key, write.value)

    async def delete(self, key: Key, obj: Manifest, expected: int) -> Entry:
        if self._secrets is not None:
            await self._secrets.prepare(key)
        return await self._submit(Write(key, obj, expected, deleted=True))

    async def forget(self, namespace: str) -> int:
        """Make unreadable what the Secrets of a namespace held before; present ones stay. How many keys were erased.

        Raises StoreUnavailable, then the keys are still there.
        """
        if self._secrets is None:
            raise StoreUnavailable("this server keeps Secrets without keys")
        return await self._secrets.forget(namespace)

    async def settled(self) -> None:
        """Wait until the writes that are under way have their answer."""
        async with self._committing:
            return

    def _submit(self, write: Write) -> asyncio.Future[Entry]:
        if self._closing or self._lost:
            raise StoreUnavailable(self._lost or "the store is closing")
        if not self._queue.busy(write.key):
            self._check(write)
        if len(write.value) > self._stream.nc.max_payload - 4096:
            raise StoreTooLarge(f"{len(write.value)} bytes; the log takes {self._stream.nc.max_payload - 4096}")
        self._queue.add(write)
        self._wake.set()
        return write.done

    def _check(self, write: Write) -> None:
        current = self.get(write.key)
        actual = 0 if current is None else current.revision
        if actual != write.expected:
            raise Conflict(write.key, write.expected, actual)

    async def _write_loop(self) -> None:
        while True:
            await self._wake.wait()
            if not self._queue:
                if self._closing:
                    return
                self._wake.clear()
                continue
            async with self._committing:
                batch = self._queue.take(self._prepare)
                if batch:
                    try:
                        if self._lost:
                            raise StoreUnavailable(self._lost)
                        await self._commit(batch)
                    except Exception as e:  # noqa: BLE001 - the writers get the error, the loop goes on
                        log.error("store write failed", stream=self._name, error=str(e), writes=len(batch))
                        fail_all(batch, StoreUnavailable(str(e)))
            self._queue.release()
            if len(self._tombs) > self._tombstone_limit and not self._queue and not self._lost:
                try:
                    await self._trim(self._tombstone_limit)
                except Exception as e:  # noqa: BLE001 - tried again after the next write
                    log.warning("trimming deletions failed; will try again", stream=self._name, error=str(e))

    async def _commit(self, batch: Writes) -> None:
        """Append writes by whichever way is quicker: an atomic batch costs some milliseconds whatever its size."""
        if len(batch) > max(8, int(_BATCH_SECONDS / self._single_seconds)):
            await self._commit_batch(batch)
            return
        if len(batch) == 1:
            await self._commit_batch(batch)
            return
        loop = asyncio.get_running_loop()
        started = loop.time()
        ids = [f"{self._boot}-{next(self._ids)}" for _ in batch]
        acks = await asyncio.gather(*(self._append([w], i) for w, i in zip(batch, ids, strict=True)))
        self._single_seconds += 0.1 * ((loop.time() - started) / len(batch) - self._single_seconds)
        sent = list(zip(batch, ids, acks, strict=True))
        if None in acks:
            # A failing disk can take a message, acknowledge it, and lose it: a missing answer makes the others of the
            # batch doubtful, too.
            lost = await self._resolve([([w], i) for w, i, ack in sent if ack is None or "error" not in ack])
            if lost:
                await self._commit_batch(lost, again=False)
        else:
            answered = [(ack["seq"], w) for w, _, ack in sent if ack is not None and "error" not in ack]
            for sequence, write in sorted(answered, key=lambda item: item[0]):
                await self._acknowledged([write], sequence)
        for write, _, ack in sent:
            if ack is not None and "error" in ack:
                await self._refused([write], ack["error"])

    async def _commit_batch(self, batch: Writes, *, whole: bool = False, again: bool = True) -> None:
        """Append an atomic batch, or one write as a plain message; one that was lost is sent once more, if `again`.

        A refused batch is halved until one is alone; a `whole` one fails as a whole.
        """
        write_id = f"{self._boot}-{next(self._ids)}"
        ack = await self._append(batch, write_id)
        if ack is None:
            lost = await self._resolve([(batch, write_id)])
            if lost and again:
                await self._commit_batch(lost, whole=whole, again=False)
            else:
                fail_all(lost, _unconfirmed())
        elif "error" in ack:
            await self._refused(batch, ack["error"], whole=whole)
        else:
            await self._acknowledged(batch, ack["seq"])

    async def _refused(self, batch: Writes, error: dict[str, Any], *, whole: bool = False) -> None:
        unavailable = StoreUnavailable(str(error.get("description")))
        if error.get("err_code") not in _REFUSED:
            fail_all(batch, unavailable)
            return
        await self._catch_up()
        if whole:
            for write in batch:
                self._check(write)
            raise unavailable
        if len(batch) > 1:
            half = len(batch) // 2
            for part in (batch[:half], batch[half:]):
                await self._commit_batch(part)
            return
        write = batch[0]
        current = self.get(write.key)
        write.fail(Conflict(write.key, write.expected, 0 if current is None else current.revision))

    async def _append(self, batch: Writes, write_id: str) -> dict[str, Any] | None:
        """Send a batch; None when no answer came."""
        nc = self._stream.nc
        last = len(batch)
        try:
            for number, write in enumerate(batch, 1):
                subject = self._subject(write.key)
                if number < last:
                    head = head_in_batch(
                        write.sequence, write_id, number, deleted=write.deleted, traceparent=write.traceparent
                    )
                    await nc.publish_with_head(subject, head, write.stored)
                    continue
                headers = {EXPECTED: str(write.sequence), PREV: str(write.sequence), WRITE: write_id}
                if write.deleted:
                    headers[DELETED] = "1"
                if write.traceparent:
                    headers[HEADER_TRACEPARENT] = write.traceparent
                if last > 1:
                    headers |= {BATCH_ID: write_id, BATCH_SEQUENCE: str(number), "Nats-Batch-Commit": "1"}
                return await self._stream.request(subject, write.stored, headers)
        except Exception as e:  # noqa: BLE001 - whatever it was, the outcome is unknown and gets resolved
            log.warning("no answer to a write", stream=self._name, error=type(e).__name__, writes=last)
        return None

    async def _acknowledged(self, batch: Writes, last_sequence: int) -> None:
        first = last_sequence - len(batch) + 1
        if last_sequence <= self.revision:
            # Catching up met these messages before their answer was found.
            for number, write in enumerate(batch):
                if self._last(write.key) < first + number:
                    self._lose(f"stream {self._name} lost what it had confirmed; restart to rebuild")
                    write.fail(StoreUnavailable(self._lost))
                    continue
                known = self.get(write.key)
                if known is None or known.revision != first + number:
                    known = Entry(write.key, write.value, first + number, write.obj)
                write.succeed(known)
            return
        if first != self.revision + 1:
            await self._catch_up(first - 1)
        for number, write in enumerate(batch):
            entry = Entry(write.key, write.value, first + number, write.obj)
            self._take(entry, deleted=write.deleted)
            write.succeed(entry)

    async def _resolve(self, unsure: list[tuple[Writes, str]]) -> Writes:
        """Find out what became of batches that were not confirmed, or not so that one can rely on it; up to 30 seconds.

        What the stream shows of them counts once the server confirmed a later message. Returns the writes that were
        lost; all fail where that was not found out.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + 30
        move_at = loop.time() + _MOVE_AFTER
        while not self._lost:
            try:
                # Its answer comes behind all that was sent before. The client's flush would not do: where the server
                # answers it after its time-out, the client reads no more.
                if await self._same() is None:
                    break
                until = await self._barrier()
                stored = await self._places(unsure)
                for sequence, batch in stored:
                    await self._acknowledged(batch, sequence)
                await self._catch_up(until)
                return [write for batch, _ in unsure if all(batch is not one for _, one in stored) for write in batch]
            except Exception as e:  # noqa: BLE001 - the client's errors share no base class
                log.warning("the log does not answer", stream=self._name, error=type(e).__name__)
            if loop.time() > deadline:
                break
            if loop.time() > move_at and len(self._stream.nc.servers) > 1:
                move_at = deadline
                log.warning("trying another server of the log", stream=self._name)
                await self._stream.nc.force_reconnect()
            await asyncio.sleep(0.25)
        for batch, _ in unsure:
            fail_all(batch, StoreUnavailable(self._lost) if self._lost else _unconfirmed())
        return []

    async def _places(self, unsure: list[tuple[Writes, str]]) -> list[tuple[int, Writes]]:
        """Batches that the stream shows, by the sequence of their last message; raises StoreUnavailable."""
        places: list[tuple[int, Writes]] = []
        for batch, write_id in unsure:
            found = await self._stream.api("STREAM.MSG.GET", {"last_by_subj": self._subject(batch[-1].key)})
            message = found.get("message")
            if message is None and found.get("error", {}).get("err_code") != NO_MESSAGE:
                raise StoreUnavailable(f"the log does not tell what it holds: {found.get('error')}")
            if message is not None and headers_of(message).get(WRITE) == write_id:
                places.append((int(message["seq"]), batch))
        return sorted(places, key=lambda place: place[0])


def _unconfirmed() -> StoreUnavailable:
    return StoreUnavailable("the log did not confirm the write")
