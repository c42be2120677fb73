"""What an agent remembers, over restarts, new logs and new memberships."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import Raw

from schemas.agent import HelloAnswer
from schemas.events.policy import PolicyChanged, PolicyDeleted
from schemas.events.work import WorkWithdrawn
from schemas.keys import PolicyKey
from services._rules.interpreter.configuration import CUSTOMIZATION
from services.agent.state import AgentState, Changes, not_configured, take_answer
from services.agent.state_file import ForeignState, load, save
from tests.support.agent_works import A, B, rendered, seen, withdrawn


def filled() -> AgentState:
    state = AgentState(cluster="m1", uid="c1", log="l1")
    state.fold(rendered(A), 5)
    state.observe(seen(A, applied=True))
    state.fold(rendered(A, "d2"), 7)
    state.fold(withdrawn(B), 8)
    assert state.changes.taken() == Changes({A, B})
    return state


def test_saved_state_is_loaded() -> None:
    state = filled()
    again = load("m1", save(state))
    assert again == state
    assert again.position == 8
    assert again.works.applied[A].digest == "d1"
    assert again.digests() == {"d1", "d2"}


def test_state_of_another_cluster_and_torn_state_are_refused() -> None:
    with pytest.raises(ForeignState, match="cluster m1"):
        load("m2", save(filled()))
    with pytest.raises(ForeignState, match="cannot be read"):
        load("m1", save(filled())[:-20])


def test_a_work_of_another_cluster_is_not_taken() -> None:
    state = filled()
    assert state.fold(rendered(B, cluster="m2"), 9) is None
    assert isinstance(state.works.works[B][0], WorkWithdrawn)


@pytest.mark.parametrize(
    ("answer", "position", "works"),
    [
        (HelloAnswer(uid="c1", log="l1", start=9), 8, 2),
        (HelloAnswer(uid="c1", log="l2"), 0, 2),
        (HelloAnswer(uid="c1", log="l1"), 0, 2),
        (HelloAnswer(uid="c2", log="l1"), 0, 0),
    ],
    ids=["the same", "another log", "an older copy of the log", "another membership"],
)
def test_only_another_membership_forgets_works(answer: HelloAnswer, position: int, works: int) -> None:
    state = filled()
    assert take_answer(state, answer) is (answer.uid != "c1")
    assert state.changes.whole is (answer.uid != "c1")
    assert (state.position, len(state.works.works)) == (position, works)


def test_withdrawals_of_an_earlier_membership_are_skipped() -> None:
    state = filled()
    take_answer(state, HelloAnswer(uid="c2", log="l1", settled=8))
    assert [state.fold(work, seq) for work, seq in ((rendered(A), 7), (withdrawn(B), 8))] == [A, None]
    assert (set(state.works.works), state.position) == ({A}, 8)
    assert state.fold(withdrawn(A), 8) == A, "what is known to be there is taken away"
    assert state.fold(withdrawn(B), 9) == B, "what was withdrawn later is, too"


def test_withdrawn_work_is_forgotten_once_reported_absent() -> None:
    state = filled()
    state.forget_ended([A, B])
    assert B in state.works.works
    state.observe(seen(B, "", absent=True))
    state.changes.taken()
    state.forget_ended([A, B])
    assert set(state.works.works) == {A}
    assert state.changes == Changes({B}), "that it is forgotten is saved as well"
    assert state.position == 8


def configured(name: str, kind: str = CUSTOMIZATION) -> PolicyChanged:
    return PolicyChanged(key=PolicyKey(kind, "", name), uid=f"uid-{name}", manifest=Raw(b'{"spec":{}}'))


def test_only_interpreter_policies_are_kept() -> None:
    state = filled()
    assert state.configure(configured("widgets"), 9)
    assert not state.configure(configured("p", "PropagationPolicy"), 10)
    assert state.changes.taken() == Changes(whole=True)
    again = load("m1", save(state))
    assert again == state
    assert again.position == 10
    assert [(event.key.name, seq) for event, seq in again.configured.values()] == [("widgets", 9)]
    assert again.configure(PolicyDeleted(key=configured("widgets").key, uid="uid-widgets"), 11)
    assert (again.configured, again.position) == ({}, 11)


def test_state_of_an_older_version_is_read_from_the_start() -> None:
    older = msgspec.json.decode(save(filled()))
    del older["configured"]
    again = load("m1", msgspec.json.encode(older))
    assert again.position == 0
    assert again.works == filled().works


@pytest.mark.parametrize(
    ("answer", "gone"),
    [
        (HelloAnswer(log="l1"), []),
        (HelloAnswer(log="l1", configured=(), as_of=20), ["old", "new"]),
        (HelloAnswer(log="l1", configured=(), as_of=9), ["old"]),
        (HelloAnswer(log="l2", configured=(), as_of=1), ["old", "new"]),
        (HelloAnswer(log="l1", configured=(configured("old").key,), as_of=20), ["new"]),
    ],
    ids=["a hub that does not say", "all gone", "one said later", "another log", "one is there"],
)
def test_customization_deleted_meanwhile_is_found_by_its_absence(answer: HelloAnswer, gone: list[str]) -> None:
    state = filled()
    state.configure(configured("old"), 9)
    state.configure(configured("new"), 10)
    assert [event.key.name for event in not_configured(state, answer)] == gone
