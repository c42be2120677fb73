"""The index at a small scale: what an object takes, and how little of it a page looks at."""

from __future__ import annotations

import random
from collections.abc import Iterator

import msgspec
import pytest

from services.search.index import object_packing
from services.search.index.member_index import Found, Shelf
from services.search.index.member_part import key_of
from services.search.querying.query_matches import question_of
from services.search.querying.query_syntax import parse_query
from services.search.registries.member_facts import Gvr
from tests.support.deep_size import deep_size
from tests.support.member_objects import pod

CLUSTERS = 40
PODS = 50
WORKLOADS = 20


@pytest.fixture(scope="module")
def filled() -> tuple[Shelf, int, int]:
    """A shelf of 2,000 pods, the bytes that it takes, and those of their JSON."""
    draw = random.Random(5)
    shelf = Shelf(Gvr("", "v1", "pods"))
    text = 0

    def pods() -> Iterator[dict[str, object]]:
        for number in range(PODS):
            app = f"app-{number % WORKLOADS}"
            yield pod(f"{app}-{draw.getrandbits(32):08x}", f"team-{number % 5}", draw=draw, app=app)

    # Dictionaries are learned before: what they take does not grow with the number of objects.
    for _ in range(300):
        shelf.packing.pack(msgspec.json.encode(next(pods())))
    before = deep_size(shelf)
    for member in range(CLUSTERS):
        part = shelf.new_part(f"member-{member:03}", "Pod")
        for each in pods():
            text += len(msgspec.json.encode(each))
            metadata = each["metadata"]
            assert isinstance(metadata, dict)
            part.put(key_of(metadata["namespace"], metadata["name"]), shelf.pack(part.cluster, each))
        shelf.show(part)
    return shelf, deep_size(shelf) - before, text


def test_two_million_pods_would_fit(filled: tuple[Shelf, int, int]) -> None:
    shelf, taken, text = filled
    count = CLUSTERS * PODS
    assert taken / count < 2_000, "8 GB for 2,000,000 pods are 4,000 bytes each"
    assert taken < text / 2
    counted = sum(part.bytes for part in shelf.parts.values())
    assert taken / 2 < counted < taken * 2
    assert len(shelf.shapes) == WORKLOADS


def test_page_unpacks_only_what_it_shows(filled: tuple[Shelf, int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    shelf, _, _ = filled
    unpacked: list[bytes] = []
    unpack = object_packing.Packing.unpack

    def counting(self: object_packing.Packing, packed: bytes) -> bytes:
        unpacked.append(packed)
        return unpack(self, packed)

    monkeypatch.setattr(object_packing.Packing, "unpack", counting)
    found = [
        each
        for each in shelf.each(question_of(parse_query("label.app=app-3 namespace=team-3")))
        if isinstance(each, Found)
    ]
    assert len(found) == CLUSTERS * 3
    assert not unpacked
    assert [shelf.manifest(each.stored)["metadata"]["labels"] for each in found[:5]] == [{"app": "app-3"}] * 5
    assert len(unpacked) == 5


def test_shapes_are_asked_once_per_question(filled: tuple[Shelf, int, int]) -> None:
    shelf, _, _ = filled
    asked: list[object] = []

    def test(shape: object) -> bool:
        asked.append(shape)
        return False

    for _ in range(3):
        assert shelf.shapes.matching("once", test) == set()
    assert len(asked) == WORKLOADS
