"""Runs the override renderer: folds facts, decides works, and moves manifest bytes between decisions and blobs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from schemas.codec import Known
from schemas.hints import Purged
from schemas.keys import ObjectKey
from schemas.subjects import object_key
from services._kit.blobs import digest_of
from services._kit.log import Message
from services._kit.service import BaseService, Context, Decision
from services.override_renderer.decide import decide, needed_blobs
from services.override_renderer.metrics import register
from services.override_renderer.state import RendererState, fold, forget

CACHED_BLOBS: Final = 256


class Fetch(Struct, frozen=True):
    """A decision waits for these manifests."""

    key: ObjectKey
    digests: Sequence[str]


class Store(Struct, frozen=True):
    """A decision waits until these manifests are stored."""

    key: ObjectKey
    blobs: Sequence[bytes]


class OverrideRenderer(BaseService[RendererState, ObjectKey]):
    """Facts in, works out."""

    name = "override_renderer"
    filters = ("template.>", "binding.>", "placement.>", "eviction.>", "policy.>", "cluster.*", "work.>")

    def __init__(self) -> None:
        self._context: Context[RendererState, ObjectKey] | None = None
        self._stored: dict[str, None] = {}

    def new_state(self) -> RendererState:
        """An empty projection."""
        return RendererState()

    def fold(self, state: RendererState, message: Message, event: Known) -> Iterable[ObjectKey]:
        """Apply one fact."""
        return fold(state, message.seq, message.subject, event)

    def forget(self, state: RendererState, purged: Purged) -> None:
        """Drop the tombstones of what is gone."""
        forget(state, purged)

    def last_seq(self, state: RendererState, subject: str) -> int:
        """Position of the last event of a subject."""
        return state.subjects.get(subject, 0)

    def unreadable(self, state: RendererState, message: Message) -> Iterable[ObjectKey]:
        """The object whose facet a newer version wrote."""
        return () if message.subject.startswith(("policy.", "cluster.")) else (object_key(message.subject),)

    def recover(self, state: RendererState) -> Iterable[ObjectKey]:
        """Every object that is asked for, or still held somewhere."""
        return [key for key, bound in state.objects.items() if bound.live]

    def decide(self, state: RendererState, key: ObjectKey, now: float) -> Decision:
        """Works of one object; first the manifests it reads are fetched and those it names are stored."""
        missing = needed_blobs(state, key)
        if missing:
            return Decision(effects=(Fetch(key, missing),))
        works = decide(state, key)
        unstored = [data for data in works.blobs if digest_of(data) not in self._stored]
        if unstored:
            return Decision(effects=(Store(key, unstored),))
        return Decision(events=works.events)

    async def start(self, context: Context[RendererState, ObjectKey]) -> None:
        """Take the runtime's services."""
        self._context = context
        register(context.metrics.reads, context.projection.state)

    async def perform(self, effects: Sequence[object]) -> None:
        """Move manifest bytes and decide again."""
        context = self._context
        assert context is not None
        blobs = context.projection.state.blobs
        for effect in effects:
            match effect:
                case Fetch():
                    blobs.update(await context.blobs.get_many(effect.digests))
                    while len(blobs) > CACHED_BLOBS:
                        del blobs[next(iter(blobs))]
                    context.mark((effect.key,))
                case Store():
                    for digest in await context.blobs.put_many(effect.blobs):
                        self._stored[digest] = None
                    while len(self._stored) > 65536:
                        del self._stored[next(iter(self._stored))]
                    context.mark((effect.key,))
                case _:
                    raise TypeError(f"the renderer has no effect {effect!r}")
