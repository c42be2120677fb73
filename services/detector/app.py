"""Runs the detector: watches every kind of the control plane, decides facts, writes claims back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

import structlog
from msgspec import Struct

from schemas.codec import DecodeError, Known, decode
from schemas.keys import ObjectKey, PolicyKey
from schemas.subjects import absence as absence_subject
from schemas.subjects import confirmation, object_key, policy_key
from schemas.subjects import template as template_subject
from services._kit.base.log_errors import LogError, Refused
from services._kit.concurrency.keyed_work import Background
from services._kit.credentials.kubeconfig import open_kubeconfig
from services._kit.identity.identity_gate import ControlPlaneIdentity
from services._kit.interpretation.async_interpretation import AsyncInterpretation, InterpretationRequest
from services._kit.kube.api import PASSING
from services._kit.kube.client import ApiError, KubeClient, Unreachable, resource_path
from services._kit.kube.event_recorder import EventRecorder
from services._kit.log.stream_port import Message
from services._kit.runtime.service import Context, Decider
from services._rules.absence import absence_guard as absence
from services._rules.absence.absence_guard import Guard
from services._rules.absence.endpoint_identity import Judgement
from services._rules.decision import Decision
from services._rules.interpreter.result_cache import ResultPending
from services._rules.policies.skip_rules import compile_skip_rules
from services._rules.secrets.redaction import refusal_of_secret
from services._rules.secrets.secret_objects import is_secret_resource
from services.detector.control_plane_scope import decide_scope, unsettled
from services.detector.decide import NeedKey, Tell, WriteClaim, WritePolicyId, decide_policy, decide_template
from services.detector.kind_watch import PLURALS, Watching
from services.detector.metrics import register
from services.detector.settings import DetectorSettings
from services.detector.state import SCOPE, DetectorState, Key, ScopeKey, fold, remember

# A write that raced with another, or found no server, is retried; a refused one is decided again.
_SCOPED: Final = ("identity.", "absence.", "confirmation.")
_TRANSIENT: Final = PASSING | {409}


log = structlog.get_logger("detector")


def _key_of(subject: str) -> Key:
    if subject.startswith(_SCOPED):
        return SCOPE
    return policy_key(subject) if subject.startswith("policy.") else object_key(subject)


class Store(Struct, frozen=True):
    """A decision waits until these manifests are stored."""

    key: Key
    blobs: Sequence[tuple[str, bytes]]
    secret: bool


class Transient(Exception):
    """A write to the control plane that has to be repeated."""


class Detector(Decider[DetectorState, Key]):
    """The control plane in, facts and claims out."""

    name = "detector"
    filters = (
        "template.>",
        "policy.>",
        "binding.>",
        "identity.*",
        absence_subject(SCOPE.scope),
        confirmation(SCOPE.scope),
    )
    _client: KubeClient
    _watching: Watching | None = None
    _identity: ControlPlaneIdentity

    def __init__(self, settings: DetectorSettings) -> None:
        self._settings = settings
        self._skip = compile_skip_rules(settings.skipped_propagating_apis, settings.skipped_propagating_namespaces)
        self._writes: Background[Key] = Background(concurrency=settings.concurrent_writes, retry=(Transient,))
        self._again: dict[Key, float] = {}
        self._refused: dict[ObjectKey, str] = {}
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
            if error.unknown_tag and not message.subject.startswith("lease."):
                self._newer.add(message.subject)
                return (_key_of(message.subject),)
        return ()

    def unsettled(self, state: DetectorState, now: float) -> str:
        """What has to be listed or stored before a restored log is compared with the control plane."""
        del now
        return unsettled(state, self._again, self._asking.pending)

    def recover(self, state: DetectorState) -> Iterable[Key]:
        """Everything in sight and everything on record: a standby sees what goes, and decides nothing about it."""
        known: list[Key] = [*state.policies, *state.policy_facts, *state.templates, *state.template_facts]
        return dict.fromkeys([SCOPE, *known])

    def decide(self, state: DetectorState, key: Key, now: float) -> Decision:
        """Facts and writes of one template or policy."""
        if key in self._again:
            left = self._again[key] - self.context.clock.monotonic()
            if left > 0:
                return Decision(wake_at=now + left)
            del self._again[key]
        if isinstance(key, ScopeKey):
            scope = decide_scope(state, now)
            if scope.settled:
                absence.settle(state.guard)
            return Decision(events=scope.events, effects=[Tell(note) for note in scope.notes])
        try:
            verdict = decide_policy(state, key) if isinstance(key, PolicyKey) else decide_template(state, key, now)
        except ResultPending as missing:
            return Decision(effects=(InterpretationRequest(key, missing.questions),))
        if verdict.blobs and not all(self._may_name(digest) for digest, _ in verdict.blobs):
            # It is made again once they are stored, and from the same state.
            return Decision(effects=(Store(key, verdict.blobs, verdict.secret),))
        if isinstance(key, ObjectKey):
            remember(state, key, waiting=verdict.waiting, ranked=verdict.ranked)
            if self._recorder is not None and not any(isinstance(effect, Tell) for effect in verdict.effects):
                self._recorder.settled(key)
        return verdict

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
            context.blobs.vault.on_changed = self._key_changed
        register(context.metrics, state, lambda: self._writes.pending)
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
                    await self._store(effect)
                case InterpretationRequest():
                    self._asking.submit(effect)
                case NeedKey():
                    await self._need_key(effect)
                case Tell():
                    assert self._recorder is not None
                    self._recorder.tell_once(effect.note)
                case WriteClaim() | WritePolicyId():
                    self._writes.submit(effect.key, partial(self._write, effect))
                case _:
                    raise TypeError(f"the detector has no effect {effect!r}")

    async def _store(self, effect: Store) -> None:
        """Store the bytes of one decision, which is made again then; when the log refuses, after a while."""
        context = self.context
        try:
            if effect.secret and isinstance(effect.key, ObjectKey):
                for digest, data in effect.blobs:
                    if await context.blobs.put_secret(effect.key.namespace, data) != digest:
                        # The key was dropped since: the digest of the Secret is computed again.
                        context.projection.state.digest_keys.pop(effect.key.namespace, None)
            else:
                await context.blobs.put_many([data for _, data in effect.blobs])
        except LogError as error:
            log.warning("manifest_not_stored", key=str(effect.key), reason=str(error))
            self._again[effect.key] = context.clock.monotonic() + _PATIENCE
        context.mark((effect.key,))

    async def _need_key(self, effect: NeedKey) -> None:
        """Fetch the key of a namespace's Secrets; without one the Secret stays where it is, and that is on record."""
        context = self.context
        key, vault = effect.key, context.blobs.vault
        try:
            if vault is None:
                raise Refused(0, _NO_KEY)
            context.projection.state.digest_keys[key.namespace] = await vault.digests(key.namespace)
        except Refused as error:
            if self._refused.get(key) != effect.uid:
                self._refused[key] = effect.uid
                context.projection.state.waiting.discard(key)
                log.warning("secret_refused", key=str(key), reason=str(error))
                await context.appender.park(key, str(error), 0, template_subject(key))
            return
        except LogError as error:
            log.warning("key_not_read", namespace=key.namespace, reason=str(error))
            self._again[key] = context.clock.monotonic() + _PATIENCE
        context.mark((key,))

    def _key_changed(self, namespace: str) -> None:
        """A namespace's key was dropped: its present Secrets are stored again, under the new one."""
        state = self.state
        state.digest_keys.pop(namespace, None)
        found = [key for key in state.templates if key.resource == "secrets" and key.namespace == namespace]
        for key in found:
            self._refused.pop(key, None)
        self.context.mark(found)

    async def _write(self, effect: WriteClaim | WritePolicyId) -> None:
        path, body = _patch_of(effect)
        try:
            await self._client.patch(path, body)
        except Unreachable as error:
            raise Transient(str(error)) from error
        except ApiError as error:
            if error.status == 404:
                return  # The object is gone; its watch reports that too.
            if error.status in _TRANSIENT and not _other_uid(error):
                raise Transient(_refusal(effect, error)) from None
            raise ApiError(error.status, "", _refusal(effect, error)) from None


