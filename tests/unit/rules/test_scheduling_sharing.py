"""Bindings with equal placements share them, and read the same as without sharing."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import Raw

from services._rules.scheduling.shared_values import shared_raw, spec_of

PLACEMENT = {"clusterAffinity": {"clusterNames": ["m1", "m2"]}}
REQUEST = {"resourceRequest": {"cpu": "100m"}}


def spec(name: str, **more: object) -> bytes:
    content = {"resource": {"name": name}, "replicas": 3, "placement": PLACEMENT, "replicaRequirements": REQUEST}
    return msgspec.json.encode({**content, **more})


def test_a_spec_reads_as_it_is_written() -> None:
    for text in (spec("a"), spec("b", failover=None, suspension={"dispatching": True}), b"{}"):
        assert spec_of(text) == spec_of(Raw(text)) == msgspec.json.decode(text)


def test_equal_parts_of_bindings_are_shared() -> None:
    one, other = spec_of(spec("a")), spec_of(spec("b", replicas=4))
    assert one["placement"] is other["placement"]
    assert one["replicaRequirements"] is other["replicaRequirements"]
    assert (one["resource"], other["resource"]) == ({"name": "a"}, {"name": "b"})
    assert (one["replicas"], other["replicas"]) == (3, 4)


def test_spec_that_is_no_object_is_refused() -> None:
    with pytest.raises(msgspec.DecodeError):
        spec_of(b"[1]")


def test_equal_raw_texts_are_shared_without_their_message() -> None:
    class Message(msgspec.Struct):
        placement: Raw

    texts = [
        msgspec.json.decode(b'{"placement": {"a": 1}, "n": %d}' % number, type=Message).placement for number in (1, 2)
    ]
    assert texts[0] is not texts[1]
    assert shared_raw(texts[0]) is shared_raw(texts[1])
    assert bytes(shared_raw(texts[0])) == b'{"a": 1}'
