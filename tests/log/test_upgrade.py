"""This version reads, checks, folds and replays the logs that earlier versions exported.

Each `tests/golden/logs/log-VERSION.jsonl.gz` has a `VERSION.expected.json`: what the version that wrote the log found
in it (tests/golden/logs/README.md). A change of a format is complete when these tests pass and no file there changed.
"""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from schemas.codec import Known, decode, encode, subject_of, tags
from schemas.events.template import TemplateChanged
from schemas.events.work import WorkRendered
from schemas.keys import ObjectKey
from schemas.subjects import restore
from schemas.topology import SUBJECTS
from schemas.upcasts import UPCASTS
from services._kit.log.fact_history import Place, fact_of, story
from services._kit.log.stream_port import Delivery, Message, match
from services._kit.runtime.projection import Projection, ProjectionStats
from services._rules.history.delta_encoding import base_of, decode_delta
from services._rules.history.event_words import summarize
from services._rules.history.timeline import UNREADABLE, Entry, Fact, foreign_causes, subjects_of, timeline
from services.cli.common.logbook import LogAccess, open_log, streams
from services.cli.log.archive import Record, inspect, read
from services.cli.log.checks import Checker
from services.cli.log.restore_archive import import_log
from services.cli.log.verify import verify
from services.cli.queries.replay import facts_in, replayed
from services.override_renderer.decide import AtHand, needed_blobs
from services.override_renderer.decide import decide as decide_works
from tests.natsserver import Server
from tests.support.log_states import SERVICES, decided_again, decided_at_end, folded, manifests, service, stored, view

LOGS = Path(__file__).parents[1] / "golden" / "logs"
FIRST = "0d78381"
GIVEN_BACK = {"0d78381": ["deployments.apps/default/moving"]}
VERSIONS = sorted({FIRST} | {path.name.split("-")[1].split(".")[0] for path in LOGS.glob("log-*.jsonl.gz")})

pytestmark = pytest.mark.parametrize("version", VERSIONS)


def file_of(version: str) -> Path:
    return LOGS / f"log-{version}.jsonl.gz"


@cache
def expected(version: str) -> dict[str, Any]:
    """What the version that wrote a log found in it."""
    found: dict[str, Any] = json.loads((LOGS / f"{version}.expected.json").read_text(encoding="utf-8"))
    return found


@cache
def records(version: str) -> tuple[Record, ...]:
    return tuple(line for line in read(file_of(version)) if isinstance(line, Record))


@cache
def events(version: str) -> tuple[tuple[Record, Known], ...]:
    """Every message of a log with an event, decoded."""
    return tuple((item, decode(item.subject, item.data)) for item in records(version) if item.stream != "BLOBS")


@cache
def blobs(version: str) -> dict[str, bytes]:
    """Manifest bytes by digest, as they were before they were written as differences."""
    short = {item.subject.removeprefix("blob."): item.data for item in records(version) if item.stream == "BLOBS"}
    return {name: decode_delta(data, short.get(base_of(data), b"")) for name, data in short.items()}


def tag_of(data: bytes) -> str:
    return str(msgspec.json.decode(data)["type"])


def message(item: Record) -> Message:
    return Message(item.subject, item.seq, item.time, item.headers, item.data)


def test_file_is_whole(version: str) -> None:
    assert expected(version)["commit"].startswith(version)
    header, end = inspect(file_of(version))
    assert end.messages == expected(version)["messages"]
    assert header.streams["FACTS"].last == end.messages["FACTS"]


def test_every_message_decodes_into_the_same_fields(version: str) -> None:
    """Events with an old tag are upcast. Under a current tag no field is dropped or read as another one."""
    for item, event in events(version):
        assert subject_of(event) == item.subject
        tag = tag_of(item.data)
        if tag in UPCASTS:
            continue
        assert tag in tags(item.subject.partition(".")[0])
        assert msgspec.json.decode(encode(event)) == msgspec.json.decode(item.data), f"{item.stream} #{item.seq}"


def test_log_has_every_event_of_its_version(version: str) -> None:
    counts = Counter(tag_of(item.data) for item, _ in events(version))
    assert counts == expected(version)["events"]


def test_every_subject_is_in_the_topology(version: str) -> None:
    streams = {subject.pattern.partition(".")[0]: subject.stream for subject in SUBJECTS}
    for item, _ in events(version):
        assert streams[item.subject.partition(".")[0]] == item.stream


def test_log_verify_finds_no_problem(version: str) -> None:
    checker = Checker(complete_from=1, held=0, history_from=1)
    facts = [item for item in records(version) if item.stream == "FACTS"]
    problems = [
        str(problem) for item in facts for problem in checker.take(Place(seq=item.seq, tail=message(item), older=None))
    ]
    assert problems == []
    assert [item.seq for item in facts] == list(range(1, checker.last + 1))
    assert checker.events == expected(version)["messages"]["FACTS"]


def test_every_digest_names_its_manifest(version: str) -> None:
    """Secrets are left out: their digests depend on a key that is not exported."""
    checked = 0
    for _, event in events(version):
        if not isinstance(event, TemplateChanged | WorkRendered) or event.digest.startswith("sealed-"):
            continue
        if isinstance(event, WorkRendered) and not event.digest:
            assert event.problem
            continue
        if event.manifest and isinstance(event.manifest, Raw):
            data = bytes(event.manifest)
        else:
            data = blobs(version)[event.digest]
        assert sha256(data).hexdigest() == event.digest
        checked += 1
    assert checked == expected(version)["digests"]


