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
from services._rules.interpreter.result_cache import InterpretationQuery, ResultPending
from services.detector import state as det
from services.detector.app import Detector
from services.detector.binding_request import DetectorOptions
from services.detector.claims.policy_decision import decide_policy
from services.detector.effects import DetectorDecision
from services.detector.settings import DetectorSettings
from tests.support.detector_harness import DetectorHarness, kinds, list_policies, notes, policy, request
from tests.support.facts import KEY, deployment
from tests.support.interpreted import Interpretation

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


def started(*policies: dict[str, Any]) -> DetectorHarness:
    """A detector that has listed all but what interprets."""
    detector = DetectorHarness(*policies)
    detector.state.listed -= {CUSTOMIZATION, WEBHOOKS}
    detector.state.reinterpret = Configured().take
    return detector


def test_customization_is_recorded_without_server_fields() -> None:
    detector = DetectorHarness()
    assert list(det.take_policy(detector.state, WIDGETS, customization("x"))) == [WIDGETS]
    (event,) = decide_policy(detector.state, WIDGETS).events
    assert isinstance(event, PolicyChanged)
    assert b'"luaScript":"x"' in bytes(event.manifest)
    assert b"resourceVersion" not in bytes(event.manifest)
    detector.state.policy_facts[WIDGETS] = event
    assert not decide_policy(detector.state, WIDGETS).events


def test_customization_missing_from_a_list_is_deleted() -> None:
    detector = started()
    detector.state.policy_facts[WIDGETS] = PolicyChanged(key=WIDGETS, uid="u", manifest=b"{}")  # type: ignore[arg-type]
    assert not decide_policy(detector.state, WIDGETS).events, "nobody knows yet"
    det.take_absence(detector.state, CUSTOMIZATION)
    assert not decide_policy(detector.state, WIDGETS).events, "a list that failed proves nothing"
    assert WIDGETS in det.take_policy_list(detector.state, CUSTOMIZATION, {})
    assert kinds(decide_policy(detector.state, WIDGETS)) == ["PolicyDeleted"]


@pytest.mark.parametrize("last", [CUSTOMIZATION, WEBHOOKS])
def test_templates_wait_until_interpreters_are_listed(last: str) -> None:
    detector = started(policy())
    detector.sees(deployment())
    first = WEBHOOKS if last == CUSTOMIZATION else CUSTOMIZATION
    det.take_policy_list(detector.state, first, {})
    assert not detector.decides().events
    assert KEY in det.take_policy_list(detector.state, last, {})
    assert kinds(detector.decides()) == ["TemplateChanged", "BindingRequested"]


def test_templates_do_not_wait_for_kinds_not_served() -> None:
    detector = started(policy())
    detector.sees(deployment())
    assert not det.take_absence(detector.state, CUSTOMIZATION)
    assert KEY in det.take_absence(detector.state, WEBHOOKS)
    assert kinds(detector.decides()) == ["TemplateChanged", "BindingRequested"]
    assert not det.take_absence(detector.state, CUSTOMIZATION), "nothing new"


def test_customization_change_marks_objects_of_its_kind() -> None:
    detector = started(policy())
    detector.sees(deployment())
    det.take_policy_list(detector.state, CUSTOMIZATION, {})
    det.take_policy_list(detector.state, WEBHOOKS, {})
    assert list(det.take_policy(detector.state, WIDGETS, customization("x"))) == [WIDGETS, KEY]
    other = PolicyKey(CUSTOMIZATION, "", "other")
    assert list(det.take_policy(detector.state, other, customization("x", "other", "Widget"))) == [other]
    relabelled = customization("x")
    relabelled["metadata"] = {**relabelled["metadata"], "labels": {"a": "b"}, "generation": 2}
    assert list(det.take_policy(detector.state, WIDGETS, relabelled)) == [WIDGETS]
    assert list(det.take_policy(detector.state, WIDGETS, None)) == [WIDGETS, KEY]


