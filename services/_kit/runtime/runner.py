"""Runs one service: follows the log, competes for the lease, and while leading decides and appends.

The projection is warm from the start and on every instance. A term begins once this instance leads and has folded all
that the previous leader wrote; what needs a decision is then found by `recover`, not by what happened to be dirty.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib.metadata import version
from typing import Any, Generic, cast

import structlog

from schemas.codec import DecodeError, decode
from schemas.events.parked import KeyDropped, KeyRetried
from schemas.instance import InstanceReport
from schemas.shard_groups import WHOLE, ShardGroup
from schemas.subjects import RESTORES, UNPARKED, escape
from schemas.subjects import lease as lease_subject
from schemas.topology import FACTS
from services._kit.base.clock import Clock, SystemClock
from services._kit.base.health import Health
from services._kit.base.log_errors import FenceLost, LogReplaced
from services._kit.base.metrics import KitMetrics
from services._kit.concurrency.tasks import child, end, first_end
from services._kit.leadership.lease import Lease
from services._kit.leadership.write_guard import LeaderGuard
from services._kit.log.batch_delay import BatchDelay
from services._kit.log.heartbeat_bus import NatsBus
from services._kit.log.stream_port import Delivery, Log, Message
from services._kit.runtime.appender import Appender
from services._kit.runtime.decision_loop import DecideStats, DecisionLoop, LoopOptions
from services._kit.runtime.failure_tracker import GivenUp
from services._kit.runtime.projection import Cause, PriorityKeys, Projection
from services._kit.runtime.restore_progress import PREFIX, Restoration
from services._kit.runtime.service import BaseService, Decider, K, S
from services._kit.runtime.shared_consumer import SharedReading
from services._kit.runtime.stream_reader import StreamReader, by_stream


class Runner(Generic[S, K]):
    """One instance of one service, or of one of its shard groups; `run` until cancelled."""

    def __init__(
        self,
        service: BaseService[S, K],
        logs: Mapping[str, Log],
        bus: NatsBus,
        instance: str,
        *,
        options: LoopOptions | None = None,
        clock: Clock | None = None,
        metrics: KitMetrics | None = None,
        logger: Any = None,
        shared: SharedReading | None = None,
        group: ShardGroup = WHOLE,
    ) -> None:
        self.service = service
        self.group = group
        self.name = group.named(service.name)
        """On the log."""
        self.options = options or LoopOptions()
        self.stats = DecideStats()
        self.terms = 0
        self.active = False
        """Whether this instance is deciding (or acting) right now."""
        self.health = Health()
        self.logs = logs
        self.clock = clock or SystemClock()
        self._logger = logger or structlog.get_logger("runner")
        self.metrics = metrics or KitMetrics(service.name)
        self._filters = filters_of(service, group)
        self.projection: Projection[S, K] = Projection(
            service, self._filters, self._unreadable, shared.decode if shared is not None else None, group
        )
        if service.rank is not None:
            self.projection.dirty = PriorityKeys(partial(service.rank, self.projection.state))
        self.projection.marking = False
        self.projection.on_marked = self._marked
        self.lease = Lease(
            logs[FACTS.name],
            bus,
            service.name,
            instance,
            interval=self.options.heartbeat,
            takeover_after=self.options.takeover_after,
            clock=self.clock,
            on_change=self._lease_changed,
            group=group,
        )
        self.guard = LeaderGuard(self.lease) if service.leads else None
        self.appender: Appender[K] = Appender(
            logs,
            self.name,
            self.lease.fence if service.leads else None,
            instance=instance,
            last_seq_of=self._last_seq,
            clock=self.clock,
            observe=self.metrics.observe_append,
            guard=self.guard,
        )
        self.restoration = Restoration(service.name, self.appender, self.clock, group)
        self.deciding: DecisionLoop[S, K] | None = None
        self._follower: StreamReader[S, K] = StreamReader(
            logs,
            self.projection,
            self._filters,
            window=self.options.window,
            on_fed=self._fed,
            patience=self._patience(),
            shared=shared,
        )
        self._waiting: dict[asyncio.Future[None], Callable[[], bool]] = {}
        self._marked_event = asyncio.Event()
        self._caught_up_once = False
        self._given_up: GivenUp[K] = GivenUp()
        self._recording: deque[tuple[Message, str]] = deque(maxlen=1000)
        self._register()

    def _patience(self) -> BatchDelay | None:
        """Batch only while active: an instance that takes over needs every message at once."""
        service = self.service
        if not service.patience:
            return None
        hurries = (*service.hurries, lease_subject(service.name), self.lease.subject, PREFIX)
        return BatchDelay(lambda: service.patience if self.active else 0.0, hurries)

    def mark(self, keys: Iterable[K]) -> None:
        """Mark keys dirty for a reason outside the log; ignored unless this instance is active."""
        self.projection.mark(keys, since=self.clock.now())

    async def run(self) -> None:
        """Follow, compete, decide; returns only by cancellation or an error (LogReplaced: restart the process)."""
        tasks = [child(part()) for part in (self._follower.run, self._terms, self._record)]
        if self.service.leads:
            tasks.append(child(self.lease.run()))
        try:
            await first_end(tasks)
        finally:
            # Nothing of ours may be under way when the next leader begins.
            await end(*tasks[:3])
            await self.lease.resign()
            await end(*tasks[3:])

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return once a condition holds; it is evaluated whenever something was folded or leadership changed."""
        while not condition():
            news: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting[news] = condition
            try:
                await news
            finally:
                del self._waiting[news]

    async def _terms(self) -> None:
        while True:
            await self.until(lambda: self.projection.ready)
            if not self._caught_up_once:
                self._caught_up_once = True
                await self.service.on_caught_up()
            await self.until(self._may_start)
            seq = self.lease.seq
            term, ended = child(self._term()), child(self.until(partial(self._ended, seq)))
            try:
                await asyncio.wait({term, ended}, return_when=asyncio.FIRST_COMPLETED)
                if term.done():
                    term.result()
            except FenceLost as error:
                self.lease.lost(str(error))
            finally:
                await end(term, ended)
                await self._stop_acting()
                await self.lease.announce()

    async def _term(self) -> None:
        self.terms += 1
        projection, service = self.projection, self.service
        projection.dirty.clear()
        projection.marking = True
        self.active = True
        if self.guard is not None:
            self.guard.begin()
        self.restoration.begin()
        self._tell()
        if not isinstance(service, Decider):
            await service.on_leading()
            await self._act()
            return
        deciding = self.deciding = DecisionLoop(
            service,
            projection,
            self.appender,
            options=self.options,
            clock=self.clock,
            stats=self.stats,
            on_problem=self._problem,
            metrics=self.metrics,
            restoration=self.restoration,
        )
        deciding.troubles.given_up = self._given_up.reasons
        await service.on_leading()
        projection.mark(service.recover(projection.state))
        await deciding.run()

    async def _act(self) -> None:
        """Hand dirty keys to a service that acts instead of deciding."""
        while True:
            self._marked_event.clear()
            if self.projection.dirty:
                keys = list(self.projection.dirty)
                self.projection.dirty.clear()
                self.service.on_dirty(keys)
            await self._marked_event.wait()

    async def _stop_acting(self) -> None:
        if self.active:
            self.active = False
            if self.guard is not None:
                self.guard.end()
            self.projection.marking = False
            self.projection.dirty.clear()
            self.deciding = None
            # What kept the last term from storing is its successor's trouble now.
            self.appender.trouble = ""
            await self.service.on_following()

    def _ended(self, seq: int) -> bool:
        return self.service.leads and self.lease.seq != seq

    def _may_start(self) -> bool:
        """Leading, and everything folded up to our own lease: all that the previous leader wrote is behind it."""
        if not self.projection.ready:
            return False
        if not self.service.leads:
            return True
        return self.lease.is_leader and self.projection.position[FACTS.name] >= self.lease.seq

    def _fed(self, delivery: Delivery, stream: str) -> None:
        if stream == FACTS.name and self.service.leads:
            held = self.restoration.holds
            for message in delivery.messages:
                if message.subject in (self.lease.subject, self.lease.sharding.subject):
                    self.lease.observe(message)
                elif message.subject.startswith(PREFIX):
                    self._restored(message)
                elif message.subject.startswith(UNPARKED):
                    self._unparked(message)
            if held and not self.restoration.holds and self.active:
                self.restoration.tell()
                self.service.on_restored()
        self._tell()

    def _restored(self, message: Message) -> None:
        began = self.restoration.observe(message)
        if began and self._caught_up_once:
            # What was listed until now was listed before; and nothing that is under way may reach a member.
            raise LogReplaced(f"a restore began at position {message.seq}: {self.restoration.state.words}")
        if self.deciding is not None:
            self.deciding.wake()

    def _unparked(self, message: Message) -> None:
        """Do what an operator wants done about a parked key; what a newer version wants is not known here."""
        try:
            event = decode(message.subject, message.data)
        except DecodeError as error:
            self._unreadable(message, error)
            return
        if isinstance(event, KeyRetried | KeyDropped):
            troubles = self.deciding.troubles if self.deciding is not None else None
            self.projection.mark(self._given_up.take(event, troubles), Cause((message.seq,)))

    def report(self) -> InstanceReport:
        """How this instance is, as it answers those who ask."""
        document = self.health.document()
        lag = {stream: self._follower.behind(stream) for stream in self._filters}
        troubles = self.deciding.troubles if self.deciding is not None else None
        return InstanceReport(
            service=self.name,
            instance=self.lease.instance,
            version=version("fleetlog"),
            host=socket.gethostname(),
            at=self.clock.now(),
            leader=self.lease.is_leader,
            leads=self.service.leads,
            reasons=document.pop("reasons"),
            lag={stream: behind for stream, behind in lag.items() if behind},
            dirty=len(self.projection.dirty),
            blocked=len(self.projection.blocked),
            parked=len(troubles.parked) if troubles is not None else 0,
            dropped=len(troubles.dropped) if troubles is not None else 0,
            keys=troubles.named() if troubles is not None else (),
            facts=document,
        )

    def _tell(self) -> None:
        # Only those whose condition holds are woken: something is folded all the time.
        for news, condition in self._waiting.items():
            if not news.done() and condition():
                news.set_result(None)

    def _marked(self) -> None:
        self._marked_event.set()
        if self.deciding is not None:
            self.deciding.wake()

    def _lease_changed(self, leads: bool, reason: str) -> None:
        self._logger.info("leading" if leads else "following", reason=reason, lease=self.lease.seq)
        self._tell()

    def _last_seq(self, subject: str) -> int:
        if subject.startswith(PREFIX):
            return self.restoration.last_seq(subject)
        return self.projection.state.last_seq(subject)

    def _unreadable(self, message: Message, error: Exception) -> None:
        self._logger.warning("event skipped", subject=message.subject, position=message.seq, reason=str(error))
        if self.service.leads:
            self._recording.append((message, str(error)))
            self._tell()

    async def _record(self) -> None:
        """Write what could not be read to stream PARKED, beside the folding."""
        while True:
            await self.until(lambda: self.active and bool(self._recording))
            message, reason = self._recording.popleft()
            await self.appender.park(cast("K", message.subject), reason, message.seq, message.subject)

    def _problem(self, what: str, key: K, reason: str) -> None:
        self._logger.warning(what, key=str(key), reason=reason)

    def _register(self) -> None:
        """Register readiness checks and metrics that are read on request."""
        health, projection = self.health, self.projection

        def behind() -> str:
            return "" if projection.ready else "the projection is behind the log"

        if self.service.leads:
            health.check("projection", behind)
            health.check("log", lambda: self.appender.trouble)
        else:
            # A reader goes on answering from what it has read while the log is away.
            health.check("projection", lambda: "" if self._caught_up_once else behind())
            health.fact("behind", behind)
        health.check(
            "parked",
            lambda: "too many keys were parked; see stream PARKED" if self.deciding and self.deciding.braked else "",
        )
        health.fact("leader", lambda: self.lease.is_leader)
        if self.guard is not None:
            health.fact("confirmed", lambda: self.lease.holds)
        health.fact("active", lambda: self.active)
        if self.service.leads:
            health.fact("restoring", lambda: self.restoration.trouble)
        health.fact("position", lambda: dict(projection.position))
        self._register_metrics()

    def _register_metrics(self) -> None:
        reads, projection, stats, appends = self.metrics.reads, self.projection, self.stats, self.appender.stats
        for stream in self._filters:
            position, caught_up = partial(projection.position.__getitem__, stream), partial(self._caught_up, stream)
            reads.gauge("log_position", "Last position folded", position, stream=stream)
            reads.gauge("log_caught_up", "1 at the end of the log", caught_up, stream=stream)
            behind = partial(self._follower.behind, stream)
            reads.gauge("log_lag", "Messages that wait to be folded", behind, stream=stream)
        reads.gauge("dirty_keys", "Keys that wait for a decision", lambda: len(projection.dirty))
        reads.gauge("in_flight_keys", "Keys whose events are on their way", self._in_flight)
        reads.gauge("blocked_keys", "Keys with an event of a newer version", lambda: len(projection.blocked))
        reads.gauge("parked_keys", "Keys set aside", lambda: len(self.deciding.troubles.parked) if self.deciding else 0)
        reads.gauge("leader", "1 while this instance leads", lambda: self.lease.is_leader)
        reads.gauge(
            "restoring", "1 while nothing is delivered because a log is restored", lambda: self.restoration.holds
        )
        name = (self.name,)
        about = "1 while this instance leads"
        reads.table("leader_election_master_status", about, ("name",), lambda: [(name, self.lease.is_leader)])
        reads.counter("folded", "Messages folded", lambda: projection.stats.folded)
        reads.counter("unreadable", "Messages that could not be read", lambda: projection.stats.unknown, kind="unknown")
        reads.counter("unreadable", "", lambda: projection.stats.malformed, kind="malformed")
        reads.counter("unreadable", "", lambda: projection.stats.failed, kind="fold")
        reads.counter("log_gaps", "Events whose predecessor was never seen", lambda: projection.stats.gaps)
        reads.counter("decisions", "Decisions made", lambda: stats.decisions)
        reads.counter("decision_failures", "Decisions that raised", lambda: stats.failures)
        reads.counter("parked", "Keys parked since the start", lambda: stats.parked)
        reads.counter("events", "Events appended", lambda: appends.events)
        reads.counter("batches", "Batches appended", lambda: appends.batches)
        reads.counter("append_ambiguous", "Batches without an answer", lambda: appends.ambiguous)
        reads.counter("unrecorded", "Parked keys that could not be recorded", lambda: appends.unrecorded)
        reads.counter("append_retries", "Batches sent again", lambda: appends.retries)

    def _caught_up(self, stream: str) -> float:
        return self.projection.caught_up[stream]

    def _in_flight(self) -> int:
        return len(self.deciding.in_flight) if self.deciding else 0


def filters_of(service: BaseService[Any, Any], group: ShardGroup = WHOLE) -> dict[str, list[str]]:
    """What a service reads of each stream, its lease included, and the one that says how it is divided."""
    if not service.leads:
        return by_stream(service.filters)
    name = group.named(service.name)
    leases = {lease_subject(service.name), lease_subject(name)}
    return by_stream([*service.filters, *sorted(leases), RESTORES, f"{UNPARKED}{escape(name)}.*"])
