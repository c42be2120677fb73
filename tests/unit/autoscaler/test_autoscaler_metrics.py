"""What the autoscaler offers to Prometheus: replicas and conditions by facts, rounds and answers by the leader."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from msgspec.structs import replace

from schemas.events.autoscaling import (
    ReplicasRecommended,
    RuleProgress,
    ScalingCondition,
    ScheduleAdvanced,
)
from schemas.keys import PolicyKey
from services._kit.base.metrics import KitMetrics
from services._kit.kube.client import ApiError, Unreachable
from services.autoscaler.metrics import AutoscalerMetrics, RoundTimer
from services.autoscaler.reading.sample_questions import MemberSamples
from services.autoscaler.schedule_decision import LATE
from services.autoscaler.state import AutoscalerState
from tests.support.facts import raw

WEB = PolicyKey("FederatedHPA", "shop", "web")
OFFICE = PolicyKey("CronFederatedHPA", "shop", "office")
STABLE = ScalingCondition("AbleToScale", "True", "ScaleDownStabilized", "")
BLIND = ScalingCondition("ScalingActive", "False", "FailedGetResourceMetric", "")
FACT = ReplicasRecommended(
    key=WEB,
    uid="u1",
    spec=raw({"maxReplicas": 9, "metrics": []}),
    current=4,
    desired=4,
    recommended=2,
    conditions=(STABLE, BLIND),
)


class Offered:
    """An autoscaler's metrics, with what they are made of; `answers` and `problems` are those of its reader."""

    def __init__(self, now: float = 100.0) -> None:
        self.now = now
        self.state = AutoscalerState()
        self.samples = MemberSamples({}, 1, 1.0, 0.0, lambda _: None)
        self.answers = {("metrics.k8s.io", "error"): 3.0}
        self.timer = RoundTimer(lambda: self.now)
        self.kit = KitMetrics("autoscaler")
        reader: Any = SimpleNamespace(members={}, samples=self.samples, answers=self.answers)
        self.metrics = AutoscalerMetrics(self.kit, self.state, reader, self.timer, 15.0)

    def value(self, metric: str, /, **labels: str) -> float | None:
        return self.kit.registry.get_sample_value(metric, labels)


def test_replicas_and_conditions_are_those_of_the_facts() -> None:
    offered = Offered()
    offered.state.scaling[WEB] = FACT
    other = replace(WEB, name="api")
    offered.state.scaling[other] = replace(FACT, key=other, spec=raw({"minReplicas": 3}), recommended=None)
    found = {
        (name, of): offered.value("fleetlog_autoscaler_replicas", namespace="shop", name=name, of=of)
        for name in ("web", "api")
        for of in ("now", "desired", "recommended", "least", "most")
    }
    assert [found["web", of] for of in ("now", "desired", "recommended", "least", "most")] == [4, 4, 2, 1, 9]
    assert [found["api", of] for of in ("now", "desired", "recommended", "least", "most")] == [4, 4, None, 3, None]
    labels = {"condition": "ScalingActive", "status": "False", "reason": "FailedGetResourceMetric"}
    assert offered.value("fleetlog_autoscaler_conditions", **labels) == 2
    del offered.state.scaling[WEB], offered.state.scaling[other]
    assert offered.value("fleetlog_autoscaler_conditions", **labels) is None


def test_rules_are_counted_by_what_they_do() -> None:
    offered = Offered()
    rule = RuleProgress("up", raw({}), due=200.0)
    rules = (
        rule,
        replace(rule, running=True),
        replace(rule, due=None),
        replace(rule, due=None, problem="L is unknown"),
        replace(rule, due=None, problem="no such zone"),
    )
    offered.state.schedules[OFFICE] = ScheduleAdvanced(key=OFFICE, uid="c1", target=raw({}), rules=rules)
    found = {
        state: offered.value("fleetlog_autoscaler_rules", state=state)
        for state in ("waiting", "running", "suspended", "unreadable")
    }
    assert found == {"waiting": 1, "running": 1, "suspended": 1, "unreadable": 2}


def test_failures_are_counted_from_zero_on() -> None:
    offered = Offered()
    runs = "cronfederatedhpa_rule_process_duration_seconds_count"
    assert offered.value(runs, result="error") == 0
    assert offered.value("fleetlog_autoscaler_rules_missed_total", why=LATE) == 0
    offered.metrics.ran(0.1, succeeded=False)
    offered.metrics.missed(LATE)
    assert offered.value(runs, result="error") == 1
    assert offered.value("fleetlog_autoscaler_rules_missed_total", why=LATE) == 1
    assert offered.value("fleetlog_autoscaler_source_answers_total", source="metrics.k8s.io", result="error") == 3


def test_round_that_hangs_shows_before_it_ends() -> None:
    offered = Offered()

    def shown() -> float | None:
        return offered.value("fleetlog_autoscaler_round_seconds", component="autoscaler")

    offered.timer.begin()
    offered.now += 2
    assert offered.timer.end(whole=True) == 2
    offered.timer.begin()
    offered.now += 1
    assert shown() == 2
    offered.now += 39
    assert shown() == 40
    # A round of some autoscalers says nothing of how long all of them take.
    assert offered.timer.end(whole=False) == 40
    assert shown() == 2
    offered.timer.begin()
    offered.now += 50
    offered.timer.forget()
    assert shown() == 0
    assert offered.value("fleetlog_autoscaler_period_seconds", component="autoscaler") == 15


class Pods:
    """A member that answers with samples, or fails."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.asked: list[str] = []

    async def opened(self, timeout: float) -> None:
        del timeout

    async def samples(self, namespace: str, timeout: float) -> dict[tuple[str, str], Any]:
        del timeout
        self.asked.append(namespace)
        if self.error is not None:
            raise self.error
        return {}


async def answers(samples: MemberSamples, wanted: dict[str, set[str]], *, everything: bool) -> dict[str, Any]:
    async with asyncio.TaskGroup() as group:
        asked = samples.ask(wanted, group, everything=everything)
    return {cluster: uses for cluster, task in asked.items() if (uses := task.result()) is not None}


def test_members_without_samples_are_shown_until_they_answer() -> None:
    members: dict[str, Any] = {"m1": Pods(), "m2": Pods(Unreachable("no answer within 5 s"))}
    heard: list[bool] = []
    offered = Offered()
    samples = offered.samples
    samples._members, samples._heard = members, heard.append

    def asked(*clusters: str, everything: bool = True) -> set[str]:
        return set(asyncio.run(answers(samples, {cluster: {"shop"} for cluster in clusters}, everything=everything)))

    def shown(cluster: str) -> float | None:
        return offered.value("fleetlog_autoscaler_member_samples", member_cluster=cluster)

    assert asked("m1", "m2", "m3") == {"m1"}
    assert sorted(heard) == [False, False, True]
    assert (shown("m1"), shown("m2"), shown("m3")) == (1, 0, 0)
    assert "no answer within 5 s" in samples.why("m2")
    members["m2"].error = ApiError(403, "Forbidden", "its roles do not permit it")
    assert asked("m2", everything=False) == set()
    assert (shown("m1"), "roles" in samples.why("m2")) == (1, True)
    members["m2"].error = None
    assert asked("m2") == {"m2"}
    # Members that no target is in any more are no matter of the next round.
    assert (shown("m1"), shown("m2"), shown("m3")) == (None, 1, None)
    samples.forget()
    assert shown("m2") is None
    assert asyncio.run(answers(samples, {"m1": {"a", "b"}}, everything=True)) == {"m1": {}}
    assert members["m1"].asked[-1] == ""
