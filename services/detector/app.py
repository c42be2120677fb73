"""Runs the detector: watches every kind of the control plane, decides facts, writes claims back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, assert_never

from msgspec import Struct
from msgspec.structs import replace

from schemas.codec import DecodeError, Known, decode
from schemas.keys import ObjectKey, PolicyKey
from schemas.subjects import absence as absence_subject
from schemas.subjects import confirmation, object_key, policy_key
from services._kit.concurrency.keyed_work import Background
from services._kit.credentials.kubeconfig import open_kubeconfig
from services._kit.identity.identity_gate import ControlPlaneIdentity
from services._kit.interpretation.async_interpretation import AsyncInterpretation, InterpretationRequest
from services._kit.kube.api import PASSING
from services._kit.kube.client import ApiError, KubeClient, Unreachable
from services._kit.kube.event_recorder import EventRecorder
from services._kit.log.stream_port import Message
from services._kit.runtime.service import Context, Decider
from services._rules.absence import absence_guard as absence
from services._rules.absence.absence_guard import Guard
from services._rules.absence.endpoint_identity import Judgement
from services._rules.decision import NOTHING, Decision
from services._rules.interpreter.result_cache import ResultPending
from services._rules.policies.skip_rules import compile_skip_rules
from services.detector.change_sets import Member, SetKey, order
from services.detector.claims.policy_decision import decide_policy
from services.detector.claims.policy_review import review_policy
from services.detector.control_plane_scope import decide_scope, unsettled
from services.detector.decide import decide_template
from services.detector.effect_writes import Written, other_uid, refusal, write
from services.detector.effects import (
    DeleteRebalancer,
    DetectorDecision,
    KeepPolicy,
    NeedKey,
    ReleasePolicy,
    Tell,
    WritePolicyId,
    WriteRebalancer,
)
from services.detector.event_messages import preemption_failed
from services.detector.indexes.template_index import remember
from services.detector.kind_watch import Watching
from services.detector.manifest_storage import ManifestStorage, Store
from services.detector.metrics import register
from services.detector.policies.claim_writes import WriteClaim
from services.detector.rebalancing.rebalancer_decision import KIND as REBALANCER
from services.detector.rebalancing.rebalancer_decision import decide_rebalancer
from services.detector.settings import DetectorSettings
from services.detector.state import SCOPE, DetectorState, Key, ScopeKey, fold

# A write that raced with another, or found no server, is retried; a refused one is decided again.
_SCOPED: Final = ("identity.", "absence.", "confirmation.")
_TRANSIENT: Final = PASSING | {409}


def _key_of(subject: str) -> Key:
    if subject.startswith(_SCOPED):
        return SCOPE
    return policy_key(subject) if subject.startswith("policy.") else object_key(subject)


class OfSet(Struct, frozen=True):
    """What a member of a change set lacks, so that none of the set is decided before it is there."""

    key: SetKey
    wanted: Store | InterpretationRequest | NeedKey


class Transient(Exception):
    """A write to the control plane that has to be repeated."""


class Detector(Decider[DetectorState, Key]):
    """The control plane in, facts and claims out."""

    name = "detector"
    filters = (
        "template.>",
        "policy.>",
        "binding.>",
        "cluster.*",
        "identity.*",
        absence_subject(SCOPE.scope),
        confirmation(SCOPE.scope),
    )
    _client: KubeClient
    _watching: Watching | None = None
    _identity: ControlPlaneIdentity
    _count_preemption: Callable[[str], None]

    def __init__(self, settings: DetectorSettings) -> None:
        self._settings = settings
        self._skip = compile_skip_rules(settings.skipped_propagating_apis, settings.skipped_propagating_namespaces)
        self._writes: Background[Key] = Background(concurrency=settings.concurrent_writes, retry=(Transient,))
        self._storage = ManifestStorage()
        self._recorder: EventRecorder | None = None
        self._asking: AsyncInterpretation[Key] = AsyncInterpretation(self._mark)
        self._judged: Judgement | None = None
        self._newer: set[str] = set()
        """Subjects whose last event a newer version wrote."""

    def _mark(self, keys: Iterable[Key]) -> None:
        if self._context is not None:
            self._context.mark(keys)

    def new_state(self) -> DetectorState:
        """An empty projection."""
        return DetectorState(
            skip=self._skip,
            options=self._settings.options(),
            interpreter=self._asking.interpreter,
            reinterpret=self._asking.take,
            guard=Guard(scope=SCOPE.scope, limits=self._settings.limits()),
        )

    def fold(self, state: DetectorState, message: Message, event: Known) -> Iterable[Key]:
        """Take in one of the detector's own facts."""
        touched = fold(state, message.seq, message.subject, event)
        if message.subject in self._newer:
            # What waited for this one has not been decided since.
            self._newer.discard(message.subject)
            return (*touched, _key_of(message.subject))
        return touched

    def unreadable(self, state: DetectorState, message: Message) -> Iterable[Key]:
        """Keys of facts of a newer version, which are not overwritten with older ones; corrupt facts are."""
        try:
            decode(message.subject, message.data)
        except DecodeError as error:
            if error.unknown_tag and not message.subject.startswith(("lease.", "cluster.")):
                self._newer.add(message.subject)
                return (_key_of(message.subject),)
        return ()

    def unsettled(self, state: DetectorState, now: float) -> str:
        """What has to be listed or stored before a restored log is compared with the control plane."""
        del now
        return unsettled(state, self._storage.again, self._asking.pending)

    def recover(self, state: DetectorState) -> Iterable[Key]:
        """Everything in sight and everything on record: a standby sees what goes, and decides nothing about it."""
        state.sets.clear()
        known: list[Key] = [*state.policies, *state.policy_facts, *state.templates, *state.template_facts]
        return dict.fromkeys([SCOPE, *known])

    def decide(self, state: DetectorState, key: Key, now: float) -> Decision:
        """Facts and writes of one template or policy, or of all that a change set touches."""
        if isinstance(key, SetKey):
            return self._decide_set(state, key, now)
        if not isinstance(key, ScopeKey) and key in state.sets.deciding:
            # Its set is decided as a whole, with this.
            return NOTHING
        decision = self._decide(state, key, now)
        self._remember(state, key, decision)
        return decision

    def _decide_set(self, state: DetectorState, key: SetKey, now: float) -> Decision:
        """The facts of everything that a change set touches, as one batch: policies first, then what they select."""
        made: list[tuple[Member, Decision]] = []
        missing: list[OfSet] = []
        due = sorted(state.sets.touched.get(key.id, ()), key=order)
        for each in due:
            decision = self._decide(state, each, now)
            # What its policies mean for other templates is part of the set.
            concerned = [found for found in decision.also if found not in state.sets.touched[key.id]]
            state.sets.begin(key.id, concerned)
            due += dict.fromkeys(concerned)
            if each in self._storage.again:
                return Decision(wake_at=decision.wake_at)
            wanted = [item for item in decision.effects if isinstance(item, Store | InterpretationRequest | NeedKey)]
            refused = isinstance(each, ObjectKey) and each in self._storage.refused
            missing += [OfSet(key, item) for item in wanted if not (refused and isinstance(item, NeedKey))]
            if not wanted:
                made.append((each, decision))
        if missing:
            return Decision(effects=tuple(missing))
        for each, decision in made:
            self._remember(state, each, decision)
        events = tuple(event for _, decision in made for event in decision.events)
        effects = tuple(effect for _, decision in made for effect in decision.effects)
        if not events:
            # All of it is on record: from now on each key is decided by itself.
            return Decision(effects=effects, also=state.sets.finish(key.id))
        return Decision(events=events, effects=effects, also=(key,), together=True)

    def _remember(self, state: DetectorState, key: Key, decision: Decision) -> None:
        if not isinstance(decision, DetectorDecision):
            # A policy is looked at even where its decision is put off.
            if isinstance(key, PolicyKey):
                state.edited.discard(key)
            return
        remember(state, key, decision)
        told = any(isinstance(effect, Tell) and effect.once for effect in decision.effects)
        if isinstance(key, ObjectKey) and self._recorder is not None and not told:
            self._recorder.settled(key)

    def _decide(self, state: DetectorState, key: Member | ScopeKey, now: float) -> Decision:
        if key in self._storage.again:
            left = self._storage.again[key] - self.context.clock.monotonic()
            if left > 0:
                return Decision(wake_at=now + left)
            del self._storage.again[key]
        if isinstance(key, ScopeKey):
            scope = decide_scope(state, now)
            if scope.settled:
                absence.settle(state.guard)
            return scope
        try:
            decision = self._decided(state, key, now)
        except ResultPending as missing:
            return Decision(effects=(InterpretationRequest(key, missing.questions),))
        if decision.blobs and not all(self._may_name(digest) for digest, _ in decision.blobs):
            # It is made again once they are stored, and from the same state.
            return Decision(effects=(Store(key, decision.blobs, decision.secret),))
        return decision

    @staticmethod
    def _decided(state: DetectorState, key: ObjectKey | PolicyKey, now: float) -> DetectorDecision:
        """The facts about a template or a policy, and what its user should hear of it."""
        if isinstance(key, ObjectKey):
            return decide_template(state, key, now)
        if key.kind == REBALANCER:
            made = decide_rebalancer(state, key, now)
            state.rebalancing.remember(key, made.waits)
            return made
        decision, review = decide_policy(state, key), review_policy(state, key, now)
        effects = [*decision.effects, *review.effects]
        return replace(decision, effects=effects, wake_at=review.wake_at)

    def _may_name(self, digest: str) -> bool:
        return self._context is not None and self._context.blobs.may_name(digest)

    async def start(self, context: Context[DetectorState, Key]) -> None:
        """Open the control plane."""
        await super().start(context)
        self._client = await open_kubeconfig(self._settings.control_kubeconfig)
        self._client.guard = context.guard
        self._recorder = EventRecorder(self._client, context.clock.now)
        self._asking.interpreters.reach_services(self._client)
        state, client = context.projection.state, self._client
        self._identity = await ControlPlaneIdentity.open(
            self._settings.control_kubeconfig, client, state.guard, self._identity_read
        )
        self._watching = Watching(
            client, state, context.mark, period=self._settings.discovery_period, identity=self._identity
        )
        if context.blobs.vault is not None:
            context.blobs.vault.on_changed = partial(self._storage.key_changed, context)
        self._count_preemption = register(context.metrics, state, lambda: self._writes.pending)
        self._asking.offer(context.health, context.metrics.reads)
        watching = self._watching
        context.health.check("watches", lambda: watching.trouble)
        context.health.check("control-plane", lambda: "" if state.policies_listed else _BLIND)
        context.health.check("identity", lambda: _stranger(state.guard))
        context.health.fact("withdrawals_held", lambda: state.guard.count)

    def _identity_read(self) -> None:
        """Who the control plane is was read: what follows is decided."""
        guard = self.state.guard
        if guard.judgement is not self._judged or absence.identify(guard, self.context.clock.now()) is not None:
            if self._watching is not None and self._judged is not None and not self._judged.trusted:
                # Kinds that the other one did not serve are served again.
                self._watching.find_now()
            self._judged = guard.judgement
            self.context.mark((SCOPE,))

    async def on_caught_up(self) -> None:
        """Watch from now on, as a standby too: a takeover finds everything at hand."""
        assert self._watching is not None
        self._identity.start()
        self._watching.start()

    async def stop(self) -> None:
        """Close watches and connections."""
        if self._watching is not None:
            await self._watching.stop()
        await self._writes.close()
        if self._recorder is not None:
            await self._recorder.drop()
        await self._asking.close()
        await self._identity.close()
        await self._client.close()

    async def on_following(self) -> None:
        """Another instance writes claims now."""
        await self._asking.pause()
        if self._recorder is not None:
            await self._recorder.drop()
        await self._writes.close()
        self._writes = Background(concurrency=self._settings.concurrent_writes, retry=(Transient,))

    async def perform(self, effects: Sequence[object]) -> None:
        """Store manifests, and hand writes over: a slow control plane must not hold up decisions."""
        for effect in effects:
            match effect:
                case Store():
                    await self._storage.store(self.context, effect)
                case InterpretationRequest():
                    self._asking.submit(effect)
                case NeedKey():
                    await self._storage.need_key(self.context, effect)
                case OfSet():
                    await self._act_for(effect)
                case Tell():
                    assert self._recorder is not None
                    (self._recorder.tell_once if effect.once else self._recorder.tell)(effect.note)
                case (
                    WriteClaim()
                    | WritePolicyId()
                    | KeepPolicy()
                    | ReleasePolicy()
                    | WriteRebalancer()
                    | DeleteRebalancer()
                ):
                    self._writes.submit(effect.key, partial(self._write, effect))
                case _:
                    raise TypeError(f"the detector has no effect {effect!r}")

    async def _act_for(self, effect: OfSet) -> None:
        """Fetch what a member of a set lacks, and have the set decided again."""
        match effect.wanted:
            case InterpretationRequest(questions=questions):
                self._asking.submit(InterpretationRequest(effect.key, questions))
                return
            case Store():
                await self._storage.store(self.context, effect.wanted)
            case NeedKey():
                await self._storage.need_key(self.context, effect.wanted)
            case _:
                assert_never(effect.wanted)
        self.context.mark((effect.key,))

    async def _write(self, effect: Written) -> None:
        try:
            await write(self._client, effect)
            self._preempted(effect)
        except Unreachable as error:
            raise Transient(str(error)) from error
        except ApiError as error:
            if error.status == 404:
                return  # The object is gone; its watch reports that too.
            if error.status == 409 and isinstance(effect, WriteRebalancer | DeleteRebalancer):
                return  # The version that its watch brings is decided.
            if error.status in _TRANSIENT and not other_uid(error):
                raise Transient(refusal(effect, error)) from None
            why = refusal(effect, error)
            self._preempted(effect, why)
            raise ApiError(error.status, "", why) from None

    def _preempted(self, effect: Written, failure: str = "") -> None:
        """Tell of a preemption that its claim is written, or why it is not."""
        if isinstance(effect, WriteClaim) and effect.preemption is not None and self._recorder is not None:
            note = effect.preemption
            self._count_preemption("error" if failure else "success")
            self._recorder.tell_once(preemption_failed(note, failure) if failure else note)


_BLIND: Final = "the control plane's policies have not been listed yet"


def _stranger(guard: Guard[Key]) -> str:
    """Why answers of the control plane are not trusted; empty when they are."""
    if guard.judgement is None or guard.trusted:
        return ""
    seen = guard.reading.uid if guard.reading is not None else ""
    return f"the control plane is {guard.uid}, but {seen or 'one that does not tell its identity'} answers"
