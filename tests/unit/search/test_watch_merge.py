"""The watches of several clusters as one: versions, marks, bookmarks and the end of what there was at the beginning."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services._kit.kube.api import BadAnswer
from services.apiserver.reads.negotiation import Form
from services.search.registries.member_facts import Gvr
from services.search.union.object_forms import ObjectForms
from services.search.union.provenance_marks import CACHED_FROM
from services.search.union.selector_filter import SelectorFilter
from services.search.union.version_map import VersionMap, read_version
from services.search.union.watch_merge import WatchMerge

# A machine under load draws slowly.
cases = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])

PODS = Gvr("", "v1", "pods")
ALL = SelectorFilter("", "")
CLUSTERS = ("member1", "member2")
END = {"k8s.io/initial-events-end": "true"}


def merge(versions: VersionMap | None = None, view: str = "", **options: bool) -> WatchMerge:
    forms = ObjectForms(PODS, Form(view=view), "", lambda: dt.datetime(2026, 1, 1, tzinfo=dt.UTC))
    return WatchMerge(CLUSTERS, versions or VersionMap(), forms, **options)


def line(kind: str, name: str = "a", version: str = "1", **metadata: Any) -> bytes:
    shown = (
        {"name": name, "resourceVersion": version, **metadata}
        if kind != "BOOKMARK"
        else {"resourceVersion": version, **metadata}
    )
    return json.dumps({"type": kind, "object": {"kind": "Pod", "apiVersion": "v1", "metadata": shown}}).encode()


def events(*frames: bytes) -> list[dict[str, Any]]:
    return [json.loads(each) for frame in frames for each in frame.splitlines()]


def versions_of(event: dict[str, Any]) -> dict[str, str]:
    return dict(read_version(event["object"]["metadata"]["resourceVersion"]).clusters)


def test_events_carry_the_versions_of_all_clusters_so_far() -> None:
    merged = merge(VersionMap({"member1": "10", "member2": "20", "gone": "5"}))
    first, second = events(
        merged.frame("member2", line("ADDED", version="21"), ALL),
        merged.frame("member1", line("DELETED", version="11"), ALL),
    )
    assert versions_of(first) == {"member1": "10", "member2": "21"}
    assert versions_of(second) == {"member1": "11", "member2": "21"}
    assert (second["type"], second["object"]["metadata"]["annotations"]) == ("DELETED", {CACHED_FROM: "member1"})


@pytest.mark.parametrize("versions", [VersionMap(), VersionMap(zero=True)])
def test_versions_begin_with_what_is_seen(versions: VersionMap) -> None:
    (event,) = events(merge(versions).frame("member1", line("ADDED", version="7"), ALL))
    assert versions_of(event) == {"member1": "7"}


def test_bookmarks_move_the_version_of_their_cluster() -> None:
    merged = merge(VersionMap({"member1": "1", "member2": "2"}))
    (mark,) = events(merged.frame("member2", line("BOOKMARK", version="99"), ALL))
    assert mark["type"] == "BOOKMARK"
    assert versions_of(mark) == {"member1": "1", "member2": "99"}
    assert "annotations" not in mark["object"]["metadata"]


def test_bookmarks_that_were_not_asked_for_still_move_versions() -> None:
    merged = merge(bookmarks=False)
    assert merged.frame("member2", line("BOOKMARK", version="99"), ALL) == b""
    (event,) = events(merged.frame("member1", line("ADDED", version="1"), ALL))
    assert versions_of(event) == {"member1": "1", "member2": "99"}


def test_the_beginning_ends_with_its_last_cluster() -> None:
    merged = merge(initial=True)
    assert merged.frame("member1", line("BOOKMARK", version="5", annotations=END), ALL) == b""
    assert merged.frame("member1", line("BOOKMARK", version="6"), ALL) == b""
    (mark,) = events(merged.frame("member2", line("BOOKMARK", version="9", annotations=END), ALL))
    assert mark["object"]["metadata"]["annotations"] == END
    assert versions_of(mark) == {"member1": "6", "member2": "9"}
    (later,) = events(merged.frame("member2", line("BOOKMARK", version="10"), ALL))
    assert "annotations" not in later["object"]["metadata"]


def test_objects_out_of_scope_move_versions_and_are_not_sent() -> None:
    merged = merge()
    scope = ALL.within(frozenset(("shop",)))
    assert merged.frame("member1", line("ADDED", version="3", namespace="bank"), scope) == b""
    (event,) = events(merged.frame("member1", line("ADDED", "b", "4", namespace="shop"), scope))
    assert event["object"]["metadata"]["name"] == "b"
    (node,) = events(merged.frame("member1", line("ADDED", "c", "5"), scope))
    assert node["object"]["metadata"]["name"] == "c", "what has no namespace is in every scope"


def test_an_error_ends_the_watch_as_it_came() -> None:
    merged = merge()
    status = {"kind": "Status", "code": 410, "metadata": {}}
    (event,) = events(merged.frame("member1", json.dumps({"type": "ERROR", "object": status}).encode(), ALL))
    assert (event["object"], merged.ended) == (status, True)


def test_tables_have_their_columns_once() -> None:
    merged = merge(view="Table")
    first, second, mark = events(
        merged.frame("member1", line("ADDED", "a"), ALL),
        merged.frame("member2", line("ADDED", "b"), ALL),
        merged.frame("member2", line("BOOKMARK", version="9"), ALL),
    )
    assert first["object"]["columnDefinitions"]
    assert not second["object"]["columnDefinitions"]
    assert versions_of(second) == {"member1": "1", "member2": "1"}
    assert (mark["object"]["kind"], mark["object"]["rows"]) == ("Table", [])


def test_metadata_alone_is_sent() -> None:
    (event,) = events(merge(view="PartialObjectMetadata").frame("member1", line("ADDED"), ALL))
    assert event["object"]["kind"] == "PartialObjectMetadata"
    assert event["object"]["metadata"]["annotations"] == {CACHED_FROM: "member1"}


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{}",
        b"[]",
        b'{"type":"X","object":{}}',
        b'{"type":"ADDED","object":1}',
        b'{"type":"ADDED","object":{"metadata":1}}',
        b'{"type":"ADDED","object":{"metadata":{"resourceVersion":1}}}',
        b"\xff",
    ],
)
def test_what_is_no_event_is_a_bad_answer(raw: bytes) -> None:
    with pytest.raises(BadAnswer):
        merge().frame("member1", raw, ALL)


steps = st.lists(
    st.tuples(st.sampled_from(CLUSTERS), st.sampled_from(("ADDED", "BOOKMARK")), st.integers(1, 999)), max_size=20
)


@cases
@given(steps)
def test_the_last_version_holds_the_last_of_every_cluster(found: list[tuple[str, str, int]]) -> None:
    merged, last = merge(), {}
    for cluster, kind, version in found:
        (event,) = events(merged.frame(cluster, line(kind, version=str(version)), ALL))
        last[cluster] = str(version)
        assert versions_of(event) == last


@pytest.mark.parametrize(
    ("label", "field", "taken"),
    [
        ("", "", True),
        ("tier=web", "", True),
        ("tier!=web", "", False),
        ("tier in (web,db),!gone", "metadata.name=a", True),
        ("", "metadata.name!=a", False),
        ("", "metadata.namespace=shop,metadata.name=a", True),
        ("", "metadata.namespace=bank", False),
    ],
)
def test_selectors_test_objects(label: str, field: str, taken: bool) -> None:
    shown = {"metadata": {"name": "a", "namespace": "shop", "labels": {"tier": "web"}}}
    selectors = SelectorFilter(label, field)
    assert selectors.evaluable
    assert selectors.takes(json.dumps(shown).encode()) is taken
    assert not selectors.within(frozenset(("bank",))).takes(json.dumps(shown).encode())


def test_other_fields_are_for_the_member_to_test() -> None:
    assert not SelectorFilter("", "spec.nodeName=n1").evaluable
