"""Keeps instances that divide the work of a service differently from leading at the same time.

The lease of the first group says how many groups there are. The instance that takes it ends the leases of every other
sharding: their batches are refused from then on, and their leaders learn of it from the log. The other groups are taken
only by instances that divide the work in the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from schemas.codec import DecodeError, decode, encode
from schemas.envelope import HEADER_EVENT_ID, HEADER_PRODUCER, event_id
from schemas.events.lease import LeaseTaken
from schemas.shard_groups import ShardGroup, group_names
from schemas.subjects import lease
from services._kit.log.stream_port import Log, Message, NewMessage

ENDED: Final = "the work is divided in another way"


class Sharding:
    """How one instance divides the work of a service, as one of its groups sees it."""

    def __init__(self, log: Log, service: str, instance: str, group: ShardGroup, now: Callable[[], float]) -> None:
        self._log = log
        self._names = group_names(service)
        self._instance = instance
        self._group = group
        self._now = now
        self.subject = lease(service)
        """Of the lease that says how many groups there are."""

    def contradicts(self, message: Message) -> bool:
        """Whether a lease that was read from the log divides the work in another way."""
        return self._groups(message) != self._group.count

    async def stands(self) -> bool:
        """Whether the instance that leads the first group divides the work as this one does; raises LogError."""
        if not self._group.index:
            return True
        last = await self._log.last(self.subject)
        return last is not None and not self.contradicts(last)

    async def end_others(self) -> bool:
        """End the leases of other shardings, once the lease of the first group is ours; whether there were any.

        Raises LogError, and Conflict when one was taken meanwhile.
        """
        if self._group.index:
            return False
        found = False
        for name in self._names[1:]:
            last = await self._log.last(lease(name))
            if last is not None and self.contradicts(last):
                await self._log.append([self._ending(name, last)])
                found = True
        return found

    def _ending(self, name: str, last: Message) -> NewMessage:
        event = LeaseTaken(
            prev=last.seq,
            service=name,
            instance=self._instance,
            taken_at=self._now(),
            reason=ENDED,
            groups=self._group.count,
        )
        subject = lease(name)
        headers = {
            HEADER_EVENT_ID: event_id(f"{name}/{self._instance}/{last.seq}/{event.taken_at}", 0, subject),
            HEADER_PRODUCER: f"{name}/{self._instance}",
        }
        return NewMessage(subject, encode(event), headers, expect_last=last.seq)

    def _groups(self, message: Message) -> int:
        try:
            event = decode(message.subject, message.data)
        except DecodeError:
            return 0
        return event.groups if isinstance(event, LeaseTaken) else 0
