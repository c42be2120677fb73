"""What users configure for interpretation: recorded, in force at once, and waited for at a start."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from schemas.events.binding import BindingRequested
from schemas.events.policy import PolicyChanged, PolicyDeleted
from schemas.keys import PolicyKey
from services._rules.interpreter import InterpretError, Operation
from services._rules.interpreter.configuration import CUSTOMIZATION, WEBHOOKS, Configured
from services._rules.interpreter.result_cache import Answers, CachedInterpreter, ResultPending
from services.detector import state as det
from services.detector.app import Detector
from services.detector.binding_request import DetectorOptions
from services.detector.decide import DetectorDecision, Tell, decide_policy
from services.detector.settings import DetectorSettings
from tests.support.facts import KEY, deployment
from tests.unit.pipeline.test_detector import World, kinds, policy

WIDGETS = PolicyKey(CUSTOMIZATION, "", "widgets")


def customization(
    script: str = "", name: str = "widgets", kind: str = "Deployment", member: str = "replicaResource"
) -> dict[str, Any]:
    api_version = "apps/v1" if kind == "Deployment" else "example.io/v1"
    return {
        "apiVersion": "config.karmada.io/v1alpha1",
        "kind": CUSTOMIZATION,
        "metadata": {"name": name, "uid": f"uid-{name}", "generation": 1, "resourceVersion": "7"},
        "spec": {
            "target": {"apiVersion": api_version, "kind": kind},
            "customizations": {member: {"luaScript": script}},
        },
    }


def started(*policies: dict[str, Any]) -> World:
    """A detector that has listed all but what interprets."""
    world = World(*policies)
    world.state.listed -= {CUSTOMIZATION, WEBHOOKS}
    configured = Configured()
    world.state.reinterpret = configured.take
    return world


def test_a_customization_is_recorded_without_what_servers_write() -> None:
    world = World()
    assert list(det.take_policy(world.state, WIDGETS, customization("x"))) == [WIDGETS]
    (event,) = decide_policy(world.state, WIDGETS).events
    assert isinstance(event, PolicyChanged)
    assert b'"luaScript":"x"' in bytes(event.manifest)
    assert b"resourceVersion" not in bytes(event.manifest)
    world.state.policy_facts[WIDGETS] = event
    assert not decide_policy(world.state, WIDGETS).events


def test_one_that_a_complete_list_lacks_is_gone() -> None:
    world = started()
    world.state.policy_facts[WIDGETS] = PolicyChanged(key=WIDGETS, uid="u", manifest=b"{}")  # type: ignore[arg-type]
    assert not decide_policy(world.state, WIDGETS).events, "nobody knows yet"
    det.take_absence(world.state, CUSTOMIZATION)
    assert not decide_policy(world.state, WIDGETS).events, "a list that failed proves nothing"
    assert WIDGETS in det.take_policy_list(world.state, CUSTOMIZATION, {})
    assert kinds(decide_policy(world.state, WIDGETS)) == ["PolicyDeleted"]


@pytest.mark.parametrize("last", [CUSTOMIZATION, WEBHOOKS])
def test_objects_wait_until_what_interprets_them_was_listed(last: str) -> None:
    world = started(policy())
    world.sees(deployment())
    first = WEBHOOKS if last == CUSTOMIZATION else CUSTOMIZATION
    det.take_policy_list(world.state, first, {})
    assert not world.decides().events
    assert KEY in det.take_policy_list(world.state, last, {})
    assert kinds(world.decides()) == ["TemplateChanged", "BindingRequested"]


def test_objects_do_not_wait_for_kinds_that_are_not_served() -> None:
    world = started(policy())
    world.sees(deployment())
    assert not det.take_absence(world.state, CUSTOMIZATION)
    assert KEY in det.take_absence(world.state, WEBHOOKS)
    assert kinds(world.decides()) == ["TemplateChanged", "BindingRequested"]
    assert not det.take_absence(world.state, CUSTOMIZATION), "nothing new"


def test_a_change_concerns_the_objects_of_its_kind() -> None:
    world = started(policy())
    world.sees(deployment())
    det.take_policy_list(world.state, CUSTOMIZATION, {})
    det.take_policy_list(world.state, WEBHOOKS, {})
    assert list(det.take_policy(world.state, WIDGETS, customization("x"))) == [WIDGETS, KEY]
    other = PolicyKey(CUSTOMIZATION, "", "other")
    assert list(det.take_policy(world.state, other, customization("x", "other", "Widget"))) == [other]
    relabelled = customization("x")
    relabelled["metadata"] = {**relabelled["metadata"], "labels": {"a": "b"}, "generation": 2}
    assert list(det.take_policy(world.state, WIDGETS, relabelled)) == [WIDGETS]
    assert list(det.take_policy(world.state, WIDGETS, None)) == [WIDGETS, KEY]


def test_until_they_are_listed_those_on_record_are_in_force_and_afterwards_the_listed_ones() -> None:
    world = started(policy())
    configured = Configured()
    world.state.reinterpret = configured.take
    world.sees(deployment())
    view = det.take_policy(World().state, WIDGETS, None)
    assert list(view) == [WIDGETS]
    scratch = World()
    det.take_policy(scratch.state, WIDGETS, customization("old"))
    (recorded,) = decide_policy(scratch.state, WIDGETS).events
    assert list(det.fold(world.state, 1, "policy", recorded)) == [KEY]
    assert configured.customizations.scripts("apps/v1", "Deployment", "InterpretReplica") == ("old",)
    assert KEY in det.take_policy_list(world.state, CUSTOMIZATION, {WIDGETS: customization("new")})
    assert configured.customizations.scripts("apps/v1", "Deployment", "InterpretReplica") == ("new",)
    assert not det.fold(world.state, 2, "policy", recorded), "an echo of the past changes nothing"
    assert configured.customizations.scripts("apps/v1", "Deployment", "InterpretReplica") == ("new",)
    det.take_policy_list(world.state, CUSTOMIZATION, {})
    assert not len(configured.customizations)
    assert isinstance(decide_policy(world.state, WIDGETS).events[0], PolicyDeleted)


def widget(**spec: Any) -> dict[str, Any]:
    metadata = {"name": "nginx", "namespace": "default", "uid": "u1", "generation": 1}
    return {"apiVersion": "example.io/v1", "kind": "Widget", "metadata": metadata, "spec": spec}


def widget_policy(**spec: Any) -> dict[str, Any]:
    selector = {"apiVersion": "example.io/v1", "kind": "Widget", "name": "nginx"}
    return policy(resourceSelectors=[selector], **spec)


class Interpreted(World):
    """A detector whose questions are answered by a function of the customization's script and the object."""

    def __init__(self, answer: Callable[[str, dict[str, Any]], Any], *policies: dict[str, Any]) -> None:
        super().__init__(*policies)
        self.configured, self.answers, self.answer = Configured(), Answers(), answer
        self.asked = self.edits = 0

        def take(event: Any) -> Any:
            touched = self.configured.take(event)
            self.answers.changed(touched)
            return touched

        self.state.reinterpret = take
        self.state.interpreter = CachedInterpreter(
            lambda *wanted: self.configured.customizations.hook_enabled(*wanted), self.answers
        )

    def customized(self, script: str, member: str = "replicaResource") -> list[Any]:
        self.edits += 1
        edited = customization(script, kind="Widget", member=member)
        edited["metadata"]["generation"] = self.edits
        return list(det.take_policy(self.state, WIDGETS, edited))

    def decides(self) -> DetectorDecision:
        """Decide, asking as often as the decision wants."""
        while True:
            try:
                return super().decides()
            except ResultPending as missing:
                self.asked += 1
                for question in missing.questions:
                    obj = question.arguments[0]
                    assert "status" not in obj
                    assert "resourceVersion" not in obj["metadata"]
                    (script,) = self.configured.customizations.scripts("example.io/v1", "Widget", question.operation)
                    try:
                        self.answers.put(question, self.answer(script, obj))
                    except InterpretError as error:
                        self.answers.put(question, error)