_PATIENCE: Final = 2.0
_NO_KEY = "no key is configured, so Secrets are not stored and not propagated; set FLEETLOG_SECRETS_KEY_FILE"
_BLIND: Final = "the control plane's policies have not been listed yet"


def _stranger(guard: Guard[Key]) -> str:
    """Why answers of the control plane are not trusted; empty when they are."""
    if guard.judgement is None or guard.trusted:
        return ""
    seen = guard.reading.uid if guard.reading is not None else ""
    return f"the control plane is {guard.uid}, but {seen or 'one that does not tell its identity'} answers"


def _refusal(effect: WriteClaim | WritePolicyId, error: ApiError) -> str:
    """What is recorded of a refusal: of a Secret nothing that could quote it."""
    if isinstance(effect, WriteClaim) and is_secret_resource(effect.key.group, effect.key.resource):
        return refusal_of_secret(error.status, error.reason, error.message)
    return str(error)


def _other_uid(error: ApiError) -> bool:
    """Whether a conflict means that another object has the name now."""
    return error.status == 409 and "uid" in error.message.lower()


def _patch_of(effect: WriteClaim | WritePolicyId) -> tuple[str, dict[str, object]]:
    match effect:
        case WriteClaim():
            key: ObjectKey = effect.key
            version = effect.api_version.rpartition("/")[2]
            path = resource_path(key.group, version, key.resource, key.namespace, key.name)
            metadata: dict[str, object] = {"uid": effect.uid}
            if effect.labels:
                metadata["labels"] = effect.labels
            if effect.annotations:
                metadata["annotations"] = effect.annotations
            return path, {"metadata": metadata}
        case WritePolicyId():
            policy = effect.key
            path = resource_path("policy.karmada.io", "v1alpha1", PLURALS[policy.kind], policy.namespace, policy.name)
            return path, {"metadata": {"uid": effect.uid, "labels": {effect.label: effect.id}}}
