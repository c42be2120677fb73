"""A decision is a function of state, key and time: made twice it is the same, and the state stays as it was."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from schemas.agent import Hello, Sample
from schemas.codec import Known, subject_of
from schemas.envelope import Provenance
from schemas.events.cluster import ClusterChanged, ClusterRemoved
from schemas.events.control_plane import AbsenceConfirmed, ControlPlaneIdentified
from schemas.keys import ObjectKey, PolicyKey
from services._rules.absence import absence_guard as absence
from services._rules.absence.endpoint_identity import Reading
from services._rules.capacity.replica_estimate import Answers as RoomAnswers
from services._rules.capacity.replica_estimate import Picture
from services._rules.failover.application_failover import Gates
from services._rules.interpreter.configuration import KINDS as INTERPRETERS
from services.cluster_monitor import decide as monitoring
from services.cluster_monitor import state as monitor
from services.cluster_monitor.member_identity import fold_absence
from services.descheduler import decide as descheduling
from services.descheduler import state as descheduler
from services.detector import decide as detecting
from services.detector import state as detector
from services.detector.binding_request import DetectorOptions
from services.detector.control_plane_scope import decide_scope
from services.estimator import decide as estimating
from services.estimator import state as estimator
from services.estimator.remote import Remote
from services.failover import decide as evicting
from services.failover import state as failover
from services.janitor import decide as cleaning
from services.janitor import state as janitor
from services.override_renderer import decide as rendering
from services.override_renderer import state as renderer
from services.registrar import decide as registering
from services.registrar import state as registrar
from services.scheduler import decide as scheduling
from services.scheduler import state as scheduler
from services.status_aggregator import decide as summing
from services.status_aggregator import state as aggregator
from tests.support.facts import KEY, STATIC, cluster, deployment
from tests.support.state_image import difference, image
from tests.support.varied_facts import (
    ABOUT_POLICIES,
    ABOUT_ROOM,
    ALL,
    MEMBERS,
    NOW,
    OTHER,
    of_families,
    seen,
)

INTERVAL = 120.0
EXAMPLES = settings(max_examples=120, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
Manifest = dict[str, Any]


class Step(NamedTuple):
    """One thing that happens to a state at a position."""

    name: str
    act: Callable[[Any, int], object]

    def __repr__(self) -> str:
        return self.name


class Decider(NamedTuple):
    """A service without its shell: what happens to it, what it decides for a key, and what it takes in of that."""

    name: str
    new: Callable[[], Any]
    steps: Sequence[Step]
    keys: Callable[[Any], Iterable[Any]]
    decide: Callable[[Any, Any, float], Any]
    take: Callable[[Any, Any, Any, int], object]
    """Folds what was decided of a key at a position, as the log would give it back."""

    def __str__(self) -> str:
        return self.name


def facts(fold: Callable[[Any, int, Known], object], *families: str, more: Sequence[Known] = ()) -> list[Step]:
    """A step for every fact of some aggregates."""

    def step(number: int, event: Known) -> Step:
        def act(state: Any, seq: int) -> None:
            seen_so_far = replace(event.provenance, as_of=max(event.provenance.as_of, seq - 1), decided_at=NOW)
            fold(state, seq, replace(event, provenance=seen_so_far))

        return Step(f"{subject_of(event)}#{number}", act)

    chosen = of_families([*ALL, *ABOUT_ROOM, *ABOUT_POLICIES, *more], *families)
    return [step(number, event) for number, event in enumerate(chosen)]


def folded(fold: Callable[..., Iterable[object]]) -> Callable[[Any, int, Known], object]:
    return lambda state, seq, event: list(fold(state, seq, subject_of(event), event))


def folded_when_stored(fold: Callable[..., Iterable[object]]) -> Callable[[Any, int, Known], object]:
    return lambda state, seq, event: list(fold(state, seq, subject_of(event), event, NOW + seq))


def appended(fold: Callable[[Any, int, Known], object], state: Any, seq: int, events: Iterable[Known | None]) -> None:
    for event in events:
        if event is not None:
            fold(state, seq, replace(event, provenance=Provenance(as_of=seq, decided_at=NOW + seq)))


# The detector reads the control plane: its inputs are manifests, its facts are its own.

LAZY = PolicyKey("PropagationPolicy", "default", "lazy")
PLAIN = PolicyKey("PropagationPolicy", "default", "plain")


def propagation(key: PolicyKey, name: str = "nginx", **spec: Any) -> Manifest:
    selectors = [{"apiVersion": "apps/v1", "kind": "Deployment", "name": name}]
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": key.kind,
        "metadata": {"name": key.name, "uid": f"uid-{key.name}", "generation": 1, "namespace": key.namespace},
        "spec": {"resourceSelectors": selectors, "placement": STATIC, **spec},
    }


def _detector() -> detector.DetectorState:
    state = detector.DetectorState(options=DetectorOptions(priorities=True))
    absence.take_reading(state.guard, Reading("ours", 1), absence.noted(state.guard))
    for kind in (*detector.POLICY_KINDS, *INTERPRETERS):
        detector.take_policy_list(state, kind, {})
    detector.take_list(state, "deployments.apps", {})
    return state


def _decide_detector(state: detector.DetectorState, key: Any, now: float) -> Any:
    if key == detector.SCOPE:
        return decide_scope(state, now)
    return (
        detecting.decide_policy(state, key)
        if isinstance(key, PolicyKey)
        else detecting.decide_template(state, key, now)
    )


def _take_detector(state: detector.DetectorState, key: Any, made: Any, seq: int) -> None:
    if isinstance(key, ObjectKey):
        detector.remember(state, key, waiting=made.waiting, ranked=made.ranked)
    elif key == detector.SCOPE and made.settled:
        absence.settle(state.guard)
    appended(folded(detector.fold), state, seq, made.events)


def _template(name: str, manifest: Manifest | None) -> Step:
    return Step(f"template {name}", lambda state, _: list(detector.take_template(state, KEY, manifest)))


def _policy(name: str, key: PolicyKey, manifest: Manifest | None) -> Step:
    return Step(f"policy {name}", lambda state, _: list(detector.take_policy(state, key, manifest)))


PRIORITY = {"schedulePriority": {"priorityClassSource": "KubePriorityClass", "priorityClassName": "high"}}
DETECTOR = Decider(
    "detector",
    _detector,
    [
        _template("small", deployment()),
        _template("changed", deployment(replicas=5)),
        _template("large", deployment(annotations={"much": "x" * 5000})),
        _template("replaced", deployment(uid="u2")),
        _template("claimed by a template", deployment(labels={"resourcetemplate.karmada.io/claimed-by": "x"})),
        _template("gone", None),
        _policy("plain", PLAIN, propagation(PLAIN)),
        _policy("ranked", PLAIN, propagation(PLAIN, **PRIORITY)),
        _policy("of another", PLAIN, propagation(PLAIN, "other")),
        _policy("lazy", LAZY, propagation(LAZY, activationPreference="Lazy")),
        _policy("gone", PLAIN, None),
        Step("an empty list", lambda state, _: detector.take_list(state, "deployments.apps", {})),
        Step("an older store", lambda state, _: absence.doubt(state.guard)),
        *facts(
            folded(detector.fold),
            "template",
            "binding",
            "policy",
            "identity",
            "absence",
            "confirmation",
            more=[
                ControlPlaneIdentified(uid="ours", revision=1),
                AbsenceConfirmed(scope="templates", held_at=1, by="anna", at=NOW, identity="ours"),
            ],
        ),
    ],
    lambda state: [detector.SCOPE, KEY, PLAIN, LAZY, *state.policy_facts],
    _decide_detector,
    _take_detector,
)

# The scheduler: what is promised and tried is taken in between decisions.


def _take_scheduler(state: scheduler.SchedulerState, key: ObjectKey, made: Any, seq: int) -> None:
    if made.failed:
        state.tried(key)
    if made.event is not None:
        if clusters := getattr(made.event, "clusters", ()):
            state.promise(key, clusters, NOW + seq)
        if seq % 3:
            appended(folded_when_stored(scheduler.fold), state, seq, (made.event,))


SCHEDULER = Decider(
    "scheduler",
    scheduler.SchedulerState,
    [
        *facts(
            folded_when_stored(scheduler.fold),
            "binding",
            "cluster",
            "estimate",
            "eviction",
            "descheduling",
            "placement",
            "rollup",
            "lease",
        ),
        Step("an object comes up again", lambda state, seq: state.reopen(KEY, NOW + seq)),
        Step("reservations end", lambda state, _: state.expire(NOW + 1000)),
    ],
    lambda state: [*state.objects, OTHER],
    lambda state, key, now: scheduling.schedule(state, key, now, "default-scheduler", timeout=3.0),
    _take_scheduler,
)

RENDERER = Decider(
    "override_renderer",
    renderer.RendererState,
    facts(
        folded(renderer.fold),
        "template",
        "binding",
        "placement",
        "eviction",
        "descheduling",
        "policy",
        "cluster",
        "work",
    ),
    lambda state: state.objects,
    lambda state, key, _: rendering.decide(state, key),
    lambda state, key, made, seq: appended(folded(renderer.fold), state, seq, made.events),
)

PACE = summing.RollupPace(0.1, 1.0, 5.0, 0.3)
AGGREGATOR = Decider(
    "status_aggregator",
    aggregator.AggregatorState,
    facts(
        folded(aggregator.fold),
        "template",
        "binding",
        "placement",
        "eviction",
        "work",
        "cluster",
        "rollup",
        "observed",
    ),
    lambda state: state.objects,
    lambda state, key, now: (
        summing.decide(state, key),
        summing.due_at(state.objects[key], now, PACE, 2.0),
        summing.has_news(state.objects[key]),
    ),
    lambda state, key, made, seq: appended(folded(aggregator.fold), state, seq, made[:1]),
)

RULES = evicting.Rules(taint_eviction=True, timeout=30.0, gates=Gates(stateful_failover_injection=True))
FAILOVER = Decider(
    "failover",
    failover.FailoverState,
    facts(folded(failover.fold), "binding", "placement", "rollup", "cluster", "eviction"),
    lambda state: state.objects,
    lambda state, key, now: [evicting.decide(state, key, now, RULES, in_turn=turn) for turn in (True, False)],
    lambda state, key, made, seq: appended(folded(failover.fold), state, seq, (made[0].event,)),
)


def _answered(state: descheduler.DeschedulerState, _: int) -> None:
    given = state.of(KEY)
    state.answers[KEY] = descheduler.Answers(given.seen, {"m1": 1})


def _take_descheduler(state: descheduler.DeschedulerState, key: ObjectKey, made: Any, seq: int) -> None:
    state.answers.pop(key, None)
    appended(folded(descheduler.fold), state, seq, (made.event,))


DESCHEDULER = Decider(
    "descheduler",
    descheduler.DeschedulerState,
    [
        *facts(folded(descheduler.fold), "binding", "placement", "eviction", "rollup", "descheduling"),
        Step("an answer", _answered),
    ],
    lambda state: state.objects,
    lambda state, key, now: descheduling.decide(state, key, now, INTERVAL, NOW),
    _take_descheduler,
)

# The cluster monitor reads Cluster objects and probes; facts are its own.


def _probe(name: str, **fields: Any) -> Step:
    def act(state: monitor.MonitorState, seq: int) -> None:
        summary = {"apiEnablements": [{"groupVersion": "v1", "resources": []}]}
        member = state.of("m1")
        member.probe = Sample(at=NOW + seq, **{"online": True, "healthy": True, "summary": summary, **fields})
        member.heard_at = NOW + seq

    return Step(f"probe {name}", act)


def _object(name: str, mode: str = "Push", **metadata: Any) -> Step:
    manifest = {"metadata": {"name": "m1", "uid": "c1", **metadata}, "spec": {"syncMode": mode, "id": "k1"}}

    def act(state: monitor.MonitorState, _: int) -> None:
        state.told("m1", there=True)
        state.of("m1").manifest = copy.deepcopy(manifest)

    return Step(f"cluster {name}", act)


def _lists(state: monitor.MonitorState, _: int) -> None:
    for name in {*state.clusters} - state.lost(()):
        state.of(name).manifest = None


def _decide_monitor(state: monitor.MonitorState, key: str, now: float) -> monitoring.ClusterDecision:
    return monitoring.decide(state, key, now) if key else monitoring.decide_all(state, now)


def _take_monitor(state: monitor.MonitorState, key: str, made: monitoring.ClusterDecision, seq: int) -> None:
    if made.settled:
        absence.settle(state.guard)
    if made.memory is not None:
        state.of(key).memory = made.memory
    for event in made.events:
        match event:
            case ClusterChanged():
                state.of(key).fact = event
            case ClusterRemoved():
                state.of(key).fact = None
            case _:
                fold_absence(state, seq, subject_of(event), event)


def _monitor() -> monitor.MonitorState:
    state = monitor.MonitorState(listed=True)
    absence.take_reading(state.guard, Reading("ours", 1), absence.noted(state.guard))
    return state


MONITOR = Decider(
    "cluster_monitor",
    _monitor,
    [
        _probe("well"),
        _probe("away", online=False, healthy=False, summary=None),
        _probe("ill", healthy=False, summary=None),
        _probe("of another", identity="k2"),
        _object("pushed"),
        _object("pulled", "Pull"),
        _object("leaving", deletionTimestamp="2023-11-14T22:13:20Z", finalizers=[monitoring.FINALIZER]),
        Step("an empty list", _lists),
        Step("no probes", lambda state, _: setattr(state.of("m1"), "unprobed", True)),
        Step("an older store", lambda state, _: absence.doubt(state.guard)),
        Step(
            "a confirmation",
            lambda state, seq: fold_absence(
                state,
                seq,
                "confirmation.clusters",
                AbsenceConfirmed(scope="clusters", held_at=state.guard.held_at, by="anna", at=NOW, identity="ours"),
            ),
        ),
    ],
    lambda state: [monitor.ALL, *MEMBERS],
    _decide_monitor,
    _take_monitor,
)


def _fold_janitor(state: janitor.JanitorState, seq: int, event: Known) -> None:
    list(janitor.fold(state, seq, NOW + seq, subject_of(event), replace(event, prev=seq - 1)))


JANITOR = Decider(
    "janitor",
    lambda: janitor.JanitorState(tail=1),
    [
        *facts(
            _fold_janitor,
            "template",
            "binding",
            "placement",
            "eviction",
            "rollup",
            "work",
            "observed",
            "cluster",
            "policy",
        ),
        Step("HISTORY is read", lambda state, seq: setattr(state, "held", seq)),
        Step("a large event", lambda state, _: list(janitor.weigh(state, "template.x", janitor.TAIL_BYTES))),
    ],
    lambda state: [*state.objects, *state.policies, *state.clusters, "m9", *map(janitor.Tail, state.counts)],
    lambda state, key, now: (
        cleaning.decide(state, key, now, 50.0),
        cleaning.trims(state, key) if isinstance(key, janitor.Tail) else None,
    ),
    lambda state, key, made, seq: None,
)


def _picture(state: estimator.EstimatorState, _: int) -> None:
    picture = Picture()
    node = {"metadata": {"name": "n"}, "spec": {}, "status": {"allocatable": {"cpu": "4", "pods": "100"}}}
    picture.rooms.list_nodes([node])
    picture.rooms.list_pods([])
    picture.quotas.list_quotas([])
    state.answers["m1"] = RoomAnswers(picture)


def _agent(silent: bool) -> Callable[[estimator.EstimatorState, int], None]:
    def act(state: estimator.EstimatorState, _: int) -> None:
        state.remotes["m2"] = Remote(silent=silent)

    return act


def _answers(state: estimator.EstimatorState, seq: int) -> None:
    remote = state.remotes.get("m2")
    if remote is not None and (digests := remote.next_digests()):
        remote.take_question(digests, state.ledger.taken("m2"), 1, True)
        remote.answered(digests, (3,) * len(digests), seq, NOW + seq)


def _take_estimator(state: estimator.EstimatorState, key: ObjectKey, made: Any, seq: int) -> None:
    estimating.ask(state, key, made, NOW + seq)
    if not isinstance(made.found, estimating.Later):
        appended(folded_when_stored(estimator.fold), state, seq, (made.found,))


ESTIMATOR = Decider(
    "estimator",
    estimator.EstimatorState,
    [
        *facts(
            folded_when_stored(estimator.fold),
            "binding",
            "cluster",
            "estimate",
            "eviction",
            "descheduling",
            "placement",
            "rollup",
        ),
        Step("nodes are known", _picture),
        Step("a member is being read", lambda state, seq: state.opening.update(m1=NOW + 2 * seq)),
        Step("an agent", _agent(silent=False)),
        Step("a silent agent", _agent(silent=True)),
        Step("an agent answers", _answers),
    ],
    lambda state: state.objects,
    lambda state, key, now: estimating.decide(state, key, now),
    _take_estimator,
)


def _decide_registrar(state: registrar.RegistrarState, name: str, now: float) -> Any:
    report = seen(name, "u1", 3, absent=False)
    hello = Hello(cluster=name, instance="a", at=NOW, uid=f"uid-{name}", log="l", after=3)
    return (
        registering.welcome(state, name, hello, "l", 9),
        registering.may_have(state, name, "d"),
        registering.examine(state, name, report, 9, now),
        registering.examine(state, name, report, 9, now, most=1),
        registering.is_stored(state, report),
    )


REGISTRAR = Decider(
    "registrar",
    registrar.RegistrarState,
    facts(folded(registrar.fold), "work", "observed", "cluster", "policy", more=[cluster("m2", syncMode="Pull")]),
    lambda state: [*MEMBERS, "m9"],
    _decide_registrar,
    lambda state, key, made, seq: None,
)

DECIDERS = [
    DETECTOR,
    SCHEDULER,
    RENDERER,
    AGGREGATOR,
    FAILOVER,
    DESCHEDULER,
    MONITOR,
    JANITOR,
    ESTIMATOR,
    REGISTRAR,
]


@pytest.mark.parametrize("decider", DECIDERS, ids=str)
@EXAMPLES
@given(data=st.data())
def test_a_decision_twice_is_one_and_changes_no_state(decider: Decider, data: st.DataObject) -> None:
    taken = Step("decisions are taken", lambda *_: None)
    steps = data.draw(st.lists(st.sampled_from([*decider.steps, taken, taken]), max_size=12))
    state, seq = decider.new(), 0
    for step in steps:
        seq += 1
        if step is not taken:
            step.act(state, seq)
            continue
        for key in list(decider.keys(state)):
            seq += 1
            decider.take(state, key, decider.decide(state, key, NOW + seq), seq)
    before = image(state)
    for key in list(decider.keys(state)):
        for now in (NOW + seq, NOW + 1000.0):
            copied = copy.deepcopy(state)
            first = image(decider.decide(copied, key, now))
            assert not difference(first, image(decider.decide(copied, key, now))), f"{key} is decided otherwise now"
            assert not difference(before, image(copied)), f"deciding {key} changed the state"
