"""Pages of lists, taken apart at once or item by item: the same items, and the same refusals."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services._kit.base.answer_limits import Limits
from services._kit.kube.answers import pages
from services._kit.kube.answers.pages import Page, next_size
from services._kit.kube.api import BadAnswer

SCALARS = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4)
)
OBJECTS = st.dictionaries(st.text(max_size=6), VALUES, max_size=5)


@pytest.fixture(params=["at once", "item by item"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "item by item":
        monkeypatch.setattr(pages, "_TINY", -1)
        monkeypatch.setattr(pages, "_AT_ONCE", -1)
    return str(request.param)


def taken(data: bytes, **limits: Any) -> tuple[list[Any], pages.ListMeta]:
    page = Page(data, Limits(**limits))
    items = [msgspec.json.decode(item) for item in page]
    return items, page.meta


def test_items_and_where_the_list_goes_on(way: str) -> None:
    data = b' {"kind":"PodList", "metadata" : {"resourceVersion":"7","continue":"x"},\n"items": [ {"a":"}]"} , {} ] } '
    items, meta = taken(data)
    assert items == [{"a": "}]"}, {}]
    assert (meta.resource_version, meta.next) == ("7", "x")


@given(objects=st.lists(OBJECTS, max_size=5), indent=st.booleans())
def test_items_are_cut_where_a_decoder_sees_them(objects: list[Any], indent: bool) -> None:
    data = msgspec.json.encode({"items": objects, "metadata": {"resourceVersion": "3"}, "x": objects})
    page = Page(msgspec.json.format(data, indent=2) if indent else data, Limits())
    assert [msgspec.json.decode(item) for item in page._cut()] == objects
    assert page.meta.resource_version == "3"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<html>maintenance</html>",
        b"null",
        b"[]",
        b"{}",
        b'{"kind":"Status","status":"Success"}',
        b'{"items":{"a":1}}',
        b'{"items":7}',
        b'{"items":[{"a":1}',
        b'{"items":[{"a":1}]',
        b'{"items":[{"a":1},]}x',
        b'{"metadata":[1],"items":[]}',
        b'{"metadata":{"resourceVersion":5},"items":[]}',
        b'{"items":[' + b"[" * 200_000 + b"]" * 200_000 + b"]}",
    ],
)
def test_what_is_no_list_is_never_an_empty_one(way: str, data: bytes) -> None:
    with pytest.raises(BadAnswer):
        taken(data)


@pytest.mark.parametrize("data", [b'{"kind":"PodList"}', b'{"items":null}', b'{"items":[]}'])
def test_an_empty_list_has_items_or_says_that_it_is_a_list(way: str, data: bytes) -> None:
    assert taken(data)[0] == []


def test_an_object_that_is_too_large_is_refused(way: str) -> None:
    data = b'{"items":[{"a":"' + b"x" * 2000 + b'"}]}'
    assert len(taken(data, object_bytes=3000)[0]) == 1
    with pytest.raises(BadAnswer, match="1000 bytes"):
        taken(data, object_bytes=1000)


def test_many_small_values_are_not_decoded_at_once() -> None:
    assert pages._fits(b'{"items":[' + b'{"metadata":{"name":"some-name","uid":"0123456789"}},' * 2000)
    assert not pages._fits(b'{"items":[' + b"{}," * 100_000)


def test_page_size_follows_the_size_of_objects() -> None:
    assert next_size(200, 200 * 20_000) == 52
    assert next_size(200, 200 * 1000) == 500
    assert next_size(52, 8 << 20) == 10


@pytest.mark.parametrize("depth", [1, 7, 8, 9, 40, 400])
def test_items_may_be_nested(way: str, depth: int) -> None:
    nested = b"[" * depth + b'{"a":[1]}' + b"]" * depth
    data = b'{"items":[{"a":' + nested + b'},{"b":{}}],"metadata":{"continue":"c"}}'
    items, meta = taken(data)
    assert msgspec.json.encode(items[0]["a"]) == nested
    assert (items[1], meta.next) == ({"b": {}}, "c")


def test_an_item_that_never_ends_costs_one_look(way: str) -> None:
    data = b'{"items":[' + b'[1,{"a":' * 100_000
    with pytest.raises(BadAnswer):
        taken(data)
