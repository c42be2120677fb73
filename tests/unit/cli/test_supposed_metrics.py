"""What FederatedHPAs would ask for if metrics were others, and where the replicas would run."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import Raw
from msgspec.structs import replace

from schemas.codec import Known, subject_of
from schemas.envelope import Provenance
from schemas.events.autoscaling import MetricReading, PodReading, ReplicasRecommended, ScalingCondition, TimedReplicas
from schemas.keys import ObjectKey, PolicyKey
from schemas.topology import FACTS
from services.autoscaler.decide import decide
from services.autoscaler.scaling_effects import Round
from services.autoscaler.state import AutoscalerState, fold
from services.cli.common.running import Failed
from services.cli.queries.query_options import Suppositions
from services.cli.queries.simulate import document, outcomes, rescaled, shares, text, world_of
from services.cli.queries.supposed_metrics import Recommendation, recommendations, supposed_metric, unknown
from services.cli.queries.what_if import SimulatedState
from tests.support.facts import KEY, binding, cluster, cpus, placement, rollup
from tests.support.memory_log import MemoryLog

NOW = 1_793_232_000.0
WEB = PolicyKey("FederatedHPA", "default", "web")
CPU: dict[str, Any] = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
}
SIDECAR: dict[str, Any] = {
    "type": "ContainerResource",
    "containerResource": {
        "name": "cpu",
        "container": "proxy",
        "target": {"type": "Utilization", "averageUtilization": 50},
    },
}
REQUESTS: dict[str, Any] = {
    "type": "Pods",
    "pods": {"metric": {"name": "http_requests"}, "target": {"type": "AverageValue", "averageValue": "1"}},
}
QUEUE: dict[str, Any] = {
    "type": "External",
    "external": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "10"}},
}


def fhpa(*metrics: dict[str, Any], key: PolicyKey = WEB, most: int = 10, **fields: Any) -> ReplicasRecommended:
    """The last fact about a FederatedHPA of the example, which read 40% of 100m for each of four pods."""
    read = MetricReading(
        pods=PodReading(ready=4, sampled=4, matched=4, usage=160_000, requested=400_000),
    )
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "nginx"},
        "minReplicas": 2,
        "maxReplicas": most,
        "metrics": list(metrics) or [CPU],
        **fields.pop("spec", {}),
    }
    found = ReplicasRecommended(
        key=key,
        uid="h1",
        spec=Raw(msgspec.json.encode(spec)),
        generation=1,
        target=KEY,
        current=4,
        desired=4,
        recommended=4,
        readings=(read,) * max(len(metrics), 1),
        recommendations=(TimedReplicas(4, NOW - 60),),
        provenance=Provenance(decided_at=NOW - 60),
    )
    return replace(found, **fields)


def fleet(replicas: int = 4, **spec: Any) -> tuple[Known, ...]:
    """Two clusters that run half of the replicas each, and report them."""
    half = replicas // 2
    return (
        cluster("m1"),
        cluster("m2"),
        binding(replicas, **spec),
        replace(placement(as_of=3, m1=half, m2=half), binding_generation=1),
        rollup(m1={"replicas": half}, m2={"replicas": half}),
    )


async def world(*events: Known) -> SimulatedState:
    log = MemoryLog(FACTS)
    await log.given(*events)
    return await world_of({FACTS.name: log}, scaling=True)


def state(*events: Known) -> AutoscalerState:
    found = AutoscalerState()
    for seq, event in enumerate(events, 1):
        list(fold(found, seq, subject_of(event), event))
    return found


def supposed(last: ReplicasRecommended, *texts: str, others: tuple[Known, ...] = ()) -> Recommendation:
    """What the FederatedHPA of a fact would decide in the fleet."""
    known = state(*fleet(), last, *others)
    (found,) = recommendations(known, [supposed_metric(each) for each in texts], "default", NOW)
    return found


def reasons(found: Recommendation) -> dict[str, str]:
    return {item.type: item.reason for item in found.fact.conditions}


@pytest.mark.parametrize(
    ("metrics", "text", "asked", "desired", "limited"),
    [
        ((CPU,), "web:cpu=90%", 8, 8, "DesiredWithinRange"),
        ((CPU,), "web:cpu=52%", 4, 4, "DesiredWithinRange"),
        ((CPU,), "web:cpu=70m", 6, 6, "DesiredWithinRange"),
        ((CPU,), "web:cpu=900%", 72, 8, "ScaleUpLimit"),
        ((SIDECAR,), "web:cpu=75%", 6, 6, "DesiredWithinRange"),
        ((CPU, SIDECAR), "web:proxy/cpu=75%", 6, 6, "DesiredWithinRange"),
        ((REQUESTS,), "web:http_requests=1.4", 6, 6, "DesiredWithinRange"),
        ((REQUESTS,), "web:http_requests=1400m", 6, 6, "DesiredWithinRange"),
        ((QUEUE,), "web:queue=55", 6, 6, "DesiredWithinRange"),
    ],
)
def test_supposed_metric_is_decided_by_the_autoscalers_rules(
    metrics: tuple[dict[str, Any], ...], text: str, asked: int, desired: int, limited: str
) -> None:
    request = MetricReading(pods=PodReading(ready=4, sampled=4, matched=4, usage=160, requested=400))
    found = supposed(fhpa(*metrics, readings=(request,) * len(metrics)), text)
    assert (found.fact.current, found.fact.recommended, found.fact.desired) == (4, asked, desired)
    assert reasons(found)["ScalingLimited"] == limited
    assert found.supposed.count(True) == 1


def test_most_replicas_of_the_spec_bound_what_is_asked_for() -> None:
    found = supposed(fhpa(most=5), "web:cpu=90%")
    assert (found.fact.recommended, found.fact.desired, found.limits) == (8, 5, (2, 5))
    assert reasons(found)["ScalingLimited"] == "TooManyReplicas"


def test_window_and_rates_of_the_log_hold_replicas() -> None:
    found = supposed(fhpa(), "web:cpu=5%")
    assert (found.fact.recommended, found.replicas) == (1, None)
    assert reasons(found)["AbleToScale"] == "ScaleDownStabilized"
    behavior = {"behavior": {"scaleUp": {"policies": [{"type": "Pods", "value": 3, "periodSeconds": 60}]}}}
    rated = fhpa(spec=behavior, ups=(TimedReplicas(2, NOW - 30),))
    assert supposed(rated, "web:cpu=90%").replicas == 5


def test_other_metrics_count_as_they_were_recorded() -> None:
    busy = MetricReading(pods=PodReading(ready=4, sampled=4, matched=4, usage=280, requested=400))
    found = supposed(fhpa(CPU, REQUESTS, readings=(busy, busy)), "web:http_requests=1")
    assert (found.fact.recommended, found.supposed) == (6, (False, True))
    assert found.seen == 6
    both = supposed(fhpa(CPU, REQUESTS, readings=(busy, busy)), "web:http_requests=1", "web:cpu=50%")
    assert both.fact.recommended == 4


def test_a_round_that_reads_the_same_decides_the_same() -> None:
    last = fhpa()
    found = supposed(last, "web:cpu=90%")
    known = state(*fleet(), last)
    read = MetricReading(pods=PodReading(ready=4, sampled=4, matched=4, usage=360_000, requested=400_000))
    scales = known.scales(known.objects[KEY], 4)
    given = Round(WEB, "h1", last.spec, 1, KEY, 4, scales, (read,))
    assert decide(last, given, NOW).events == (found.fact,)


def test_requests_are_those_of_the_binding_where_none_was_read() -> None:
    unread = fhpa(readings=(), conditions=(ScalingCondition("ScalingActive", "False", "FailedGetResourceMetric", "x"),))
    known = state(*fleet(**cpus("100m")), unread)
    (found,) = recommendations(known, [supposed_metric("web:cpu=75m")], "default", NOW)
    assert found.replicas == 6
    with pytest.raises(Failed, match="what pods request of cpu is not on the log; write a percentage"):
        supposed(unread, "web:cpu=75m")
    assert supposed(unread, "web:cpu=75%").replicas == 6


def test_nothing_is_asked_for_where_nothing_would_be_read() -> None:
    other = fhpa(key=PolicyKey("FederatedHPA", "default", "other"))
    found = supposed(fhpa(), "web:cpu=90%", others=(other,))
    assert (found.replicas, reasons(found)["ScalingActive"]) == (None, "AmbiguousSelector")
    selects = ScalingCondition("ScalingActive", "False", "InvalidSelector", "the selector cannot be read")
    found = supposed(fhpa(conditions=(selects,)), "web:cpu=90%")
    assert (found.replicas, reasons(found)["ScalingActive"]) == (None, "InvalidSelector")
    undivided = replace(binding(6), generation=2)
    found = supposed(fhpa(), "web:cpu=90%", others=(undivided,))
    assert (found.replicas, reasons(found)["AbleToScale"]) == (None, "PlacementPending")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("web:memory=1Gi", "memory is not a metric of FederatedHPA/default/web; it has: cpu, http_requests, queue"),
        ("web:app/cpu=50%", "app/cpu is not a metric of"),
        ("web:http_requests=50%", "its target is no utilization; write a quantity"),
        ("web:queue=50%", "its target is no utilization"),
        ("web:cpu", "write FHPA:METRIC=VALUE"),
        ("web:cpu=lots", "is no quantity and no percentage"),
        ("web:cpu=-5", "metrics are not below 0"),
        (":cpu=5", "write FHPA:METRIC=VALUE"),
    ],
)
def test_what_cannot_be_supposed_is_named(text: str, told: str) -> None:
    with pytest.raises(Failed, match=told):
        supposed(fhpa(CPU, REQUESTS, QUEUE), text)


def test_metric_is_supposed_once() -> None:
    with pytest.raises(Failed, match="suppose one metric twice"):
        supposed(fhpa(), "web:cpu=50%", "web:cpu=60%")


def test_target_without_a_binding_is_named() -> None:
    metric = supposed_metric("web:cpu=90%")
    with pytest.raises(Failed, match="no policy propagates its target Deployment default/nginx"):
        recommendations(state(fhpa()), [metric], "default", NOW)
    assert unknown(state(fhpa()), [metric], "default") == []
    assert unknown(state(fhpa()), [metric], "elsewhere") == [PolicyKey("FederatedHPA", "elsewhere", "web")]


async def divided(text_of_metric: str, **more: Any) -> tuple[dict[str, Any], str]:
    """The document and the words of a simulation."""
    known = await world(*fleet(), fhpa())
    found = recommendations(known.scaling, [supposed_metric(text_of_metric)], "default", NOW)
    held = {"m1": 2, "m2": 2}
    scale: dict[ObjectKey, int] = more.pop("scale", {})
    moved = outcomes(known, Suppositions(**more), rescaled(scale, found), NOW)
    shown = [shares(each, held, moved) for each in found]
    return document(moved, shown), text(moved, shown)


async def test_new_replicas_are_divided_by_the_scheduler() -> None:
    made, words = await divided("web:cpu=90%")
    (scaler,) = made["autoscalers"]
    assert scaler["clusters"] == {"m1": {"before": 2, "after": 4}, "m2": {"before": 2, "after": 4}}
    assert (scaler["desiredReplicas"], scaler["metrics"][0]["value"]) == (8, "90%")
    assert made["clusters"] == {"m1": {"before": 2, "after": 4}, "m2": {"before": 2, "after": 4}}
    assert words.startswith(
        "FederatedHPA/default/web: 4 -> 8 replicas of deployments.apps/default/nginx "
        "(metrics ask for 8; at least 2, at most 10); cpu resource utilization"
    )
    assert "Resource cpu: 90% (supposed); target 50% of requests" in words


async def test_metric_and_lost_cluster_are_supposed_together() -> None:
    made, _ = await divided("web:cpu=90%", lose=("m1",))
    assert made["autoscalers"][0]["clusters"] == {"m1": {"before": 2, "after": 0}, "m2": {"before": 2, "after": 8}}


async def test_replicas_that_stay_are_shown_where_they_are() -> None:
    made, words = await divided("web:cpu=50%")
    assert (made["moved"], made["autoscalers"][0]["clusters"]["m1"]) == ([], {"before": 2, "after": 2})
    assert "FederatedHPA/default/web: 4 replicas of" in words
    assert words.endswith("Everything stays where it is.\n")


async def test_scale_and_metric_of_one_target_contradict_each_other() -> None:
    with pytest.raises(Failed, match="--scale and --metric both set the replicas of"):
        await divided("web:cpu=90%", scale={KEY: 9})
