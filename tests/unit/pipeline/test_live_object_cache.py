"""What a lane takes for the live object while answers to writes and the watch overtake one another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from schemas.keys import ObjectKey
from schemas.manifest import Manifest
from services._kit.base.answer_limits import Limits
from services._kit.delivery.kind_caches import Kind
from services._kit.delivery.live_objects import UNCLAIMED, Cache
from services._kit.kube.client import ApiResource
from services._kit.kube.list_watch import AsBytes, Kept

PLACE = ("default", "web")


class _SilentClient:
    """An API server that never answers: what is seen comes from the test."""

    server = "https://member"
    limits = Limits()

    async def request(self, *_: object, **__: object) -> bytes:
        await asyncio.Event().wait()
        return b""


@pytest.fixture
async def touched() -> list[ObjectKey]:
    return []


class Works:
    """Which objects there are works for; all, unless said otherwise."""

    def __init__(self) -> None:
        self.without: set[ObjectKey] = set()

    def __contains__(self, key: ObjectKey) -> bool:
        return key not in self.without


@pytest.fixture
def given() -> Works:
    return Works()


@pytest.fixture
async def kind(touched: list[ObjectKey], given: Works) -> AsyncIterator[Kind]:
    resource = ApiResource(name="deployments", kind="Deployment", namespaced=True, group="apps", version="v1")
    client: Any = _SilentClient()
    made = Kind(client, resource, touched.append, given.__contains__, Cache(Limits(cache_bytes=1000)))
    yield made
    made.close()


def state(version: str, text: str) -> Manifest:
    return {"metadata": {"namespace": "default", "name": "web", "resourceVersion": version}, "text": text}


def seen(version: str, text: str) -> Kept:
    return Kept.of(state(version, text))


async def test_late_answer_does_not_replace_a_later_watch_event(kind: Kind) -> None:
    kind.listed([seen("10", "before")])
    kind.changed("MODIFIED", seen("11", "our write"))
    kind.changed("MODIFIED", seen("12", "a status after our write"))
    kind.written(state("11", "our write"))
    assert kind.live[PLACE]["text"] == "a status after our write"


async def test_answer_ahead_of_the_watch_is_kept(kind: Kind, touched: list[ObjectKey]) -> None:
    kind.listed([seen("10", "before")])
    kind.written(state("12", "our write"))
    touched.clear()
    kind.changed("MODIFIED", seen("11", "older"))
    kind.changed("MODIFIED", seen("12", "our write"))
    assert kind.live[PLACE]["text"] == "our write"
    assert touched == []


async def test_deletion_before_the_answer_stays(kind: Kind) -> None:
    kind.listed([])
    kind.changed("ADDED", seen("11", "created by us"))
    kind.changed("DELETED", seen("12", "created by us"))
    kind.written(state("11", "created by us"))
    assert PLACE not in kind.live


async def test_new_list_replaces_any_version(kind: Kind) -> None:
    kind.listed([seen("500", "before the store was restored")])
    kind.changed("MODIFIED", seen("510", "before the store was restored"))
    kind.listed([seen("20", "restored")])
    kind.written(state("21", "our write"))
    assert kind.live[PLACE]["text"] == "our write"


async def test_versions_without_numbers_are_equal_or_different(kind: Kind) -> None:
    kind.listed([seen("a", "first")])
    kind.changed("MODIFIED", seen("b", "second"))
    kind.changed("MODIFIED", seen("b", "an echo"))
    assert kind.live[PLACE]["text"] == "second"


def test_watched_object_is_kept_without_managed_fields() -> None:
    sent = state("7", "x") | {"status": {"ready": None, "count": 1.0}}
    sent["metadata"]["managedFields"] = [{"manager": "kubectl"}]
    kept = AsBytes().read(msgspec.Raw(msgspec.json.encode(sent)), "apps/v1", "Deployment")
    assert (kept.namespace, kept.name, kept.version) == ("default", "web", "7")
    del sent["metadata"]["managedFields"]
    assert kept.manifest == {"apiVersion": "apps/v1", "kind": "Deployment", **sent}
    assert Kept.of({"apiVersion": "apps/v1", "kind": "Deployment", **sent}) == kept


async def test_object_without_a_work_is_read_when_needed(kind: Kind, given: Works) -> None:
    key = ObjectKey("apps", "deployments", *PLACE)
    raw = msgspec.Raw(msgspec.json.encode(state("7", "x")))
    reading = kind._reading
    given.without.add(key)
    reading.begin()
    assert reading.read(raw, "apps/v1", "Deployment") is None
    kind.listed([])
    assert PLACE not in kind.live
    assert kind.has_to_be_read(PLACE)
    assert not kind.has_to_be_read(("default", "other"))
    given.without.clear()
    kind.was_read(PLACE, state("7", "x"))
    assert kind.live[PLACE]["text"] == "x"
    assert not kind.has_to_be_read(PLACE)


async def test_beyond_a_bound_every_object_is_read(kind: Kind) -> None:
    kind.list_begins()
    for number in range(UNCLAIMED + 1):
        kind.not_given(("default", f"o{number}"))
    kind.was_read(("default", "o1"), None)
    assert kind.has_to_be_read(("default", "never seen"))
    kind.list_begins()
    kind.listed([])
    assert not kind.has_to_be_read(("default", "never seen"))


async def test_object_beyond_the_budget_is_kept_by_version(kind: Kind, touched: list[ObjectKey]) -> None:
    kind.listed([seen("10", "x" * 30_000)])
    assert PLACE not in kind.live
    assert kind.has_to_be_read(PLACE)
    touched.clear()
    kind.changed("MODIFIED", seen("10", "x" * 30_000))
    assert touched == []
    kind.changed("MODIFIED", seen("11", "small"))
    assert kind.live[PLACE]["text"] == "small"
    kind.changed("MODIFIED", seen("12", "x" * 30_000))
    assert kind.has_to_be_read(PLACE)
    kind.changed("DELETED", seen("13", "small"))
    assert not kind.has_to_be_read(PLACE)
    assert PLACE not in kind.live


async def test_list_replaces_the_counted_bytes(kind: Kind) -> None:
    for version in range(10, 20):
        reading = kind._reading
        reading.begin()
        found = reading.read(msgspec.Raw(msgspec.json.encode(state(str(version), "x" * 500))), "apps/v1", "Deployment")
        assert found is not None
        kind.listed([found])
        assert len(kind.live) == 1


async def test_object_whose_work_ended_is_forgotten(kind: Kind, given: Works) -> None:
    kind.listed([seen("10", "x")])
    given.without.add(ObjectKey("apps", "deployments", *PLACE))
    raw = msgspec.Raw(msgspec.json.encode(state("11", "y")))
    assert kind._reading.read(raw, "apps/v1", "Deployment") is None
    assert PLACE not in kind.live
