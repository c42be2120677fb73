"""What is folded holds one instance of what many events repeat, and no message for the sake of a manifest in it."""

from __future__ import annotations

from sys import getrefcount
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from schemas.codec import DecodeError, Known, decode, encode, subject_of
from schemas.events.cluster import ClusterChanged
from schemas.events.observed import WorkObserved
from schemas.events.rollup import ClusterStatusItem, StatusRolledUp
from schemas.events.work import WorkRendered
from services._kit.runtime.interning import decoded
from tests.support.facts import KEY, binding, cluster, placement, template

STATUS = Raw(b'{"replicas":1}')
WORK = WorkRendered(
    cluster="m1",
    key=KEY,
    uid="u1",
    api_version="apps/v1",
    kind="Deployment",
    digest="digest-of-it",
    manifest=Raw(b'{"kind":"Deployment","metadata":{"name":"nginx"}}'),
)
SEEN = WorkObserved(cluster="m1", key=KEY, uid="u1", digest="digest-of-it", applied=True, status=STATUS)
SUM = StatusRolledUp(
    key=KEY,
    uid="u1",
    items=(ClusterStatusItem(cluster="m1", applied=True, health="Healthy", status=STATUS),),
)
EVERYTHING: list[Known] = [template(), binding(2), placement(m1=1, m2=1), WORK, SEEN, SUM, cluster("m1")]


def read(event: Known) -> Any:
    """An event as it comes from the log."""
    return decoded(subject_of(event), encode(event))


@pytest.mark.parametrize("event", EVERYTHING, ids=lambda event: type(event).__name__)
def test_nothing_is_lost(event: Known) -> None:
    assert encode(read(event)) == encode(decode(subject_of(event), encode(event)))


def test_facets_of_one_object_share_its_names() -> None:
    work, seen, summed = read(WORK), read(SEEN), read(SUM)
    assert work.key is seen.key is summed.key
    assert work.uid is seen.uid is summed.uid
    assert work.digest is seen.digest
    assert work.cluster is seen.cluster is summed.items[0].cluster
    other = read(msgspec.structs.replace(WORK, key=msgspec.structs.replace(KEY, name="other")))
    assert other.key.namespace is work.key.namespace


WITH_JSON: list[Known] = [template(), binding(2), WORK, SEEN, SUM, cluster("m1")]


@pytest.mark.parametrize("event", WITH_JSON, ids=lambda event: type(event).__name__)
def test_json_does_not_keep_its_message_alive(event: Known) -> None:
    subject, data = subject_of(event), encode(event)
    alone = getrefcount(data)
    kept = decoded(subject, data)
    assert getrefcount(data) == alone
    held = decode(subject, data)
    assert getrefcount(data) > alone, "this is what it is about"
    assert encode(kept) == encode(held)


def test_names_that_are_remembered_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services._kit.runtime.interning._MOST", 50)
    from services._kit.runtime import interning as lean

    for number in range(200):
        read(msgspec.structs.replace(SEEN, uid=f"uid-{number}"))
        assert len(lean._known) <= 50 + 12


def test_what_cannot_be_read_is_still_told() -> None:
    with pytest.raises(DecodeError):
        decoded("work.m1.deployments=2Eapps.default.nginx", b'{"type":"WorkRendered.v1"}')


def test_a_cluster_has_its_manifest() -> None:
    event = read(cluster("m1"))
    assert isinstance(event, ClusterChanged)
    assert msgspec.json.decode(event.manifest)["metadata"]["name"] == "m1"