def size_of(script: str, obj: dict[str, Any]) -> Any:
    if script == "wrong":
        raise InterpretError("GetReplicas returned a nil, expected a number")
    return obj["spec"].get(script, 0), None


def request(verdict: DetectorDecision) -> BindingRequested:
    found = [event for event in verdict.events if isinstance(event, BindingRequested)]
    assert len(found) == 1
    return found[0]


def notes(verdict: DetectorDecision) -> list[tuple[str, str]]:
    return [(effect.note.reason, effect.note.message) for effect in verdict.effects if isinstance(effect, Tell)]


def test_a_kind_of_ones_own_is_divided_once_its_replicas_are_known() -> None:
    world = Interpreted(size_of, widget_policy())
    world.sees(widget(size=3))
    before = request(world.decides())
    assert (before.replicas, before.workload) == (0, False)
    assert world.asked == 0
    assert KEY in world.customized("size")
    after = request(world.decides())
    assert (after.replicas, after.workload, after.generation) == (3, True, 2)
    assert msgspec.json.decode(after.spec)["replicas"] == 3
    assert world.asked == 1
    assert not world.decides().events
    assert world.asked == 1, "the answer is remembered"


def test_another_script_is_asked_anew_and_none_leaves_what_is_built_in() -> None:
    world = Interpreted(size_of, widget_policy())
    world.customized("size")
    world.sees(widget(size=3, other=5))
    assert request(world.decides()).replicas == 3
    assert KEY in world.customized("other")
    assert request(world.decides()).replicas == 5
    assert KEY in det.take_policy(world.state, WIDGETS, None)
    last = request(world.decides())
    assert (last.replicas, last.workload) == (0, False)


