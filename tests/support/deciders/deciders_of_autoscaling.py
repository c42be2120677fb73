"""The autoscaler: rounds and schedules that are given to it, facts of its own."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import msgspec
from msgspec import field

from schemas.events.autoscaling import ClusterScale, MetricReading, PodReading, RuleRun
from schemas.keys import PolicyKey
from services._rules.constants import CRON_FEDERATED_HPA, FEDERATED_HPA
from services.autoscaler import decide as scaling
from services.autoscaler import state as autoscaler
from services.autoscaler.app import Autoscaler
from services.autoscaler.reading.round_rules import pending
from services.autoscaler.reading.scale_questions import doubtful
from services.autoscaler.replica_rules import follows_members, replicas_of_members
from services.autoscaler.scaling_effects import Outcome, Refusal, Round
from services.autoscaler.schedule_decision import Schedule, decide_schedule
from services.autoscaler.settings import AutoscalerSettings
from tests.support.deciders.decider import Decider, Step, appended, facts, folded, started
from tests.support.facts import KEY, raw
from tests.support.varied_facts import NOW

HPA = PolicyKey(FEDERATED_HPA, "default", "web")
CRON = PolicyKey(CRON_FEDERATED_HPA, "default", "office")
CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}
QUEUE = {
    "type": "External",
    "external": {"metric": {"name": "q"}, "target": {"type": "AverageValue", "averageValue": "5"}},
}
RATES = {
    "scaleUp": {"stabilizationWindowSeconds": 3, "policies": [{"type": "Pods", "value": 2, "periodSeconds": 60}]},
    "scaleDown": {"policies": [{"type": "Percent", "value": 50, "periodSeconds": 15}]},
}
SPEC: dict[str, Any] = {"minReplicas": 1, "maxReplicas": 8, "metrics": [CPU]}


class _Autoscaling(autoscaler.AutoscalerState):
    """The projection, with what was read last and what the control plane holds."""

    given: Round | None = None
    schedule: Schedule | None = None
    ended: dict[str, RuleRun] = field(default_factory=dict)


def _round(name: str, reading: MetricReading | None = None, uid: str = "u1", **more: Any) -> Step:
    spec = {**SPEC, **more.pop("spec", {})}
    readings = (reading,) if reading is not None else ()

    def act(state: _Autoscaling, _: int) -> None:
        target = state.objects.get(KEY)
        current = more.get("current", target.bound.replicas if target is not None and target.bound is not None else 2)
        scales = (ClusterScale("m1", current, current),)
        if target is not None and target.targets:
            scales = state.scales(target, current)
        fields = {**more, "current": current, "scales": scales}
        state.given = Round(HPA, uid, raw(spec), 1, target=KEY, readings=readings, **fields)

    return Step(f"a round: {name}", act)


def _cpu(percent: int, pods: int = 2, **more: int) -> MetricReading:
    usage, requested = percent * pods, 100 * pods
    return MetricReading(PodReading(ready=pods, sampled=pods, matched=pods, usage=usage, requested=requested, **more))


def _scheduled(name: str, *rules: dict[str, Any], uid: str = "c1") -> Step:
    spec = {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "nginx"}, "rules": list(rules)}
    return Step(f"a schedule: {name}", lambda state, _: setattr(state, "schedule", Schedule(uid, 1, spec)))


def _ended(problem: str) -> Step:
    def act(state: _Autoscaling, seq: int) -> None:
        last = state.schedules.get(CRON)
        for rule in last.rules if last is not None else ():
            state.ended[rule.name] = RuleRun(rule.last, NOW + seq, replicas=3, problem=problem)

    return Step(f"runs end{': ' if problem else ''}{problem}", act)


def _decide(state: _Autoscaling, key: PolicyKey, now: float) -> Any:
    if key == CRON:
        return decide_schedule(state.schedules.get(key), state.schedule, key, now, state.ended, frozenset())
    last, target = state.scaling.get(key), state.objects.get(KEY)
    told = scaling.settle(last, Outcome(last.desired), now) if last is not None else None
    asked = None
    if target is not None:
        scales = state.scales(target, 2)
        asked = (
            follows_members(target),
            replicas_of_members(state, target),
            pending(target, 2),
            doubtful(target, scales),
        )
    if state.given is None:
        return scaling.release(key, last), told, asked
    return scaling.decide(last, state.given, now), told, asked


def _take(state: _Autoscaling, key: PolicyKey, made: Any, seq: int) -> None:
    if key == CRON:
        appended(folded(autoscaler.fold), state, seq, made.events)
        return
    chosen = made[1] if seq % 2 and made[1] is not None else made[0]
    appended(folded(autoscaler.fold), state, seq, chosen.events)


RULE = {"name": "up", "schedule": "* * * * *", "targetReplicas": 3}
AUTOSCALER = Decider(
    "autoscaler",
    _Autoscaling,
    [
        _round("busy", _cpu(90)),
        _round("idle", _cpu(5)),
        _round("with rates", _cpu(100), spec={"behavior": RATES}),
        _round("down with rates", _cpu(1), spec={"behavior": RATES}, current=6),
        _round("pods without samples", _cpu(20, missing=2, missing_requested=200, missing_fallback=200)),
        _round("unknown", MetricReading(problem="no answer")),
        _round("refused", refusal=Refusal("FailedGetScale", "FailedGetScale", "gone")),
        _round("an empty queue", MetricReading(value=0), spec={"metrics": [QUEUE], "minReplicas": 0}, least_zero=True),
        _round("replaced", _cpu(50), uid="u2"),
        _round("above the limits", _cpu(50), current=20),
        Step("no autoscaler", lambda state, _: setattr(state, "given", None)),
        _scheduled("every minute", RULE),
        _scheduled(
            "changed", {**RULE, "targetReplicas": 5}, {"name": "down", "schedule": "@daily", "targetReplicas": 1}
        ),
        _scheduled("unreadable", {**RULE, "schedule": "0 0 L * *"}, {**RULE, "name": "off", "suspend": True}),
        _scheduled("replaced", RULE, uid="c2"),
        Step("no schedule", lambda state, _: setattr(state, "schedule", None)),
        _ended(""),
        _ended("the target is gone"),
        *facts(
            folded(autoscaler.fold),
            "template",
            "binding",
            "placement",
            "eviction",
            "descheduling",
            "rollup",
            "cluster",
        ),
    ],
    lambda state: [HPA, CRON],
    _decide,
    _take,
    [
        *started(folded(autoscaler.fold), "cluster", "template", "binding", "placement", "rollup"),
        _round("at the start", _cpu(50)),
        _scheduled("at the start", RULE),
    ],
)


class _Shell(Autoscaler):
    """The service as it leads, with what it was given in the place of watches and rounds."""

    def __init__(self) -> None:
        super().__init__(AutoscalerSettings(control_kubeconfig="unused"))
        self._leading = True
        self._metrics = cast("Any", SimpleNamespace(decided=_unheard))

    def decide(self, state: autoscaler.AutoscalerState, key: PolicyKey, now: float) -> Any:
        assert isinstance(state, _Autoscaling)
        given, schedule = state.given, state.schedule
        found: dict[str, dict[PolicyKey, Any]] = {FEDERATED_HPA: {}, CRON_FEDERATED_HPA: {}}
        if given is not None:
            found[FEDERATED_HPA][HPA] = given
            self._rounds[HPA] = given, 0.1
        if schedule is not None:
            fields = msgspec.json.decode(msgspec.json.encode(schedule.spec))
            watched = SimpleNamespace(uid=schedule.uid, generation=schedule.generation, fields=fields)
            found[CRON_FEDERATED_HPA][CRON] = watched
        self._watches = {
            kind: cast("Any", SimpleNamespace(synced=True, objects=objects)) for kind, objects in found.items()
        }
        self._ended[CRON] = dict(state.ended)
        return super().decide(state, key, now)


def _unheard(*_: object) -> None:
    pass


AUTOSCALER_SHELL: Callable[[], Autoscaler] = _Shell
