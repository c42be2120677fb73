"""A list over clusters: who is asked for how much, and where the next page begins."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.search.union.list_walk import ListWalk, PageRequest
from services.search.union.page_token import PageToken
from services.search.union.version_map import VersionMap

# A machine under load draws slowly.
cases = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])

CLUSTERS = ["member2", "member1", "member3"]


def test_clusters_are_asked_in_order_for_what_is_left() -> None:
    walk = ListWalk(CLUSTERS, 5, VersionMap())
    assert walk.request() == PageRequest("member1", 5)
    walk.took(2, "", "10")
    assert walk.request() == PageRequest("member2", 3)
    walk.took(3, "go on", "20")
    assert walk.request() is None
    assert walk.token == PageToken(VersionMap({"member1": "10", "member2": "20"}), "member2", "go on")
    assert walk.unvisited == ["member3"]


def test_a_page_that_ends_with_a_cluster_goes_on_with_the_next() -> None:
    walk = ListWalk(CLUSTERS, 2, VersionMap())
    walk.took(2, "", "10")
    assert walk.request() is None
    assert walk.token == PageToken(VersionMap({"member1": "10"}), "member2")
    assert walk.unvisited == ["member2", "member3"]


def test_the_last_page_has_no_token() -> None:
    walk = ListWalk(["member1"], 2, VersionMap())
    walk.took(2, "", "10")
    assert walk.request() is None
    assert walk.token is None


def test_versions_of_later_clusters_are_learnt() -> None:
    walk = ListWalk(CLUSTERS, 1, VersionMap())
    walk.took(1, "", "10")
    for cluster in walk.unvisited:
        walk.learnt(cluster, f"{cluster}-v")
    walk.learnt("member3", "")
    assert walk.versions.clusters == {"member1": "10", "member2": "member2-v", "member3": "member3-v"}


def test_the_next_page_reads_the_versions_of_the_first() -> None:
    token = PageToken(VersionMap({"member1": "10", "member2": "20", "member3": "30"}), "member2", "go on")
    walk = ListWalk(CLUSTERS, 5, VersionMap(), token)
    assert walk.request() == PageRequest("member2", 5, "go on")
    walk.took(1, "", "20")
    assert walk.request() == PageRequest("member3", 4, "", "30")
    walk.took(1, "", "30")
    assert walk.token is None
    assert walk.versions == token.versions


def test_a_cluster_that_left_is_passed_over() -> None:
    token = PageToken(VersionMap({"member1": "10", "member2": "20"}), "member2", "go on")
    walk = ListWalk(["member1", "member3"], 5, VersionMap(), token)
    assert walk.request() == PageRequest("member3", 5)
    walk.took(0, "", "30")
    assert walk.versions.clusters == {"member1": "10", "member3": "30"}


def test_a_cluster_that_came_earlier_has_no_version() -> None:
    token = PageToken(VersionMap({"member2": "20"}), "member2")
    walk = ListWalk(["member0", "member2"], 5, VersionMap(), token)
    walk.took(1, "", "20")
    assert "member0" not in walk.versions.clusters
    assert walk.unvisited == []


def test_versions_asked_for_are_asked_of_each_cluster() -> None:
    walk = ListWalk(CLUSTERS, 5, VersionMap({"member1": "7"}))
    assert walk.request() == PageRequest("member1", 5, "", "7")
    walk.took(1, "", "8")
    assert walk.request() == PageRequest("member2", 4)


def test_a_large_page_is_read_from_a_member_in_parts() -> None:
    walk = ListWalk(["member1", "member2"], 25, VersionMap(), most=10)
    assert walk.request() == PageRequest("member1", 10)
    walk.took(10, "a", "10")
    assert walk.request() == PageRequest("member1", 10, "a")
    walk.took(10, "b", "10")
    assert walk.request() == PageRequest("member1", 5, "b")
    walk.took(5, "c", "10")
    assert walk.request() is None
    assert walk.token == PageToken(VersionMap({"member1": "10"}), "member1", "c")


def test_without_a_limit_everything_is_read() -> None:
    walk = ListWalk(["member1", "member2"], 0, VersionMap(), most=10)
    walk.took(10, "a", "10")
    assert walk.request() == PageRequest("member1", 10, "a")
    walk.took(1, "", "10")
    assert walk.request() == PageRequest("member2", 10)
    walk.took(0, "", "20")
    assert walk.token is None


def test_a_member_that_ignores_the_limit_ends_the_page() -> None:
    walk = ListWalk(["member1", "member2"], 5, VersionMap())
    walk.took(90, "", "10")
    assert walk.request() is None
    assert walk.token is not None


@pytest.mark.parametrize("limit", [0, 3])
def test_without_clusters_nothing_is_asked(limit: int) -> None:
    walk = ListWalk([], limit, VersionMap())
    assert walk.request() is None
    assert walk.token is None
    assert walk.versions.empty


@cases
@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.integers(1, 12), st.integers(1, 5))
def test_pages_hold_every_object_once_in_order(sizes: list[int], limit: int, most: int) -> None:
    stock = {f"member{place}": [f"member{place}-{n}" for n in range(size)] for place, size in enumerate(sizes)}
    found: list[str] = []
    token: PageToken | None = None
    for _ in range(100):
        walk = ListWalk(list(stock), limit, VersionMap(), token, most)
        page = 0
        while (request := walk.request()) is not None:
            begin = int(request.member_token or 0)
            items = stock[request.cluster][begin : begin + request.limit]
            more = begin + len(items) < len(stock[request.cluster])
            found += items
            page += len(items)
            walk.took(len(items), str(begin + len(items)) if more else "", "1")
        assert page <= limit
        token = walk.token
        if token is None:
            break
    assert found == [item for cluster in sorted(stock) for item in stock[cluster]]
