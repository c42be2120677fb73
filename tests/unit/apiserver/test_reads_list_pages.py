"""Which objects a list gets: limits, tokens, revisions and how they are refused."""

import asyncio
import base64
import random
from typing import Any

import msgspec
import pytest

from services.apiserver.core.request import ListOptions
from services.apiserver.core.status_errors import ApiError
from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.reads import list_requests
from services.apiserver.reads.continue_tokens import LATEST, Token, read_token, write_token
from services.apiserver.reads.list_requests import Page, list_page
from services.apiserver.reads.request_selectors import Selection
from services.apiserver.store.memory_store import MemoryStore
from services.apiserver.store.object_index import Bucket, place_of
from services.apiserver.store.store_port import Compacted, Entry, Event, Key

LABELS = {"a": {"app": "x"}, "b": {"app": "x"}, "c": {"app": "y"}, "d": {"app": "y"}, "e": {}}
KIND = builtin_registry().find("", "v1", "configmaps")


def key(name: str, namespace: str = "ns") -> Key:
    return Key("", "configmaps", namespace, name)


async def write(store: MemoryStore, name: str, namespace: str = "ns", **labels: str) -> int:
    known = store.get(key(name, namespace))
    meta = {"name": name, "namespace": namespace, "labels": labels}
    obj = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": meta}
    return (await store.put(key(name, namespace), obj, 0 if known is None else known.revision)).revision


async def five() -> MemoryStore:
    store = MemoryStore()
    for name, labels in LABELS.items():
        await write(store, name, **labels)
    return store


async def listed(store: MemoryStore, namespace: str = "ns", **query: str) -> Page:
    assert KIND is not None
    options = ListOptions({name.rstrip("_"): value for name, value in query.items()})
    options.check()
    selection = Selection(KIND, options.label, options.field)
    return await list_page(store, KIND, namespace, options, selection, asyncio.Lock())


def names(page: Page) -> str:
    return "".join(entry.key.name for entry in page.entries)


async def refused(store: MemoryStore, **query: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        await listed(store, **query)
    return caught.value


@pytest.mark.parametrize(
    ("query", "found", "goes_on", "remaining"),
    [
        ({}, "abcde", False, None),
        ({"limit": "2"}, "ab", True, 3),
        ({"limit": "5"}, "abcde", False, None),
        ({"limit": "0"}, "abcde", False, None),
        ({"limit": "-1"}, "abcde", False, None),
        ({"limit": "2", "resourceVersion": "0"}, "abcde", False, None),
        ({"limit": "2", "resourceVersion": "5"}, "ab", True, 3),
        ({"limit": "2", "resourceVersion": "3", "resourceVersionMatch": "Exact"}, "ab", True, 1),
        ({"resourceVersion": "3", "resourceVersionMatch": "Exact"}, "abc", False, None),
        ({"limit": "9", "resourceVersion": "3"}, "abc", False, None),
        ({"limit": "2", "resourceVersion": "3", "resourceVersionMatch": "NotOlderThan"}, "ab", True, 3),
        ({"resourceVersion": "3"}, "abcde", False, None),
        # Whether there is more is known of all objects, not only of those that match.
        ({"limit": "2", "labelSelector": "app=x"}, "ab", True, None),
        ({"limit": "2", "labelSelector": "app=y"}, "cd", True, None),
        ({"limit": "3", "labelSelector": "app"}, "abc", True, None),
        ({"limit": "5", "labelSelector": "app"}, "abcd", False, None),
        ({"limit": "1", "fieldSelector": "metadata.name=d"}, "d", False, None),
        ({"limit": "1", "fieldSelector": "metadata.name=d", "resourceVersion": "5"}, "d", False, None),
        (
            {"fieldSelector": "metadata.name=d", "resourceVersion": "3", "resourceVersionMatch": "Exact"},
            "",
            False,
            None,
        ),
        (
            {"fieldSelector": "metadata.name=b", "resourceVersion": "3", "resourceVersionMatch": "Exact"},
            "b",
            False,
            None,
        ),
    ],
)
async def test_limits_and_revisions(query: dict[str, str], found: str, goes_on: bool, remaining: int | None) -> None:
    page = await listed(await five(), **query)
    assert names(page) == found
    assert ("continue" in page.meta) == goes_on
    assert page.meta.get("remainingItemCount") == remaining


async def test_lists_of_many_objects_are_taken_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_requests, "MANY", 3)
    store, turns, order = await five(), asyncio.Lock(), []
    assert KIND is not None
    everything = Selection(KIND, "", "")

    async def one(number: int) -> str:
        found = names(await list_page(store, KIND, "ns", ListOptions({}), everything, turns))
        order.append(number)
        return found

    async def others() -> None:
        for _ in range(3):
            await asyncio.sleep(0)
            order.append(0)

    listing = [asyncio.ensure_future(one(number)) for number in (1, 2, 3)]
    between = asyncio.ensure_future(others())
    assert await asyncio.gather(*listing) == ["abcde"] * 3
    await between
    assert order.index(0) < order.index(2)
    assert [number for number in order if number] == [1, 2, 3]


