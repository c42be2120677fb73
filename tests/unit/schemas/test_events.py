"""Events keep their bytes for ever: what is on a log today is read the same by every later version."""

from __future__ import annotations

from pathlib import Path
from typing import get_args
from uuid import uuid5

import msgspec
import pytest

from schemas import codec, generate
from schemas.envelope import NAMESPACE, Event, Provenance, event_id, named_id
from schemas.events.placement import PlacementDecided, TargetCluster
from schemas.explained import PlacementExplained
from schemas.keys import ObjectKey
from schemas.topology import STREAMS, SUBJECTS

GOLDEN = Path(__file__).parents[2] / "golden" / "events"
KEY = ObjectKey("apps", "deployments", "default", "nginx")


def all_events() -> list[type[Event]]:
    found: list[type[Event]] = []
    for union in codec.UNIONS.values():
        found.extend(get_args(union) or (union,))
    return found


@pytest.mark.parametrize("kind", all_events(), ids=lambda kind: kind.__name__)
def test_recorded_events_read_and_write_the_same(kind: type[Event]) -> None:
    tag = str(kind.__struct_config__.tag)
    lines = (GOLDEN / f"{tag}.jsonl").read_bytes().splitlines()
    assert lines, f"no recorded bytes for {tag}"
    for line in lines:
        subject, data = line.split(b" ", 1)
        event = codec.decode(subject.decode(), data)
        assert type(event) is kind
        assert codec.encode(event) == data
        assert codec.subject_of(event) == subject.decode()


def test_unknown_event_type_differs_from_damage() -> None:
    with pytest.raises(codec.DecodeError) as newer:
        codec.decode("placement.9.a.b.c", b'{"type":"PlacementDreamt.v1","key":["","a","b","c"]}')
    assert newer.value.unknown_tag == "PlacementDreamt.v1"
    with pytest.raises(codec.DecodeError) as damaged:
        codec.decode("placement.9.a.b.c", b'{"type":"PlacementDecided.v1","key":7}')
    assert not damaged.value.unknown_tag
    with pytest.raises(codec.DecodeError):
        codec.decode("placement.9.a.b.c", b"\xff")


def test_a_field_from_a_newer_version_is_ignored() -> None:
    event = PlacementDecided(key=KEY, uid="u", clusters=(TargetCluster("m1", 2),), provenance=Provenance(as_of=7))
    fields = msgspec.json.decode(codec.encode(event))
    fields["invented_later"] = {"a": 1}
    assert codec.decode(codec.subject_of(event), msgspec.json.encode(fields)) == event


def test_an_old_version_is_upcast_in_a_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    def first(fields: dict[str, object]) -> dict[str, object]:
        return {**fields, "type": "PlacementDecided.v0b", "uid": "from-v0"}

    def second(fields: dict[str, object]) -> dict[str, object]:
        return {**fields, "type": "PlacementDecided.v1", "clusters": [{"name": fields["where"]}]}

    chain = {"PlacementDecided.v0a": first, "PlacementDecided.v0b": second}
    monkeypatch.setattr(codec, "UPCASTS", chain)
    old = b'{"type":"PlacementDecided.v0a","key":["apps","deployments","default","nginx"],"where":"m1"}'
    expected = PlacementDecided(key=KEY, uid="from-v0", clusters=(TargetCluster("m1"),))
    assert codec.decode(codec.subject_of(expected), old) == expected


def test_event_ids_depend_on_cause_index_and_subject_only() -> None:
    assert event_id("12", 0, "a.b") == event_id("12", 0, "a.b")
    assert len({event_id("12", 0, "a"), event_id("12", 1, "a"), event_id("13", 0, "a"), event_id("12", 0, "b")}) == 4


def test_generated_documents_are_not_stale() -> None:
    directory = Path(generate.__file__).parent / "json"
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == generate.documents()


def test_every_subject_has_a_stream_and_known_events() -> None:
    patterns = {stream.name: stream.subjects for stream in STREAMS}
    names = {kind.__name__ for kind in (*all_events(), PlacementExplained)}
    assert {event for subject in SUBJECTS for event in subject.events} == names
    for subject in SUBJECTS:
        first = subject.pattern.split(".")[0]
        assert any(pattern.startswith(f"{first}.") for pattern in patterns[subject.stream])


@pytest.mark.parametrize("name", ["", "a", "scheduler/12/0/placement.3.x", "ä → 水", *(f"n{n}" for n in range(50))])
def test_ids_are_uuids_of_their_names(name: str) -> None:
    assert named_id(name) == str(uuid5(NAMESPACE, name))
