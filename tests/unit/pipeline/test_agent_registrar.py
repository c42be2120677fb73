"""What the registrar gives to an agent and takes from it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace

from schemas.agent import Hello
from schemas.codec import subject_of
from schemas.endpoints import ServiceSlice, SliceEndpoint
from schemas.envelope import Provenance
from schemas.events.cluster import ClusterChanged, ClusterRemoved
from schemas.events.observed import WorkObserved
from schemas.events.policy import PolicyChanged, PolicyDeleted
from schemas.hints import Gone, Purged
from schemas.keys import ObjectKey, PolicyKey
from services._kit.base.pacing import Bucket
from services._rules.interpreter.configuration import KINDS
from services.registrar.decide import Turned, Welcome, consumer_config, examine, is_stored, may_have, welcome
from services.registrar.state import RegistrarState, fold
from tests.support.agent_works import A, B, rendered, withdrawn
from tests.support.facts import raw

SEEN = WorkObserved(cluster="m1", key=A, uid="u", applied=True, health="Healthy", at=10.0)


def joined(mode: str = "Pull", **spec: Any) -> ClusterChanged:
    manifest = {"spec": {"syncMode": mode, **spec}}
    return ClusterChanged(name="m1", uid="c1", manifest=raw(manifest))


def state_of(*events: Any) -> RegistrarState:
    state = RegistrarState()
    for seq, event in enumerate(events, 1):
        fold(state, seq, subject_of(event), event)
    return state


HELLO = Hello(cluster="m1", instance="i", at=1.0, uid="c1", fresh=True, log="l", after=7)


@pytest.mark.parametrize(
    ("hello", "start"),
    [
        (HELLO, 8),
        (replace(HELLO, log="other"), 0),
        (replace(HELLO, uid="other"), 0),
        (replace(HELLO, after=0), 0),
        (replace(HELLO, after=11), 0),
    ],
    ids=["continues", "another log", "another membership", "new", "ahead of the log"],
)
def test_agent_reads_from_where_it_left_off(hello: Hello, start: int) -> None:
    assert welcome(state_of(joined()), "m1", hello, "l", 10) == Welcome(start)
    config = consumer_config("m1", start)
    assert config["deliver_policy"] == ("by_start_sequence" if start else "last_per_subject")
    assert config.get("opt_start_seq", 0) == start


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ((), "no cluster m1"),
        ((joined("Push"),), "syncMode Push"),
        ((joined(), ClusterRemoved(name="m1", uid="c1")), "no"),
    ],
)
def test_only_pull_members_are_welcome(events: tuple[Any, ...], words: str) -> None:
    found = welcome(state_of(*events), "m1", HELLO, "l", 10)
    assert isinstance(found, Turned)
    assert words in found.problem


def test_restore_holds_works_back_but_not_heartbeats() -> None:
    state = state_of(joined())
    found = welcome(state, "m1", HELLO, "l", 10, held=True)
    assert isinstance(found, Turned)
    assert "restored" in found.problem
    assert isinstance(welcome(state, "m1", replace(HELLO, fresh=False), "l", 10, held=True), Welcome)


def test_manifest_is_for_the_cluster_whose_work_names_it() -> None:
    state = state_of(joined(), rendered(A, "d1"), rendered(B, "d1"), rendered(A, "d2", cluster="m2"))
    assert may_have(state, "m1", "d1")
    assert not may_have(state, "m1", "d2")
    fold(state, 9, "", rendered(A, "d3"))
    assert may_have(state, "m1", "d1"), "the other object still has it"
    fold(state, 10, "", withdrawn(B))
    assert not may_have(state, "m1", "d1")
    assert may_have(state, "m1", "d3")
    assert not may_have(state, "nobody", "d3")


@given(st.lists(st.tuples(st.sampled_from([A, B]), st.sampled_from(["", "d1", "d2", "d3"])), max_size=30))
def test_named_digests_are_those_of_present_works(changes: list[tuple[ObjectKey, str]]) -> None:
    state = RegistrarState()
    present: dict[ObjectKey, str] = {}
    for position, (key, digest) in enumerate(changes, 1):
        state.of("m1").name(key, digest, position)
        present[key] = digest
    for digest in ("d1", "d2", "d3"):
        assert may_have(state, "m1", digest) == (digest in present.values())


def policy(kind: str, name: str = "p") -> PolicyChanged:
    return PolicyChanged(key=PolicyKey(kind, "", name), uid="u", manifest=Raw(b"{}"))


def test_agent_consumer_filters_works_and_interpreters() -> None:
    subjects = consumer_config("m1", 0)["filter_subjects"]
    assert subjects == [
        "work.m1.>",
        "policy.ResourceInterpreterCustomization.>",
        "policy.ResourceInterpreterWebhookConfiguration.>",
    ]
    events = [policy(kind) for kind in KINDS]
    assert [subject_of(event).startswith(subjects[1][:-1]) for event in events] == [True, False]
    assert [subject_of(event).startswith(subjects[2][:-1]) for event in events] == [False, True]


def test_customizations_are_known_by_name() -> None:
    state = state_of(policy(KINDS[0], "a"), policy(KINDS[1], "b"), policy("PropagationPolicy"))
    assert {key.name for key in state.configured} == {"a", "b"}
    gone = PolicyDeleted(key=policy(KINDS[0], "a").key, uid="u")
    fold(state, 9, subject_of(gone), gone)
    assert {key.name for key in state.configured} == {"b"}


def test_withdrawals_settle_up_to_the_first_unconfirmed() -> None:
    ends = [withdrawn(A), withdrawn(B)]
    gone = [replace(SEEN, key=key, applied=False, absent=True, work_seq=seq) for key, seq in ((A, 3), (B, 4))]
    given = (rendered(A, "a"), rendered(B, "b"), *ends)

    def settled(*events: Any) -> int:
        return state_of(*given, *events).of("m1").settled(20)

    assert settled() == 2
    assert settled(gone[1]) == 2
    assert settled(gone[0]) == 3
    assert settled(*gone) == 20
    assert settled(*gone, rendered(A, "c")) == 20
    assert settled(*gone, rendered(A, "c"), ends[0]) == 7, "an older report says nothing about a later withdrawal"
    assert RegistrarState().of("m1").settled(20) == 20


def test_restart_knows_as_much_of_absent_works() -> None:
    absent = replace(SEEN, applied=False, absent=True, work_seq=1)
    fresh = state_of(rendered(A, "a"))
    fold(fresh, 3, subject_of(SEEN), SEEN)
    assert state_of(rendered(A, "a"), absent, SEEN) == fresh


def test_purged_works_are_forgotten() -> None:
    state = state_of(joined(), rendered(A, "d1"), rendered(B, "d2"), SEEN)
    state.forget(Purged(objects=(Gone(A, 2), Gone(B, 2))))
    assert set(state.works["m1"].digests) == {B}
    assert not state.observed


def test_report_is_stored_without_fields_of_the_registrar() -> None:
    state = state_of(joined(), rendered(A, "d1"))
    told = replace(SEEN, at=99.0, prev=5, provenance=Provenance(as_of=5))
    assert examine(state, "m1", told, 2, now=50.0) == replace(SEEN, at=50.0)


@pytest.mark.parametrize(
    "change",
    [
        {"cluster": "m2"},
        {"key": B},
        {"health": "Great"},
        {"operation": "exploded"},
        {"message": "x" * 40_000},
        {"status": Raw(b"[]")},
        {"status": Raw(b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}")},
        {"work_seq": 1, "digest": "d2"},
    ],
    ids=[
        "another cluster",
        "a key without a work",
        "health nobody knows",
        "an operation nobody knows",
        "a message without end",
        "a status that is a list",
        "a status without bottom",
        "a digest of another work",
    ],
)
def test_invalid_reports_are_refused(change: dict[str, Any]) -> None:
    state = state_of(rendered(A, "d1"), joined())
    assert isinstance(examine(state, "m1", replace(SEEN, **change), 2, now=50.0), str)


def test_report_has_to_be_of_the_present_uid() -> None:
    state = state_of(joined(), rendered(A, "d1"), replace(rendered(A, "d1"), uid="v"))
    assert isinstance(examine(state, "m1", replace(SEEN, work_seq=2), 3, now=50.0), str)
    assert isinstance(examine(state, "m1", replace(SEEN, work_seq=3, uid="v", digest="d1"), 3, now=50.0), WorkObserved)


def test_status_beyond_the_total_is_left_out_and_reported() -> None:
    state = state_of(joined(), rendered(A, "a"), rendered(B, "b"))

    def status(key: ObjectKey, size: int) -> WorkObserved:
        return replace(SEEN, key=key, status=Raw(msgspec.json.encode({"x": "y" * (size - 8)})))

    def said(event: WorkObserved) -> WorkObserved:
        found = examine(state, "m1", event, 3, now=50.0, most=1000)
        assert isinstance(found, WorkObserved)
        fold(state, state.observed.get(subject_of(found), (3, 0.0))[0] + 1, subject_of(found), found)
        return found

    assert said(status(A, 600)).status == status(A, 600).status
    left = said(status(B, 600))
    assert isinstance(left.status, msgspec.UnsetType)
    assert left.message.startswith("status: has 600 bytes, and the statuses of cluster m1 may have 1000 together")
    assert (left.applied, left.health) == (True, "Unknown")
    assert said(status(A, 900)).status == status(A, 900).status, "it takes the place of its own last one"
    said(status(A, 300))
    assert said(status(B, 600)).status == status(B, 600).status
    assert state.kept == {"m1": 900}
    state.forget(Purged(objects=(Gone(A, 9), Gone(B, 9))))
    assert not state.kept
    assert not state.sizes


def test_stored_report_is_known() -> None:
    state = state_of(joined(), rendered(A, "d1"))
    assert not is_stored(state, SEEN)
    fold(state, 1, subject_of(SEEN), SEEN)
    assert is_stored(state, SEEN)
    assert not is_stored(state, replace(SEEN, at=11.0))


def test_rate_is_kept_on_average() -> None:
    bucket = Bucket(rate=10, burst=20)
    assert bucket.take(20, now=0.0) == 0.0
    assert bucket.take(10, now=0.0) == 1.0
    assert bucket.take(10, now=2.0) == 0.0
    assert bucket.take(1000, now=1000.0) == pytest.approx(98.0)


EXPORT = ObjectKey("multicluster.x-k8s.io", "serviceexports", "default", "web")


@pytest.mark.parametrize(
    ("key", "slices", "words"),
    [
        (EXPORT, (ServiceSlice("web-a", "IPv4", (SliceEndpoint(("10.0.0.1",)),)),), ""),
        (EXPORT, (), ""),
        (A, (ServiceSlice("web-a", "IPv4"),), "exports none"),
        (EXPORT, (ServiceSlice("web-a", "IPv4", (SliceEndpoint(("10.0.0.1",)),) * 10_001),), "at most"),
        (EXPORT, (ServiceSlice("web-a", "IPX"),), "address type"),
    ],
    ids=["believed", "none", "of an object that exports none", "too many", "an unknown type"],
)
def test_endpoints_are_believed_of_exports_and_within_bounds(
    key: ObjectKey, slices: tuple[ServiceSlice, ...], words: str
) -> None:
    state = state_of(joined(), rendered(key, "d1"))
    found = examine(state, "m1", replace(SEEN, key=key, endpoints=slices), 2, now=50.0)
    if words:
        assert isinstance(found, str)
        assert words in found
    else:
        assert isinstance(found, WorkObserved)
        assert found.endpoints == slices
