"""A small service for tests of the runtime: every binding is placed on the clusters that its label names."""

from __future__ import annotations

import msgspec

from schemas.codec import decode
from schemas.envelope import Provenance
from schemas.events.binding import BindingReleased, BindingRequested
from schemas.events.placement import PlacementDecided, PlacementReleased, TargetCluster
from schemas.keys import ObjectKey
from schemas.subjects import binding, object_key
from services._kit.log.stream_port import NewMessage
from services._kit.runtime.service import BaseService, Decider
from services._rules.decision import NOTHING, Decision


class State:
    """Last binding and placement of every key, with their sequences."""

    def __init__(self):
        self.bindings = {}
        self.placements = {}
        self.history = []

    def __eq__(self, other):
        return (self.bindings, self.placements) == (other.bindings, other.placements)

    __hash__ = None

    def last_seq(self, subject):
        held = self.bindings if subject.startswith("binding.") else self.placements
        return held.get(object_key(subject), (0, None))[0]

    def forget(self, purged):
        """A toy remembers everything."""


class Reader(BaseService[State, ObjectKey]):
    """Folds bindings and placements."""

    name = "toy"
    filters = ("binding.>", "placement.>")

    def __init__(self):
        self.broken = set()
        self.reason = ""
        self.decided = []
        self.effects = []
        self.hooks = []
        self.wake_at = None
        self.effect_for = set()

    def new_state(self):
        return State()

    def fold(self, state, message, event):
        state.history.append((message.seq, message.subject))
        if isinstance(event, BindingRequested | BindingReleased):
            state.bindings[event.key] = (message.seq, event)
        else:
            state.placements[event.key] = (message.seq, event)
        return (event.key,)

    def unreadable(self, state, message):
        return (object_key(message.subject),)

    async def perform(self, effects):
        self.effects += effects

    async def on_caught_up(self):
        self.hooks.append("caught up")

    async def on_leading(self):
        self.hooks.append("leading")

    async def on_following(self):
        self.hooks.append("following")

    async def stop(self):
        self.hooks.append("stopped")


class Toy(Reader, Decider[State, ObjectKey]):
    """Decides a placement per binding; `broken` and `slow` change what decide does."""

    def recover(self, state):
        for key, (seq, _) in state.bindings.items():
            placed = state.placements.get(key)
            if placed is None or placed[1].provenance.own.get("binding") != seq:
                yield key

    def decide(self, state, key, now):
        self.decided.append(key.name)
        if key.name in self.broken:
            raise RuntimeError(self.reason or f"{key.name} is broken")
        seq, wanted = state.bindings.get(key, (0, None))
        _, placed = state.placements.get(key, (0, None))
        if wanted is None:
            return NOTHING
        seen = Provenance(own={"binding": seq})
        if isinstance(wanted, BindingReleased):
            if placed is None or isinstance(placed, PlacementReleased):
                return NOTHING
            return Decision([PlacementReleased(key=key, uid=wanted.uid, provenance=seen)])
        clusters = tuple(TargetCluster(name) for name in sorted(wanted.labels.get("clusters", "").split("+")))
        if isinstance(placed, PlacementDecided) and placed.clusters == clusters:
            return Decision(wake_at=self.wake_at)
        effects = [f"explain {key.name}"] if key.name in self.effect_for else []
        event = PlacementDecided(key=key, uid=wanted.uid, clusters=clusters, provenance=seen)
        return Decision([event], wake_at=self.wake_at, effects=effects)


def key(name):
    """The key of a toy object."""
    return ObjectKey("apps", "deployments", "default", name)


def wanted(name, clusters="m1", **headers):
    """A message that asks for a placement."""
    event = BindingRequested(
        key=key(name),
        uid="u",
        api_version="apps/v1",
        kind="Deployment",
        spec=msgspec.Raw(b"{}"),
        labels={"clusters": clusters},
    )
    return NewMessage(binding(key(name)), msgspec.json.encode(event), headers)


def released(name):
    """A message that ends it."""
    event = BindingReleased(key=key(name), uid="u")
    return NewMessage(binding(key(name)), msgspec.json.encode(event))


async def placements(log):
    """All placement events on the log, in order."""
    return [(m, decode(m.subject, m.data)) async for m in log.read(["placement.>"])]


def placed_on(state, name):
    """Clusters of a key in a projection, None when it has no placement."""
    seq_and_event = state.placements.get(key(name))
    if seq_and_event is None or not isinstance(seq_and_event[1], PlacementDecided):
        return None
    return [target.name for target in seq_and_event[1].clusters]
