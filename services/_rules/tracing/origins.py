"""Finds what a step follows from: the causes that it names, or what the log shows where it names none."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, Generic, TypeVar

import msgspec
from msgspec import Raw, Struct

from schemas.events.autoscaling import ReplicasRecommended
from schemas.events.binding import BindingReleased, BindingRequested
from schemas.events.observed import WorkObserved
from schemas.events.policy import PolicyChanged
from schemas.events.template import TemplateChanged, TemplateDeleted
from schemas.keys import ObjectKey, PolicyKey
from schemas.topology import FACTS
from services._rules.tracing.logged_event import LoggedEvent, Position, Step, acted, named_causes

K = TypeVar("K")
V = TypeVar("V")

SETTLING: Final = 120.0
"""Seconds after a work within which what its copy reports belongs to the change; afterwards it is news of its own."""
SCALED_WITHIN: Final = 30.0
"""Seconds between what an autoscaler asked for and the change of the template that shows it."""


class Recent(Generic[K, V]):
    """The latest entries by key, no more than a number of them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._entries: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """The entry of a key, None when there is none, or none any more."""
        return self._entries.get(key)

    def put(self, key: K, value: V) -> None:
        """Keep an entry, in the place of the oldest where there are too many."""
        self._entries[key] = value
        self._entries.move_to_end(key)
        if len(self._entries) > self._most:
            self._entries.popitem(last=False)

    def take(self, key: K) -> V | None:
        """The entry of a key, which is forgotten."""
        return self._entries.pop(key, None)


class Placed(Struct, frozen=True, gc=False):
    """A step that has its span: where, when it was stored, and its ids."""

    position: Position
    time: float
    trace_id: str
    span_id: str


class Origin(Struct, frozen=True):
    """What a step follows from: its parent, further causes, causes that are lost.

    `inferred` says from what the parent follows where the step itself does not name it.
    """

    parent: Placed | None = None
    others: tuple[Placed, ...] = ()
    lost: tuple[Position, ...] = ()
    inferred: str = ""


class _Facet(Struct, frozen=True, gc=False):
    position: Position
    decided_at: float
    service: str


class _Asked(Struct, frozen=True, gc=False):
    position: Position
    time: float
    replicas: int


class Origins:
    """Remembers steps, and finds among them what later ones follow from; `most` of each sort are remembered."""

    def __init__(self, most: int = 50_000) -> None:
        self._placed: Recent[Position, Placed] = Recent(most)
        self._templates: Recent[ObjectKey, _Facet] = Recent(most)
        self._claims: Recent[ObjectKey, tuple[PolicyKey, int]] = Recent(most)
        self._policies: Recent[PolicyKey, tuple[int, Position]] = Recent(most)
        self._applied: Recent[Position, Position] = Recent(most)
        self._asked: Recent[ObjectKey, _Asked] = Recent(most)
        self._scalers: Recent[PolicyKey, Position] = Recent(most)

    def of(self, step: Step) -> Origin:
        """What a step follows from. Of several causes the latest is the parent: the step waited for that one."""
        named = named_causes(step)
        if not named:
            return self._inferred(step)
        found = [placed for cause in named if (placed := self._placed.get(cause)) is not None]
        lost = tuple(cause for cause in named if self._placed.get(cause) is None)
        if not found:
            return Origin(lost=lost)
        parent = max(found, key=lambda placed: (placed.time, placed.position))
        return Origin(parent, tuple(placed for placed in found if placed is not parent), lost)

    def remember(self, step: Step, trace_id: str, span_id: str) -> None:
        """Keep a step for those that follow from it."""
        logged, event = step.at, step.event
        position = logged.position
        self._placed.put(position, Placed(position, logged.time, trace_id, span_id))
        match event:
            case TemplateChanged() | TemplateDeleted():
                service = _service(logged)
                self._templates.put(event.key, _Facet(position, event.provenance.decided_at, service))
            case BindingRequested() if event.policy is not None:
                self._claims.put(event.key, (event.policy.key, event.policy.generation))
            case PolicyChanged():
                self._policies.put(event.key, (event.generation, position))
            case WorkObserved() if acted(event):
                self._applied.put((FACTS.name, event.work_seq), position)
            case ReplicasRecommended():
                self._asks(event, position, logged.time)
            case _:
                pass

    def _asks(self, event: ReplicasRecommended, position: Position, time: float) -> None:
        if event.write != "asked":
            self._scalers.take(event.key)
            return
        self._scalers.put(event.key, position)
        if event.target is not None:
            self._asked.put(event.target, _Asked(position, time, event.desired))

    def _inferred(self, step: Step) -> Origin:
        match step.event:
            case BindingRequested() | BindingReleased():
                return self._of_binding(step, step.event)
            case TemplateChanged():
                return self._of_template(step, step.event)
            case WorkObserved():
                return self._of_report(step, step.event)
            case ReplicasRecommended():
                return self._from(self._scalers.get(step.event.key), "the request before it")
            case _:
                return Origin()

    def _of_binding(self, step: Step, event: BindingRequested | BindingReleased) -> Origin:
        """A binding follows from the template that was read in the same decision, else from its policy."""
        facet = self._templates.get(event.key)
        if (
            facet is not None
            and event.provenance.decided_at == facet.decided_at > 0.0
            and facet.service == _service(step.at)
        ):
            return self._from(facet.position, "the same decision")
        if not isinstance(event, BindingRequested) or event.policy is None:
            return Origin()
        claim = (event.policy.key, event.policy.generation)
        policy = self._policies.get(event.policy.key)
        if policy is None or claim == self._claims.get(event.key) or claim[1] not in (0, policy[0]):
            return Origin()
        return self._from(policy[1], "the generation of the policy")

    def _of_template(self, step: Step, event: TemplateChanged) -> Origin:
        """A template follows from an autoscaler that asked for its replicas right before."""
        asked = self._asked.get(event.key)
        if asked is None or not event.prev or not asked.time <= step.at.time <= asked.time + SCALED_WITHIN:
            return Origin()
        replicas = _replicas(event)
        if replicas is not None and replicas != asked.replicas:
            return Origin()
        self._asked.take(event.key)
        return self._from(asked.position, "the replicas that were asked for")

    def _of_report(self, step: Step, event: WorkObserved) -> Origin:
        """What a copy reports soon after its work belongs to that; later it is news, with a link to the work."""
        work = self._placed.get((FACTS.name, event.work_seq)) if event.work_seq else None
        if work is None:
            return Origin()
        if event.drift or step.at.time - work.time > SETTLING:
            return Origin(others=(work,))
        applied = self._applied.get(work.position)
        before = self._placed.get(applied) if applied is not None else None
        return Origin(before or work, inferred="the work that it reports on")

    def _from(self, position: Position | None, inferred: str) -> Origin:
        placed = self._placed.get(position) if position is not None else None
        return Origin(placed, inferred=inferred) if placed is not None else Origin()


class _Spec(Struct):
    replicas: int | None = None


class _Workload(Struct):
    spec: _Spec = msgspec.field(default_factory=_Spec)


def _replicas(event: TemplateChanged) -> int | None:
    """Replicas that a template asks for; None where the event does not hold them."""
    if not isinstance(event.manifest, Raw):
        return None
    try:
        return msgspec.json.decode(event.manifest, type=_Workload).spec.replicas
    except msgspec.MsgspecError:
        return None


def _service(logged: LoggedEvent) -> str:
    return logged.producer.partition("/")[0]
