"""Runs the status aggregator: sums observations, writes template status and Kubernetes Events."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from schemas.codec import Known
from schemas.events.binding import BindingRequested
from schemas.events.observed import WorkObserved
from schemas.events.policy import PolicyChanged, PolicyDeleted
from schemas.events.rollup import StatusRolledUp
from schemas.events.template import TemplateChanged
from schemas.keys import ObjectKey
from services._kit.concurrency.keyed_work import Background
from services._kit.credentials.kubeconfig import open_kubeconfig
from services._kit.interpretation.interpreter_levels import Interpreters
from services._kit.interpretation.lua.process import WorkerUnavailable
from services._kit.kube.api import PASSING
from services._kit.kube.client import ApiError, KubeClient, Unreachable
from services._kit.kube.event_recorder import EventPace, EventRecorder
from services._kit.log.stream_port import Message
from services._kit.runtime.service import Context, ObjectDecider
from services._rules.decision import NOTHING, Decision
from services._rules.interpreter import InterpretError, InterpretLater, Operation
from services._rules.interpreter.configuration import FILTERS, Target
from services._rules.kubernetes.event_objects import Note
from services._rules.quota.specification import KIND
from services._rules.quota.usage_index import UsageIndex
from services.status_aggregator.decide import RollupPace, decide, due_at, has_news
from services.status_aggregator.event_announcements import Before, Early, announce, before, bound
from services.status_aggregator.failure_events import left_out, refused, unsummed
from services.status_aggregator.metrics import register
from services.status_aggregator.quota_status import is_usage_key
from services.status_aggregator.quota_writer import QuotaStatusWriter
from services.status_aggregator.settings import AggregatorSettings
from services.status_aggregator.state import AggregatorState, fold
from services.status_aggregator.status_writer import LONGEST_PAUSE, Writes
from services.status_aggregator.template_status import Away, TemplateStatus, offers_status, remember_present

E = TypeVar("E")
_MOST_PENDING: Final = 2000
_RUSH: Final = 3
"""Sums of one second from which on each object waits longer for its next: no reader needs them all."""
_MOST_SUMS: Final = 200
_QUOTA_PACE: Final = 1.0
"""Seconds between two statuses of one FederatedResourceQuota, and between two collections in one namespace."""


class WriteStatus(Struct, frozen=True):
    """The status of a template has to follow."""

    key: ObjectKey


class WriteQuotaStatus(Struct, frozen=True):
    """The status of a FederatedResourceQuota has to follow; `key` is the object that clusters get of it."""

    key: ObjectKey


class Retry(Exception):
    """A write to the control plane that has to be repeated."""


class StatusAggregator(ObjectDecider[AggregatorState]):
    """Observations in, summed status out."""

    name = "status_aggregator"
    filters = (
        "template.>",
        "binding.>",
        "placement.>",
        "eviction.>",
        "descheduling.>",
        "work.>",
        "cluster.*",
        "rollup.>",
        "observed.>",
        *FILTERS,
        f"policy.{KIND}.>",
    )
    states = AggregatorState
    _client: KubeClient
    _status: TemplateStatus
    _quotas: QuotaStatusWriter | None = None

    def __init__(self, settings: AggregatorSettings) -> None:
        self._settings = settings
        self._pace = RollupPace(
            settings.rollup_gather, settings.rollup_interval, settings.rollup_patience, settings.rollup_settle
        )
        self._recorder: EventRecorder | None = None
        self._interpreters = Interpreters()
        self._writes = Writes(settings.concurrent_writes, (Retry, Unreachable))
        self._quota_writes = _quota_queue()
        self._leading = False
        self._early = Early()
        self._pending: deque[tuple[int, Known, Before]] = deque(maxlen=_MOST_PENDING)
        self._rolled_up = 0
        self._quota_at: dict[ObjectKey, float] = {}
        self._summed: deque[float] = deque(maxlen=_MOST_SUMS)

    def fold(self, state: AggregatorState, message: Message, event: Known) -> Iterable[ObjectKey]:
        """Apply one event of an object of our group, and record a Kubernetes Event about it when it is new."""
        if isinstance(event, PolicyChanged | PolicyDeleted) and event.key.kind != KIND:
            # What is summed in another way from now on is summed again.
            return state.of_kinds(self._interpreters.take(event))
        key = getattr(event, "key", None)
        if isinstance(key, ObjectKey) and not self.owns(key):
            return ()
        known = before(state, event) if self._settings.events else None
        touched = fold(state, message.seq, message.subject, event)
        if known is not None:
            self._announce(state, message, event, known)
        if isinstance(event, StatusRolledUp):
            self._rolled_up = max(self._rolled_up, message.seq)
        return touched

    def unit_of(self, key: ObjectKey) -> str:
        """The work is divided by namespace: quotas count what is in one. What is in none goes by its name."""
        return key.namespace or key.name

    def _announce(self, state: AggregatorState, message: Message, event: Known, known: Before) -> None:
        if not self._leading or self._recorder is None:
            if not isinstance(event, WorkObserved):
                self._pending.append((message.seq, event, known))
            return
        for note in announce(state, event, known):
            self._recorder.tell(note)
        if isinstance(event, WorkObserved) and not bound(state, event):
            self._early.keep(event)
        if isinstance(event, BindingRequested):
            for observed in self._early.take(event.key, event.uid):
                for note in announce(state, observed):
                    self._recorder.tell(note)

    def unreadable(self, state: AggregatorState, message: Message) -> Iterable[ObjectKey]:
        """None: what a newer version wrote of an object holds up no sum."""
        del state, message
        return ()

    def recover(self, state: AggregatorState) -> Iterable[ObjectKey]:
        """Everything that has a binding or still holds a copy somewhere, and every quota."""
        found = [key for key, reported in state.objects.items() if not _closed(reported.rollup)]
        return list(dict.fromkeys([*found, *state.limited.quotas]))

    def new_state(self) -> AggregatorState:
        """An empty projection; what namespaces use is added up where quotas are enforced."""
        state = AggregatorState()
        if self._settings.gates()["FederatedQuotaEnforcement"]:
            state.limited.usage = UsageIndex()
        return state

    def decide(self, state: AggregatorState, key: ObjectKey, now: float) -> Decision:
        """The rollup of one object, or, once it stands on the log, the status of the template; that of a quota."""
        if is_usage_key(key):
            later = self._quota_later(key, now)
            if later:
                return Decision(wake_at=later)
            quotas = state.limited.in_namespace.get(key.namespace)
            if quotas is None:
                del self._quota_at[key]
            return Decision(also=sorted(quotas or ()))
        made = self._sum(state, key, now)
        if self._quotas is None or not (key in state.limited.quotas or key in self._quota_at):
            return made
        if key in state.limited.quotas and not self._quotas.differs(key):
            return made
        later = self._quota_later(key, now)
        if later:
            return replace(made, wake_at=min(later, made.wake_at or later))
        if key not in state.limited.quotas:
            del self._quota_at[key]
        return replace(made, effects=(*made.effects, WriteQuotaStatus(key)))

    def _quota_later(self, key: ObjectKey, now: float) -> float:
        """When a quota (or all of a namespace) may follow next; 0 for now, which is noted."""
        last = self._quota_at.get(key, 0.0)
        if last <= now < last + _QUOTA_PACE:
            return last + _QUOTA_PACE
        self._quota_at[key] = now
        return 0.0

    def _sum(self, state: AggregatorState, key: ObjectKey, now: float) -> Decision:
        reported = state.objects.get(key)
        if reported is None:
            return NOTHING
        due = due_at(reported, now, self._pace, self._patience(now))
        if now < due and (reported.rollup is None or has_news(reported)):
            # Most works and reports come before the next sum is due: it is not worked out until then.
            return Decision(wake_at=due)
        rollup = decide(state, key)
        if rollup is not None:
            if now < due:
                return Decision(wake_at=due)
            self._summed.append(now)
            return Decision(events=(rollup,))
        template = reported.template
        if reported.rollup is None or not isinstance(template, TemplateChanged):
            return NOTHING
        if offers_status(self._interpreters, template.api_version, template.kind):
            return Decision(effects=(WriteStatus(key),))
        return NOTHING

    def _patience(self, now: float) -> float:
        """How much longer than usual objects wait for their next sum: in a burst, each sum covers more reports."""
        while self._summed and self._summed[0] < now - 1.0:
            self._summed.popleft()
        return max(1.0, len(self._summed) / _RUSH)

    async def start(self, context: Context[AggregatorState, ObjectKey]) -> None:
        """Open the control plane."""
        await super().start(context)
        self._client = await open_kubeconfig(self._settings.control_kubeconfig)
        self._client.guard = context.guard
        self._interpreters.reach_services(self._client)
        self._status = TemplateStatus(
            self._client, context.projection.state, context.blobs, context.clock, self._interpreters
        )
        pace = EventPace(self._settings.events_per_second, self._settings.events_at_once, self._settings.events_waiting)
        self._recorder = EventRecorder(self._client, context.clock.now, pace=pace)
        self._quotas = QuotaStatusWriter(self._client, context.projection.state, self._tell)
        register(
            context.metrics.reads, context.projection.state, lambda: self._writes.pending + self._quota_writes.pending
        )

    async def on_leading(self) -> None:
        """Read the templates' present status in bulk, and record the Events of the time without a leader."""
        assert self._recorder is not None
        await remember_present(self._client, self.state, self._status)
        assert self._quotas is not None
        await self._quotas.remember()
        self._leading = True
        for seq, event, known in self._pending:
            for note in announce(self.state, event, known) if seq > self._rolled_up else ():
                self._recorder.tell(note)
        self._pending.clear()

    async def on_following(self) -> None:
        """Another instance writes now."""
        self._leading = False
        quota_writes, self._quota_writes = self._quota_writes, _quota_queue()
        await self._writes.close()
        await quota_writes.close()
        if self._recorder is not None:
            await self._recorder.drop()

    async def stop(self) -> None:
        """Close everything."""
        self._leading = False
        await self._writes.close()
        await self._quota_writes.close()
        if self._recorder is not None:
            await self._recorder.drop()
        await self._interpreters.close()
        await self._client.close()

    async def perform(self, effects: Sequence[object]) -> None:
        """Hand status writes over: a slow control plane must not hold up the sums."""
        for effect in effects:
            if isinstance(effect, WriteQuotaStatus):
                self._quota_writes.submit(effect.key, partial(self._write_quota, effect.key))
                continue
            if not isinstance(effect, WriteStatus):
                raise TypeError(f"the aggregator has no effect {effect!r}")
            self._writes.submit(effect.key, self._apart(effect.key), partial(self._write, effect.key))

    async def _write_quota(self, key: ObjectKey) -> None:
        assert self._quotas is not None
        try:
            await self._quotas.write(key)
        except ApiError as error:
            if error.status in PASSING:
                raise Retry(str(error)) from error
            raise

    def _tell(self, note: Note) -> None:
        if self._recorder is not None and self._settings.events:
            self._recorder.tell(note)

    def _apart(self, key: ObjectKey) -> Target | None:
        """The kind of an object that a script or webhook sums."""
        template = self._template(key)
        if template is None:
            return None
        kind = (template.api_version, template.kind)
        return kind if self._interpreters.customized(*kind, Operation.AGGREGATE) else None

    def _template(self, key: ObjectKey) -> TemplateChanged | None:
        reported = self.state.objects.get(key)
        template = reported.template if reported is not None else None
        return template if isinstance(template, TemplateChanged) else None

    async def _write(self, key: ObjectKey) -> None:
        try:
            out = await self._status.write(key)
            if out:
                self._complain(key, left_out, out)
        except Away as problem:
            # Its deletion becomes a fact soon, or the control plane is the right one again.
            raise Retry(str(problem)) from problem
        except ApiError as error:
            if error.status in PASSING:
                raise Retry(str(error)) from error
            self._complain(key, refused, error)
            raise
        except InterpretError as problem:
            self._complain(key, unsummed, problem)
            if isinstance(problem, InterpretLater):
                raise Retry(str(problem)) from problem
        except WorkerUnavailable as problem:
            raise Retry(str(problem)) from problem

    def _complain(self, key: ObjectKey, note: Callable[[TemplateChanged, E], Note], problem: E) -> None:
        template = self._template(key)
        if template is not None and self._recorder is not None and self._settings.events:
            self._recorder.tell(note(template, problem))


def _quota_queue() -> Background[ObjectKey]:
    """Writes of quotas have a queue of their own: thousands of them hold up no template."""
    return Background(concurrency=4, retry=(Retry, Unreachable), longest_pause=LONGEST_PAUSE)


def _closed(rollup: StatusRolledUp | None) -> bool:
    return rollup is not None and rollup.closed