def test_the_same_facts_after_a_restart_are_no_news() -> None:
    world = Interpreted(size_of, widget_policy())
    world.customized("size")
    world.sees({**widget(size=3), "status": {"seen": 1}})
    world.settles()
    again = Interpreted(size_of, widget_policy())
    again.state.template_facts, again.state.binding_facts = world.state.template_facts, world.state.binding_facts
    again.customized("size")
    again.sees({**world.state.templates[KEY], "status": {"seen": 2}})
    assert not again.decides().events


def test_what_a_script_cannot_say_is_told_and_the_last_request_stands() -> None:
    world = Interpreted(size_of, widget_policy())
    world.customized("size")
    world.sees(widget(size=3))
    world.settles()
    world.customized("wrong")
    verdict = world.decides()
    assert not verdict.events
    ((reason, message),) = notes(verdict)
    assert reason == "GetReplicasFailed"
    assert message.endswith("stays as it is in clusters: GetReplicas returned a nil, expected a number")
    bound = world.state.binding_facts[KEY]
    assert isinstance(bound, BindingRequested)
    assert bound.replicas == 3
    assert KEY in world.customized("size")
    world.sees({**widget(size=4)})
    assert request(world.decides()).replicas == 4


@pytest.mark.parametrize("size", [-1, -(2**31), 2**31 - 1, 1.5])
def test_a_number_that_cannot_be_meant_is_told_and_never_scheduled(size: float) -> None:
    world = Interpreted(size_of, widget_policy())
    world.customized("size")
    world.sees(widget(size=3))
    world.settles()
    world.sees(widget(size=size))
    verdict = world.decides()
    assert not verdict.events
    ((reason, message),) = notes(verdict)
    assert reason == "GetReplicasFailed"
    assert "stays as it is in clusters: InterpretReplica answered replicas: is " in message
    bound = world.state.binding_facts[KEY]
    assert isinstance(bound, BindingRequested)
    assert bound.replicas == 3


