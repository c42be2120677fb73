"""Keeps a store's memory in step with its stream: loads it, reads what was missed, forgets old deletions on both."""

from __future__ import annotations

import asyncio
import base64
import itertools
from typing import Any

import msgspec
import structlog

from services.apiserver.store.object_index import STARTING_BYTES
from services.apiserver.store.secret_encryption import ClearSecrets, Sealing
from services.apiserver.store.store_port import Key, StoreUnavailable
from services.apiserver.store.stream_connection import NO_STREAM, ObjectStream
from services.apiserver.store.stream_fold import Folding
from services.apiserver.store.subject_names import barrier_subject, floor_subject, headers_of, subject_of

log = structlog.get_logger(__name__)

# Looks, four in a second, for as long as servers elect a leader or apply what others stored.
_APPLYING = 120
_ERASED_AT_ONCE = 200


class Following(Folding):
    """A memory and the stream that it follows; the only writer of that stream derives from it."""

    def __init__(self, stream: ObjectStream, history: int, sealing: Sealing | None) -> None:
        super().__init__(stream.name, stream.prefix, history, sealing)
        self._stream = stream
        self._lost = ""
        self._gone = asyncio.Event()

    @property
    def ready(self) -> bool:
        return not self._lost and self._stream.connected

    async def lost(self) -> str:
        """Return why this store cannot be trusted any more, once the stream behind it is another one."""
        await self._gone.wait()
        return self._lost

    def _subject(self, key: Key) -> str:
        return subject_of(self._prefix, key)

    async def _load(self) -> None:
        last = await self._stream.read(self._fold)
        self.revision = max(self.revision, last)
        for bucket in self.buckets.values():
            bucket.shorten(STARTING_BYTES)

    async def _catch_up(self, until: int | None = None) -> None:
        """Apply messages after our revision that we did not see acknowledged; raises StoreUnavailable."""
        if until is None:
            last = await self._same()
            if last is None or last == self.revision:
                return
            until = await self._barrier()
        for sequence in range(self.revision + 1, until + 1):
            found = await self._stream.api("STREAM.MSG.GET", {"seq": sequence})
            message = found.get("message")
            if message is not None:
                data = base64.b64decode(message.get("data", ""))
                self._fold(message["subject"], sequence, headers_of(message), data)
        self.revision = max(self.revision, until)

    async def _same(self) -> int | None:
        """Last sequence of the stream; None, and this store is lost, where it is not the one that was loaded."""
        info = await self._settled()
        if (
            "error" not in info
            and info["created"] == self._stream.created
            and info["state"]["last_seq"] >= self.revision
        ):
            return int(info["state"]["last_seq"])
        self._lose(f"stream {self._name} is not the one that was loaded; restart to rebuild")
        return None

    def _lose(self, reason: str) -> None:
        """Nothing here can be trusted any more."""
        self._lost = reason
        self._gone.set()
        log.error("the log was replaced", stream=self._name, reason=reason)

    async def _barrier(self) -> int:
        """Append a message without content; its sequence: what is read before it will not vanish any more.

        A server whose disk failed shows messages that it could not keep, but it takes no more. Raises StoreUnavailable.
        """
        try:
            ack = await self._stream.request(barrier_subject(self._prefix), b"")
        except Exception as e:  # the client's errors share no base class
            raise StoreUnavailable("the log does not confirm writes") from e
        if "error" in ack:
            raise StoreUnavailable(f"the log takes no writes: {ack['error'].get('description')}")
        self._beyond(ack["seq"])
        return int(ack["seq"])

    def _beyond(self, sequence: int) -> None:
        """Raises StoreUnavailable, and this store is lost, where a new message got the place of one that was known."""
        if sequence <= self.revision:
            self._lose(f"stream {self._name} lost what it had confirmed; restart to rebuild")
            raise StoreUnavailable(self._lost)

    async def _settled(self) -> dict[str, Any]:
        """The state of the stream once its servers have agreed."""
        info = await self._stream.info()
        for _ in range(_APPLYING):
            # Servers report an election, and a new leader answers before it applied what others stored.
            code = info.get("error", {}).get("err_code")
            replicated = self._stream.replicas > 1
            short = code is None and replicated and info["state"]["last_seq"] < self.revision
            if not short and code in (None, NO_STREAM):
                break
            await asyncio.sleep(0.25)
            info = await self._stream.info()
        return info

    def in_clear(self) -> list[Key]:
        """Secrets whose latest state is not encrypted."""
        return list(self._clear.present)

    async def erase_clear(self) -> None:
        """Erase from the stream what was written before Secrets were encrypted; raises StoreUnavailable."""
        if not self._clear:
            return
        # A watch from before has to list again: the events that it would receive are gone.
        await self._raise_floors({**self._floors(), "/secrets": self.revision})
        # A deletion goes last: without it the state before would count again, were this interrupted.
        for sequences in (self._clear.states, self._clear.deletions):
            for first in range(0, len(sequences), _ERASED_AT_ONCE):
                await asyncio.gather(*map(self._stream.erase, sequences[first : first + _ERASED_AT_ONCE]))
        gone = set(self._clear.deletions)
        self._tombs = {key: sequence for key, sequence in self._tombs.items() if sequence not in gone}
        log.info("secrets encrypted", stream=self._name, erased=len(self._clear.states) + len(gone))
        self._clear = ClearSecrets()

    async def _trim(self, limit: int) -> None:
        """Forget the oldest tenth of the deletions: record the raised floor first, then purge their subjects."""
        oldest = list(itertools.islice(self._tombs.items(), max(1, limit // 10)))
        floors = self._floors()
        for key, sequence in oldest:
            name = f"{key.group}/{key.resource}"
            floors[name] = max(floors.get(name, 0), sequence)
        await self._raise_floors(floors)
        for key, sequence in oldest:
            if self._tombs.get(key) == sequence:
                await self._stream.api("STREAM.PURGE", {"filter": self._subject(key), "seq": sequence + 1})
                del self._tombs[key]

    async def _raise_floors(self, floors: dict[str, int]) -> None:
        """Record from which revisions on resources can be watched; the history before goes."""
        ack = await self._stream.request(floor_subject(self._prefix), msgspec.json.encode(floors))
        if "error" in ack:
            raise StoreUnavailable(str(ack["error"].get("description")))
        self._beyond(ack["seq"])
        if ack["seq"] != self.revision + 1:
            await self._catch_up(ack["seq"] - 1)
        self.revision = ack["seq"]
        self._forget_before(floors)
