"""The index at a tenth of its full size: 200,000 pods of 100 members, what they take, and what pages show of them.

Memory is what can be reached from the index, counted object by object: the resident size of a process depends on what
it did before, and tracing every allocation takes longer than filling the index. `just bench-search` measures the
resident size of a process of its own, at a tenth and at the full size.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import AsyncIterator, Callable
from itertools import pairwise
from typing import Final

import msgspec
import pytest

from services.search.http import cache_answers, query_answers
from services.search.http.query_answers import MOST, QueryAnswers
from services.search.index.cached_from import CACHED_FROM
from services.search.index.member_index import MemberIndex, Shelf
from services.search.index.member_part import MemberPart, Stored, key_of
from services.search.index.object_shapes import Shape
from services.search.registries.member_facts import Gvr
from tests.support.deep_size import deep_size
from tests.support.fleet_pods import FleetPod, fleet_pods

PODS: Final = Gvr("", "v1", "pods")
CLUSTERS: Final = 100
EACH: Final = 2_000
FULL: Final = 2_000_000
FULL_BYTES: Final = 8 << 30


class _Metadata(msgspec.Struct):
    name: str
    namespace: str
    annotations: dict[str, str]


class _Pod(msgspec.Struct):
    metadata: _Metadata

    @property
    def place(self) -> tuple[str, str]:
        """Its member and key."""
        return self.metadata.annotations[CACHED_FROM], key_of(self.metadata.namespace, self.metadata.name)


class _ListMeta(msgspec.Struct, rename={"token": "continue"}):
    token: str = ""


class _Page(msgspec.Struct):
    metadata: _ListMeta
    items: list[_Pod]

    @property
    def places(self) -> list[tuple[str, str]]:
        """Of all its objects."""
        return [pod.place for pod in self.items]


_page = msgspec.json.Decoder(_Page)
Test = Callable[[str, FleetPod], bool]


class Fleet:
    """The index, and what is asked of it as it is asked over HTTP."""

    def __init__(self) -> None:
        self.index = MemberIndex()
        self.shelf: Shelf = self.index.shelf(PODS)
        self.answers = QueryAnswers(self.index)
        self.pods: dict[tuple[str, str], FleetPod] = {}
        """What was put into it."""
        self.text = 0
        self._shapes: dict[tuple[str, str], Shape] = {}

    def fill(self, part: MemberPart, seed: int, count: int = EACH) -> list[FleetPod]:
        """Put pods into a part: packed one by one, as those that are listed."""
        mark = b'"annotations":{"%s":"%s",' % (CACHED_FROM.encode(), part.cluster.encode())
        pods = list(fleet_pods(part.cluster, count, random.Random(f"{part.cluster}/{seed}")))
        for pod in pods:
            marked = pod.text.replace(b'"annotations":{', mark, 1)
            self.text += len(marked)
            part.put(pod.key, Stored(self.shelf.packing.pack(marked), self._shape(pod)))
        return pods

    def _shape(self, pod: FleetPod) -> Shape:
        named = pod.workload.app, pod.phase
        found = self._shapes.get(named)
        if found is None:
            found = self._shapes[named] = self.shelf.shapes.of(msgspec.json.decode(pod.text))
        return found

    def show(self, cluster: str) -> None:
        """Replace what is shown of a member by its list."""
        part = self.shelf.new_part(cluster, "Pod")
        for pod in self.fill(part, 0):
            pod.text = b""
            self.pods[cluster, pod.key] = pod
        self.shelf.show(part)

    async def page(self, query: str, token: str = "", limit: int = 500) -> _Page:
        """One page."""
        answer = await self.answers.answer({"query": query, "continue": token, "limit": str(limit)})
        assert isinstance(answer.body, bytes)
        return _page.decode(answer.body)

    async def walk(self, query: str, limit: int) -> AsyncIterator[_Page]:
        """All pages."""
        page = await self.page(query, "", limit)
        yield page
        while token := page.metadata.token:
            page = await self.page(query, token, limit)
            yield page

    def wanted(self, test: Test) -> list[tuple[str, str]]:
        """Member and key of all pods that pass, in order, by looking at every one."""
        return sorted((cluster, key) for (cluster, key), pod in self.pods.items() if test(cluster, pod))


def named(number: int) -> str:
    return f"member-{number:04}"


@pytest.fixture(scope="module")
def fleet() -> Fleet:
    """Filled once: a test that changes it puts it back."""
    made = Fleet()
    for number in range(CLUSTERS):
        made.show(named(number))
    return made


def test_full_size_fits_into_eight_gigabytes(fleet: Fleet) -> None:
    count = CLUSTERS * EACH
    assert fleet.index.objects == count
    assert fleet.text / count > 3_000, "pods are as large as real ones"
    size = deep_size(fleet.index)
    assert size / count * FULL < FULL_BYTES / 2, "half of it is left for what the service does besides"
    assert size < fleet.text / 4
    assert size / 1.5 < fleet.index.bytes < size * 1.5, "the metric says what it takes"


async def test_pages_of_all_objects_have_each_once(fleet: Fleet) -> None:
    seen: Counter[str] = Counter()
    last = ("", "")
    async for page in fleet.walk("kind=Pod", MOST):
        places = page.places
        assert all(one < other for one, other in pairwise([last, *places]))
        seen.update(cluster for cluster, _ in places)
        last = places[-1] if places else last
    assert seen == {named(number): EACH for number in range(CLUSTERS)}


async def test_relist_while_reading_shows_all_that_stays(fleet: Fleet) -> None:
    cluster, before = named(50), dict(fleet.shelf.parts[named(50)].objects)
    query = "kind=Pod cluster=member-0049,member-0050,member-0051"
    part = fleet.shelf.new_part(cluster, "Pod")
    try:
        fleet.fill(part, 1, EACH // 2)
        for key in sorted(before)[: EACH // 2]:
            part.put(key, before[key])
        came = part.objects.keys() - before.keys()
        assert (await fleet.page(f"kind=Pod cluster={cluster}", limit=1)).items, "an unfinished list empties nothing"
        places: list[tuple[str, str]] = []
        async for page in fleet.walk(query, 300):
            places += page.places
            if fleet.shelf.parts[cluster] is not part and places[-1][0] == cluster:
                fleet.shelf.show(part)
        assert fleet.shelf.parts[cluster] is part
        counted = Counter(places)
        assert set(counted.values()) == {1}, "no object is shown twice"
        assert Counter(name for name, _ in places)[named(49)] == Counter(name for name, _ in places)[named(51)] == EACH
        shown = {key for name, key in places if name == cluster}
        assert before.keys() & part.objects.keys() <= shown <= before.keys() | came
    finally:
        fleet.show(cluster)


async def test_pages_end_when_they_took_their_time(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_answers, "HELD_SECONDS", 0.0)
    monkeypatch.setattr(cache_answers, "_TURN_SECONDS", 0.0)
    pages = [page async for page in fleet.walk("cluster=member-0001,member-0003,member-0005 phase=Failed", 500)]
    assert len(pages) > 3
    found = [place for page in pages for place in page.places]
    wanted = {named(1), named(3), named(5)}
    assert found == fleet.wanted(lambda cluster, pod: cluster in wanted and pod.phase == "Failed")
