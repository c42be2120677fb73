"""What `get` makes of members that answer with anything: an error of that member, and no harm to the terminal."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from msgspec import Raw

from services._kit.kube.client import ApiResource, KubeClient, WatchEvent
from services.cli.common.printing import table
from services.cli.common.running import Failed, complain
from services.cli.listing.listing_options import Query
from services.cli.listing.merged_tables import Look
from services.cli.listing.object_reading import Asked, Found, ask
from services.cli.listing.watching import follow
from services.cli.members.clusters import Endpoint

PODS = ApiResource(name="pods", kind="Pod", version="v1", namespaced=True)
GOOD = {
    "kind": "Table",
    "metadata": {"resourceVersion": "5"},
    "columnDefinitions": [{"name": "Name"}],
    "rows": [{"cells": ["web"], "object": {"metadata": {"name": "web", "resourceVersion": "5"}}}],
}


class _Member:
    def __init__(self, answer: Any, *events: Any) -> None:
        self._answer = answer
        self._events = events

    async def get(self, *_: object, **__: object) -> Any:
        return self._answer

    async def watch(self, *_: object, **__: object) -> AsyncIterator[list[WatchEvent]]:
        for kind, found in self._events:
            yield [WatchEvent(kind, Raw(json.dumps(found).encode()))]


def member(name: str, answer: Any, *events: Any) -> Endpoint:
    return Endpoint(name, cast("KubeClient", _Member(answer, *events)))


@pytest.mark.parametrize(
    "answer",
    [
        {"kind": "Table", "columnDefinitions": [{"name": 1}], "rows": []},
        {"kind": "Table", "columnDefinitions": [], "rows": [{"cells": {"a": 1}}]},
        {"kind": "Table", "rows": ["x"]},
        {"kind": "Table", "rows": [{"cells": [], "object": {"metadata": {"name": "a", "labels": "x"}}}]},
        {"kind": "PodList", "items": [{}]},
        {"kind": "PodList", "items": "many"},
        {"kind": "Pod"},
        {"kind": "Pod", "metadata": {"name": {}}},
    ],
)
async def test_an_answer_of_another_shape_is_that_members_error(answer: Any) -> None:
    endpoints = [member("bad", answer), member("good", GOOD)]
    bad, good = await ask(endpoints, Asked(PODS, (), "pods"), "default", Query(words=("pods",)))
    assert not bad.answers
    assert bad.troubles[0].startswith("error: cluster(bad): the answer cannot be used: ")
    assert good.answers
    assert not good.troubles


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (("ADDED", [1]), "no object"),
        (("ADDED", {"kind": "Table", "rows": [{"cells": 1}]}), "it is no Table"),
        (("ERROR", {"code": "x", "reason": "Broken", "message": "no more"}), "no more"),
    ],
)
async def test_a_watch_that_sends_anything_ends_with_an_error(event: tuple[str, Any], said: str) -> None:
    endpoint = member("bad", GOOD, event)
    query = Query(words=("pods",), watch_only=True)
    with pytest.raises(Failed, match=said):
        await follow(Asked(PODS, (), "pods"), [Found(endpoint, (GOOD,))], "default", query, Look())


def test_control_characters_of_others_do_not_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert table(("name",), [["a\x1b]0;title\x07b\nc"]]) == "NAME\na^[]0;title^Gb\\nc\n"
    complain("error: cluster(m): \x1b[2Jgone\r")
    assert capsys.readouterr().err == "error: cluster(m): ^[[2Jgone^M\n"
