"""Given these facts on the log, then these spans: their parents, times, names, attributes, what was not found."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from schemas.events.autoscaling import ReplicasRecommended
from schemas.events.binding import PolicyRef
from schemas.events.eviction import EvictionFinished
from schemas.events.observed import Drift
from schemas.events.placement import PlacementFailed
from schemas.events.policy import PolicyChanged
from schemas.keys import PolicyKey
from services._rules.tracing.api_requests import StoredWrite, request_behind
from services._rules.tracing.logged_event import ApiRequest, LoggedEvent, step_of, traceparent
from services._rules.tracing.otlp_document import document
from services._rules.tracing.span_model import Trace, sampled
from services._rules.tracing.trace_builder import in_order
from tests.support.facts import (
    KEY,
    POLICY,
    binding,
    cluster,
    deployment,
    evicted,
    placement,
    raw,
    rollup,
    seen,
    template,
    withdrawn,
    work,
)
from tests.support.traced import BEGAN, logged, outline, spans

FHPA = PolicyKey("FederatedHPA", "default", "nginx")
OVERRIDE = PolicyKey("OverridePolicy", "default", "tags")
CLIENT = "0af7651916cd43dd8448eb211c80319c"


def created() -> list[LoggedEvent]:
    """A Deployment from its creation to its summed status, in two clusters."""
    return [
        logged(1, 0.010, template(), by="detector", decided=0.005),
        logged(2, 0.011, binding(), by="detector", decided=0.005),
        logged(3, 0.020, placement(m1=1, m2=1), 2),
        logged(4, 0.030, work("m1"), 3, by="override_renderer"),
        logged(5, 0.030, work("m2"), 3, by="override_renderer"),
        logged(1, 0.080, seen("m1", work_seq=4, operation="created"), by="executor"),
        logged(2, 0.090, seen("m2", work_seq=5, operation="created"), by="registrar"),
        logged(6, 0.100, rollup(m1={}, m2={}), 4, observed=(1, 2), by="status_aggregator"),
        logged(3, 0.500, seen("m1", work_seq=4), by="executor"),
        logged(7, 0.510, rollup(m1={"readyReplicas": 1}), 6, observed=(3,), by="status_aggregator"),
    ]


CREATED = [
    "detect template",
    "  request binding",
    "    schedule placement",
    "      render work m1",
    "      render work m2",
    "        apply work m1",
    "        apply work m2",
    "          aggregate rollup",
    "          reflect status m1",
    "            aggregate rollup",
]


def recommended(write: str, desired: int = 4) -> ReplicasRecommended:
    return ReplicasRecommended(
        key=FHPA, uid="h", spec=raw({}), target=KEY, current=2, desired=desired, reason="cpu", write=write
    )


def scaled(replicas: int = 4) -> Any:
    return replace(template(deployment(replicas)), prev=1)


def test_a_change_is_one_trace_from_template_to_status() -> None:
    found = spans(created())
    assert outline(found) == CREATED
    assert len({span.trace_id for span in found}) == 1
    assert len({span.span_id for span in found}) == len(found)
    assert [span.service for span in found[:4]] == ["detector", "detector", "scheduler", "override_renderer"]


def test_a_span_lasts_from_its_cause_until_it_is_stored() -> None:
    found = spans(created())
    lasted = {span.attributes["fleetlog.log.position"]: span for span in found if span.name == "apply work"}
    assert (lasted[1].start, lasted[1].end) == (BEGAN + 0.030, BEGAN + 0.080)
    assert [(one.name, one.time) for one in lasted[1].events] == [("observed", pytest.approx(BEGAN + 0.079))]
    root, same_decision = found[0], found[1]
    assert (root.start, root.end) == (BEGAN + 0.005, BEGAN + 0.010)
    assert (same_decision.start, same_decision.end) == (BEGAN + 0.005, BEGAN + 0.011)
    assert not any("fleetlog.clock.skew_ms" in span.attributes for span in found)


def test_what_the_detector_knew_before_is_no_skew() -> None:
    events = [
        *created()[:2],
        logged(8, 9.0, PolicyChanged(key=POLICY.key, uid="p", manifest=raw({}), generation=2), by="detector"),
        logged(9, 9.1, replace(binding(3), policy=PolicyRef(POLICY.key, "", 2)), by="detector", decided=8.998),
    ]
    asked = spans(events)[-1]
    assert (asked.start, asked.end) == (BEGAN + 8.998, BEGAN + 9.1)
    assert "fleetlog.clock.skew_ms" not in asked.attributes


def test_the_latest_cause_is_the_parent_and_others_are_links() -> None:
    found = spans(created())
    rollup_span = next(span for span in found if span.name == "aggregate rollup")
    by_id = {span.span_id: span for span in found}
    assert by_id[rollup_span.parent_id].attributes["k8s.cluster.name"] == "m2"
    linked = [by_id[link.span_id].attributes["fleetlog.event"] for link in rollup_span.links]
    assert linked == ["WorkRendered", "WorkObserved"]


@pytest.mark.parametrize(
    ("events", "wanted"),
    [
        pytest.param(
            [
                *created()[:5],
                logged(8, 5.0, PolicyChanged(key=OVERRIDE, uid="o", manifest=raw({})), by="detector"),
                logged(9, 5.01, work("m1", digest="e"), 8, by="override_renderer"),
            ],
            [*CREATED[:5], "detect policy", "  render work m1"],
            id="an override renders again",
        ),
        pytest.param(
            [
                *created()[:5],
                logged(8, 60.0, cluster("m1"), by="cluster_monitor"),
                logged(9, 60.3, evicted("m1"), 8, by="failover"),
                logged(10, 60.31, placement(m2=2), 9),
                logged(11, 60.32, work("m2", digest="e"), 10, by="override_renderer"),
                logged(4, 60.4, seen("m2", work_seq=11, operation="updated"), by="executor"),
                logged(12, 60.41, rollup(m2={}), observed=(4,), by="status_aggregator"),
                logged(13, 60.42, EvictionFinished(key=KEY, uid="u1", left=("m1",)), 12, by="failover"),
                logged(14, 60.43, withdrawn("m1"), 13, by="override_renderer"),
            ],
            [
                *CREATED[:5],
                "probe cluster m1",
                "  evict eviction",
                "    schedule placement",
                "      render work m2",
                "        apply work m2",
                "          aggregate rollup",
                "            evict eviction",
                "              render work m1",
            ],
            id="a failover begins with the cluster",
        ),
        pytest.param(
            [
                *created()[:5],
                logged(8, 9.0, recommended("asked"), by="autoscaler"),
                logged(9, 9.02, scaled(), by="detector"),
                logged(10, 9.03, recommended("done"), by="autoscaler"),
            ],
            [*CREATED[:5], "recommend autoscaling", "  detect template", "  recommend autoscaling"],
            id="an autoscaler asks for replicas",
        ),
        pytest.param(
            [
                *created()[:5],
                logged(8, 9.0, recommended("asked"), by="autoscaler"),
                logged(9, 9.02, scaled(replicas=7), by="detector"),
            ],
            [*CREATED[:5], "recommend autoscaling", "detect template"],
            id="somebody else asks for other replicas",
        ),
        pytest.param(
            [
                *created()[:5],
                logged(8, 9.0, recommended("asked"), by="autoscaler"),
                logged(9, 90.0, scaled(), by="detector"),
            ],
            [*CREATED[:5], "recommend autoscaling", "detect template"],
            id="the same replicas much later",
        ),
        pytest.param(
            [
                *created()[:5],
                logged(8, 9.0, PolicyChanged(key=POLICY.key, uid="p", manifest=raw({}), generation=2), by="detector"),
                logged(
                    9,
                    9.1,
                    replace(binding(3), policy=PolicyRef(POLICY.key, "policy-id", 2)),
                    by="detector",
                    decided=9.05,
                ),
            ],
            [*CREATED[:5], "detect policy", "  request binding"],
            id="a policy of another generation",
        ),
        pytest.param(
            [*created()[:6], logged(5, 300.0, seen("m1", work_seq=4), by="executor")],
            [*CREATED[:6], "reflect status m1"],
            id="a report long after its work is news",
        ),
        pytest.param(
            [*created()[:6], logged(5, 1.0, seen("m1", work_seq=4, drift=(Drift(".spec"),), operation="updated"))],
            [*CREATED[:6], "reflect status m1"],
            id="drift is no part of the change",
        ),
    ],
)
def test_traces_of_other_changes(events: list[LoggedEvent], wanted: list[str]) -> None:
    found = spans(events)
    assert outline(found) == wanted
    roots = [span for span in found if not span.parent_id]
    assert len({span.trace_id for span in found}) == len(roots)


def test_news_of_a_copy_links_to_its_work() -> None:
    found = spans([*created()[:6], logged(5, 300.0, seen("m1", work_seq=4), by="executor")])
    by_id = {span.span_id: span for span in found}
    assert [by_id[link.span_id].name for link in found[-1].links] == ["render work"]
    assert found[-1].links[0].trace_id == found[0].trace_id != found[-1].trace_id


def test_ids_are_the_same_for_each_export_of_the_same_facts() -> None:
    whole, part = spans(created()), spans(created()[:6])
    assert [(span.trace_id, span.span_id) for span in whole[:6]] == [(span.trace_id, span.span_id) for span in part]
    others = spans([replace(one, event_id=f"other-{one.event_id}") for one in created()])
    assert {span.span_id for span in whole}.isdisjoint(span.span_id for span in others)


def test_lost_causes_are_named_and_keep_one_trace() -> None:
    late = [
        logged(3, 0.020, placement(m1=1), 2, correlation="binding-2"),
        logged(4, 0.030, work("m1"), 3, by="override_renderer", correlation="binding-2"),
        logged(5, 0.031, work("m2"), 2, by="override_renderer", correlation="binding-2"),
    ]
    found = spans(late)
    assert outline(found) == ["schedule placement", "  render work m1", "render work m2"]
    assert len({span.trace_id for span in found}) == 1
    assert found[0].attributes["fleetlog.cause.lost"] == ("FACTS #2",)
    assert "fleetlog.cause.lost" not in found[1].attributes


def test_a_clock_that_goes_behind_makes_no_negative_span() -> None:
    events = [
        *created()[:3],
        logged(4, 0.030, work("m1"), 3, by="override_renderer"),
        # Stored by another server of the log, whose clock is behind.
        logged(1, 0.022, seen("m1", work_seq=4, operation="created"), by="executor", decided=0.021),
        # A member whose clock is ahead.
        logged(2, 0.500, seen("m1", work_seq=4), by="executor", decided=3.5),
    ]
    found = spans(sorted(events, key=lambda one: one.time))
    assert outline(found)[3:] == ["      render work m1", "        apply work m1", "          reflect status m1"]
    applied, reflected = found[-2:]
    assert applied.start == applied.end == BEGAN + 0.022
    assert applied.attributes["fleetlog.clock.skew_ms"] == pytest.approx(9, abs=0.01)
    assert reflected.attributes["fleetlog.clock.skew_ms"] == pytest.approx(3000, abs=0.01)
    assert all(span.start <= one.time <= span.end for span in found for one in span.events)


def test_causes_that_claim_a_circle_do_not_hang() -> None:
    first = logged(3, 0.1, placement(m1=1), 4)
    second = logged(4, 0.2, work("m1"), 3)
    itself = logged(5, 0.3, placement(m1=1), 5)
    steps = in_order([step_of(one) for one in (first, second, itself)])
    assert sorted(step.at.seq for step in steps) == [3, 4, 5]
    assert len(spans([first, second, itself])) == 3


def test_failures_are_errors_of_their_spans() -> None:
    failed = PlacementFailed(key=KEY, uid="u1", reason="Unschedulable", message="0/2 clusters are available")
    refused = seen("m1", work_seq=4, applied=False, reason="Conflict", message="exists already")
    found = spans(
        [
            *created()[:2],
            logged(3, 0.02, failed, 2),
            logged(4, 0.03, work("m1", problem="no such path"), 3),
            logged(1, 0.04, refused, by="executor"),
        ]
    )
    assert [(span.error, span.attributes.get("error.type")) for span in found[2:]] == [
        ("0/2 clusters are available", "Unschedulable"),
        ("no such path", "RenderFailed"),
        ("exists already", "Conflict"),
    ]
    assert not found[0].error


def test_attributes_follow_the_conventions() -> None:
    found = spans(created())
    attributes = next(span for span in found if span.name == "render work").attributes
    assert attributes["messaging.system"] == "nats"
    assert attributes["messaging.operation.type"] == "process"
    assert attributes["messaging.destination.name"] == "work.m1.deployments=2Eapps.default.nginx"
    assert attributes["messaging.destination.template"] == "work.{cluster}.{resource}.{namespace}.{name}"
    assert attributes["messaging.message.id"] == "event-FACTS-4"
    assert attributes["messaging.message.conversation_id"] == "event-FACTS-4"
    assert attributes["k8s.cluster.name"] == "m1"
    assert attributes["k8s.namespace.name"] == "default"
    assert (attributes["k8s.deployment.name"], attributes["k8s.deployment.uid"]) == ("nginx", "u1")


def test_what_cannot_be_read_is_a_span_all_the_same() -> None:
    newer = replace(created()[0], data=b'{"type":"TemplateMoved.v9"}')
    broken = replace(created()[2], data=b"{", subject="placement.x")
    found = spans([newer, broken])
    assert [span.attributes["fleetlog.event"] for span in found] == ["TemplateMoved.v9", "Unreadable"]


@pytest.mark.parametrize(
    ("header", "wanted"),
    [
        (f"00-{CLIENT}-b7ad6b7169203331-01", (CLIENT, "b7ad6b7169203331")),
        (f"01-{CLIENT}-b7ad6b7169203331-01-more", (CLIENT, "b7ad6b7169203331")),
        (f"ff-{CLIENT}-b7ad6b7169203331-01", ("", "")),
        (f"00-{'0' * 32}-b7ad6b7169203331-01", ("", "")),
        (f"00-{CLIENT}-{'0' * 16}-01", ("", "")),
        (f"00-{CLIENT.upper()}-b7ad6b7169203331-01", ("", "")),
        ("00-x\r\ny: z", ("", "")),
        ("", ("", "")),
    ],
)
def test_only_a_whole_traceparent_counts(header: str, wanted: tuple[str, str]) -> None:
    assert traceparent(header) == wanted


WRITES = (
    StoredWrite(10, BEGAN, 0, uid="u1", generation=1, traceparent=f"00-{CLIENT}-b7ad6b7169203331-01"),
    StoredWrite(11, BEGAN + 1, 10, uid="u1", generation=2),
    StoredWrite(12, BEGAN + 2, 11, uid="u1", generation=2),
    StoredWrite(13, BEGAN + 3, 12, uid="u1", generation=3),
    StoredWrite(14, BEGAN + 4, 13, uid="u1", generation=3, deleted=True),
)


@pytest.mark.parametrize(
    ("event", "time", "writes", "wanted"),
    [
        (template(), 0.5, WRITES, (10, "create")),
        (template(deployment(generation=2)), 0.5, WRITES, (10, "create")),
        (replace(template(deployment(generation=2)), prev=1), 2.5, WRITES, (11, "update")),
        (replace(template(deployment(generation=3)), prev=1), 3.5, WRITES, (13, "update")),
        (replace(template(deployment(generation=3)), prev=1), 3.5, WRITES[3:], None),
        (replace(template(deployment(generation=3)), prev=1), 90.0, WRITES, None),
        (replace(template(deployment(generation=3)), prev=1), 2.5, WRITES, None),
        (binding(), 0.5, WRITES, None),
    ],
)
def test_the_request_behind_a_change(event: Any, time: float, writes: Any, wanted: tuple[int, str] | None) -> None:
    found = request_behind(event, BEGAN + time, writes, "deployments")
    assert (None if found is None else (found.revision, found.verb)) == wanted


def test_a_trace_of_the_client_is_continued() -> None:
    request = request_behind(template(), BEGAN + 0.01, WRITES, "deployments")
    assert request is not None
    first, *rest = created()
    found = spans([replace(first, request=request), *rest])
    assert outline(found)[:3] == ["create deployments", "  detect template", "    request binding"]
    assert {span.trace_id for span in found} == {CLIENT}
    assert (found[0].parent_id, found[0].kind, found[0].service) == ("b7ad6b7169203331", "server", "apiserver")
    assert (found[1].start, found[1].end) == (BEGAN, BEGAN + 0.010)


def test_an_old_request_is_no_part_of_the_trace() -> None:
    old = ApiRequest(10, BEGAN - 3600, "create", "deployments")
    first, *rest = created()
    assert outline(spans([replace(first, request=old), *rest])) == CREATED


def test_the_document_is_what_collectors_take() -> None:
    found = spans(created())
    made = document([Trace(found[0].trace_id, tuple(found))])
    services = [
        item["value"]["stringValue"]
        for group in made["resourceSpans"]
        for item in group["resource"]["attributes"]
        if item["key"] == "service.name"
    ]
    assert services == ["detector", "scheduler", "override_renderer", "executor", "registrar", "status_aggregator"]
    listed = [span for group in made["resourceSpans"] for scope in group["scopeSpans"] for span in scope["spans"]]
    assert sorted(span["spanId"] for span in listed) == sorted(span.span_id for span in found)
    scheduled = next(span for span in listed if span["name"] == "schedule placement")
    assert scheduled["startTimeUnixNano"] == str(round((BEGAN + 0.011) * 1e6) * 1000)
    assert {"key": "fleetlog.log.position", "value": {"intValue": "3"}} in scheduled["attributes"]
    assert scheduled["parentSpanId"] == found[1].span_id


@pytest.mark.parametrize(("ratio", "wanted"), [(1.0, 1000), (0.0, 0), (0.25, 250)])
def test_a_share_of_traces_is_chosen_by_their_ids(ratio: float, wanted: int) -> None:
    chosen = {f"{'ab' * 8}{number * 0x00418937_4BC6A7EF:016x}" for number in range(1000)}
    assert sum(sampled(name, ratio) for name in chosen) == pytest.approx(wanted, abs=2)


def test_a_fact_without_provenance_is_a_moment() -> None:
    bare = b'{"type":"TemplateDeleted.v1","key":["","a","",""],"uid":"u"}'
    found = spans([replace(logged(1, 0.01, template()), data=bare)])
    assert (found[0].start, found[0].end, found[0].events) == (BEGAN + 0.01, BEGAN + 0.01, ())
