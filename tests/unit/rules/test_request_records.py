"""What is put on record about a request for a member: no secrets of its query, bounded, and of its own cluster."""

from __future__ import annotations

import pytest

from schemas.envelope import Provenance
from schemas.events.request import MemberRequested
from services._rules.proxying.request_records import LONGEST_PATH, MOST_GROUPS, on_record, told_path


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/api/v1/pods", "/api/v1/pods"),
        ("/a/exec?command=cat&command=/etc/secret&stdin=true", "/a/exec?command=&command=&stdin=true"),
        ("/a?watch=true&labelSelector=token%3Dx&flag", "/a?watch=true&labelSelector=&flag"),
        ("/a?x\x1b[31m", "/a?x [31m"),
    ],
)
def test_values_of_a_query_are_not_told(path: str, told: str) -> None:
    assert told_path(path) == told
    assert told_path(told) == told


def test_a_long_path_is_cut() -> None:
    assert len(told_path("/" + "a" * 100_000)) == LONGEST_PATH
    assert len(told_path("/a?" + "watch=1&" * 100_000)) == LONGEST_PATH


def test_a_hostile_record_is_bounded_and_of_its_own_cluster() -> None:
    wrong = MemberRequested(
        cluster="m2",
        side="hub",
        by="b" * 10_000,
        user="u\r\n" * 10_000,
        method="M" * 1000,
        path="/?token=secret",
        groups=("g" * 1000,) * 1000,
        upgrade="x" * 1000,
        status=-5,
        problem="p" * 10_000,
        started=9e18,
        seconds=-1e300,
        sent=-1,
        received=1 << 80,
        missed=-3,
        prev=17,
        provenance=Provenance(as_of=5),
    )
    kept = on_record(wrong, "m1", "agent", 100.0)
    assert (kept.cluster, kept.side, kept.path) == ("m1", "agent", "/?token=")
    assert (kept.status, kept.started, kept.seconds, kept.sent, kept.missed) == (0, 100.0, 0.0, 0, 0)
    assert kept.received < 1 << 60
    assert len(kept.groups) == MOST_GROUPS
    assert all(len(text) <= 300 for text in (kept.by, kept.user, kept.method, kept.upgrade, kept.problem, *kept.groups))
    assert "\n" not in kept.user
    assert (kept.prev, kept.provenance) == (0, Provenance())


def test_an_honest_record_stays_as_it_is() -> None:
    told = MemberRequested(
        cluster="m1",
        side="agent",
        by="agent-0",
        user="anna",
        method="GET",
        path="/a",
        status=200,
        started=5.0,
        seconds=2.0,
    )
    assert on_record(told, "m1", "agent", 10.0) == told
