"""File format of the agent's state: a snapshot, followed by one line per change.

A line replaces all that is known of the objects it names. It counts only behind the very state it was written for, and
only if it is complete: one that a crash cut short, and whatever stands behind it, was never there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import Struct

from schemas.events.observed import WorkObserved
from schemas.events.policy import PolicyChanged
from schemas.events.work import WorkEvent, WorkRendered
from schemas.keys import ObjectKey
from services._rules.delivery.cluster_works import ClusterWorks
from services.agent.state import AgentState

FORMAT: Final = 1


class _Saved(Struct, kw_only=True):
    format: int
    cluster: str
    uid: str
    log: str
    position: int
    works: list[tuple[int, WorkEvent]]
    observed: list[WorkObserved]
    applied: list[WorkRendered]
    configured: list[tuple[int, PolicyChanged]] | None = None
    id: str = ""
    identity: str = ""


class _Line(Struct, kw_only=True):
    """What is known of some objects since; `of` is the id of the state it stands behind."""

    of: str
    uid: str
    log: str
    position: int
    keys: list[ObjectKey]
    works: list[tuple[int, WorkEvent]]
    observed: list[WorkObserved]
    applied: list[WorkRendered]


class ForeignState(ValueError):
    """Saved bytes of another cluster or of a version this one cannot read."""


_decoder = msgspec.json.Decoder(_Saved)
_line = msgspec.json.Decoder(_Line)


def save(state: AgentState, name: str = "") -> bytes:
    """All of the state; `name` is what lines of changes will call it."""
    works = state.works
    return msgspec.json.encode(
        _Saved(
            format=FORMAT,
            cluster=state.cluster,
            uid=state.uid,
            log=state.log,
            position=state.position,
            works=[(seq, work) for work, seq in works.works.values()],
            observed=list(works.observed.values()),
            applied=list(works.applied.values()),
            configured=[(seq, event) for event, seq in state.configured.values()],
            id=name,
            identity=state.identity,
        )
    )


def save_changes(state: AgentState, name: str, keys: Iterable[ObjectKey]) -> bytes:
    """One line with what is known of some objects now, for behind the state of that name."""
    works, keys = state.works, list(keys)
    known = [works.works[key] for key in keys if key in works.works]
    line = _Line(
        of=name,
        uid=state.uid,
        log=state.log,
        position=state.position,
        keys=keys,
        works=[(seq, work) for work, seq in known],
        observed=[works.observed[key] for key in keys if key in works.observed],
        applied=[works.applied[key] for key in keys if key in works.applied],
    )
    return msgspec.json.encode(line) + b"\n"


def load(cluster: str, data: bytes, changes: bytes = b"") -> AgentState:
    """The state from what was saved of it, and of its changes; raises NotOurs."""
    try:
        saved = _decoder.decode(data)
    except msgspec.MsgspecError as error:
        raise ForeignState(f"it cannot be read: {error}") from None
    if saved.format != FORMAT or saved.cluster != cluster:
        raise ForeignState(f"it was written for cluster {saved.cluster} in format {saved.format}")
    works = ClusterWorks(
        works={work.key: (work, seq) for seq, work in saved.works},
        observed={event.key: event for event in saved.observed},
        applied={work.key: work for work in saved.applied},
    )
    state = AgentState(
        cluster=cluster,
        uid=saved.uid,
        log=saved.log,
        position=saved.position,
        identity=saved.identity,
        works=works,
        configured={event.key: (event, seq) for seq, event in saved.configured or ()},
    )
    for text in changes.split(b"\n")[:-1]:
        try:
            line = _line.decode(text)
        except msgspec.MsgspecError:
            break
        if line.of != saved.id:
            break
        _apply(state, line)
    if saved.configured is None:
        # An earlier version without interpretation skipped the facts about it: all facts are read again.
        state.position = 0
    return state


def _apply(state: AgentState, line: _Line) -> None:
    state.uid, state.log, state.position = line.uid, line.log, line.position
    works = state.works
    for key in line.keys:
        for known in (works.works, works.observed, works.applied):
            known.pop(key, None)
    works.works.update((work.key, (work, seq)) for seq, work in line.works)
    works.observed.update((event.key, event) for event in line.observed)
    works.applied.update((work.key, work) for work in line.applied)
