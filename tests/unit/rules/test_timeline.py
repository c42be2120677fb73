"""The story of an object: in order, with causes, and one line for people."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from schemas.codec import encode, subject_of
from schemas.endpoints import EndpointConditions, SliceEndpoint
from schemas.envelope import Provenance
from schemas.events.endpoints import EndpointsCollected, EndpointsReleased
from schemas.events.estimate import ClusterEstimate
from schemas.events.placement import PlacementDecided, PlacementFailed, TargetCluster
from schemas.keys import ObjectKey
from schemas.topology import FACTS, OBSERVED
from services._kit.log.stream_port import match
from services._rules.history.event_words import summarize
from services._rules.history.timeline import Fact, foreign_causes, is_endpoint_of, line, offset, subjects_of, timeline
from tests.integration.gateway.story import (
    NGINX,
    cluster,
    observed,
    placed,
    raw,
    released,
    rendered,
    requested,
    rolled_up,
    withdrawn,
)


def fact(event, seq, time, stream=FACTS.name):
    return Fact(seq, time, subject_of(event), encode(event), stream)


def test_a_line_reads_like_a_sentence():
    facts = [fact(requested(), 40, 100.0), fact(placed(member1=1, member2=1, cause=40), 42, 100.012)]
    text = line(timeline(facts)[1])
    assert text == (
        f"+12 ms  placement.{NGINX.shard}.deployments=2Eapps.default.nginx  #42  PlacementDecided  "
        "member1=1 member2=1  because #40 BindingRequested"
    )


def test_steps_come_in_the_order_of_time_however_they_are_given():
    facts = [
        fact(rolled_up("member1", cause=3), 12, 4.0),
        fact(observed("member1"), 3, 3.0, OBSERVED.name),
        fact(rendered("member1"), 11, 2.0),
        fact(requested(), 10, 1.0),
        fact(requested(), 10, 1.0),
    ]
    entries = timeline(facts)
    assert [entry.event for entry in entries] == ["BindingRequested", "WorkRendered", "WorkObserved", "StatusRolledUp"]
    assert [entry.offset_ms for entry in entries] == [0, 1000, 2000, 3000]
    assert (entries[3].causes[0].event, entries[3].causes[0].stream) == ("WorkObserved", OBSERVED.name)
    assert entries[3].causes[0].after_ms == 1000
    assert entries[1].cluster == "member1"


def test_causes_of_other_objects_are_named_when_known():
    facts = [fact(placed(member1=1, cause=5), 6, 2.0)]
    entries = timeline(facts)
    assert foreign_causes(entries) == [5]
    assert line(entries[0]).endswith("because #5")
    entries = timeline(facts, [fact(cluster("member1"), 5, 1.0)])
    assert len(entries) == 1
    assert entries[0].causes[0].event == "ClusterChanged"


def test_later_event_is_no_cause():
    facts = [fact(placed(member1=1, cause=9), 6, 2.0), fact(requested(), 9, 3.0)]
    assert timeline(facts)[0].causes[0].event == ""


def test_event_of_a_newer_version_is_an_entry():
    data = msgspec.json.encode({"type": "PlacementImagined.v9"})
    subject = f"placement.{NGINX.shard}.deployments=2Eapps.default.nginx"
    (entry,) = timeline([Fact(1, 1.0, subject, data)])
    assert entry.event == "PlacementImagined.v9"
    assert "newer version" in entry.summary


@pytest.mark.parametrize(
    ("before", "event", "words"),
    [
        (None, requested(replicas=3), "3 replicas, policy PropagationPolicy/default/web"),
        (requested(replicas=2), requested(replicas=3, generation=2), "changed: replicas 2 -> 3; generation 2"),
        (
            requested(),
            requested(generation=2, policy=None, reason="PropagationPolicy/default/web is being deleted"),
            "changed: PropagationPolicy/default/web is being deleted; generation 2",
        ),
        (requested(), requested(generation=2, frozen=1, reason="copies stay"), "changed: copies stay; generation 2"),
        (None, released(), "template deleted"),
        (placed(member1=1, member2=1), placed(member2=2), "member2=2, leaves member1"),
        (None, withdrawn("member1"), "member1 lets go"),
        (None, rendered("member1", problem="bad path"), "could not be rendered: bad path"),
        (None, observed("member1", applied=False, message="no  such\nnamespace"), "refused: no such namespace"),
        (None, observed("member1", operation="created"), "member1 holds it, created, Healthy"),
        (observed("member1"), observed("member1", health="Unhealthy"), "member1 reports, Unhealthy"),
        (None, observed("member1", applied=False, absent=True), "member1 holds no copy"),
        (None, rolled_up("member1", "member2"), "2/2 applied, 2 healthy, complete"),
        (
            None,
            PlacementFailed(key=NGINX, uid="u1", reason="NoClusterFit", message="none fits"),
            "NoClusterFit: none fits",
        ),
    ],
)
def test_entry_summarizes_the_change(before, event, words):
    stream = OBSERVED.name if type(event).__name__ == "WorkObserved" else FACTS.name
    facts = [
        fact(item, index, float(index), stream) for index, item in enumerate((before, event), 1) if item is not None
    ]
    assert words in timeline(facts)[-1].summary


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "+0 ms"),
        (12.4, "+12 ms"),
        (3_400, "+3.4 s"),
        (300_000, "+5 min"),
        (7_200_000, "+2 h"),
        (259_200_000, "+3 d"),
    ],
)
def test_offsets_have_the_unit_that_fits(milliseconds, text):
    assert offset(milliseconds) == text


def test_subjects_of_an_object_match_its_facts_only():
    subjects = subjects_of(NGINX)
    other = ObjectKey(group="apps", resource="deployments", namespace="default", name="nginx2")
    for event in (requested(), placed(member1=1), rendered("member1"), rolled_up("member1")):
        assert sum(match(pattern, subject_of(event)) for pattern in subjects[FACTS.name]) == 1
    assert any(match(pattern, subject_of(observed("m"))) for pattern in subjects[OBSERVED.name])
    assert not any(match(pattern, subject_of(requested(other))) for pattern in subjects[FACTS.name])


def test_entry_has_decision_time_and_position():
    event = msgspec.structs.replace(placed(member1=1), provenance=Provenance(as_of=41, decided_at=99.5))
    (entry,) = timeline([fact(event, 42, 100.0)])
    assert (entry.as_of, entry.decided_at) == (41, 99.5)


NOW = 1_793_232_000.0


def estimated(*estimates: ClusterEstimate, **more: Any) -> PlacementDecided:
    return PlacementDecided(
        key=NGINX,
        uid="u1",
        clusters=(TargetCluster("m1", 2),),
        trigger="the placement changed",
        prev=4,
        estimates=estimates,
        provenance=Provenance(decided_at=NOW),
        **more,
    )


def test_summary_names_source_and_age_of_estimates() -> None:
    nodes = ClusterEstimate("m1", 3, "nodes", at=NOW - 0.004), ClusterEstimate("m2", 0, "nodes", at=NOW - 0.004)
    agent = ClusterEstimate("m3", 2, "agent", position=7, at=NOW - 2.5, reserved=4)
    assert summarize(estimated(*nodes, agent)) == (
        "m1=2, the placement changed, room m1=3 m2=0 on nodes 4 ms before; "
        "m3=2 (4 given away since) by the agent 2.5 s before"
    )


def test_a_failure_tells_them_too() -> None:
    event = PlacementFailed(
        key=NGINX, uid="u1", reason="Unschedulable", message="no room", estimates=(ClusterEstimate("m1", 1),)
    )
    assert summarize(event) == "Unschedulable: no room, room m1=1"


def test_summary_names_missed_estimates() -> None:
    assert summarize(estimated()) == "m1=2, the placement changed"
    assert summarize(replace(estimated(), prev=0)) == "m1=2, for the first time"
    missed = summarize(estimated(estimate_missed=True))
    assert missed == "m1=2, the placement changed, room by summaries alone, no estimate came in time"


def test_words_name_dependencies_and_owners():
    asked = requested()
    requiring = replace(asked, requires=(ObjectKey("", "configmaps", "default", "app"),))
    assert summarize(requiring, asked) == "changed: requires configmaps/default/app; generation 1"
    assert "no longer requires configmaps/default/app" in summarize(asked, requiring)
    alone = replace(asked, attached=True, policy=None, workload=False, spec=raw({"preserveResourcesOnDeletion": True}))
    assert summarize(alone) == "follows what requires it"
    torn = replace(alone, contradictions=("conflictResolution",))
    assert "owners disagree on conflictResolution" in summarize(torn, alone)
    assert "owners agree" in summarize(alone, torn)
    assert "nothing requires it any more" in summarize(replace(alone, spec=raw({})), alone)


def slice_of(*endpoints, service="web"):
    return EndpointsCollected(
        cluster="m1",
        namespace="default",
        name=f"{service}-a",
        service=service,
        address_type="IPv4",
        endpoints=endpoints,
    )


def test_endpoints_that_came_left_or_turned_are_named():
    up, down = EndpointConditions(ready=True), EndpointConditions(ready=False)
    before = slice_of(SliceEndpoint(("10.0.0.1",), up), SliceEndpoint(("10.0.0.2",), up))
    after = slice_of(SliceEndpoint(("10.0.0.1",), down), SliceEndpoint(("10.0.0.3",)))
    assert summarize(before) == "m1 offers 2 endpoints, 2 ready"
    assert summarize(after, before) == (
        "m1 offers 2 endpoints, 1 ready; came: 10.0.0.3; left: 10.0.0.2; not ready now: 10.0.0.1"
    )
    gone = EndpointsReleased(
        cluster="m1", namespace="default", name="web-a", service="web", reason="m1 does not export it any more"
    )
    assert summarize(gone, after) == "m1 does not export it any more"
    kept = replace(before, kept="m1 is not ready")
    assert summarize(kept, before) == (
        "m1 offers 2 endpoints, 2 ready; no other cluster does, or it would not be used: m1 is not ready"
    )


def test_endpoints_belong_to_the_service_that_they_name():
    assert is_endpoint_of(fact(slice_of(), 1, 1.0), "web")
    assert not is_endpoint_of(fact(slice_of(service="web-2"), 1, 1.0), "web")
    assert not is_endpoint_of(Fact(1, 1.0, "endpoints.m1.default.web-a", b"{"), "web")
