"""How many replicas a FederatedHPA asks for: windows, rates, restarts, and what is never scaled on."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from schemas.envelope import Provenance
from schemas.events.autoscaling import ClusterScale, MetricReading, PodReading, ReplicasRecommended
from schemas.keys import ObjectKey, PolicyKey
from services.autoscaler.decide import decide, decided_again, settle, take_up, unsettled
from services.autoscaler.scaling_effects import Outcome, Refusal, Rescale, Round, Tell, Verify, WriteStatus

KEY = PolicyKey("FederatedHPA", "default", "web")
TARGET = ObjectKey("apps", "deployments", "default", "web")
NOW = 1_800_000_000.0
CPU: dict[str, Any] = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
}
QUEUE: dict[str, Any] = {
    "type": "External",
    "external": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "10"}},
}


def cpu(percent: int, pods: int = 4, **more: int) -> MetricReading:
    """What so many ready pods read that request 100m each."""
    counts = {"ready": pods, "sampled": pods, "matched": pods, **more}
    return MetricReading(pods=PodReading(usage=percent * pods, requested=100 * pods, **counts))


def given(current: int, *readings: MetricReading, spec: dict[str, Any] | None = None, **more: Any) -> Round:
    """A round of an autoscaler with 1 to 10 replicas."""
    fields = {"minReplicas": 1, "maxReplicas": 10, "metrics": [CPU], **(spec or {})}
    scales = more.pop("scales", (ClusterScale("m1", current, current),))
    return Round(KEY, "u1", Raw(msgspec.json.encode(fields)), 1, TARGET, current, scales, readings, **more)


def decided(last: ReplicasRecommended | None, found: Round, now: float) -> ReplicasRecommended:
    """The fact of a decision that stands on the log."""
    (event,) = decide(last, found, now).events
    assert isinstance(event, ReplicasRecommended)
    return replace(event, provenance=Provenance(decided_at=now))


def scaled(last: ReplicasRecommended | None, found: Round, now: float) -> ReplicasRecommended:
    """The fact once the replicas were written."""
    asked = decided(last, found, now)
    (event,) = settle(asked, Outcome(asked.desired), now).events
    assert isinstance(event, ReplicasRecommended)
    return replace(event, provenance=Provenance(decided_at=now))


def reasons(event: ReplicasRecommended) -> dict[str, str]:
    return {item.type: item.reason for item in event.conditions}


def test_load_above_target_asks_for_more_and_writes_it() -> None:
    found = decide(None, given(4, cpu(80)), NOW)
    (event,) = found.events
    assert isinstance(event, ReplicasRecommended)
    assert (event.current, event.desired, event.write) == (4, 7, "asked")
    assert event.reason == "cpu resource utilization (percentage of request) above target"
    (rescale,) = [effect for effect in found.effects if isinstance(effect, Rescale)]
    assert (rescale.target, rescale.before, rescale.replicas) == (TARGET, 4, 7)
    assert found.action == "scale_up"


def test_written_replicas_are_told_and_remembered() -> None:
    asked = decided(None, given(4, cpu(80)), NOW)
    done = settle(asked, Outcome(7), NOW + 1)
    (event,) = done.events
    assert isinstance(event, ReplicasRecommended)
    assert (event.write, event.scaled_at, reasons(event)["AbleToScale"]) == ("done", NOW + 1, "SucceededRescale")
    (told,) = [effect.note for effect in done.effects if isinstance(effect, Tell)]
    assert (told.reason, told.warning) == ("SuccessfulRescale", False)
    assert settle(event, Outcome(7), NOW + 2).events == ()


def test_refused_write_is_a_condition_and_no_change() -> None:
    behavior = {"behavior": {"scaleUp": {"policies": [{"type": "Pods", "value": 9, "periodSeconds": 60}]}}}
    asked = decided(None, given(4, cpu(80), spec=behavior), NOW)
    (event,) = settle(asked, Outcome(7, "the control plane does not answer"), NOW + 1).events
    assert isinstance(event, ReplicasRecommended)
    assert (event.ups, event.scaled_at, reasons(event)["AbleToScale"]) == ((), 0.0, "FailedUpdateScale")
    assert decide(event, given(4, cpu(80), spec=behavior), NOW + 15).action == "scale_up"


def test_same_decision_again_writes_no_fact() -> None:
    first = decided(None, given(4, cpu(50)), NOW)
    again = decide(first, given(4, cpu(51), held=NOW), NOW + 15)
    assert first.desired == 4
    assert again.events == ()
    assert not any(isinstance(effect, Rescale) for effect in again.effects)


def test_replicas_go_down_after_the_window_over_a_restart() -> None:
    busy = decided(None, given(8, cpu(50, 8)), NOW)
    idle = decided(busy, given(8, cpu(5, 8), held=NOW + 15), NOW + 30)
    assert (idle.desired, idle.recommended, reasons(idle)["AbleToScale"]) == (8, 1, "ScaleDownStabilized")
    # Nothing but the fact is left after a restart.
    restored = msgspec.json.decode(msgspec.json.encode(idle), type=ReplicasRecommended)
    assert decide(restored, given(8, cpu(5, 8)), NOW + 200).action == "none"
    later = decided(restored, given(8, cpu(5, 8)), NOW + 15 + 301)
    assert later.desired == 1


def test_recommendation_before_a_restart_counts_as_standing() -> None:
    busy = decided(None, given(8, cpu(50, 8)), NOW)
    after = decided(busy, given(8, cpu(5, 8)), NOW + 3600)
    assert after.desired == 8
    assert (after.recommendations[-1].replicas, after.recommendations[-1].at) == (8, NOW + 3600)


def test_rates_count_changes_of_the_fact_before() -> None:
    policies = [{"type": "Pods", "value": 2, "periodSeconds": 60}]
    spec = {"behavior": {"scaleUp": {"policies": policies, "stabilizationWindowSeconds": 0}, "scaleDown": {}}}
    first = scaled(None, given(4, cpu(100), spec=spec), NOW)
    assert first.desired == 6
    held = decided(first, given(6, cpu(100, 6), spec=spec, held=NOW), NOW + 15)
    assert (held.desired, reasons(held)["ScalingLimited"]) == (6, "ScaleUpLimit")
    assert decided(held, given(6, cpu(100, 6), spec=spec, held=NOW + 15), NOW + 90).desired == 8


def test_clock_set_back_does_not_hold_replicas_for_ever() -> None:
    ahead = decided(None, given(8, cpu(50, 8)), NOW + 86_400)
    back = decided(ahead, given(8, cpu(5, 8)), NOW)
    assert back.desired == 8
    assert all(item.at <= NOW for item in back.recommendations)
    assert decided(back, given(8, cpu(5, 8), held=NOW + 290), NOW + 301).desired == 1


def test_unknown_metric_lowers_nothing_and_says_so() -> None:
    unknown = MetricReading(problem="cluster m1: no answer")
    spec = {"metrics": [CPU, CPU]}
    event = decided(None, given(4, cpu(5), unknown, spec=spec), NOW)
    assert (event.desired, event.recommended) == (4, None)
    assert reasons(event)["ScalingActive"] == "FailedGetResourceMetric"
    assert decided(None, given(4, cpu(90), unknown, spec=spec), NOW).desired == 8


def test_member_that_is_away_keeps_replicas_from_going_down() -> None:
    scales = (ClusterScale("m1", 4, 4), ClusterScale("m2", away="the cluster is not ready"))
    before = decided(None, given(8, cpu(50, 8)), NOW - 400)
    event = decided(before, given(8, cpu(5), scales=scales, held=NOW - 400), NOW)
    assert (event.desired, reasons(event)["ScalingLimited"]) == (8, "MembersUnknown")
    assert decided(None, given(8, cpu(90), scales=scales), NOW).desired == 10


def test_target_that_no_cluster_runs_is_not_scaled() -> None:
    scales = (ClusterScale("m1", away="the cluster is not ready"),)
    event = decided(None, given(4, cpu(90), scales=scales), NOW)
    assert (event.desired, reasons(event)) == (4, {"AbleToScale": "FailedGetScale"})


def test_limits_that_contradict_each_other_scale_nothing() -> None:
    event = decided(None, given(4, cpu(90), spec={"minReplicas": 6, "maxReplicas": 3}), NOW)
    assert (event.desired, reasons(event)) == (4, {"AbleToScale": "InvalidLimits"})


def test_replicas_outside_of_the_limits_are_brought_inside() -> None:
    assert decided(None, given(12, cpu(50)), NOW).desired == 10
    low = decided(None, given(1, cpu(50), spec={"minReplicas": 3}), NOW)
    assert (low.desired, low.reason) == (3, "Current number of replicas below Spec.MinReplicas")


def test_refusal_keeps_what_was_there() -> None:
    before = decided(None, given(4, cpu(50)), NOW)
    refusal = Refusal("FailedGetBinding", "FailedGetBindings", "no policy propagates it")
    found = decide(before, given(4, refusal=refusal), NOW + 15)
    (event,) = found.events
    assert isinstance(event, ReplicasRecommended)
    assert (event.desired, reasons(event)["AbleToScale"]) == (4, "FailedGetBinding")
    assert [effect.note.reason for effect in found.effects if isinstance(effect, Tell)] == ["FailedGetBindings"]


def test_replicas_stay_shown_while_the_scale_cannot_be_read() -> None:
    done = scaled(None, given(4, cpu(80)), NOW)
    refusal = Refusal("FailedGetScale", "FailedGetScale", "the control plane does not answer")
    found = decide(done, msgspec.structs.replace(given(0, refusal=refusal), target=None), NOW + 15)
    (event,) = found.events
    assert isinstance(event, ReplicasRecommended)
    assert (event.current, event.desired, event.write) == (7, 7, "")
    (status,) = [effect.status for effect in found.effects if isinstance(effect, WriteStatus)]
    assert (status["currentReplicas"], status["desiredReplicas"]) == (7, 7)


def test_change_that_was_asked_for_is_verified_not_repeated() -> None:
    asked = decided(None, given(4, cpu(80)), NOW)
    assert unsettled(asked)
    taken_up = take_up(asked)
    assert (taken_up.events, taken_up.effects) == ((), (Verify(KEY, TARGET, 7),))
    done, failed = (settle(asked, Outcome(7, problem), NOW + 9).events[0] for problem in ("", "it has 4 replicas"))
    assert isinstance(done, ReplicasRecommended)
    assert isinstance(failed, ReplicasRecommended)
    assert [unsettled(event) for event in (done, failed)] == [False, False]
    assert (done.write, done.scaled_at, failed.write, failed.scaled_at) == ("done", NOW + 9, "it has 4 replicas", 0.0)


def test_target_without_replicas_stays_so_unless_zero_is_allowed() -> None:
    empty = (ClusterScale("m1"),)
    disabled = decided(None, given(0, cpu(50), scales=empty), NOW)
    assert (disabled.desired, reasons(disabled)["ScalingActive"]) == (0, "ScalingDisabled")
    spec = {"minReplicas": 0, "metrics": [QUEUE]}
    waiting = given(0, MetricReading(value=0), spec=spec, scales=empty, least_zero=True)
    assert decided(None, waiting, NOW).desired == 0
    woken = given(0, MetricReading(value=25_000), spec=spec, scales=empty, least_zero=True)
    assert decided(None, woken, NOW).desired == 3


def test_empty_queue_scales_to_zero_after_the_window() -> None:
    spec = {"minReplicas": 0, "metrics": [QUEUE]}
    first = decided(None, given(2, MetricReading(value=0), spec=spec, least_zero=True), NOW)
    assert (first.desired, first.recommended) == (2, 0)
    assert decided(first, given(2, MetricReading(value=0), spec=spec, least_zero=True), NOW + 301).desired == 0


def test_facts_are_decided_alike_again() -> None:
    busy = decided(None, given(8, cpu(50, 8)), NOW)
    idle = decided(busy, given(8, cpu(5, 8), held=NOW + 15), NOW + 30)
    up = decided(None, given(4, cpu(80)), NOW)
    (done,) = settle(up, Outcome(7), NOW + 1).events
    assert isinstance(done, ReplicasRecommended)
    for event in (busy, idle, up, replace(done, provenance=Provenance(decided_at=NOW + 1))):
        assert decided_again(event) == event.desired
    assert decided_again(replace(up, readings=(cpu(100),))) == 8
