"""Documents of objects, and the ledger that knows which a backend lacks."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from services.search.backends.document_ledger import MOST_ACTIONS, Action, DocumentLedger, Place
from services.search.backends.object_documents import Document, document_of, index_of
from services.search.registries.member_facts import Gvr
from tests.support.member_objects import pod

PODS = Gvr("", "v1", "pods")


def test_document_keeps_what_is_searched_and_texts_of_the_rest() -> None:
    one = pod("a", app="web")
    found = document_of(one)
    assert found is not None
    body = msgspec.json.decode(found.body)
    assert (found.id, found.index) == (one["metadata"]["uid"], "kubernetes-pod")
    assert found.version == int(one["metadata"]["resourceVersion"])
    assert set(body) == {"apiVersion", "kind", "metadata", "spec", "status"}
    assert set(body["metadata"]) == {"name", "namespace", "creationTimestamp", "labels", "annotations"}
    assert msgspec.json.decode(body["spec"]) == one["spec"]
    assert msgspec.json.decode(body["status"]) == one["status"]


@pytest.mark.parametrize("version", ["", "abc", "9" * 30, "-1"])
def test_versions_that_are_no_numbers_do_not_count(version: str) -> None:
    found = document_of({"kind": "X", "metadata": {"uid": "u", "resourceVersion": version}})
    assert found is not None
    assert found.version == 0


def test_object_without_uid_has_no_document() -> None:
    assert document_of({"kind": "X", "metadata": {}}) is None
    assert index_of("ConfigMap") == "kubernetes-configmap"


class World:
    """Objects, a ledger, and a backend that takes some actions and loses others."""

    def __init__(self) -> None:
        self.ledger = DocumentLedger()
        self.objects: dict[Place, Document] = {}
        self.backend: dict[str, bytes] = {}

    def put(self, name: str, uid: str, text: str) -> None:
        place = Place(PODS, "m1", name)
        self.objects[place] = Document(uid, "kubernetes-pod", 1, text.encode())
        self.ledger.mark(place)

    def drop(self, name: str) -> None:
        place = Place(PODS, "m1", name)
        self.objects.pop(place, None)
        self.ledger.mark(place)

    def take(self, actions: list[Action], *, tell: Any = lambda: True) -> None:
        for action in actions:
            if action.body:
                self.backend[action.id] = action.body
            else:
                self.backend.pop(action.id, None)
            if tell():
                self.ledger.done(action)

    def settle(self) -> int:
        """Requests until nothing is due."""
        count = 0
        while actions := self.ledger.batch(self.objects.get):
            count += 1
            self.take(actions)
            assert count < 100
        return count

    def compare(self) -> int:
        self.ledger.begin_comparison()
        for uid in list(self.backend):
            self.ledger.shown(uid, "kubernetes-pod", 1, ours=True)
        return self.ledger.end_comparison(["kubernetes-pod"])

    @property
    def wanted(self) -> dict[str, bytes]:
        return {document.id: document.body for document in self.objects.values()}


def test_changes_are_written_once() -> None:
    world = World()
    for _ in range(1000):
        world.put("a", "u1", "last")
    assert world.ledger.due == 1
    assert [action.id for action in world.ledger.batch(world.objects.get)] == ["u1"]
    world.settle()
    world.put("a", "u1", "last")
    assert world.ledger.batch(world.objects.get) == []
    assert world.ledger.due == 0


def test_object_of_another_uid_replaces_the_document() -> None:
    world = World()
    world.put("a", "u1", "x")
    world.settle()
    world.put("a", "u2", "x")
    world.settle()
    assert world.backend == {"u2": b"x"}
    world.drop("a")
    world.settle()
    assert world.backend == {}
    assert not world.ledger.acked


def test_requests_are_bounded() -> None:
    world = World()
    for number in range(MOST_ACTIONS + 5):
        world.put(f"p{number}", f"u{number}", "x")
    assert len(world.ledger.batch(world.objects.get)) == MOST_ACTIONS
    assert world.settle() == 2
    world.put("large", "large", "y" * (5 << 20))
    world.put("other", "other", "y" * (5 << 20))
    assert len(world.ledger.batch(world.objects.get)) == 1


def test_comparison_finds_what_was_lost_and_what_is_left_over() -> None:
    world = World()
    for name in "abc":
        world.put(name, name, name)
    world.settle()
    del world.backend["b"]
    world.backend["stray"] = b"of an earlier time"
    assert world.compare() == 1
    world.settle()
    assert world.backend == world.wanted
    assert world.compare() == 0


def test_object_whose_turn_comes_is_no_stray() -> None:
    world = World()
    world.put("a", "u1", "x")
    world.backend["u1"] = b"x"
    world.compare()
    world.settle()
    assert world.backend == {"u1": b"x"}


@pytest.mark.parametrize("seed", range(20))
def test_any_order_of_changes_and_failures_ends_in_step(seed: int) -> None:
    draw, world = random.Random(seed), World()
    for _ in range(300):
        name = draw.choice("abcdef")
        match draw.randrange(5):
            case 0:
                world.drop(name)
            case 1 | 2:
                world.put(name, f"{name}{draw.randrange(2)}", str(draw.randrange(3)))
            case 3:
                # What is not told of may have been taken or not.
                actions = world.ledger.batch(world.objects.get)
                world.take(actions, tell=lambda: draw.random() < 0.5)
            case _:
                if draw.random() < 0.2:
                    world.backend = {uid: body for uid, body in world.backend.items() if draw.random() < 0.5}
    world.settle()
    world.compare()
    world.settle()
    assert world.backend == world.wanted
