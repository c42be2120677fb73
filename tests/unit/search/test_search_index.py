"""The index: what is kept is found again, by name, label and page, and leaves nothing behind."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from services._rules.kubernetes.selectors import parse_selector
from services.search.index import object_packing
from services.search.index.cached_from import CACHED_FROM
from services.search.index.member_index import Change, Found, MemberIndex, Shelf
from services.search.index.member_part import MemberPart, key_of
from services.search.index.object_packing import Packing
from services.search.index.questions import Question
from services.search.querying.query_matches import question_of
from services.search.querying.query_syntax import parse_query
from services.search.registries.member_facts import Gvr
from tests.support.member_objects import pod

PODS = Gvr("", "v1", "pods")


def filled(shelf: Shelf, cluster: str, *pods: dict[str, Any]) -> MemberPart:
    """A part that is shown."""
    part = shelf.new_part(cluster, "Pod")
    for each in pods:
        part.put(key_of(each["metadata"]["namespace"], each["metadata"]["name"]), shelf.pack(cluster, each))
    shelf.show(part)
    return part


def labelled(text: str) -> Question:
    selector = parse_selector(text)
    return Question(text, lambda shape: selector.matches(shape.labels))


def places(shelf: Shelf, *arguments: Any) -> list[tuple[str, str]]:
    return [(found.cluster, found.key) for found in shelf.each(*arguments) if isinstance(found, Found)]


def test_packing_learns_and_stays_readable() -> None:
    packing, draw = Packing(), random.Random(1)
    texts = [msgspec.json.encode(pod(f"web-{number}", draw=draw)) for number in range(600)]
    packed = [packing.pack(text) for text in texts]
    assert [packing.unpack(each) for each in packed] == texts
    assert sum(map(len, packed[300:])) < sum(map(len, texts[300:])) / 5


@pytest.mark.parametrize("text", [b"", b"{}", b"\x00" * 100_000, bytes(range(256)) * 40])
def test_any_bytes_are_packed(text: bytes) -> None:
    packing = Packing()
    assert [packing.unpack(packing.pack(text)) for _ in range(150)] == [text] * 150


def test_objects_carry_their_member_and_no_managed_fields() -> None:
    shelf = Shelf(PODS)
    one = pod("a")
    one["metadata"]["managedFields"] = [{"manager": "x"}]
    one["metadata"]["annotations"] = {CACHED_FROM: "another", "kept": "yes"}
    filled(shelf, "m1", one)
    (found,) = shelf.find("shop", "a")
    shown = shelf.manifest(found.stored)
    assert shown["metadata"]["annotations"] == {CACHED_FROM: "m1", "kept": "yes"}
    assert "managedFields" not in shown["metadata"]


def test_names_are_found_in_every_member() -> None:
    shelf = Shelf(PODS)
    for cluster in ("m2", "m1"):
        filled(shelf, cluster, pod("a"), pod(f"only-{cluster}"))
    assert [found.cluster for found in shelf.find("shop", "a")] == ["m1", "m2"]
    assert [found.cluster for found in shelf.find("shop", "only-m2")] == ["m2"]
    assert shelf.find("other", "a") == []


def test_labels_are_found_after_every_change() -> None:
    shelf = Shelf(PODS)
    part = filled(shelf, "m1", pod("a", app="web"), pod("b", app="db"))
    assert places(shelf, labelled("app=web")) == [("m1", "shop/a")]
    shelf.put(part, "shop/b", shelf.pack("m1", pod("b", app="web")))
    shelf.put(part, "shop/c", shelf.pack("m1", pod("c", app="db", tier="x")))
    assert places(shelf, labelled("app=web")) == [("m1", "shop/a"), ("m1", "shop/b")]
    assert places(shelf, labelled("app in (db,web),tier")) == [("m1", "shop/c")]
    shelf.drop(part, "shop/a", part.objects["shop/a"])
    assert places(shelf, labelled("app=web")) == [("m1", "shop/b")]
    assert places(shelf, labelled("app!=web")) == [("m1", "shop/c")]


def test_pages_go_on_where_the_last_one_ended() -> None:
    shelf = Shelf(PODS)
    for cluster in ("m1", "m2", "m3"):
        filled(shelf, cluster, *(pod(f"p-{number}", app="web") for number in range(5)))
    every = places(shelf)
    assert every == sorted(every)
    assert len(every) == 15
    for number, place in enumerate(every):
        assert places(shelf, Question(), place) == every[number + 1 :]
        assert places(shelf, labelled("app=web"), place) == every[number + 1 :]


def test_relist_replaces_a_part_at_once() -> None:
    shelf = Shelf(PODS)
    filled(shelf, "m1", pod("a"), pod("b", app="old"))
    reading = (found for found in shelf.each() if isinstance(found, Found))
    first = next(reading)
    part = shelf.new_part("m1", "Pod")
    part.put("shop/b", shelf.pack("m1", pod("b", app="new")))
    assert len(places(shelf)) == 2
    shelf.show(part)
    assert [first.key, *(found.key for found in reading)] == ["shop/a", "shop/b"]
    assert places(shelf) == [("m1", "shop/b")]
    assert places(shelf, labelled("app=old")) == []


def test_nothing_is_left_of_what_went() -> None:
    index = MemberIndex()
    shelf = index.shelf(PODS)
    filled(shelf, "m1", *(pod(f"p-{number}", app=str(number)) for number in range(50)))
    assert places(shelf, labelled("app=7")) == [("m1", "shop/p-7")]
    assert (index.objects, index.of("m1"), len(shelf.shapes)) == (50, [PODS], 50)
    assert index.bytes > 0
    index.remove(PODS, "m1")
    assert (index.objects, index.bytes, index.of("m1"), len(shelf.shapes)) == (0, 0, [], 0)
    assert index.known(PODS) is None
    assert places(shelf, labelled("app=7")) == []


def test_bytes_are_what_the_objects_take() -> None:
    shelf = Shelf(PODS)
    part = filled(shelf, "m1", pod("a"), pod("b"))
    one = part.bytes
    shelf.put(part, "shop/c", shelf.pack("m1", pod("c")))
    shelf.drop(part, "shop/c", part.objects["shop/c"])
    assert part.bytes == one


def test_listeners_hear_what_a_relist_changed() -> None:
    shelf = Shelf(PODS)
    filled(shelf, "m1", pod("a"), pod("b", app="old"), pod("c"))
    told: list[Change] = []
    forget = shelf.subscribe(told.append)
    part = filled(shelf, "m1", pod("a"), pod("b", app="new"), pod("d"))
    shelf.put(part, "shop/d", shelf.pack("m1", pod("d", app="x")))
    shelf.drop(part, "shop/a", part.objects["shop/a"])
    shelf.drop(part, "shop/gone", part.objects["shop/b"])
    assert [(change.type, change.key) for change in told] == [
        ("DELETED", "shop/c"),
        ("MODIFIED", "shop/b"),
        ("ADDED", "shop/d"),
        ("MODIFIED", "shop/d"),
        ("DELETED", "shop/a"),
    ]
    forget()
    shelf.remove("m1")
    assert len(told) == 5


def shelf_of_members(count: int) -> Shelf:
    """Each member has the pods of ten workloads."""
    shelf = Shelf(PODS)
    for member in range(count):
        filled(shelf, f"m{member}", *(pod(f"p-{number}", app=f"app-{number}") for number in range(10)))
    return shelf


def test_page_unpacks_only_what_it_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    shelf, unpacked = shelf_of_members(20), []
    unpack = object_packing.Packing.unpack

    def counting(self: object_packing.Packing, packed: bytes) -> bytes:
        unpacked.append(packed)
        return unpack(self, packed)

    monkeypatch.setattr(object_packing.Packing, "unpack", counting)
    question = question_of(parse_query("label.app=app-3 namespace=shop"))
    found = [each for each in shelf.each(question) if isinstance(each, Found)]
    assert len(found) == 20
    assert not unpacked
    assert [shelf.manifest(each.stored)["metadata"]["labels"] for each in found[:5]] == [{"app": "app-3"}] * 5
    assert len(unpacked) == 5


def test_shapes_are_asked_once_per_question() -> None:
    shelf, asked = shelf_of_members(3), []

    def test(shape: object) -> bool:
        asked.append(shape)
        return False

    for _ in range(3):
        assert shelf.shapes.matching("once", test) == set()
    assert len(asked) == len(shelf.shapes) == 10