def test_blobs_written_as_differences_are_read(version: str) -> None:
    short = [item for item in records(version) if item.stream == "BLOBS" and base_of(item.data)]
    assert len(short) == expected(version)["deltas"]
    for item in short:
        digest = item.subject.removeprefix("blob.")
        assert sha256(blobs(version)[digest]).hexdigest() == digest


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_service_folds_the_log_to_the_same_state(version: str, name: str) -> None:
    state, count = folded(name, list(stored(file_of(version))))
    assert count
    assert view(name, state) == expected(version)["states"][name]


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_projection_skips_no_message(version: str, name: str) -> None:
    """As a service reads it: nothing unknown or malformed, nothing that cannot be folded, no gap in a subject."""
    reader = service(name)
    problems: list[str] = []
    projection: Projection[Any, Any] = Projection(
        reader, ("FACTS", "OBSERVED"), on_problem=lambda item, error: problems.append(f"{item.subject}: {error}")
    )
    given = 0
    for stream in ("FACTS", "OBSERVED"):
        found = [message(item) for item in records(version) if item.stream == stream]
        found = [item for item in found if any(match(pattern, item.subject) for pattern in reader.filters)]
        given += len(found)
        projection.feed(Delivery(found, True, found[-1].seq if found else 0), stream)
    assert problems == []
    assert projection.stats == ProjectionStats(folded=given)
    assert not projection.blocked


def test_replay_finds_no_decision_that_differs(version: str, capsys: pytest.CaptureFixture[str]) -> None:
    result = replayed(facts_in(file_of(version)))
    assert capsys.readouterr().err == ""
    assert [f"#{item.position} {item.recorded} | {item.now}" for item in result.differences] == []
    assert (result.decisions, result.skipped) == (expected(version)["replay"]["decisions"], 0)
    made = [tag for tag in expected(version)["events"] if tag.startswith(("PlacementDecided", "PlacementFailed"))]
    assert result.decisions == sum(expected(version)["events"][tag] for tag in made)


@pytest.mark.parametrize("name", ["failover", "override_renderer"])
def test_recorded_events_are_decided_again_the_same(version: str, name: str) -> None:
    """Evictions and works, each on the facts that the deciding service had in view, with every field."""
    again = decided_again(name, list(stored(file_of(version))))
    assert again["differ"] == []
    assert again == expected(version)["decided_again"][name]


def test_new_leader_decides_what_the_old_version_would(version: str) -> None:
    """A takeover at the end of the log moves no object; a failure may get a message with another count of clusters."""
    decided = decided_at_end(list(stored(file_of(version))))
    for failure in decided["placements"].values():
        # This version adds which clusters of the placement are no members.
        failure[2] = failure[2].partition(" Named in the placement")[0]
    # This version gives an object back to a cluster whose taint is gone; the former left it at the timeout.
    for key in GIVEN_BACK.get(version, ()):
        assert decided["evictions"].pop(key) == "EvictionFinished"
    assert decided == expected(version)["decided_at_end"]
    assert {name for name, _, _ in decided["placements"].values()} <= {"PlacementFailed"}


def test_works_are_rendered_the_same_after_an_upgrade(version: str) -> None:
    messages = list(stored(file_of(version)))
    state, _ = folded("override_renderer", messages)
    at_hand = AtHand(blobs=manifests(messages))
    rendered = 0
    for key, bound in state.objects.items():
        if not bound.live or key.resource == "secrets":  # Their key is not exported.
            continue
        assert not needed_blobs(state, key, at_hand)
        works = decide_works(state, key, at_hand)
        assert (key, works.events, works.missing) == (key, (), ())
        rendered += len(bound.works)
    assert rendered


def steps(entries: list[Entry]) -> list[list[Any]]:
    """The entries of a history without words and times, as JSON."""
    return [
        [
            entry.stream,
            entry.position,
            entry.subject,
            entry.event,
            entry.as_of,
            [[cause.stream, cause.position, cause.event] for cause in entry.causes],
        ]
        for entry in entries
    ]


def history(version: str, key: ObjectKey) -> list[Entry]:
    """The history of an object as `fleetlog history` prints it, computed from the file alone."""
    subjects = subjects_of(key)
    found: list[Fact] = [
        fact_of(message(item), item.seq, item.stream)
        for item, _ in events(version)
        if any(match(pattern, item.subject) for pattern in subjects[item.stream])
    ]
    wanted = set(foreign_causes(timeline(found)))
    facts = [item for item in records(version) if item.stream == "FACTS" and item.seq in wanted]
    return timeline(found, [fact_of(message(item), item.seq) for item in facts])


@pytest.mark.parametrize("name", ["static", "everywhere"])
def test_history_of_an_object_is_complete(version: str, name: str) -> None:
    told = expected(version)["histories"][name]
    entries = history(version, ObjectKey(*told["key"]))
    assert steps(entries) == told["entries"]
    assert all(entry.summary for entry in entries)
    assert not any(entry.event == UNREADABLE for entry in entries)


def test_every_event_has_words(version: str) -> None:
    latest: dict[str, Known] = {}
    for item, event in events(version):
        assert summarize(event, latest.get(item.subject)), f"#{item.seq}"
        latest[item.subject] = event


async def test_imported_log_is_the_same_log(version: str, nats_server: Server) -> None:
    """Imported into an empty server, every message keeps its position, and the whole log passes `log verify`."""
    access = LogAccess(nats_server.url)
    assert await import_log(access, file_of(version)) == 0
    assert await verify(access) == 0
    async with open_log(access) as connection:
        logs = streams(connection)
        for name in ("FACTS", "OBSERVED"):
            stood = [
                (item.seq, item.subject, item.data)
                async for item in logs[name].read([">"])
                if item.subject != restore()  # It marks the end of what was imported.
            ]
            assert stood == [(item.seq, item.subject, item.data) for item in records(version) if item.stream == name]
        for told in expected(version)["histories"].values():
            assert steps(await story(logs, ObjectKey(*told["key"]))) == told["entries"]
