"""Runs the override renderer: folds facts, decides works, and moves manifest bytes between decisions and blobs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import structlog
from msgspec import Struct, UnsetType
from msgspec.structs import replace

from schemas.codec import Known
from schemas.codec import decode as decode_event
from schemas.events.policy import PolicyChanged, PolicyDeleted
from schemas.events.template import TemplateChanged
from schemas.events.work import WorkEvent, WorkRendered
from schemas.keys import ObjectKey
from schemas.topology import FACTS
from services._kit.base.log_errors import LogError, Refused, Unavailable
from services._kit.interpretation.async_interpretation import AsyncInterpretation, InterpretationRequest
from services._kit.log.stream_port import Message
from services._kit.runtime.service import Context, ObjectDecider
from services._rules.decision import Decision
from services._rules.interpreter.configuration import KINDS as INTERPRETERS
from services._rules.secrets.secret_objects import is_sealed
from services.override_renderer.decide import AtHand, decide, needed_blobs, needs_key
from services.override_renderer.metrics import register
from services.override_renderer.state import RendererState, fold

log = structlog.get_logger("override_renderer")

CACHED_BYTES: Final = 64 << 20
_PATIENCE: Final = 2.0


class Fetch(Struct, frozen=True):
    """A decision waits for these manifests."""

    key: ObjectKey
    digests: Sequence[str]
    secret: bool = False
    inline: Sequence[tuple[str, int]] = ()
    """Those that stand in works, by the position of the work."""


class Store(Struct, frozen=True):
    """A decision waits until these manifests are stored."""

    key: ObjectKey
    blobs: Sequence[tuple[str, bytes]]
    secret: bool


class OverrideRenderer(ObjectDecider[RendererState]):
    """Facts in, works out."""

    name = "override_renderer"
    filters = (
        "template.>",
        "binding.>",
        "placement.>",
        "eviction.>",
        "descheduling.>",
        "policy.>",
        "cluster.*",
        "endpoints.>",
        "work.>",
    )
    states = RendererState

    def __init__(self) -> None:
        self._again: dict[ObjectKey, float] = {}
        self._absent: set[ObjectKey] = set()
        self._asking: AsyncInterpretation[ObjectKey] = AsyncInterpretation(self._mark)
        self.at_hand = AtHand(interpreter=self._asking.interpreter)

    def _mark(self, keys: Iterable[ObjectKey]) -> None:
        if self._context is not None:
            self._context.mark(keys)

    def fold(self, state: RendererState, message: Message, event: Known) -> Iterable[ObjectKey]:
        """Apply one event; what users configured for interpretation touches objects of some kinds.

        Other groups' objects count by what is asked for them, never by their works.
        """
        if isinstance(event, WorkEvent) and not self.owns(event.key):
            return ()
        if isinstance(event, PolicyChanged | PolicyDeleted) and event.key.kind in INTERPRETERS:
            return state.of_kinds(self._asking.take(event))
        return fold(state, message.seq, message.subject, event)

    def unsettled(self, state: RendererState, now: float) -> str:
        """Manifests that could not be read or stored so far, and answers of interpreters."""
        del state, now
        if self._again:
            return f"manifests are not at hand: {', '.join(str(key) for key in list(self._again)[:3])}"
        return f"{self._asking.pending} objects wait for interpreters" if self._asking.pending else ""

    def recover(self, state: RendererState) -> Iterable[ObjectKey]:
        """Every object that is asked for, or still held somewhere."""
        shared = set(state.services.wanted_keys())
        return [key for key, bound in state.objects.items() if bound.live or key in state.quotas or key in shared]

    def decide(self, state: RendererState, key: ObjectKey, now: float) -> Decision:
        """Works of one object; first the manifests it reads are fetched and those it names are stored."""
        if key in self._again:
            left = self._again[key] - self.context.clock.monotonic()
            if left > 0:
                return Decision(wake_at=now + left)
            del self._again[key]
        missing = needed_blobs(state, key, self.at_hand)
        secret = needs_key(state, key)
        if missing or (secret and key.namespace not in self.at_hand.digest_keys):
            return Decision(effects=(Fetch(key, missing, secret),))
        works = decide(state, key, self.at_hand)
        if works.missing:
            return Decision(effects=(Fetch(key, (), inline=works.missing),))
        if works.blobs and not all(self._may_name(digest) for digest, _ in works.blobs):
            return Decision(effects=(Store(key, works.blobs, works.secret),))
        return replace(works, effects=(InterpretationRequest(key, works.lacking),)) if works.lacking else works

    def _may_name(self, digest: str) -> bool:
        return self._context is not None and self._context.blobs.may_name(digest)

    async def start(self, context: Context[RendererState, ObjectKey]) -> None:
        """Take the runtime's services."""
        await super().start(context)
        if context.blobs.vault is not None:
            context.blobs.vault.on_changed = self._key_changed
        register(context.metrics, context.projection.state)
        self._asking.offer(context.health, context.metrics.reads)

    async def on_following(self) -> None:
        """Another instance asks now."""
        await self._asking.pause()

    async def stop(self) -> None:
        """End what asks."""
        await self._asking.close()

    def _key_changed(self, namespace: str) -> None:
        """A namespace's key was dropped: what it opened is forgotten here as well."""
        state = self.state
        self.at_hand.digest_keys.pop(namespace, None)
        found = [key for key in state.objects if key.namespace == namespace and needs_key(state, key)]
        for digest in [digest for digest in self.at_hand.blobs if is_sealed(digest)]:
            del self.at_hand.blobs[digest]
        self.context.mark(found)

    async def perform(self, effects: Sequence[object]) -> None:
        """Move manifest bytes and decide again; what does not succeed is tried again after a while."""
        context = self.context
        for effect in effects:
            if isinstance(effect, InterpretationRequest):
                # Scripts take their time, and other objects must not wait for them.
                self._asking.submit(effect)
                continue
            assert isinstance(effect, Fetch | Store), effect
            try:
                await (self._fetch(effect) if isinstance(effect, Fetch) else self._store(effect))
            except LogError as error:
                self._again[effect.key] = context.clock.monotonic() + _PATIENCE
                if effect.key not in self._absent:
                    self._absent.add(effect.key)
                    log.warning("manifest_not_at_hand", key=str(effect.key), reason=str(error))
            else:
                self._absent.discard(effect.key)
            context.mark((effect.key,))

    async def _fetch(self, effect: Fetch) -> None:
        """Fetch a template's bytes, and what names its copies; raises LogError when something is not there."""
        context = self.context
        if effect.secret:
            if context.blobs.vault is None:
                raise Refused(0, "no key is configured, so Secrets are not rendered; set FLEETLOG_SECRETS_KEY_FILE")
            namespace = effect.key.namespace
            self.at_hand.digest_keys[namespace] = await context.blobs.vault.digests(namespace)
        for digest in effect.digests:
            self.at_hand.blobs[digest] = await context.blobs.get(digest)
        for digest, position in effect.inline:
            message = await context.logs[FACTS.name].get(position)
            work = decode_event(message.subject, message.data) if message is not None else None
            if isinstance(work, WorkRendered) and work.digest == digest and not isinstance(work.manifest, UnsetType):
                self.at_hand.blobs[digest] = bytes(work.manifest)
            else:
                raise Unavailable(f"the work at position {position} has gone; the one after it is on its way")
        size = sum(map(len, self.at_hand.blobs.values()))
        while size > CACHED_BYTES and len(self.at_hand.blobs) > len(effect.digests) + len(effect.inline):
            size -= len(self.at_hand.blobs.pop(next(iter(self.at_hand.blobs))))

    async def _store(self, effect: Store) -> None:
        context = self.context
        if effect.secret:
            for digest, data in dict(effect.blobs).items():
                if await context.blobs.put_secret(effect.key.namespace, data) != digest:
                    # The key was dropped since: the digests of the copies are computed again.
                    self.at_hand.digest_keys.pop(effect.key.namespace, None)
        else:
            await self._store_copies(effect)

    async def _store_copies(self, effect: Store) -> None:
        """Store copies of a template: in short, where they hardly differ from it."""
        blobs, state = self.context.blobs, self.state
        copies = dict(effect.blobs).values()
        bound = state.objects.get(effect.key)
        template = bound.template if bound is not None else None
        base = self.at_hand.blobs.get(template.digest) if isinstance(template, TemplateChanged) else None
        await (blobs.put_alike(base, copies) if base is not None else blobs.put_many(copies))
