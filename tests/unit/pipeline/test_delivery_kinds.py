"""What a lane takes for the live object while answers to writes and the watch overtake one another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from schemas.keys import ObjectKey
from services._kit.delivery.kinds import Kind
from services._kit.kube import ApiResource

Manifest = dict[str, Any]
PLACE = ("default", "web")


class _SilentClient:
    """An API server that never answers: what is seen comes from the test."""

    async def request(self, *_: object, **__: object) -> bytes:
        await asyncio.Event().wait()
        return b""


@pytest.fixture
async def touched() -> list[ObjectKey]:
    return []


@pytest.fixture
async def kind(touched: list[ObjectKey]) -> AsyncIterator[Kind]:
    resource = ApiResource(name="deployments", kind="Deployment", namespaced=True, group="apps", version="v1")
    made = Kind(_SilentClient(), resource, touched.append)  # type: ignore[arg-type]  # all of it that is used
    yield made
    made.close()


def state(version: str, text: str) -> Manifest:
    return {"metadata": {"namespace": "default", "name": "web", "resourceVersion": version}, "text": text}


async def test_a_late_answer_does_not_replace_what_the_watch_told_after_it(kind: Kind) -> None:
    kind.listed([state("10", "before")])
    kind.changed("MODIFIED", state("11", "our write"))
    kind.changed("MODIFIED", state("12", "a status after our write"))
    kind.written(state("11", "our write"))
    assert kind.live[PLACE]["text"] == "a status after our write"


async def test_an_answer_ahead_of_the_watch_counts_and_older_news_do_not_undo_it(
    kind: Kind, touched: list[ObjectKey]
) -> None:
    kind.listed([state("10", "before")])
    kind.written(state("12", "our write"))
    touched.clear()
    kind.changed("MODIFIED", state("11", "older"))
    kind.changed("MODIFIED", state("12", "our write"))
    assert kind.live[PLACE]["text"] == "our write"
    assert touched == []


async def test_a_deletion_told_before_the_answer_stays(kind: Kind) -> None:
    kind.listed([])
    kind.changed("ADDED", state("11", "created by us"))
    kind.changed("DELETED", state("12", "created by us"))
    kind.written(state("11", "created by us"))
    assert PLACE not in kind.live


async def test_a_new_list_is_believed_whatever_its_versions(kind: Kind) -> None:
    kind.listed([state("500", "before the store was restored")])
    kind.changed("MODIFIED", state("510", "before the store was restored"))
    kind.listed([state("20", "restored")])
    kind.written(state("21", "our write"))
    assert kind.live[PLACE]["text"] == "our write"


async def test_versions_that_are_no_numbers_only_tell_equal_from_different(kind: Kind) -> None:
    kind.listed([state("a", "first")])
    kind.changed("MODIFIED", state("b", "second"))
    kind.changed("MODIFIED", state("b", "an echo"))
    assert kind.live[PLACE]["text"] == "second"
