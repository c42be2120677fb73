"""What a property needs of a service that decides: inputs, keys, the decision, and what is taken in of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from schemas.codec import Known, subject_of
from schemas.envelope import Provenance
from tests.support.varied_facts import ABOUT_POLICIES, ABOUT_ROOM, ALL, NOW, STARTED, of_families


class Step(NamedTuple):
    """One thing that happens to a state at a position."""

    name: str
    act: Callable[[Any, int], object]

    def __repr__(self) -> str:
        return self.name


class Decider(NamedTuple):
    """A service without its shell: what happens to it, what it decides for a key, and what it takes in of that."""

    name: str
    new: Callable[[], Any]
    steps: Sequence[Step]
    keys: Callable[[Any], Iterable[Any]]
    decide: Callable[[Any, Any, float], Any]
    take: Callable[[Any, Any, Any, int], object]
    """Folds what was decided of a key at a position, as the log would give it back."""
    first: Sequence[Step] = ()
    """What may have happened before."""

    def __str__(self) -> str:
        return self.name


def facts(fold: Callable[[Any, int, Known], object], *families: str, more: Sequence[Known] = ()) -> list[Step]:
    """A step for every fact of some aggregates."""
    return steps(fold, of_families([*ALL, *ABOUT_ROOM, *ABOUT_POLICIES, *more], *families))


def started(fold: Callable[[Any, int, Known], object], *families: str) -> list[Step]:
    """Steps that lead to an object that runs, by facts of some aggregates."""
    return steps(fold, of_families(STARTED, *families))


def steps(fold: Callable[[Any, int, Known], object], chosen: Sequence[Known]) -> list[Step]:
    """A step for every fact."""

    def step(number: int, event: Known) -> Step:
        def act(state: Any, seq: int) -> None:
            seen_so_far = replace(event.provenance, as_of=max(event.provenance.as_of, seq - 1), decided_at=NOW)
            fold(state, seq, replace(event, provenance=seen_so_far))

        return Step(f"{subject_of(event)}#{number}", act)

    return [step(number, event) for number, event in enumerate(chosen)]


def folded(fold: Callable[..., Iterable[object]]) -> Callable[[Any, int, Known], object]:
    return lambda state, seq, event: list(fold(state, seq, subject_of(event), event))


def folded_when_stored(fold: Callable[..., Iterable[object]]) -> Callable[[Any, int, Known], object]:
    return lambda state, seq, event: list(fold(state, seq, subject_of(event), event, NOW + seq))


def appended(fold: Callable[[Any, int, Known], object], state: Any, seq: int, events: Iterable[Known | None]) -> None:
    for event in events:
        if event is not None:
            fold(state, seq, replace(event, provenance=Provenance(as_of=seq, decided_at=NOW + seq)))
