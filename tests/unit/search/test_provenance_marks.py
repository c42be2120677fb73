"""Objects carry the cluster that they come from; what clients send back reaches the member without a trace of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services._kit.kube.api import BadAnswer
from services.search.union.provenance_marks import CACHED_FROM, OtherCluster, marked, unmarked, version_of
from services.search.union.version_map import VersionMap

# A machine under load draws slowly.
cases = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


def pod(**metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", **metadata}, "spec": {"x": [1, 2.50]}}


def raw(document: object) -> bytes:
    return json.dumps(document).encode()


def test_an_object_is_marked_with_its_cluster() -> None:
    found = json.loads(marked(raw(pod(resourceVersion="5", annotations={"a": "b"})), "member1"))
    assert found == pod(resourceVersion="5", annotations={"a": "b", CACHED_FROM: "member1"})


@pytest.mark.parametrize("annotations", [None, {}])
def test_an_object_without_annotations_is_marked(annotations: dict[str, str] | None) -> None:
    found = json.loads(marked(raw(pod(annotations=annotations)), "member1"))
    assert found["metadata"]["annotations"] == {CACHED_FROM: "member1"}


def test_a_mark_that_a_member_sends_is_replaced() -> None:
    found = json.loads(marked(raw(pod(annotations={CACHED_FROM: "bank"})), "member1", "v"))
    assert found["metadata"]["annotations"] == {CACHED_FROM: "member1"}
    assert found["metadata"]["resourceVersion"] == "v"


def test_everything_else_stays_as_the_member_sent_it() -> None:
    body = b'{"metadata":{"name":"a","generation":12345678901234567890123},"spec":{"f": 1.0e2, "f2":1.50}}'
    found = marked(body, "member1")
    assert b'{"f": 1.0e2, "f2":1.50}' in found
    assert b'"generation":12345678901234567890123' in found


@pytest.mark.parametrize("body", [b"", b"[]", b"1", b'{"metadata":3}', b'{"metadata":{"annotations":{"a":1}}}', b"{"])
def test_what_is_no_object_is_a_bad_answer(body: bytes) -> None:
    with pytest.raises(BadAnswer):
        marked(body, "member1")


@pytest.mark.parametrize(("body", "version"), [(raw(pod(resourceVersion="5")), "5"), (raw(pod()), ""), (b"{}", "")])
def test_version_is_read(body: bytes, version: str) -> None:
    assert version_of(body) == version


def test_a_version_that_is_no_text_is_a_bad_answer() -> None:
    with pytest.raises(BadAnswer):
        version_of(raw(pod(resourceVersion=5)))


def test_unmarking_takes_mark_and_version_back() -> None:
    sent = pod(resourceVersion="5", annotations={"a": "b"})
    shown = marked(raw(sent), "member1", VersionMap({"member1": "5", "member2": "9"}).text())
    assert json.loads(unmarked(shown, "member1")) == sent


def test_the_last_annotation_goes_with_its_field() -> None:
    found = json.loads(unmarked(raw(pod(annotations={CACHED_FROM: "member1"})), "member1"))
    assert found == pod()


@pytest.mark.parametrize(
    "body",
    [
        raw(pod(resourceVersion="12345")),
        raw(pod(resourceVersion="0")),
        raw(pod(resourceVersion="")),
        raw(pod(annotations={"a": "b"})),
        raw({"apiVersion": "v1"}),
        raw(pod(resourceVersion=7)),
        b"not json",
        b"k8s\x00protobuf",
        b"[" * 100_000,
        b"",
    ],
)
def test_other_bodies_are_passed_on_as_they_are(body: bytes) -> None:
    assert unmarked(body, "member1") == body


def test_an_object_of_another_cluster_overwrites_nothing() -> None:
    shown = marked(raw(pod()), "member2", VersionMap({"member2": "9"}).text())
    with pytest.raises(OtherCluster, match="member2"):
        unmarked(shown, "member1")


@cases
@given(json_values, st.dictionaries(st.text(max_size=5), st.text(max_size=5), min_size=1, max_size=3))
def test_marks_come_off_as_they_went_on(spec: Any, annotations: dict[str, str]) -> None:
    sent = {"metadata": {"name": "a", "resourceVersion": "5", "annotations": annotations}, "spec": spec}
    shown = marked(raw(sent), "member1", VersionMap({"member1": "5"}).text())
    assert json.loads(unmarked(shown, "member1")) == sent


@cases
@given(st.binary(max_size=100))
def test_no_body_breaks_unmarking(body: bytes) -> None:
    assert unmarked(body, "member1") == body
