"""The outside checker of the chaos run finds what it is there for."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.faults.chaos import clients, objects
from tests.faults.chaos.checker import _contents, _expected, _sums, _writes
from tests.faults.chaos.endpoint import Answer
from tests.faults.chaos.ledger import Ledger
from tests.faults.chaos.log_check import Deletions, History, Record
from tests.faults.chaos.memory import Line
from tests.faults.chaos.objects import Copy, State

KEY = ("configmaps", "chaos-0", "one")
OLD, NEW, NEWER = (State(str(number), "everywhere", f"v{number}") for number in (1, 2, 3))


def test_a_lost_acknowledged_write_is_found() -> None:
    ledger = Ledger()
    ledger.acknowledged(KEY, OLD)
    ledger.acknowledged(KEY, NEW)
    assert ledger.wrong(KEY, NEW) == ""
    assert "last acknowledged write" in ledger.wrong(KEY, OLD)
    assert "last acknowledged write" in ledger.wrong(KEY, None)


def test_a_write_without_an_answer_may_be_there_or_not() -> None:
    ledger = Ledger()
    ledger.acknowledged(KEY, OLD)
    ledger.unknown(KEY, NEW)
    assert ledger.wrong(KEY, OLD) == ledger.wrong(KEY, NEW) == ""
    ledger.acknowledged(KEY, NEWER)
    assert ledger.wrong(KEY, NEW)


def test_what_nobody_wrote_is_found() -> None:
    assert len(_writes({KEY: NEW}, Ledger(), Counter())) == 1


@pytest.mark.parametrize(
    ("shape", "where"),
    [
        ("everywhere", {"member1": 3, "member2": 3, "member3": 3}),
        ("pair", {"member1": 3, "member3": 3}),
        ("single", {"member2": 3}),
        ("moving", {"member2": 3, "member3": 3}),
        ("divided", {"member1": 2, "member3": 1}),
    ],
)
def test_copies_are_where_the_policy_says(shape: str, where: dict[str, int]) -> None:
    state = State("1", shape, "1.20", 3)
    found = objects.copies("deployments", state, "member2,member3", "")
    assert {member: copy.replicas for member, copy in found.items()} == where


def test_an_override_changes_one_member() -> None:
    found = objects.copies("deployments", State("1", "everywhere", "1.20", 1), "", "north")
    assert found["member2"].value == "north.example/nginx:1.20"
    assert ("where", "north") in found["member2"].labels
    assert found["member1"].value == "nginx:1.20"


@pytest.mark.parametrize("kind", objects.KINDS)
def test_what_is_written_is_read_back(kind: str) -> None:
    state = State("7", "pair", "1.20", 2 if kind == "deployments" else 0, "red")
    manifest = objects.manifest(kind, "chaos-0", "one", state)
    assert objects.state_of(kind, manifest) == state
    assert objects.copy_of(kind, manifest) == objects.copies(kind, state, "", "")["member1"]


def _held(state: State, **metadata: Any) -> dict[str, list[dict[str, Any]]]:
    manifest = objects.manifest("configmaps", "chaos-0", "one", state)
    manifest["metadata"].update(metadata)
    return {"configmaps": [manifest]}


def test_missing_wrong_and_orphaned_copies_are_found() -> None:
    expected = _expected({KEY: NEW})
    assert _contents("member1", expected, _held(NEW), Counter()) == []
    assert "should be" in _contents("member1", expected, _held(OLD), Counter())[0]
    assert "is None" in _contents("member1", expected, {}, Counter())[0]
    assert "orphan" in _contents("member1", {"member1": {}}, _held(NEW), Counter())[0]
    bare = _held(NEW, labels={objects.MANAGED: "true"})
    assert "orphan" in _contents("member1", {"member1": {}}, bare, Counter())[0]


def test_a_wrong_sum_is_found() -> None:
    key = ("deployments", "chaos-0", "one")
    expected = {"member1": {key: Copy("x", 2, "1", ())}, "member2": {key: Copy("x", 1, "1", ())}}
    status = {"replicas": 3, "updatedReplicas": 3, "readyReplicas": 3, "availableReplicas": 3, "observedGeneration": 4}
    template = {"metadata": {"name": "one", "namespace": "chaos-0", "generation": 4}, "status": status}
    assert _sums([template], expected, Counter()) == []
    assert len(_sums([{**template, "status": {**status, "readyReplicas": 2}}], expected, Counter())) == 1
    assert len(_sums([{**template, "status": {**status, "observedGeneration": 3}}], expected, Counter())) == 1


def _record(seq: int, subject: str, *, prev: int = 0, origin: int = 0, **body: object) -> Record:
    return Record(seq, origin or seq, subject, f"id-{seq}", {"prev": prev, **body})


def _found(*records: Record) -> list[str]:
    history = History("")
    return [text for record in records for text in history.take(record, Counter())]


def test_a_whole_history_has_no_complaint() -> None:
    assert _found(_record(1, "a"), _record(2, "b"), _record(3, "a", prev=-2), _record(4, "a", prev=3)) == []


@pytest.mark.parametrize(
    "records",
    [
        (_record(1, "a"), _record(3, "b")),
        (_record(1, "a"), _record(2, "b", origin=3)),
        (_record(1, "a"), _record(2, "b"), _record(3, "a", prev=2)),
        (_record(1, "a"), _record(2, "a")),
        (_record(1, "a"), Record(2, 2, "b", "id-1", {})),
    ],
    ids=["gap", "skipped", "wrong one before", "none before", "same id"],
)
def test_a_gap_of_the_history_is_found(records: tuple[Record, ...]) -> None:
    assert _found(*records)


def test_a_withdrawal_needs_a_cause_that_concerns_its_object() -> None:
    key, other = ["", "configmaps", "n", "a"], ["", "configmaps", "n", "b"]
    gone = {"type": "WorkWithdrawn.v1", "cluster": "m", "key": key}

    def why(*causes: int) -> dict[str, object]:
        return {**gone, "provenance": {"causes": list(causes)}}

    first = (_record(1, "placement.a", key=key), _record(2, "placement.b", key=other), _record(3, "cluster.m"))
    assert _found(*first, _record(4, "work.m.a", **why(1))) == []
    assert _found(*first, _record(4, "work.m.a", **why(3))) == []
    assert _found(*first, _record(4, "work.m.a", **gone))
    assert _found(*first, _record(4, "work.m.a", **why(2)))
    assert _found(*first, _record(4, "work.m.a", **why(9)))


def test_a_deletion_without_a_withdrawal_is_found(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    ours = {
        "time": "2026-01-01T00:00:00Z",
        "user": "system:serviceaccount:karmada-cluster:karmada-m",
        "verb": "delete",
        "group": "",
        "resource": "configmaps",
        "subresource": "",
        "namespace": "n",
        "name": "a",
    }
    path.write_text("".join(json.dumps(record) + "\n" for record in (ours, {**ours, "user": "somebody"})))
    deletions = Deletions({"m": path})
    key = ("", "configmaps", "n", "a")
    assert deletions.check(Counter({("m", key): 1}), Counter()) == []
    assert len(deletions.check(Counter(), Counter())) == 1


def test_memory_that_grows_is_told_from_memory_that_moves() -> None:
    def line(seconds: float, slope: float) -> Line:
        return Line("x", 100, seconds, 100.0, 120.0, slope)

    assert line(1800, 3.0).grows
    assert not line(1800, 0.3).grows, "three tenths of a MiB a minute are nothing in half an hour"
    assert not line(60, 30.0).grows, "too short to be judged"


class OneObject:
    """A control plane that holds one object, or none, and lets others have their turn before it answers."""

    def __init__(self) -> None:
        self.body: dict[str, Any] | None = None

    async def ask(self, method: str, _: str, body: dict[str, Any] | None = None, **__: Any) -> Answer:
        await asyncio.sleep(0)
        if method == "POST" and self.body is not None:
            return Answer(409, {"reason": "AlreadyExists"})
        if method in ("POST", "PUT"):
            self.body = body
        return Answer(200, self.body) if self.body is not None else Answer(404)


async def test_clients_creating_one_override_at_once_do_not_fail() -> None:
    control: Any = OneObject()
    users = clients.Clients(control, {}, Ledger())
    await asyncio.gather(*(users._override("chaos-0", random.Random(seed)) for seed in range(4)))
    assert users.violations == []
    assert control.body is not None


def test_a_seed_determines_the_operations() -> None:
    first, second, third = (clients.schedule(random.Random(seed), 10, 5) for seed in ("1/1", "1/1", "1/2"))
    assert first == second != third
    assert len(first) == 50
