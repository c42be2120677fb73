"""Runs the autoscaler: rounds of all FederatedHPAs, rules of CronFederatedHPAs, and the writes that they ask for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Final

import structlog
from msgspec.structs import replace

from schemas.codec import Known
from schemas.events.autoscaling import RuleRun
from schemas.keys import ObjectKey, PolicyKey
from schemas.subjects import BY_KIND, policy_key
from services._kit.concurrency.keyed_work import Background
from services._kit.concurrency.supervision import Supervised, supervise
from services._kit.concurrency.tasks import set_within
from services._kit.credentials.kubeconfig import open_kubeconfig
from services._kit.kube.client import ApiError, KubeClient, Unreachable
from services._kit.kube.event_recorder import EventRecorder
from services._kit.log.stream_port import Message
from services._kit.runtime.service import Context, Decider
from services._rules.constants import AUTOSCALING_API, CRON_FEDERATED_HPA, FEDERATED_HPA
from services._rules.decision import NOTHING, Decision
from services._rules.facets import is_of_facet
from services.autoscaler.autoscaler_writes import PLURALS, AutoscalerWrites
from services.autoscaler.decide import decide, release, settle, take_up, unsettled
from services.autoscaler.metrics import AutoscalerMetrics, RoundTimer
from services.autoscaler.reading.member_set import MemberSet
from services.autoscaler.reading.metric_source import ControlPlaneMetrics
from services.autoscaler.reading.object_watch import ObjectWatch, Watched
from services.autoscaler.reading.rounds import Rounds
from services.autoscaler.reading.scale_access import Moved, Scales
from services.autoscaler.replica_rules import replicas_of_members
from services.autoscaler.scaling_effects import Outcome, Rescale, Round, Tell, Verify, WriteStatus
from services.autoscaler.schedule_decision import (
    Missed,
    Run,
    Schedule,
    TellOfSchedule,
    WriteHistory,
    decide_schedule,
)
from services.autoscaler.settings import AutoscalerSettings
from services.autoscaler.state import FILTERS, AutoscalerState, fold
from services.autoscaler.status_queue import StatusQueue
from services.autoscaler.target_marker import TargetMarker

log = structlog.get_logger("autoscaler")

_GATHER_SECONDS: Final = 0.05
"""For how long changes of FederatedHPAs are gathered before a round of those is read."""
_GROUP_VERSION: Final = (AUTOSCALING_API.partition("/")[0], AUTOSCALING_API.partition("/")[2])


class Autoscaler(Decider[AutoscalerState, PolicyKey]):
    """Samples and schedules in, replicas out."""

    name = "autoscaler"
    filters = FILTERS
    states = AutoscalerState
    _control: KubeClient
    _recorder: EventRecorder
    _scales: Scales
    _writes: AutoscalerWrites
    _members: MemberSet
    _reader: Rounds
    _metrics: AutoscalerMetrics
    _timer: RoundTimer

    def __init__(self, settings: AutoscalerSettings) -> None:
        self._settings = settings
        self._leading = False
        self._watches: dict[str, ObjectWatch] = {}
        self._loop: Supervised | None = None
        self._marker: TargetMarker | None = None
        self._changed: set[PolicyKey] = set()
        self._wake = asyncio.Event()
        self._waiting: dict[ObjectKey, set[PolicyKey]] = {}
        """FederatedHPAs by their targets, of which the log did not say enough in the last round."""
        self._rounds: dict[PolicyKey, tuple[Round, float]] = {}
        """What was read and no decision has used yet, with the seconds that it took."""
        self._outcomes: dict[PolicyKey, Outcome] = {}
        self._scaling: set[PolicyKey] = set()
        """FederatedHPAs whose replicas are being written."""
        self._settled: dict[PolicyKey, float] = {}
        """When it was settled how the last change of each went, by the clock of the loop."""
        self._held: dict[PolicyKey, float] = {}
        self._ended: dict[PolicyKey, dict[str, RuleRun]] = {}
        self._running: dict[PolicyKey, dict[str, Run]] = {}
        self._acts: Background[object] = Background(concurrency=16)
        self._statuses = StatusQueue(
            self._watched, lambda key, uid, status: self._writes.status(key, uid, status), lambda: self._acts.drained()
        )
        self._trouble = ""

    def fold(self, state: AutoscalerState, message: Message, event: Known) -> Iterable[PolicyKey]:
        """Apply one fact; autoscalers that wait for one about their target are read at once."""
        touched = fold(state, message.seq, message.subject, event)
        if self._leading and self._settings.deployment_replicas_syncer and is_of_facet(event):
            self._take_over(state, event.key)
        if self._waiting and is_of_facet(event) and (waiting := self._waiting.get(event.key)) is not None:
            self._changed |= waiting
            self._wake.set()
        return touched

    def _take_over(self, state: AutoscalerState, key: ObjectKey) -> None:
        """Set the replicas of a template to those that its members have, where it follows them."""
        target = state.objects.get(key)
        replicas = replicas_of_members(state, target) if target is not None else None
        if replicas is not None and target is not None and target.bound is not None:
            write = partial(self._scales.write, key, target.bound.api_version, replicas, target.bound.replicas)
            self._acts.submit(key, partial(_taken, write, key))

    def unreadable(self, state: AutoscalerState, message: Message) -> Iterable[PolicyKey]:
        """The autoscaler of which a newer version has written."""
        own = message.subject.partition(".")[0] in BY_KIND
        return (policy_key(message.subject),) if own else ()

    def recover(self, state: AutoscalerState) -> Iterable[PolicyKey]:
        """Schedules: a rule may be due; and autoscalers of which it is not known how their last change went."""
        return [*state.schedules, *(key for key, last in state.scaling.items() if unsettled(last))]

    def decide(self, state: AutoscalerState, key: PolicyKey, now: float) -> Decision:
        """What becomes of one autoscaler, or of one schedule."""
        if not self._knows(key):
            return NOTHING
        if key.kind == CRON_FEDERATED_HPA:
            return self._decide_schedule(state, key, now)
        last = state.scaling.get(key)
        if key not in self._watches[FEDERATED_HPA].objects:
            for kept in (self._rounds, self._outcomes, self._settled, self._held):
                kept.pop(key, None)
            self._statuses.forget(key)
            for waiting in self._waiting.values():
                waiting.discard(key)
            return release(key, last)
        if key in self._scaling:
            return NOTHING
        outcome = self._outcomes.pop(key, None)
        if outcome is not None and last is not None:
            # What was read meanwhile is older than the change: by that it would be made once more.
            self._rounds.pop(key, None)
            self._settled[key] = asyncio.get_running_loop().time()
            return settle(last, outcome, now)
        if last is not None and last.uid == self._watches[FEDERATED_HPA].objects[key].uid and unsettled(last):
            return take_up(last)
        given, took = self._rounds.pop(key, (None, 0.0))
        if given is None:
            return NOTHING
        made = decide(last, given, now)
        self._held[key] = now
        self._metrics.decided(made.action, made.error, _kinds(given), took)
        return made

    def _decide_schedule(self, state: AutoscalerState, key: PolicyKey, now: float) -> Decision:
        found = self._watches[CRON_FEDERATED_HPA].objects.get(key)
        given = Schedule(found.uid, found.generation, found.fields) if found is not None else None
        last = state.schedules.get(key)
        closed = {rule.name: rule.last for rule in last.rules if not rule.running} if last is not None else {}
        # What a run came to is kept until the log has it: a decision may be made again.
        ended = {name: run for name, run in self._ended.get(key, {}).items() if closed.get(name) != run.scheduled}
        running = {name: run for name, run in self._running.get(key, {}).items() if closed.get(name) != run.scheduled}
        made = decide_schedule(last, given, key, now, ended, frozenset(running))
        running.update((effect.rule["name"], effect) for effect in made.effects if isinstance(effect, Run))
        self._ended[key], self._running[key] = ended, running
        return made

    def _knows(self, key: PolicyKey) -> bool:
        """Whether the objects of its kind are known, so that one that is missing is gone."""
        watch = self._watches.get(key.kind)
        return self._leading and watch is not None and watch.synced

    async def start(self, context: Context[AutoscalerState, PolicyKey]) -> None:
        """Open the control plane."""
        await super().start(context)
        settings = self._settings
        self._control = await open_kubeconfig(settings.control_kubeconfig, connections=16)
        self._control.guard = context.guard
        self._recorder = EventRecorder(self._control, context.clock.now)
        self._scales = Scales(self._control)
        self._writes = AutoscalerWrites(self._control, self._scales, context.clock.now)
        self._members = await MemberSet.open(settings, context, self._control)
        source = ControlPlaneMetrics(self._control, settings.metrics_timeout, settings.metrics_at_once)
        self._reader = Rounds(
            settings, context.projection.state, self._scales, source, self._members.followed, self._members.attend
        )
        self._timer = RoundTimer(asyncio.get_running_loop().time)
        self._metrics = AutoscalerMetrics(
            context.metrics,
            context.projection.state,
            self._reader,
            self._timer,
            settings.horizontal_pod_autoscaler_sync_period,
        )
        context.health.check("autoscalers", self._watch_trouble)
        context.health.fact("rounds", lambda: self._trouble)
        context.health.fact("samples", self._sample_troubles)

    async def on_leading(self) -> None:
        """Watch what scales, and begin with rounds."""
        self._leading = True
        self._reader.forget()
        for kind in PLURALS:
            self._watches[kind] = ObjectWatch(self._control, _GROUP_VERSION, PLURALS[kind], kind, self._seen)
        if self._settings.hpa_scale_target_marker:
            self._marker = TargetMarker(self._control, self._scales)
        self._loop = supervise("rounds", self._run)
        if self._settings.deployment_replicas_syncer:
            for key in [*self.state.objects]:
                self._take_over(self.state, key)

    async def on_following(self) -> None:
        """Another instance scales now."""
        self._leading = False
        loop, self._loop = self._loop, None
        if loop is not None:
            await loop.close()
        marker, self._marker = self._marker, None
        if marker is not None:
            await marker.close()
        watches, self._watches = self._watches, {}
        await asyncio.gather(*(watch.close() for watch in watches.values()))
        acts, self._acts = self._acts, Background(concurrency=16)
        await asyncio.gather(acts.close(), self._statuses.drop())
        self._timer.forget()
        self._reader.samples.forget()
        await self._members.drop()
        await self._recorder.drop()
        for kept in (self._rounds, self._outcomes, self._settled, self._held, self._ended, self._running):
            kept.clear()
        self._waiting.clear()
        self._scaling.clear()

    async def stop(self) -> None:
        """Close everything."""
        await self.on_following()
        await self._members.close()
        await self._control.close()

    async def perform(self, effects: Sequence[object]) -> None:
        """Write beside the decisions: a slow control plane holds up no other autoscaler."""
        for effect in effects:
            match effect:
                case Rescale() | Verify():
                    # Not in the decision: one that the log refuses has no effects, and would hold its key for ever.
                    self._scaling.add(effect.key)
                    self._acts.submit(effect.key, partial(self._rescale, effect))
                case Run():
                    self._acts.submit((effect.key, effect.rule["name"]), partial(self._carry_out, effect))
                case WriteStatus() | WriteHistory():
                    self._statuses.submit(effect)
                case Missed():
                    self._metrics.missed(effect.why)
                    log.warning("run_left_out", key=str(effect.key), rule=effect.rule, due=effect.scheduled)
                case Tell() | TellOfSchedule():
                    self._recorder.tell(effect.note)
                case _:
                    raise TypeError(f"the autoscaler has no effect {effect!r}")

    def _seen(self, key: PolicyKey) -> None:
        """An autoscaler or a schedule is another one, or gone."""
        if key.kind == CRON_FEDERATED_HPA or key not in self._watches[FEDERATED_HPA].objects:
            self.context.mark((key,))
            return
        self._changed.add(key)
        self._wake.set()

    async def _run(self) -> None:
        """Read rounds of all FederatedHPAs at every period, and of those that changed in between."""
        loop, period = asyncio.get_running_loop(), self._settings.horizontal_pod_autoscaler_sync_period
        due = loop.time()
        while True:
            await set_within(self._wake, max(due - loop.time(), 0.0))
            watch = self._watches.get(FEDERATED_HPA)
            if watch is None or not watch.synced:
                await asyncio.sleep(_GATHER_SECONDS)
                continue
            whole = loop.time() >= due
            if whole:
                due = loop.time() + max(period, _GATHER_SECONDS)
            else:
                await asyncio.sleep(_GATHER_SECONDS)
            self._wake.clear()
            changed, self._changed = self._changed, set()
            await self._round(watch, None if whole else frozenset(changed))

    async def _round(self, watch: ObjectWatch, only: frozenset[PolicyKey] | None) -> None:
        began = asyncio.get_running_loop().time()
        self._timer.begin()
        try:
            with self._statuses.held():
                rounds = await self._reader.read(
                    dict(watch.objects), self.context.clock.now, partial(self._take_in, began), only
                )
        except Exception as error:
            self._trouble = f"{type(error).__name__}: {error}"[:500]
            log.error("round_failed", reason=self._trouble, exc_info=error)
            self._metrics.round_ended(self._timer.end(whole=only is None), succeeded=False)
            return
        took = self._timer.end(whole=only is None)
        self._trouble = ""
        if only is None:
            self._metrics.round_ended(took, succeeded=True)
        self._metrics.pulled(_kinds(*rounds), took)

    def _take_in(self, began: float, rounds: Sequence[Round]) -> None:
        """Have what was read decided."""
        took = asyncio.get_running_loop().time() - began
        for given in rounds:
            if given.target is not None:
                self._wait(given.key, given.target, given.refusal is not None)
            if given.key in self._scaling or self._settled.get(given.key, 0.0) >= began:
                continue
            self._rounds[given.key] = (replace(given, held=self._held.get(given.key, 0.0)), took)
        self.context.mark([given.key for given in rounds])

    def _wait(self, key: PolicyKey, target: ObjectKey, waits: bool) -> None:
        """Read an autoscaler again as soon as there is news of its target, or not."""
        waiting = self._waiting.get(target, set())
        (waiting.add if waits else waiting.discard)(key)
        if waiting:
            self._waiting[target] = waiting
        else:
            self._waiting.pop(target, None)

    async def _rescale(self, effect: Rescale | Verify) -> None:
        target = self.state.objects.get(effect.target)
        bound = target.bound if target is not None else None
        outcome: Outcome | None
        try:
            if bound is None:
                outcome = Outcome(effect.replicas, "the target is not propagated any more")
            elif isinstance(effect, Verify):
                outcome = await self._writes.verify(effect, bound.api_version)
            else:
                outcome = await self._writes.rescale(effect, bound.api_version)
        finally:
            # Without an outcome the next round finds out how it went.
            self._scaling.discard(effect.key)
            self._statuses.scaled()
        if outcome is not None:
            self._outcomes[effect.key] = outcome
            self.context.mark((effect.key,))

    async def _carry_out(self, effect: Run) -> None:
        began = asyncio.get_running_loop().time()
        try:
            run = await self._writes.run(effect)
        except Exception as error:
            log.error("rule_failed", key=str(effect.key), rule=effect.rule["name"], exc_info=error)
            problem = f"{type(error).__name__}: {error}"[:500]
            run = RuleRun(effect.scheduled, self.context.clock.now(), problem=problem)
        self._metrics.ran(asyncio.get_running_loop().time() - began, succeeded=not run.problem)
        self._ended.setdefault(effect.key, {})[effect.rule["name"]] = run
        self.context.mark((effect.key,))

    def _watched(self, key: PolicyKey) -> Watched | None:
        """An autoscaler or a schedule as it stands in the control plane."""
        watch = self._watches.get(key.kind)
        return watch.objects.get(key) if watch is not None else None

    def _sample_troubles(self) -> dict[str, str]:
        """Why some members have no samples."""
        problems = self._reader.samples.problems.items()
        return dict(sorted((cluster, problem) for cluster, problem in problems if problem)[:5])

    def _watch_trouble(self) -> str:
        return next((watch.trouble for watch in self._watches.values() if watch.trouble), "")


async def _taken(write: Callable[[], Awaitable[bool]], key: ObjectKey) -> None:
    try:
        await write()
    except (ApiError, Unreachable, Moved) as error:
        # The next fact about the object asks for it again.
        log.warning("replicas_not_taken_over", key=str(key), reason=str(error)[:500])


def _kinds(*rounds: Round) -> dict[str, bool]:
    """Types of metrics, and whether all of each could be read."""
    found: dict[str, bool] = {}
    for given in rounds:
        for kind, reading in zip(given.kinds, given.readings, strict=False):
            found[kind] = found.get(kind, True) and not reading.problem
    return found