async def test_pages_are_of_the_revision_of_the_first() -> None:
    store = await five()
    first = await listed(store, limit="2")
    await write(store, "bb")
    await write(store, "d", changed="yes")
    await store.delete(key("c"), store.get(key("c")).obj, 3)  # type: ignore[union-attr]
    second = await listed(store, limit="2", **{"continue": first.meta["continue"]})
    assert (names(second), second.meta["remainingItemCount"]) == ("cd", 1)
    assert second.entries[1].revision == 4
    third = await listed(store, limit="2", **{"continue": second.meta["continue"]})
    assert (names(third), third.meta) == ("e", {"resourceVersion": "5"})


async def test_a_token_goes_on_in_any_collection() -> None:
    store = await five()
    token = (await listed(store, limit="2")).meta["continue"]
    await write(store, "z", "other")
    assert names(await listed(store, "other", **{"continue": token})) == ""
    assert names(await listed(store, **{"continue": token, "labelSelector": "app=x"})) == ""
    assert names(await listed(store, **{"continue": token, "fieldSelector": "metadata.name=d"})) == "d"
    assert names(await listed(store, **{"continue": token, "resourceVersion": "0"})) == "cde"


async def test_pages_of_all_namespaces_are_in_order() -> None:
    store = MemoryStore()
    places = [("b", "x"), ("a-b", "y"), ("a", "z"), ("a", "y"), ("a", "x")]
    for namespace, name in places:
        await write(store, name, namespace)
    found: list[str] = []
    query = {"limit": "1"}
    while True:
        page = await listed(store, "", **query)
        found += [place_of(entry.key, "") for entry in page.entries]
        if "continue" not in page.meta:
            break
        assert page.meta["remainingItemCount"] == len(places) - len(found)
        query["continue"] = page.meta["continue"]
    assert found == sorted(f"{namespace}/{name}" for namespace, name in places)


async def test_an_expired_token_can_go_on_with_the_present() -> None:
    store = await five()
    token = (await listed(store, limit="2")).meta["continue"]
    await write(store, "cc")
    store.bucket("", "configmaps").forget_before(6)
    error = await refused(store, **{"continue": token})
    assert (error.code, error.reason) == (410, "Expired")
    assert "inconsistent list" in error.message
    rest = await listed(store, limit="2", **{"continue": error.status["metadata"]["continue"]})
    assert (names(rest), rest.meta["resourceVersion"], rest.meta["remainingItemCount"]) == ("ccc", "6", 2)
    exact = await refused(store, resourceVersion="5", resourceVersionMatch="Exact")
    assert (exact.code, exact.message) == (410, "The resourceVersion for the provided list is too old.")


HUGE = "1" * 30
INVALID = 'resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing "abc": invalid syntax'