def test_components_are_asked_for_behind_their_gate() -> None:
    found = [{"name": "main", "replicas": 2}]
    world = Interpreted(lambda script, obj: found, widget_policy())
    world.state.options = DetectorOptions(components=True)
    world.customized("x", member="componentResource")
    world.sees(widget())
    asked = request(world.decides())
    assert msgspec.json.decode(asked.spec)["components"] == found
    assert (asked.replicas, asked.workload) == (0, False)


def test_a_failure_about_components_says_so() -> None:
    def answer(script: str, obj: dict[str, Any]) -> Any:
        raise InterpretError("no")

    world = Interpreted(answer, widget_policy())
    world.state.options = DetectorOptions(components=True)
    world.customized("x", member="componentResource")
    world.sees(widget())
    assert [reason for reason, _ in notes(world.decides())] == ["GetComponentsFailed"]


def test_a_lazy_policy_waits_for_a_change_of_the_object_though_a_script_is_asked_in_between() -> None:
    world = Interpreted(size_of)
    world.customized("size")
    world.sees(widget(size=3))
    assert not world.decides().events
    lazy = widget_policy(activationPreference="Lazy")
    assert KEY in det.take_policy(world.state, World.key_of(lazy), lazy)
    assert kinds(world.decides()) == ["TemplateChanged"], "the policy's coming makes no request"
    assert world.asked == 1


def test_the_service_asks_for_what_a_decision_lacks() -> None:
    service = Detector(DetectorSettings(control_kubeconfig="unused"))
    state = service.new_state()
    for kind in (*det.POLICY_KINDS, WEBHOOKS):
        found = {World.key_of(item): item for item in (widget_policy(),) if item["kind"] == kind}
        det.take_policy_list(state, kind, found)
    det.take_policy_list(state, CUSTOMIZATION, {WIDGETS: customization("x", kind="Widget")})
    det.take_template(state, KEY, widget(size=1))
    (ask,) = service.decide(state, KEY, 0.0).effects
    assert [question.operation for question in ask.questions] == [Operation.REPLICA]  # type: ignore[attr-defined]
    assert ask.key == KEY  # type: ignore[attr-defined]


def test_kinds_of_many_projects_are_known_without_a_customization() -> None:
    service = Detector(DetectorSettings(control_kubeconfig="unused"))
    interpreter = service.new_state().interpreter
    assert interpreter.hook_enabled("apps.kruise.io/v1alpha1", "CloneSet", Operation.REPLICA)
    assert not interpreter.hook_enabled("example.io/v1", "Widget", Operation.COMPONENT)


class Told:
    """Remembers what would be written."""

    def __init__(self) -> None:
        self.settled_keys: list[Any] = []

    def settled(self, key: Any) -> None:
        self.settled_keys.append(key)


def test_a_script_that_is_mended_and_broken_again_is_told_again() -> None:
    service = Detector(DetectorSettings(control_kubeconfig="unused"))
    told = service._recorder = Told()  # type: ignore[assignment] # all that decisions use
    world = Interpreted(size_of, widget_policy())
    world.customized("size")
    world.sees(widget(size=3))
    world.settles()
    world.customized("wrong")
    assert notes(world.decides())
    assert len(service.decide(world.state, KEY, 0.0).effects) == 1
    assert told.settled_keys == []
    world.customized("size")
    assert not world.decides().events, "nothing else changed"
    assert not service.decide(world.state, KEY, 0.0).effects
    assert told.settled_keys == [KEY]


@pytest.mark.parametrize("replicas", [-3, 2**31 - 1])
def test_a_number_in_a_template_that_cannot_be_meant_is_told_and_never_scheduled(replicas: int) -> None:
    """A control plane may hold what the kind's own API would refuse: its validation is not ours."""
    world = Interpreted(size_of, policy())
    world.sees(deployment(replicas=replicas))
    verdict = world.decides()
    assert not [event for event in verdict.events if isinstance(event, BindingRequested)]
    ((reason, message),) = notes(verdict)
    assert reason == "GetReplicasFailed"
    assert f"spec.replicas: is {replicas}, expected 0 to" in message
