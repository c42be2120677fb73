"""Runs the executor: one lane per push member, opened and closed as clusters come and go."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import structlog
from msgspec import UnsetType

from schemas.codec import Known, decode
from schemas.envelope import HEADER_PRODUCER
from schemas.events.observed import WorkObserved
from schemas.events.policy import PolicyChanged, PolicyDeleted
from schemas.events.work import WorkEvent, WorkRendered
from schemas.keys import ObjectKey
from schemas.subjects import activity
from services._kit.base.log_errors import LogError, Refused
from services._kit.concurrency.supervision import spawn
from services._kit.concurrency.tasks import end
from services._kit.credentials.access import Member, Members
from services._kit.credentials.kubeconfig import open_kubeconfig
from services._kit.delivery.interpretation_levels import Interpretation
from services._kit.delivery.lane import Lane
from services._kit.delivery.lane_metrics import WriteMetrics, register_lane
from services._kit.delivery.lane_parts import LaneSettings, WorkSource
from services._kit.delivery.reports import Appending, Reports
from services._kit.kube.client import KubeClient
from services._kit.log.stream_port import Message
from services._kit.runtime.service import BaseService, Context
from services._rules.delivery.member_address import Access
from services._rules.interpreter.configuration import FILTERS, Target
from services.executor.metrics import Deliveries
from services.executor.settings import ExecutorSettings
from services.executor.state import ExecutorState, LaneKey, abandoned, cut, fold

log = structlog.get_logger("executor")

_LOOK_BACK = 8


class Executor(BaseService[ExecutorState, LaneKey]):
    """Works in, objects in members and observations out."""

    name = "executor"
    filters = ("work.>", "cluster.*", "observed.>", *FILTERS)
    states = ExecutorState
    _control: KubeClient
    _members: Members
    _reports: Reports
    _deliveries: Deliveries | None = None
    _written: WriteMetrics

    def __init__(self, settings: ExecutorSettings) -> None:
        self._settings = settings
        self._reached: dict[str, Member] = {}
        self._lanes: dict[str, tuple[Access, Lane]] = {}
        self._acting = False
        self._closing: set[asyncio.Task[None]] = set()
        self._interpretation = Interpretation()
        self._reinterpreted: set[Target] = set()
        self._looking: asyncio.Task[None] | None = None

    def fold(self, state: ExecutorState, message: Message, event: Known) -> Iterable[LaneKey]:
        """Apply one event; what concerns a cluster of another shard group is left to that one."""
        if isinstance(event, WorkEvent | WorkObserved) and not self.group.owns(event.cluster):
            return ()
        if self._acting and self._deliveries is not None:
            self._deliveries.take(message, event)
        if isinstance(event, PolicyChanged | PolicyDeleted):
            self._requeue(state, self._interpretation.take(event))
            return ()
        touched = fold(state, message.seq, message.subject, event)
        if isinstance(event, WorkObserved) and self._context is not None:
            self._reports.folded(event)
            if self._acting:
                own = self.context.appender.producer
                if event.cluster in self._lanes and message.headers.get(HEADER_PRODUCER) != own:
                    # A replaced leader may still append what it had begun: the present state is observed after it.
                    self._lanes[event.cluster][1].look_at(event.key)
        return touched

    def unit_of(self, key: LaneKey) -> str:
        """The work is divided by cluster."""
        return key[0]

    def _requeue(self, state: ExecutorState, kinds: frozenset[Target]) -> None:
        """Enqueue in all lanes the objects of kinds whose interpretation changed."""
        if not kinds or not self._acting:
            return
        self._reinterpreted |= kinds
        if self._looking is None or self._looking.done():
            self._looking = spawn("look-afresh", self._requeue_all(state))

    async def _requeue_all(self, state: ExecutorState) -> None:
        while self._reinterpreted:
            kinds, self._reinterpreted = self._reinterpreted, set()
            for cluster in list(self._lanes):
                if cluster in self._lanes:
                    lane = self._lanes[cluster][1]
                    for key in state.of(cluster).of_kinds(kinds):
                        lane.look_afresh(key)
                # One cluster's works are many: others have a turn in between.
                await asyncio.sleep(0)

    async def start(self, context: Context[ExecutorState, LaneKey]) -> None:
        """Open the control plane, which holds the members' credentials."""
        await super().start(context)
        self._control = await open_kubeconfig(self._settings.control_kubeconfig, connections=4)
        self._members = Members(self._control)
        self._interpretation.reach_services(self._control)
        self._deliveries = Deliveries(context.metrics)
        self._written = WriteMetrics(context.metrics.reads)
        self._reports = Reports(Appending(context.appender, self._hint))

    async def _hint(self, cluster: str) -> None:
        """Publish a best-effort activity hint for the cluster."""
        if self.context.connection is None:
            return
        try:
            await self.context.connection.publish(activity(cluster), b"")
        except LogError:
            return

    async def on_leading(self) -> None:
        """Open a lane to every member and enqueue all unfinished works."""
        self._acting = True
        self._reports.start()
        if not self._held:
            self._open_all()

    @property
    def _held(self) -> bool:
        """Whether a restore is under way: the works may be older than what the members hold."""
        restoration = self.context.restoration
        return restoration is not None and restoration.holds

    def on_restored(self) -> None:
        """Works are not outdated any more: open a lane to every member."""
        self._open_all()

    def _open_all(self) -> None:
        state = self.state
        for name in filter(self.group.owns, list(state.clusters)):
            self._open(name)
        for name in filter(self.group.owns, state.removed):
            self._abandon(name)

    async def on_following(self) -> None:
        """Another instance delivers now."""
        self._acting = False
        lanes, self._lanes = self._lanes, {}
        reached, self._reached = self._reached, {}
        for member in reached.values():
            member.close()
        self._reinterpreted.clear()
        if self._looking is not None:
            await end(self._looking)
        for cluster in lanes:
            self.context.metrics.reads.forget(member_cluster=cluster)
        await asyncio.gather(*(lane.close() for _, lane in lanes.values()))
        await self._reports.close()

    async def stop(self) -> None:
        """Close everything."""
        await self.on_following()
        await asyncio.gather(*self._closing, return_exceptions=True)
        await self._interpretation.close()
        await self._members.close()
        await self._control.close()

    def on_dirty(self, keys: Iterable[LaneKey]) -> None:
        """Hand changed works to their lanes; open and close lanes with their clusters."""
        if not self._acting or self._held:
            return
        left = set()
        for cluster, key in keys:
            if key is None:
                self._open(cluster)
            elif cluster in self._lanes:
                self._lanes[cluster][1].look_at(key)
            left.add(cluster)
        for cluster in left:
            self._abandon(cluster)

    def _abandon(self, cluster: str) -> None:
        """Count what a cluster held when it was removed as gone.

        Should it join again, its copies are then left alone until works of the new membership take them over: carrying
        out what was withdrawn for the old one would stop everything that runs there.
        """
        for work, seq in abandoned(self.state, cluster):
            said = self._reports.latest(cluster, work.key)
            if said is None or not said.absent or said.work_seq < seq:
                at = self.context.clock.now()
                self._reports.report(
                    WorkObserved(cluster=cluster, key=work.key, uid=work.uid, work_seq=seq, absent=True, at=at)
                )

    def _open(self, cluster: str) -> None:
        """Make the lane of a cluster fit its access data: none for pull members and for those that left."""
        state = self.state
        access = state.clusters.get(cluster)
        current = self._lanes.get(cluster)
        if current is not None and current[0] == access:
            return
        if current is not None:
            del self._lanes[cluster]
            self._reached.pop(cluster).close()
            self.context.metrics.reads.forget(member_cluster=cluster)
            task = spawn(f"lane-close:{cluster}", current[1].close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
        if access is None or access.mode != "Push" or access.stranger:
            return
        settings = LaneSettings(
            concurrency=self._settings.cluster_concurrency, longest_backoff=self._settings.longest_backoff
        )
        source = self._source(cluster)
        member = self._members.member(access.spec(), lambda: lane.connection.retry(), self.context.guard)
        lane = Lane(cluster, member.open, source, settings, self._interpretation, self._written)
        self._lanes[cluster], self._reached[cluster] = (access, lane), member
        register_lane(self.context.metrics.reads, lane)
        lane.start()
        for key in state.of(cluster).unfinished():
            lane.look_at(key)

    def _source(self, cluster: str) -> WorkSource:
        context, reports = self.context, self._reports
        works = context.projection.state.of(cluster)

        def work(key: ObjectKey) -> tuple[WorkEvent, int] | None:
            return works.works.get(key)

        def observed(key: ObjectKey) -> WorkObserved | None:
            return reports.latest(cluster, key) or works.observed.get(key)

        async def previous(key: ObjectKey, current: WorkRendered) -> bytes | None:
            before, digest = works.before(key, current)
            if before is None and digest:
                before = await self._recall(current, digest)
            try:
                return None if before is None else await self._bytes(before)
            except Refused as error:
                if error.err_code:
                    raise
                # Damaged, collected, or erased with its key: what only the old manifest had is then left alone.
                log.warning("earlier_manifest_lost", cluster=cluster, key=str(key), reason=str(error))
                return None

        elsewhere = cut(works)

        async def blob(digest: str) -> bytes:
            found = await self._stored(elsewhere[digest]) if digest in elsewhere else None
            return await context.blobs.get(digest) if found is None else found

        return WorkSource(
            work=work,
            observed=observed,
            blob=blob,
            previous=previous,
            report=reports.report,
            now=context.clock.now,
            identity=lambda: access.identity if (access := context.projection.state.clusters.get(cluster)) else "",
        )

    async def _stored(self, position: int) -> bytes | None:
        """The manifest that stands in the log in a work; its cluster had an agent when the work was read."""
        message = await self.context.logs["FACTS"].get(position)
        event = decode(message.subject, message.data) if message is not None else None
        if not isinstance(event, WorkRendered) or isinstance(event.manifest, UnsetType):
            return None
        return bytes(event.manifest)

    async def _recall(self, current: WorkRendered, digest: str) -> WorkRendered | None:
        """The earlier work of a digest, read back from the log; None when the log has forgotten it."""
        position = current.prev
        for _ in range(_LOOK_BACK):
            message = await self.context.logs["FACTS"].get(position) if position > 0 else None
            if message is None:
                return None
            event = decode(message.subject, message.data)
            if isinstance(event, WorkRendered) and event.digest == digest:
                return event
            position = event.prev
        return None

    async def _bytes(self, work: WorkRendered) -> bytes:
        if isinstance(work.manifest, UnsetType):
            return await self.context.blobs.get(work.digest)
        return bytes(work.manifest)
