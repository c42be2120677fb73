"""A pipeline without processes: the folds and decisions of the services over lists of events, and members that obey."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from schemas.codec import Known, subject_of
from schemas.envelope import Provenance
from schemas.events.binding import BindingReleased
from schemas.events.observed import WorkObserved
from schemas.events.template import TemplateDeleted
from schemas.events.work import WorkRendered
from schemas.keys import ObjectKey
from services._kit.delivery.lane_parts import says_the_same
from services._kit.log.stream_port import match
from services._rules.history.retention import Purge
from services.executor import state as executor
from services.janitor import state as janitor
from services.override_renderer import decide as rendering
from services.override_renderer import state as renderer
from services.scheduler import state as scheduler
from services.status_aggregator import decide as summing
from services.status_aggregator import state as aggregator
from tests.support.facts import KEY, binding, cluster, template
from tests.support.harness import place

Stored = tuple[int, float, str, Known]


def named(name: str) -> ObjectKey:
    """The example's object under another name."""
    return replace(KEY, name=name)


class World:
    """Streams FACTS and OBSERVED as lists; `settle` lets every service decide until nobody has anything to say.

    A cluster in `down` is a member that nobody reaches.
    """

    def __init__(self, *members: str) -> None:
        self.streams: dict[str, list[Stored]] = {"FACTS": [], "OBSERVED": []}
        self.ends = {"FACTS": 0, "OBSERVED": 0}
        self.now = 1000.0
        self.down: set[str] = set()
        for name in members:
            self.say(cluster(name))

    def copy(self) -> World:
        """Another world that goes on from here."""
        return copy.deepcopy(self)

    def say(self, *events: Known) -> None:
        """Store events."""
        for event in events:
            stream = "OBSERVED" if isinstance(event, WorkObserved) else "FACTS"
            subject = subject_of(event)
            prev = max((seq for seq, _, other, _ in self.streams[stream] if other == subject), default=0)
            self.ends[stream] += 1
            self.streams[stream].append((self.ends[stream], self.now, subject, replace(event, prev=prev)))

    def create(self, key: ObjectKey = KEY, uid: str = "u1") -> None:
        """The user creates an object that a policy claims."""
        self.say(replace(template(uid=uid), key=key), replace(binding(uid=uid), key=key))

    def delete(self, key: ObjectKey = KEY, uid: str = "u1") -> None:
        """The user deletes it."""
        self.say(TemplateDeleted(key=key, uid=uid), BindingReleased(key=key, uid=uid))

    def latest(self, stream: str) -> list[Stored]:
        """The last event of every subject, in order: what a start reads."""
        last = {subject: item for item in self.streams[stream] for subject in (item[2],)}
        return sorted(last.values(), key=lambda item: item[0])

    def purge(self, purges: Iterable[Purge]) -> None:
        """Remove what the purges name."""
        for item in purges:
            self.streams[item.stream] = [
                stored
                for stored in self.streams[item.stream]
                if stored[0] > item.up_to or not match(item.subject, stored[2])
            ]

    def present(self, subject: str) -> list[str]:
        """Subjects of both streams that match a pattern."""
        found = {stored[2] for stream in self.streams.values() for stored in stream}
        return sorted(name for name in found if match(subject, name))

    def settle(self) -> list[Known]:
        """Every service starts anew, reads the log and decides, again and again; what they said."""
        said: list[Known] = []
        for _ in range(20):
            news = [*self._scheduler(), *self._renderer(), *self._executor(), *self._aggregator()]
            if not news:
                return said
            said += news
            self.say(*news)
        raise AssertionError(f"the services never agree: {said[-5:]}")

    def janitor(self) -> janitor.JanitorState:
        """What a janitor knows that starts now; HISTORY holds everything."""
        state = janitor.JanitorState(held=self.ends["FACTS"])
        for stream in ("FACTS", "OBSERVED"):
            for seq, time, subject, event in self.latest(stream):
                for _ in janitor.fold(state, seq, time, subject, event):
                    pass
        return state

    def _folded(self, state: Any, fold: Any, streams: Iterable[str] = ("FACTS",)) -> Any:
        for stream in streams:
            for seq, _, subject, event in self.latest(stream):
                for _ in fold(state, seq, subject, event):
                    pass
        return state

    def _known(self, event: Any) -> Any:
        return replace(event, provenance=Provenance(as_of=self.ends["FACTS"], decided_at=self.now))

    def _scheduler(self) -> list[Known]:
        state = self._folded(scheduler.SchedulerState(), scheduler.fold)
        found = [place(state, key, self.now) for key in list(state.objects)]
        return [self._known(event) for event in found if event is not None]

    def _renderer(self) -> list[Known]:
        state = self._folded(renderer.RendererState(), renderer.fold)
        return [
            self._known(event)
            for key in list(state.objects)
            for event in rendering.decide(state, key, rendering.AtHand()).events
        ]

    def _aggregator(self) -> list[Known]:
        state = self._folded(aggregator.AggregatorState(), aggregator.fold, ("FACTS", "OBSERVED"))
        found = [summing.decide(state, key) for key in list(state.objects)]
        return [self._known(event) for event in found if event is not None]

    def _executor(self) -> list[Known]:
        state = self._folded(executor.ExecutorState(), executor.fold, ("FACTS", "OBSERVED"))
        news: list[Known] = []
        for name, works in state.by_cluster.items():
            if name in self.down or name not in state.clusters:
                continue
            for key in works.unfinished():
                event = self._obeyed(name, key, *works.works[key])
                before = works.observed.get(key)
                if before is None or not says_the_same(before, event):
                    news.append(event)
        return news

    def _obeyed(self, name: str, key: ObjectKey, work: Any, seq: int) -> WorkObserved:
        held = isinstance(work, WorkRendered)
        digest = work.digest if isinstance(work, WorkRendered) else ""
        return WorkObserved(
            cluster=name,
            key=key,
            uid=work.uid,
            work_seq=seq,
            digest=digest,
            applied=held,
            absent=not held,
            health="Healthy" if held else "Unknown",
            at=self.now,
        )