def test_recorded_customizations_apply_until_the_list() -> None:
    detector = started(policy())
    configured = Configured()
    detector.state.reinterpret = configured.take
    detector.sees(deployment())
    view = det.take_policy(DetectorHarness().state, WIDGETS, None)
    assert list(view) == [WIDGETS]
    scratch = DetectorHarness()
    det.take_policy(scratch.state, WIDGETS, customization("old"))
    (recorded,) = decide_policy(scratch.state, WIDGETS).events
    assert list(det.fold(detector.state, 1, "policy", recorded)) == [KEY]
    assert configured.customizations.scripts("apps/v1", "Deployment", "InterpretReplica") == ("old",)
    assert KEY in det.take_policy_list(detector.state, CUSTOMIZATION, {WIDGETS: customization("new")})
    assert configured.customizations.scripts("apps/v1", "Deployment", "InterpretReplica") == ("new",)
    assert not det.fold(detector.state, 2, "policy", recorded), "an echo of the past changes nothing"
    assert configured.customizations.scripts("apps/v1", "Deployment", "InterpretReplica") == ("new",)
    det.take_policy_list(detector.state, CUSTOMIZATION, {})
    assert not len(configured.customizations)
    assert isinstance(decide_policy(detector.state, WIDGETS).events[0], PolicyDeleted)


def widget(**spec: Any) -> dict[str, Any]:
    metadata = {"name": "nginx", "namespace": "default", "uid": "u1", "generation": 1}
    return {"apiVersion": "example.io/v1", "kind": "Widget", "metadata": metadata, "spec": spec}


def widget_policy(**spec: Any) -> dict[str, Any]:
    selector = {"apiVersion": "example.io/v1", "kind": "Widget", "name": "nginx"}
    return policy(resourceSelectors=[selector], **spec)


class Interpreted(DetectorHarness):
    """A detector whose questions are answered by a function of the customization's script and the object."""

    def __init__(self, answer: Callable[[str, dict[str, Any]], Any], *policies: dict[str, Any]) -> None:
        super().__init__(*policies)
        self.answer = answer
        self.asked = self.edits = 0
        self.interpretation = Interpretation(self._answer)
        self.state.reinterpret = self.interpretation.take
        self.state.interpreter = self.interpretation.interpreter

    def _answer(self, question: InterpretationQuery) -> Any:
        obj = question.arguments[0]
        assert "status" not in obj
        assert "resourceVersion" not in obj["metadata"]
        customizations = self.interpretation.configured.customizations
        (script,) = customizations.scripts("example.io/v1", "Widget", question.operation)
        return self.answer(script, obj)

    def customized(self, script: str, member: str = "replicaResource") -> bool:
        """Whether another script makes the template dirty."""
        self.edits += 1
        edited = customization(script, kind="Widget", member=member)
        edited["metadata"]["generation"] = self.edits
        return self.takes(edited)

    def decides(self) -> DetectorDecision:
        """Decide, asking as often as the decision wants."""
        while True:
            try:
                return super().decides()
            except ResultPending as missing:
                self.asked += 1
                self.interpretation.ask(missing.questions)


def customized(size: int = 3) -> Interpreted:
    """A Widget of this size, all said and written, and a script that finds it."""
    made = Interpreted(size_of, widget_policy())
    made.customized("size")
    made.sees(widget(size=size))
    made.settles()
    return made


def size_of(script: str, obj: dict[str, Any]) -> Any:
    if script == "wrong":
        raise InterpretError("GetReplicas returned a nil, expected a number")
    return obj["spec"].get(script, 0), None


def test_custom_kind_is_divided_once_replicas_are_known() -> None:
    detector = Interpreted(size_of, widget_policy())
    detector.sees(widget(size=3))
    before = request(detector.decides())
    assert (before.replicas, before.workload) == (0, False)
    assert detector.asked == 0
    assert detector.customized("size")
    after = request(detector.decides())
    assert (after.replicas, after.workload, after.generation) == (3, True, 2)
    assert msgspec.json.decode(after.spec)["replicas"] == 3
    assert detector.asked == 1
    assert not detector.decides().events
    assert detector.asked == 1, "the answer is remembered"


def test_changed_script_is_asked_and_removed_script_is_not() -> None:
    detector = Interpreted(size_of, widget_policy())
    detector.customized("size")
    detector.sees(widget(size=3, other=5))
    assert request(detector.decides()).replicas == 3
    assert detector.customized("other")
    assert request(detector.decides()).replicas == 5
    assert KEY in det.take_policy(detector.state, WIDGETS, None)
    last = request(detector.decides())
    assert (last.replicas, last.workload) == (0, False)


