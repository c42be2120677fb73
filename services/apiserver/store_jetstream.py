"""A store whose truth is one JetStream stream: a subject per object, the stream sequence as revision, group commit.

All requests of one moment are sent together: a few as pipelined messages, many as one atomic batch (ADR-50 of
NATS). The present state and recent history are kept in memory and updated from acknowledgements; messages that were not
acknowledged to us (a publish that arrived after its time-out) are found by the hole they leave in the sequence and read
before anything later is applied. Over 400 lines because the write path and the load path of one stream only make sense
together.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import random
import uuid
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import structlog

from services._kit.errors import LogError
from services._kit.settings import SettingsError
from services._kit.vault import Locked, key_id
from services.apiserver.projection import Cursor, Projection
from services.apiserver.sealing import ClearSecrets, Sealing
from services.apiserver.store import (
    Conflict,
    Entry,
    Event,
    Key,
    Manifest,
    StoreTooLarge,
    StoreUnavailable,
    encode_value,
)

log = structlog.get_logger(__name__)

_EXPECTED = "Nats-Expected-Last-Subject-Sequence"
_PREV = "Fleetlog-Prev"
_WRITE = "Fleetlog-Write"
_DELETED = "Fleetlog-Deleted"
_SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-:@+~")
# What an atomic batch costs before its first message (measured, nats-server 2.15).
_BATCH_SECONDS = 0.0035
_GONE = {10037, 10043}
_ERASED_AT_ONCE = 200
# Seconds without an answer after which a server may be cut off from its peers.
_MOVE_AFTER = 6.0
_APPLYING = 120
_REFUSED = {10071, 10164, 10201, 10174}


def escape(token: str) -> str:
    """A subject token for any text: bytes outside a safe set become =XX; empty becomes "_"."""
    if not token:
        return "_"
    if _SAFE.issuperset(token):
        return token
    return "".join(c if c in _SAFE else "".join(f"={b:02X}" for b in c.encode()) for c in token)


def unescape(token: str) -> str:
    """The inverse of `escape`."""
    if token == "_":
        return ""
    if "=" not in token:
        return token
    out, i = bytearray(), 0
    while i < len(token):
        if token[i] == "=":
            out.append(int(token[i + 1 : i + 3], 16))
            i += 3
        else:
            out += token[i].encode()
            i += 1
    return out.decode()


def forget_subject(prefix: str) -> str:
    """Subject on which a running server is asked to forget what the Secrets of a namespace held before."""
    return f"forget-{prefix}"


class _Write:
    __slots__ = ("deleted", "done", "expected", "key", "obj", "sequence", "stored", "value")

    def __init__(self, key: Key, obj: Manifest, expected: int, deleted: bool) -> None:
        self.key, self.obj, self.expected, self.deleted = key, obj, expected, deleted
        self.value = self.stored = encode_value(obj)
        self.sequence = 0  # last sequence of the subject, tombstones included
        self.done: asyncio.Future[Entry] = asyncio.get_running_loop().create_future()

    def fail(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)


Writes = list[_Write]


class JetStreamStore:
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
        self._servers = [url.strip() for url in servers.split(",")] if isinstance(servers, str) else servers
        self._stream = stream
        self._prefix = prefix
        self._keep = keep
        self._tombstone_limit = tombstones
        self._replicas = replicas
        self._ack_timeout = ack_timeout
        self._options = connect_options or {}
        self._sealing = sealing
        self._drop_unreadable = drop_unreadable
        self._clear = ClearSecrets()
        self._unreadable: dict[Key, tuple[int, str]] = {}
        self._state = Projection(history)
        self._tombs: dict[Key, int] = {}
        self._queue: deque[_Write] = deque()
        self._busy: set[Key] = set()
        self._wake = asyncio.Event()
        self._committing = asyncio.Lock()
        self._writer: asyncio.Task[None] | None = None
        self._nc: Any = None
        self._created = ""
        self._closing = False
        self._lost = ""
        self._ids = itertools.count(1)
        self._single_seconds = _BATCH_SECONDS / 16
        self._boot = uuid.uuid4().hex[:12]

    # -- reads, all from memory

    @property
    def revision(self) -> int:
        return self._state.revision

    @property
    def ready(self) -> bool:
        return not self._lost and self._nc is not None and self._nc.is_connected

    @property
    def lost(self) -> str:
        """Why this store can no longer be trusted (the stream behind it is another one); empty while all is well."""
        return self._lost

    def get(self, key: Key) -> Entry | None:
        return self._state.get(key)

    def list(self, group: str, resource: str, namespace: str = "") -> Iterable[Entry]:
        return self._state.bucket(group, resource).entries(namespace)

    def list_at(self, group: str, resource: str, namespace: str, revision: int) -> Iterable[Entry]:
        return self._state.bucket(group, resource).entries_at(namespace, revision)

    def watch(self, group: str, resource: str, revision: int) -> Cursor:
        return self._state.watch(group, resource, revision)

    def floor(self, group: str, resource: str) -> int:
        return self._state.bucket(group, resource).floor

    def listen(self, listener: Callable[[Event], None]) -> None:
        """Call a function with every event from now on."""
        self._state.listeners.append(listener)

    def count(self, group: str, resource: str) -> int:
        """How many objects of a resource there are."""
        return self._state.bucket(group, resource).count

    # -- life

    async def start(self) -> None:
        import nats

        options = {"max_reconnect_attempts": -1, "reconnect_time_wait": 0.25, "error_cb": _quiet} | self._options
        servers = random.sample(self._servers, len(self._servers))
        # In turn: shuffled at every loss, the one that was left might come first again.
        self._nc = await nats.connect(servers, **({"dont_randomize": True} | options))
        await self._ensure_stream()
        if self._sealing is not None:
            try:
                await self._sealing.start(self._servers, self._stream, self._prefix, self._replicas, self._options)
            except (LogError, SettingsError) as e:
                raise StoreUnavailable(f"the keys of the Secrets: {e}") from e
        await self._load()
        self._judge_unreadable()
        self._writer = asyncio.create_task(self._write_loop(), name=f"store-{self._stream}")
        if self._sealing is not None:
            await self._seal_what_is_clear()
            await self._nc.subscribe(forget_subject(self._prefix), cb=self._asked_to_forget)

    async def stop(self) -> None:
        self._closing = True
        self._wake.set()
        if self._writer is not None:
            await self._writer
        if self._sealing is not None:
            await self._sealing.stop()
        if self._nc is not None:
            await self._nc.close()

    async def _api(self, verb: str, body: dict[str, Any] | None = None, suffix: str = "") -> dict[str, Any]:
        subject = f"$JS.API.{verb}.{self._stream}{suffix}"
        reply = await self._nc.request(subject, msgspec.json.encode(body) if body else b"", timeout=self._ack_timeout)
        return msgspec.json.decode(reply.data, type=dict[str, Any])

    async def _ensure_stream(self) -> None:
        config = {
            "name": self._stream,
            "subjects": [f"{self._prefix}.>"],
            "retention": "limits",
            "storage": "file",
            "discard": "new",
            "max_msgs_per_subject": self._keep,
            "allow_atomic": True,
            "allow_direct": True,
            "max_consumers": 1000,
            "num_replicas": self._replicas,
        }
        info = await self._api("STREAM.INFO")
        if info.get("error", {}).get("err_code") == 10059:
            info = await self._api("STREAM.CREATE", config)
        elif "error" not in info and not info["config"].get("allow_atomic"):
            raise StoreUnavailable(f"stream {self._stream} exists without allow_atomic; delete it or name another one")
        if "error" in info:
            raise StoreUnavailable(f"stream {self._stream}: {info['error'].get('description')}")
        self._created = info["created"]

    def _subject(self, key: Key) -> str:
        return f"{self._prefix}.{escape(key.group)}.{escape(key.resource)}.{escape(key.namespace)}.{escape(key.name)}"

    def _key(self, subject: str) -> Key | None:
        parts = subject.split(".")
        if len(parts) != 5 or parts[0] != self._prefix:
            return None
        return Key(*(unescape(p) for p in parts[1:]))

    # -- load

    async def _load(self) -> None:
        config = {
            "ack_policy": "none",
            "deliver_policy": "all",
            "replay_policy": "instant",
            "mem_storage": True,
            "num_replicas": 1,
            "inactive_threshold": 60_000_000_000,
        }
        info = await self._api("CONSUMER.CREATE", {"stream_name": self._stream, "config": config})
        if "error" in info:
            raise StoreUnavailable(f"reading stream {self._stream}: {info['error'].get('description')}")
        name, pending = info["name"], info["num_pending"]
        if pending:
            await self._replay(name)
        await self._api("CONSUMER.DELETE", suffix=f".{name}")
        info = await self._api("STREAM.INFO")
        self._state.revision = max(self._state.revision, info["state"]["last_seq"])

    async def _replay(self, consumer: str) -> None:
        inbox = self._nc.new_inbox()
        finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{consumer}"
        request = msgspec.json.encode({"batch": 1000, "expires": 5_000_000_000})
        asked = 0

        async def on_message(msg: Any) -> None:
            nonlocal asked
            if finished.done():
                return
            status = (msg.headers or {}).get("Status")
            if status is not None:
                if status != "100":
                    asked = 1000
                    await self._nc.publish(subject, request, reply=inbox)
                return
            tokens = msg.reply.split(".")
            try:
                self._apply_stored(msg.subject, int(tokens[-4]), msg.headers or {}, msg.data)
            except Exception as e:
                finished.set_exception(StoreUnavailable(f"message {tokens[-4]} of stream {self._stream}: {e}"))
                raise
            asked -= 1
            if tokens[-1] == "0":
                finished.set_result(None)
            elif asked < 500:
                asked += 1000
                await self._nc.publish(subject, request, reply=inbox)

        subscription = await self._nc.subscribe(inbox, cb=on_message)
        asked = 1000
        await self._nc.publish(subject, request, reply=inbox)
        await finished
        await subscription.unsubscribe()

    def _apply_stored(self, subject: str, sequence: int, headers: dict[str, str], data: bytes) -> None:
        """Fold one message of the stream, in order."""
        if subject == f"{self._prefix}.meta.floor":
            for name, revision in msgspec.json.decode(data, type=dict[str, int]).items():
                group, _, resource = name.partition("/")
                self._state.bucket(group, resource).forget_before(revision)
            self._state.revision = sequence
            return
        key = self._key(subject)
        if key is None:
            self._state.revision = sequence
            return
        deleted = _DELETED in headers
        try:
            entry = Entry(key, self._opened(key, bytes(data), sequence, deleted), sequence)
        except Locked as e:
            # A later state of the object may be readable; watching from before this one would miss something.
            self._unreadable[key] = sequence, "" if deleted else e.description
            bucket = self._state.bucket(key.group, key.resource)
            bucket.forget_before(sequence)
            bucket.remove(key)
            self._tombs.pop(key, None)
            self._tombs[key] = sequence
            self._state.revision = sequence
            return
        self._unreadable.pop(key, None)
        prev = int(headers.get(_PREV, "0"))
        bucket = self._state.bucket(key.group, key.resource)
        known = self._state.get(key)
        last = known.revision if known is not None else self._tombs.get(key, 0)
        if prev != last:
            # The step before this one is no longer in the stream: watching from before it would miss something.
            bucket.forget_before(sequence)
            if deleted:
                bucket.remove(key)
            else:
                bucket.set(entry)
            self._state.revision = sequence
        elif deleted:
            self._state.apply_delete(entry)
        else:
            self._state.apply_put(entry)
        if deleted:
            self._tombs.pop(key, None)
            self._tombs[key] = sequence
        else:
            self._tombs.pop(key, None)

    # -- secrets

    def _opened(self, key: Key, data: bytes, sequence: int, deleted: bool) -> bytes:
        """An object as it was before it was encrypted; raises Locked."""
        if key_id(data) is None:
            if self._sealing is not None and self._sealing.covers(key):
                self._clear.found(key, sequence, deleted=deleted)
            return data
        if self._sealing is None:
            raise Locked(0, f"{key.resource} {key.namespace}/{key.name} is encrypted, and this server has no keys")
        self._clear.present.discard(key)
        return self._sealing.open(key, data)

    def _judge_unreadable(self) -> None:
        """Refuse to start without objects that are there: whoever follows this server would take them for deleted."""
        lost = [why for _, why in self._unreadable.values() if why]
        self._unreadable.clear()
        if lost and not self._drop_unreadable:
            raise StoreUnavailable(
                f"{len(lost)} objects on stream {self._stream} cannot be decrypted, the first: {lost[0]}; "
                "bring back the key file, or give them up with FLEETLOG_APISERVER_DROP_UNREADABLE=1"
            )
        for why in lost:
            log.error("object given up", stream=self._stream, reason=why)

    async def _seal_what_is_clear(self) -> None:
        """Encrypt the Secrets that an earlier version wrote as they were, and erase what it wrote from the disk."""
        if not self._clear:
            return
        for key in self._clear.present:
            await self._write_again(key)
        # Whoever watched from before has to read again: the steps that it would be told are gone.
        await self._raise_floors({**self._floors(), "/secrets": self._state.revision})
        # A deletion goes last: without it the state before would count again, were this interrupted.
        for sequences in (self._clear.states, self._clear.deletions):
            for first in range(0, len(sequences), _ERASED_AT_ONCE):
                await asyncio.gather(*map(self._erase, sequences[first : first + _ERASED_AT_ONCE]))
        gone = set(self._clear.deletions)
        self._tombs = {key: sequence for key, sequence in self._tombs.items() if sequence not in gone}
        log.info("secrets encrypted", stream=self._stream, erased=len(self._clear.states) + len(gone))
        self._clear = ClearSecrets()

    async def _write_again(self, key: Key) -> None:
        """Write an object as it is, encrypted with the key of now."""
        while (entry := self._state.get(key)) is not None:
            try:
                await self.put(key, entry.obj, entry.revision)
            except Conflict:
                continue  # Perhaps written a moment before there was the new key.
            return

    async def _erase(self, sequence: int) -> None:
        answer = await self._api("STREAM.MSG.DELETE", {"seq": sequence, "no_erase": False})
        error = answer.get("error", {})
        if error and error.get("err_code") not in _GONE:
            raise StoreUnavailable(f"message {sequence} of stream {self._stream} was not erased: {error}")

    async def forget(self, namespace: str) -> int:
        """Make unreadable what the Secrets of a namespace held before; present ones stay. How many keys were erased.

        Raises StoreUnavailable, then the keys are still there.
        """
        if self._sealing is None:
            raise StoreUnavailable("this server keeps Secrets without keys")
        try:
            await self._sealing.renew(namespace)
            async with self._committing:
                pass  # What was under way with the earlier key is here now.
            for entry in list(self.list("", "secrets", namespace)):
                await self._write_again(entry.key)
            return await self._sealing.drop(namespace)
        except (LogError, SettingsError) as e:
            raise StoreUnavailable(str(e)) from e

    async def _asked_to_forget(self, message: Any) -> None:
        try:
            answer: dict[str, Any] = {"erased": await self.forget(message.data.decode())}
        except (StoreUnavailable, UnicodeDecodeError) as e:
            answer = {"error": str(e)}
        await message.respond(msgspec.json.encode(answer))

    # -- writes

    async def put(self, key: Key, obj: Manifest, expected: int) -> Entry:
        if self._sealing is not None and self._sealing.covers(key):
            await self._prepare(key)
        return await self._submit(_Write(key, obj, expected, deleted=False))

    async def delete(self, key: Key, obj: Manifest, expected: int) -> Entry:
        if self._sealing is not None and self._sealing.covers(key):
            await self._prepare(key)
        return await self._submit(_Write(key, obj, expected, deleted=True))

    async def _prepare(self, key: Key) -> None:
        assert self._sealing is not None
        try:
            await self._sealing.prepare(key.namespace)
        except (LogError, SettingsError) as e:
            raise StoreUnavailable(f"no key for the Secrets of namespace {key.namespace}: {e}") from e

    def _submit(self, write: _Write) -> asyncio.Future[Entry]:
        if self._closing or self._lost:
            raise StoreUnavailable(self._lost or "the store is closing")
        if write.key not in self._busy:
            self._check(write)
        if len(write.value) > self._nc.max_payload - 4096:
            raise StoreTooLarge(f"{len(write.value)} bytes; the log takes {self._nc.max_payload - 4096}")
        self._queue.append(write)
        self._wake.set()
        return write.done

    def _check(self, write: _Write) -> None:
        current = self._state.get(write.key)
        actual = 0 if current is None else current.revision
        if actual != write.expected:
            raise Conflict(write.key, write.expected, actual)

    def _collect(self) -> Writes:
        """The next batch: at most one write per object, up to 500 messages or 4 MiB."""
        batch: Writes = []
        later: Writes = []
        size = 0
        self._busy.clear()
        while self._queue and len(batch) < 500 and size < 4 << 20:
            write = self._queue.popleft()
            if write.done.cancelled():
                continue
            if write.key in self._busy:
                later.append(write)
                continue
            try:
                self._check(write)
            except Conflict as e:
                write.fail(e)
                continue
            write.sequence = write.expected or self._tombs.get(write.key, 0)
            if self._sealing is not None and self._sealing.covers(write.key):
                write.stored = self._sealing.seal(write.key, write.value)
            self._busy.add(write.key)
            batch.append(write)
            size += len(write.value)
        self._queue.extendleft(reversed(later))
        return batch

    async def _write_loop(self) -> None:
        while True:
            await self._wake.wait()
            if not self._queue:
                if self._closing:
                    return
                self._wake.clear()
                continue
            async with self._committing:
                batch = self._collect()
                if batch:
                    try:
                        await self._commit(batch)
                    except Exception as e:  # noqa: BLE001 - the writers are told, the loop goes on
                        log.error("store write failed", stream=self._stream, error=str(e), writes=len(batch))
                        for write in batch:
                            write.fail(StoreUnavailable(str(e)))
            self._busy.clear()
            if len(self._tombs) > self._tombstone_limit and not self._queue and not self._lost:
                try:
                    await self._trim()
                except Exception as e:  # noqa: BLE001 - tried again after the next write
                    log.warning("trimming deletions failed; will try again", stream=self._stream, error=str(e))

    async def _commit(self, batch: Writes) -> None:
        """Append writes by whichever way is quicker: an atomic batch costs some milliseconds whatever its size."""
        if len(batch) > max(8, int(_BATCH_SECONDS / self._single_seconds)):
            await self._commit_batch(batch)
            return
        loop = asyncio.get_running_loop()
        started = loop.time()
        ids = [f"{self._boot}-{next(self._ids)}" for _ in batch]
        acks = await asyncio.gather(*(self._append([w], i) for w, i in zip(batch, ids, strict=True)))
        if len(batch) > 1:
            self._single_seconds += 0.1 * ((loop.time() - started) / len(batch) - self._single_seconds)
        # Sequences rise with the order of sending, but a write without an answer may have taken one in between.
        answered = [(a["seq"], w) for a, w in zip(acks, batch, strict=True) if a is not None and "error" not in a]
        for sequence, write in sorted(answered, key=lambda item: item[0]):
            await self._acknowledged([write], sequence)
        for ack, write, write_id in zip(acks, batch, ids, strict=True):
            if ack is None:
                await self._resolve([write], write_id)
            elif "error" in ack:
                await self._refused([write], ack["error"])

    async def _commit_batch(self, batch: Writes) -> None:
        """Append an atomic batch; a refused one is halved until the refused write is alone."""
        write_id = f"{self._boot}-{next(self._ids)}"
        ack = await self._append(batch, write_id)
        if ack is None:
            await self._resolve(batch, write_id)
            return
        if "error" in ack:
            await self._refused(batch, ack["error"])
        else:
            await self._acknowledged(batch, ack["seq"])

    async def _refused(self, batch: Writes, error: dict[str, Any]) -> None:
        if error.get("err_code") not in _REFUSED:
            for write in batch:
                write.fail(StoreUnavailable(str(error.get("description"))))
            return
        await self._catch_up()
        if len(batch) > 1:
            half = len(batch) // 2
            for part in (batch[:half], batch[half:]):
                await (self._commit_batch(part) if len(part) > 1 else self._commit(part))
            return
        write = batch[0]
        current = self._state.get(write.key)
        write.fail(Conflict(write.key, write.expected, 0 if current is None else current.revision))

    async def _append(self, batch: Writes, write_id: str) -> dict[str, Any] | None:
        """Send a batch; None when no answer came."""
        nc = self._nc
        last = len(batch)
        try:
            for number, write in enumerate(batch, 1):
                headers = {_EXPECTED: str(write.sequence), _PREV: str(write.sequence), _WRITE: write_id}
                if write.deleted:
                    headers[_DELETED] = "1"
                if last > 1:
                    headers["Nats-Batch-Id"] = write_id
                    headers["Nats-Batch-Sequence"] = str(number)
                subject = self._subject(write.key)
                if number < last:
                    await nc.publish(subject, write.stored, headers=headers)
                    continue
                if last > 1:
                    headers["Nats-Batch-Commit"] = "1"
                reply = await nc.request(subject, write.stored, timeout=self._ack_timeout, headers=headers)
                return msgspec.json.decode(reply.data, type=dict[str, Any])
        except Exception as e:  # noqa: BLE001 - whatever it was, the outcome is unknown and gets resolved
            log.warning("no answer to a write", stream=self._stream, error=type(e).__name__, writes=last)
        return None

    async def _acknowledged(self, batch: Writes, last_sequence: int) -> None:
        first = last_sequence - len(batch) + 1
        if last_sequence <= self._state.revision:
            # Catching up met these messages before their answer was found.
            for number, write in enumerate(batch):
                known = self._state.get(write.key)
                if known is None or known.revision != first + number:
                    known = Entry(write.key, write.value, first + number, write.obj)
                if not write.done.done():
                    write.done.set_result(known)
            return
        if first != self._state.revision + 1:
            await self._catch_up(first - 1)
        for number, write in enumerate(batch):
            entry = Entry(write.key, write.value, first + number, write.obj)
            if write.deleted:
                self._state.apply_delete(entry)
                self._tombs.pop(write.key, None)
                self._tombs[write.key] = entry.revision
            else:
                self._state.apply_put(entry)
                self._tombs.pop(write.key, None)
            if not write.done.done():
                write.done.set_result(entry)

    async def _resolve(self, batch: Writes, write_id: str) -> None:
        """Find out what became of a batch whose acknowledgement never came, for up to 30 seconds."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + 30
        move_at = loop.time() + _MOVE_AFTER
        subject = self._subject(batch[-1].key)
        while not self._lost:
            try:
                await self._nc.flush(timeout=2)
                found = await self._api("STREAM.MSG.GET", {"last_by_subj": subject})
                message = found.get("message")
                if message is not None and _headers(message).get(_WRITE) == write_id:
                    await self._acknowledged(batch, message["seq"])
                    return
                if found.get("error", {}).get("err_code") == 10059:
                    await self._catch_up()
                if message is not None or found.get("error", {}).get("err_code") == 10037:
                    await self._catch_up()
                    break
            except Exception as e:  # noqa: BLE001 - the client's errors share no base class
                log.warning("the log does not answer", stream=self._stream, error=type(e).__name__)
            if loop.time() > deadline:
                break
            if loop.time() > move_at and len(self._nc.servers) > 1:
                move_at = deadline
                log.warning("trying another server of the log", stream=self._stream)
                await self._nc.force_reconnect()
            await asyncio.sleep(0.25)
        for write in batch:
            write.fail(StoreUnavailable(self._lost or "the log did not confirm the write"))

    async def _catch_up(self, until: int | None = None) -> None:
        """Apply messages after our revision that we did not see acknowledged."""
        if until is None:
            info = await self._api("STREAM.INFO")
            for _ in range(_APPLYING):
                # Servers that elect a leader say so, and a new one answers before it applied what others stored.
                code = info.get("error", {}).get("err_code")
                short = code is None and self._replicas > 1 and info["state"]["last_seq"] < self._state.revision
                if not short and code in (None, 10059):
                    break
                await asyncio.sleep(0.25)
                info = await self._api("STREAM.INFO")
            if "error" in info or info["created"] != self._created or info["state"]["last_seq"] < self._state.revision:
                self._lost = f"stream {self._stream} is not the one that was loaded; restart to rebuild"
                log.error("the log was replaced", stream=self._stream)
                return
            until = info["state"]["last_seq"]
        for sequence in range(self._state.revision + 1, until + 1):
            found = await self._api("STREAM.MSG.GET", {"seq": sequence})
            message = found.get("message")
            if message is not None:
                data = base64.b64decode(message.get("data", ""))
                self._apply_stored(message["subject"], sequence, _headers(message), data)
        self._state.revision = max(self._state.revision, until)

    async def _trim(self) -> None:
        """Forget the oldest tenth of the deletions: record the raised floor first, then purge their subjects."""
        oldest = list(itertools.islice(self._tombs.items(), max(1, self._tombstone_limit // 10)))
        floors = self._floors()
        for key, sequence in oldest:
            name = f"{key.group}/{key.resource}"
            floors[name] = max(floors.get(name, 0), sequence)
        await self._raise_floors(floors)
        for key, sequence in oldest:
            if self._tombs.get(key) == sequence:
                await self._api("STREAM.PURGE", {"filter": self._subject(key), "seq": sequence + 1})
                del self._tombs[key]

    def _floors(self) -> dict[str, int]:
        return {"/".join(bucket_key): bucket.floor for bucket_key, bucket in self._state.buckets.items()}

    async def _raise_floors(self, floors: dict[str, int]) -> None:
        """Record from which revisions on resources can be watched; the history before goes."""
        reply = await self._nc.request(
            f"{self._prefix}.meta.floor", msgspec.json.encode(floors), timeout=self._ack_timeout
        )
        ack = msgspec.json.decode(reply.data, type=dict[str, Any])
        if "error" in ack:
            raise StoreUnavailable(str(ack["error"].get("description")))
        if ack["seq"] != self._state.revision + 1:
            await self._catch_up(ack["seq"] - 1)
        self._state.revision = ack["seq"]
        for name, revision in floors.items():
            group, _, resource = name.partition("/")
            self._state.bucket(group, resource).forget_before(revision)


def _headers(message: dict[str, Any]) -> dict[str, str]:
    """Headers of a message read by the stream API."""
    raw = base64.b64decode(message.get("hdrs", "")).decode()
    out = {}
    for line in raw.split("\r\n")[1:]:
        name, colon, value = line.partition(":")
        if colon:
            out[name] = value.strip()
    return out


async def _quiet(error: Exception) -> None:
    """Connection errors are seen as writes without an answer; the client itself reconnects."""
    with contextlib.suppress(Exception):
        log.debug("nats", error=str(error))