@pytest.mark.parametrize(
    ("query", "code", "message"),
    [
        ({"resourceVersion": "abc"}, 400, INVALID),
        ({"resourceVersion": "abc", "limit": "1"}, 400, f"invalid resource version: {INVALID}"),
        ({"resourceVersion": "abc", "resourceVersionMatch": "Exact"}, 400, f"invalid resource version: {INVALID}"),
        ({"resourceVersion": "9"}, 504, "Timeout: Too large resource version: 9, current: 5"),
        ({"resourceVersion": "9", "limit": "1"}, 504, "Timeout: Too large resource version: 9, current: 5"),
        (
            {"resourceVersion": HUGE},
            400,
            f'resourceVersion: Invalid value: "{HUGE}": strconv.ParseUint: parsing "{HUGE}": value out of range',
        ),
        ({"limit": "9" * 20}, 400, f'strconv.ParseInt: parsing "{"9" * 20}": value out of range'),
        ({"limit": "9" * 5000}, 400, f'strconv.ParseInt: parsing "{"9" * 5000}": value out of range'),
        ({"limit": ""}, 400, 'strconv.ParseInt: parsing "": invalid syntax'),
        ({"timeoutSeconds": ""}, 400, 'strconv.ParseInt: parsing "": invalid syntax'),
    ],
)
async def test_what_cannot_be_listed(query: dict[str, str], code: int, message: str) -> None:
    error = await refused(await five(), **query)
    assert (error.code, error.message) == (code, message)


async def test_a_future_revision_is_worth_another_try_sometimes() -> None:
    store = await five()
    soon, never = await refused(store, resourceVersion="9"), await refused(store, resourceVersion="9", limit="1")
    assert soon.details is not None
    assert never.details is not None
    assert (soon.details["retryAfterSeconds"], soon.headers) == (1, {"Retry-After": "1"})
    assert ("retryAfterSeconds" in never.details, never.headers) == (False, None)


def text(**fields: Any) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(fields)).rstrip(b"=").decode()


@pytest.mark.parametrize(
    ("token", "message"),
    [
        ("!!", "illegal base64 data at input byte 0"),
        ("ab=", "illegal base64 data at input byte 2"),
        ("abc", "invalid character 'i' looking for beginning of value"),
        ("e30", 'server does not recognize this encoded version ""'),
        (text(v="v2", rv=1, start="a"), 'server does not recognize this encoded version "v2"'),
        (text(v="meta.k8s.io/v1", start="a"), "incorrect encoded start resourceVersion (version meta.k8s.io/v1)"),
        (text(v="meta.k8s.io/v1", rv=1), "encoded start key empty (version meta.k8s.io/v1)"),
        (text(v="meta.k8s.io/v1", rv=1, start="../a"), "../a"),
        (text(v="meta.k8s.io/v1", rv=1, start="a//b"), "a//b"),
    ],
)
async def test_tokens_that_are_none(token: str, message: str) -> None:
    error = await refused(await five(), **{"continue": token})
    assert (error.code, error.message) == (400, f"invalid continue token: continue key is not valid: {message}")


async def test_a_token_and_a_revision_exclude_each_other() -> None:
    store = await five()
    token = (await listed(store, limit="2")).meta["continue"]
    error = await refused(store, **{"continue": token, "resourceVersion": "1"})
    assert error.message == "specifying resource version is not allowed when using continue"


@pytest.mark.parametrize("token", [Token(7, "a/b\0"), Token(LATEST, "é\0")])
def test_a_token_comes_back_as_it_was(token: Token) -> None:
    assert read_token(write_token(token)) == token


@pytest.mark.parametrize("seed", range(20))
def test_any_part_of_any_revision_is_found_by_undoing(seed: int) -> None:
    chance = random.Random(seed)
    bucket = Bucket(1000)
    present: dict[tuple[str, str], Entry] = {}
    states: dict[int, list[Entry]] = {0: []}
    for revision in range(1, 60):
        place = chance.choice(["a", "a-b", "b"]), chance.choice("xyz")
        made = Entry(key(place[1], place[0]), b'{"metadata":{}}', revision)
        if place in present and chance.random() < 0.4:
            bucket.record(Event(made, bucket.remove(made.key), deleted=True))
            del present[place]
        else:
            bucket.record(Event(made, bucket.set(made), deleted=False))
            present[place] = made
        states[revision] = list(present.values())
    bucket.forget_before(10)
    for revision in range(10, 60):
        for namespace in ("", "a"):
            inside = [e for e in states[revision] if not namespace or e.key.namespace == namespace]
            inside.sort(key=lambda entry: place_of(entry.key, namespace))
            for start in ("", "a/y", "a-b/", "b", "x\0", "zz"):
                wanted = [e for e in inside if place_of(e.key, namespace) >= start]
                assert list(bucket.entries_at(namespace, revision, start)) == wanted
                assert bucket.count_at(namespace, revision, start) == len(wanted)
    with pytest.raises(Compacted):
        bucket.entries_at("", 9)
