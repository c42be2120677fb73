"""Decides which instance of a service leads: the last to append LeaseTaken, as long as it shows a heartbeat.

The position of LeaseTaken fences every batch of the leader. A standby takes over when it heard no heartbeat for a while
and got answers from the log during all of that time: when the log itself is silent, no leader is deposed. The leader
announces when it stops, and an instance that finds its own name in the last LeaseTaken does not wait for itself.

Writes that bypass the log know no such fence. The leader therefore counts, on its own clock, from the moment before it
sent the last heartbeat that is known to have reached the server: its term ends before another instance takes over,
also while it is suspended. A term that ran out holds again only after two heartbeats and a read of the log.

Where the work of a service is divided, every shard group has a lease; a leader may hand one over to another instance.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Struct

from schemas.codec import DecodeError, decode, encode
from schemas.envelope import HEADER_EVENT_ID, HEADER_PRODUCER, event_id
from schemas.events.lease import LeaseTaken
from schemas.shard_groups import WHOLE, ShardGroup
from schemas.subjects import heartbeat, lease
from services._kit.base.clock import Clock, SystemClock
from services._kit.base.log_errors import Ambiguous, Conflict, LogError
from services._kit.concurrency.supervision import spawn
from services._kit.concurrency.tasks import set_within
from services._kit.leadership.sharding import Sharding
from services._kit.log.heartbeat_bus import NatsBus
from services._kit.log.stream_port import Fence, Log, Message, NewMessage

INTERVAL: Final = 0.3
TAKEOVER_AFTER: Final = 2.0
HELD: Final = 0.8
"""Share of the time until a standby takes over in which the leader trusts its last heartbeat."""


class Beat(Struct, omit_defaults=True):
    """One heartbeat; `resigned` is the last one of a term that ends on purpose, in favour of `heir` if it names one."""

    instance: str
    seq: int
    resigned: bool = False
    heir: str = ""


_beat = msgspec.json.Decoder(Beat)


class Lease:
    """Leadership of one instance of a service, or of one of its shard groups; run `run` as a task and read `fence`.

    `service` is the name of the group on the log. `interval` and `takeover_after` in seconds.
    """

    def __init__(
        self,
        log: Log,
        bus: NatsBus,
        service: str,
        instance: str,
        *,
        interval: float = INTERVAL,
        takeover_after: float = TAKEOVER_AFTER,
        clock: Clock | None = None,
        on_change: Callable[[bool, str], None] | None = None,
        group: ShardGroup = WHOLE,
    ) -> None:
        self.service = group.named(service)
        self.instance = instance
        self.subject = lease(self.service)
        self.interval = interval
        self.takeover_after = takeover_after
        self.seq = 0
        self.known = 0
        """Sequence of the newest LeaseTaken this instance knows of."""
        self._log = log
        self._bus = bus
        self._clock = clock or SystemClock()
        self._group = group
        self.sharding = Sharding(log, service, instance, group, self._clock.now)
        self._handing: Beat | None = None
        """What the heir is told once nothing of ours is under way."""
        self._on_change = on_change
        self._changed = asyncio.Event()
        self._poke = asyncio.Event()
        self._silent_since = 0.0
        self._resigned = False
        self._stopping = False
        self._until = 0.0
        """End of the term on the monotonic clock."""
        self._checked = False
        """Whether one heartbeat went through since the term ran out."""
        self._news = asyncio.Event()
        self._asking: asyncio.Task[None] | None = None

    @property
    def is_leader(self) -> bool:
        """Whether this instance may append, as far as it knows."""
        return self.seq > 0

    @property
    def holds(self) -> bool:
        """Whether no other instance can lead right now."""
        return self.seq > 0 and self._clock.monotonic() < self._until

    async def news(self) -> None:
        """Return after the next heartbeat that went through, or the next change of leadership."""
        await self._news.wait()

    def fence(self) -> Fence | None:
        """The condition of every batch; None when this instance does not lead."""
        return Fence(self.subject, self.seq) if self.seq else None

    async def changed(self) -> None:
        """Return after the next change of leadership."""
        await self._changed.wait()

    def observe(self, message: Message) -> None:
        """Note a LeaseTaken that was read from the log; a newer one than ours ends our leadership."""
        if message.subject == self.sharding.subject != self.subject and self.sharding.contradicts(message):
            self.lost("the work is divided in another way")
        if message.subject != self.subject or message.seq <= self.known:
            return
        self.known = message.seq
        self._hear_nothing()
        if self.seq and message.seq > self.seq:
            self.lost("another instance took the lease")

    def lost(self, reason: str) -> None:
        """Stop leading at once."""
        if self.seq:
            self.seq = 0
            self._hear_nothing()
            self._tell(reason)

    def hand_over(self, heir: str) -> None:
        """Stop leading in favour of another instance; `announce` tells it."""
        if self.seq:
            self._handing = Beat(self.instance, self.seq, resigned=True, heir=heir)
            self.lost(f"handed over to {heir}")

    async def announce(self) -> None:
        """Tell the heir that it may lead, now that nothing of ours is under way."""
        handing, self._handing = self._handing, None
        if handing is not None:
            await self._say_goodbye(handing)

    async def run(self) -> None:
        """Lead whenever no other instance does, until cancelled."""
        await self._bus.subscribe(heartbeat(self.service), self._hear)
        self._hear_nothing()
        try:
            await self._compete()
        finally:
            if self._asking is not None:
                self._asking.cancel()

    async def _compete(self) -> None:
        first = True
        while True:
            try:
                if self.seq:
                    await self._beat()
                else:
                    await self._stand_by(first)
                first = False
            except LogError:
                # Silence of the log is no evidence about the leader.
                self._hear_nothing()
            self._poke.clear()
            await set_within(self._poke, self.interval)

    async def resign(self) -> None:
        """Announce the end of the term, so that a standby takes over at once; the lease is kept until one takes it."""
        self._stopping = True
        seq, self.seq = self.seq, 0
        if seq:
            self._tell("this instance stops")
            await self._say_goodbye(Beat(self.instance, seq, resigned=True))

    async def _say_goodbye(self, beat: Beat) -> None:
        try:
            await self._bus.publish(heartbeat(self.service), msgspec.json.encode(beat))
        except LogError:
            return

    async def _beat(self) -> None:
        seq, since = self.seq, self._clock.monotonic()
        beat = msgspec.json.encode(Beat(self.instance, seq))
        # A late answer must not put off the next heartbeat by more than one interval.
        heard = await self._bus.deliver(heartbeat(self.service), beat, self.interval)
        if not heard or self.seq != seq:
            return
        if self.holds and not self._log.replicated:
            self._hold(since)
        elif self._asking is None or self._asking.done():
            # A server that was cut off from its peers still takes heartbeats; only the leader of the stream knows. They
            # go on while there is none.
            self._asking = spawn("lease-check", self._ask(seq, since))

    async def _ask(self, seq: int, since: float) -> None:
        """Hold the lease from a heartbeat on if the log knows of no newer one."""
        try:
            async with asyncio.timeout(self.takeover_after):
                last = await self._log.last(self.subject)
        except (LogError, TimeoutError):
            return
        if self.seq != seq:
            return
        if last is not None and last.seq > seq:
            self.known = max(self.known, last.seq)
            self.lost("another instance took the lease")
        elif self.holds or self._checked:
            self._hold(since)
        else:
            # A standby that had already decided to take over is given one interval to be seen.
            self._checked = True

    def _hold(self, since: float) -> None:
        self._until = since + self.takeover_after * HELD
        self._checked = False
        self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    async def _stand_by(self, first: bool) -> None:
        if self._stopping:
            return
        silence = self._clock.monotonic() - self._silent_since
        if not first and not self._resigned and silence < self.takeover_after / 2:
            return
        # Also the proof that the log answers while the leader is silent.
        last = await self._log.last(self.subject)
        seq = last.seq if last else 0
        if seq > self.known:
            self.known = seq
            if not first:
                self._hear_nothing()
                return
        if last is None:
            await self._take(0, "there was no leader before")
        elif self._resigned:
            await self._take(seq, "the leader resigned")
        elif first and self._named_us(last):
            await self._take(seq, "this instance was started again")
        elif self._clock.monotonic() - self._silent_since >= self.takeover_after:
            await self._take(seq, f"the leader was silent for {self.takeover_after:g} s")

    async def _take(self, expected: int, reason: str) -> None:
        if not await self.sharding.stands():
            return
        event = LeaseTaken(
            prev=expected,
            service=self.service,
            instance=self.instance,
            taken_at=self._clock.now(),
            reason=reason,
            groups=self._group.count,
        )
        name = event_id(f"{self.service}/{self.instance}/{expected}/{event.taken_at}", 0, self.subject)
        message = NewMessage(
            self.subject,
            encode(event),
            {HEADER_EVENT_ID: name, HEADER_PRODUCER: f"{self.service}/{self.instance}"},
            expect_last=expected,
        )
        since = self._clock.monotonic()
        try:
            seq = (await self._log.append([message])).last
        except Conflict:
            self._hear_nothing()
            return
        except Ambiguous:
            last = await self._log.last(self.subject)
            if last is None or last.headers.get(HEADER_EVENT_ID) != name:
                raise
            seq = last.seq
        self._resigned = False
        while await self._others_ended():
            await self._settle(seq)
            since = self._clock.monotonic()
        if self._stopping or seq < self.known:
            return
        self.seq = self.known = seq
        self._hold(since)
        self._tell(reason)
        await self._beat()

    async def _others_ended(self) -> bool:
        """End the leases of other shardings of the work; whether there were any."""
        try:
            return await self.sharding.end_others()
        except Conflict:
            return True

    async def _settle(self, seq: int) -> None:
        """Show heartbeats until no leader of another sharding can trust its own any more."""
        until = self._clock.monotonic() + self.takeover_after
        while not self._stopping and self.known <= seq and self._clock.monotonic() < until:
            await self._bus.publish(heartbeat(self.service), msgspec.json.encode(Beat(self.instance, seq)))
            self._poke.clear()
            await set_within(self._poke, self.interval)

    def _named_us(self, last: Message) -> bool:
        try:
            event = decode(last.subject, last.data)
        except DecodeError:
            return False
        return isinstance(event, LeaseTaken) and event.instance == self.instance

    def _hear(self, data: bytes) -> None:
        try:
            beat = _beat.decode(data)
        except msgspec.MsgspecError:
            return
        if beat.seq < self.known or (self.seq and beat.seq == self.seq):
            return  # A deposed leader that has not noticed yet, or ourselves.
        if beat.resigned and beat.heir not in ("", self.instance):
            self._hear_nothing()
            return
        if beat.resigned:
            self._resigned = True
            self._poke.set()
            return
        if self.seq and beat.seq > self.seq:
            self.lost("another instance shows a newer lease")
        self._hear_nothing()

    def _hear_nothing(self) -> None:
        """Start counting silence from now."""
        self._silent_since = self._clock.monotonic()
        self._resigned = False

    def _tell(self, reason: str) -> None:
        if self._on_change is not None:
            self._on_change(self.is_leader, reason)
        self._changed.set()
        self._changed = asyncio.Event()
        self._wake()