def test_restart_repeats_no_facts() -> None:
    detector = Interpreted(size_of, widget_policy())
    detector.customized("size")
    detector.sees({**widget(size=3), "status": {"seen": 1}})
    detector.settles()
    again = Interpreted(size_of, widget_policy())
    again.state.template_facts, again.state.binding_facts = detector.state.template_facts, detector.state.binding_facts
    again.customized("size")
    again.sees({**detector.state.templates[KEY], "status": {"seen": 2}})
    assert not again.decides().events


def test_failed_script_is_reported_and_the_binding_stands() -> None:
    detector = customized()
    detector.customized("wrong")
    verdict = detector.decides()
    assert not verdict.events
    ((reason, message),) = notes(verdict)
    assert reason == "GetReplicasFailed"
    assert message.endswith("stays as it is in clusters: GetReplicas returned a nil, expected a number")
    bound = detector.state.binding_facts[KEY]
    assert isinstance(bound, BindingRequested)
    assert bound.replicas == 3
    assert detector.customized("size")
    detector.sees({**widget(size=4)})
    assert request(detector.decides()).replicas == 4


def test_components_are_asked_for_with_the_gate() -> None:
    found = [{"name": "main", "replicas": 2}]
    detector = Interpreted(lambda script, obj: found, widget_policy())
    detector.state.options = DetectorOptions(components=True)
    detector.customized("x", member="componentResource")
    detector.sees(widget())
    asked = request(detector.decides())
    assert msgspec.json.decode(asked.spec)["components"] == found
    assert (asked.replicas, asked.workload) == (0, False)


def test_failed_components_script_is_reported() -> None:
    def answer(script: str, obj: dict[str, Any]) -> Any:
        raise InterpretError("no")

    detector = Interpreted(answer, widget_policy())
    detector.state.options = DetectorOptions(components=True)
    detector.customized("x", member="componentResource")
    detector.sees(widget())
    assert [reason for reason, _ in notes(detector.decides())] == ["GetComponentsFailed"]


def test_lazy_policy_waits_though_a_script_is_asked() -> None:
    detector = Interpreted(size_of)
    detector.customized("size")
    detector.sees(widget(size=3))
    assert not detector.decides().events
    lazy = widget_policy(activationPreference="Lazy")
    assert detector.takes(lazy)
    assert kinds(detector.decides()) == ["TemplateChanged"], "the policy's coming makes no request"
    assert detector.asked == 1


def test_service_asks_for_what_a_decision_lacks() -> None:
    service = Detector(DetectorSettings(control_kubeconfig="unused"))
    state = service.new_state()
    list_policies(state, widget_policy(), kinds=(WEBHOOKS,))
    det.take_policy_list(state, CUSTOMIZATION, {WIDGETS: customization("x", kind="Widget")})
    det.take_template(state, KEY, widget(size=1))
    (ask,) = service.decide(state, KEY, 0.0).effects
    assert [question.operation for question in ask.questions] == [Operation.REPLICA]  # type: ignore[attr-defined]
    assert ask.key == KEY  # type: ignore[attr-defined]


def test_shipped_kinds_need_no_customization() -> None:
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


def test_script_broken_again_is_reported_again() -> None:
    service = Detector(DetectorSettings(control_kubeconfig="unused"))
    told = service._recorder = Told()  # type: ignore[assignment] # all that decisions use
    detector = customized()
    detector.customized("wrong")
    assert notes(detector.decides())
    assert len(service.decide(detector.state, KEY, 0.0).effects) == 1
    assert told.settled_keys == []
    detector.customized("size")
    assert not detector.decides().events, "nothing else changed"
    assert not service.decide(detector.state, KEY, 0.0).effects
    assert told.settled_keys == [KEY]


@pytest.mark.parametrize("replicas", [-3, 2**31 - 1])
def test_implausible_replicas_of_a_template_are_reported(replicas: int) -> None:
    """A control plane may hold what the kind's own API would refuse: its validation is not ours."""
    detector = Interpreted(size_of, policy())
    detector.sees(deployment(replicas=replicas))
    verdict = detector.decides()
    assert not [event for event in verdict.events if isinstance(event, BindingRequested)]
    ((reason, message),) = notes(verdict)
    assert reason == "GetReplicasFailed"
    assert f"spec.replicas: is {replicas}, expected 0 to" in message
