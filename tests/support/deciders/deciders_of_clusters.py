"""Services that read clusters as well: the detector, the cluster monitor, the estimator."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from msgspec import field

from schemas.agent import Sample
from schemas.codec import subject_of
from schemas.events.cluster import ClusterChanged, ClusterRemoved
from schemas.events.control_plane import AbsenceConfirmed, ControlPlaneIdentified
from schemas.keys import ObjectKey, PolicyKey
from schemas.manifest import Manifest
from services._rules.absence import absence_guard as absence
from services._rules.absence.endpoint_identity import Reading
from services._rules.capacity.replica_estimate import Answers as RoomAnswers
from services._rules.capacity.replica_estimate import Picture
from services._rules.interpreter.configuration import KINDS as INTERPRETERS
from services.cluster_monitor import decide as monitoring
from services.cluster_monitor import state as monitor
from services.cluster_monitor.member_identity import fold_absence
from services.detector import decide as detecting
from services.detector import state as detector
from services.detector.binding_request import DetectorOptions
from services.detector.claims.policy_decision import decide_policy
from services.detector.control_plane_scope import decide_scope
from services.detector.indexes.template_index import remember
from services.estimator import decide as estimating
from services.estimator import state as estimator
from services.estimator.remote import MemberAnswers, Remote
from tests.support.deciders.decider import Decider, Step, appended, facts, folded, folded_when_stored, started
from tests.support.facts import KEY, STATIC, deployment
from tests.support.varied_facts import MEMBERS, NOW

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
    state = detector.DetectorState(options=DetectorOptions(priorities=True, preemption=True))
    absence.take_reading(state.guard, Reading("ours", 1), absence.noted(state.guard))
    for kind in (*detector.POLICY_KINDS, *INTERPRETERS):
        detector.take_policy_list(state, kind, {})
    detector.take_list(state, "deployments.apps", {})
    return state


def _decide_detector(state: detector.DetectorState, key: Any, now: float) -> Any:
    if key == detector.SCOPE:
        return decide_scope(state, now)
    return decide_policy(state, key) if isinstance(key, PolicyKey) else detecting.decide_template(state, key, now)


def _take_detector(state: detector.DetectorState, key: Any, made: Any, seq: int) -> None:
    if isinstance(key, ObjectKey | PolicyKey):
        remember(state, key, made)
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
        _policy("preempting", LAZY, propagation(LAZY, preemption="Always", priority=5)),
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


class _Estimating(estimator.EstimatorState):
    """The projection, with what members said of their room."""

    members: MemberAnswers = field(default_factory=MemberAnswers)


def _picture(state: _Estimating, _: int) -> None:
    picture = Picture()
    node = {"metadata": {"name": "n"}, "spec": {}, "status": {"allocatable": {"cpu": "4", "pods": "100"}}}
    picture.rooms.list_nodes([node])
    picture.rooms.list_pods([])
    picture.quotas.list_quotas([])
    state.members.nodes["m1"] = RoomAnswers(picture)


def _agent(silent: bool) -> Callable[[_Estimating, int], None]:
    def act(state: _Estimating, _: int) -> None:
        state.members.agents["m2"] = Remote(silent=silent)

    return act


def _answers(state: _Estimating, seq: int) -> None:
    remote = state.members.agents.get("m2")
    if remote is not None and (digests := remote.next_digests()):
        remote.take_question(digests, state.ledger.taken("m2"), 1, True)
        remote.answered(digests, (3,) * len(digests), seq, NOW + seq)


def _take_estimator(state: _Estimating, key: ObjectKey, made: Any, seq: int) -> None:
    estimating.ask(state.members, key, made, NOW + seq)
    appended(folded_when_stored(estimator.fold), state, seq, made.events)


ESTIMATOR = Decider(
    "estimator",
    _Estimating,
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
        Step("a member is being read", lambda state, seq: state.members.opening.update(m1=NOW + 2 * seq)),
        Step("an agent", _agent(silent=False)),
        Step("a silent agent", _agent(silent=True)),
        Step("an agent answers", _answers),
    ],
    lambda state: state.objects,
    lambda state, key, now: estimating.decide(state, state.members, key, now),
    _take_estimator,
    started(folded_when_stored(estimator.fold), "cluster", "binding", "placement"),
)
