"""Moments as people write them, and how an object stood at one."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from schemas.codec import encode, subject_of
from schemas.events.binding import BindingReleased
from schemas.topology import FACTS, OBSERVED
from services._rules.history.facet_states import standing
from services._rules.history.timeline import Fact, timeline
from services.cli.common.moments import moment, stamp
from services.cli.common.running import Failed
from services.cli.queries.object_history import state_document, state_text
from tests.integration.gateway.story import NGINX, observed, placed, rendered, requested, rolled_up

NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC).timestamp()


def fact(event, seq, time, stream=FACTS.name):
    return Fact(seq, time, subject_of(event), encode(event), stream)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("2026-11-21T12:00:00Z", NOW),
        ("2026-11-21T13:00:00.5+01:00", NOW + 0.5),
        ("10m", NOW - 600),
        ("-1h30m", NOW - 5400),
        ("2d", NOW - 2 * 86400),
        ("1d12h", NOW - 1.5 * 86400),
    ],
)
def test_moments(written, expected):
    assert moment(written, "--at", NOW) == expected


@pytest.mark.parametrize("written", ["yesterday", "", "10", "10x", "2026-13-01T00:00:00Z", "1d2x", "1d-2h"])
def test_malformed_time_is_refused_with_an_example(written):
    with pytest.raises(Failed, match=r"--at .* is no time; write for example 2026-"):
        moment(written, "--at", NOW)


def test_a_state_is_the_last_event_of_every_facet_causes_first():
    facts = [
        fact(observed("member1"), 3, 13.0, OBSERVED.name),
        fact(rolled_up("member1"), 6, 14.0),
        fact(rendered("member1"), 5, 12.0),
        fact(placed(member1=2), 4, 11.5),
        fact(placed(member1=1), 3, 11.0),
        fact(requested(), 2, 10.0),
        fact(requested(), 2, 10.0),
    ]
    facets = standing(facts)
    assert [facet.facet for facet in facets] == ["binding", "placement", "work", "rollup", "observed"]
    assert [(facet.position, facet.events) for facet in facets] == [(2, 1), (4, 2), (5, 1), (6, 1), (3, 1)]
    assert "member1=2" in facets[1].summary
    assert not any(facet.closed for facet in facets)
    shown = state_text(NGINX, 13.5, facets, timeline(facts))
    assert shown.startswith(f"{NGINX} at 1970-01-01T00:00:13.500Z\n\nFACET")
    assert "work member1" in shown
    whole = state_document(NGINX, 13.5, facets, timeline(facts))
    assert whole["facets"][1]["data"]["clusters"] == [{"name": "member1", "replicas": 2}]
    assert len(whole["entries"]) == 6


def test_an_ended_or_unreadable_facet_says_so():
    ended = standing([fact(requested(), 1, 1.0), fact(BindingReleased(key=NGINX, uid="u1"), 2, 2.0)])
    assert [(facet.event, facet.closed) for facet in ended] == [("BindingReleased", True)]
    newer = standing([Fact(1, 1.0, subject_of(requested()), b'{"type":"BindingImagined.v9"}')])
    assert newer[0].event == "Unreadable"
    assert "newer version" in newer[0].summary


def test_stamps_are_read_back():
    assert moment(stamp(NOW + 0.25), "--at", 0.0) == NOW + 0.25
