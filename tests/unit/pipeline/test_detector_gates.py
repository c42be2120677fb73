"""What feature gates add to bindings: component sets, priorities from classes, affinity groups."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from aiohttp import web

from schemas.events.binding import BindingRequested
from schemas.keys import ObjectKey
from schemas.manifest import Manifest
from services._kit.base.settings import SettingsError, load
from services._kit.kube.client import KubeClient
from services._kit.kube.event_recorder import EventRecorder
from services._rules.interpreter import NativeInterpreter, Operation
from services._rules.kubernetes.event_objects import Note
from services.detector import state as det
from services.detector.binding_request import DetectorOptions, Unresolved, affinity_groups, binding_spec
from services.detector.effects import DetectorDecision
from services.detector.settings import DetectorSettings
from tests.support.detector_harness import DetectorHarness, notes, policy, request
from tests.support.endpoints import answering
from tests.support.facts import KEY, STATIC, deployment

HIGH = ObjectKey("scheduling.k8s.io", "priorityclasses", "", "high")
ON = DetectorOptions(components=True, priorities=True, affinities=True)
BY_CLASS = {"schedulePriority": {"priorityClassSource": "KubePriorityClass", "priorityClassName": "high"}}
AFFINITY = {"affinity": {"groupByLabelKey": "app"}, "antiAffinity": {"groupByLabelKey": "tier"}}


def priority_class(value: int, name: str = "high") -> dict[str, Any]:
    metadata = {"name": name, "uid": f"uid-{name}-{value}", "generation": 1}
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": metadata, "value": value}


def world(options: DetectorOptions, *policies: Manifest, listed: bool = True) -> DetectorHarness:
    made = DetectorHarness(*policies)
    made.state.options = options
    if listed:
        det.take_list(made.state, det.PRIORITY_CLASSES, {})
    made.sees(deployment())
    return made


def ranked(value: int | None = None, *, settled: bool = False) -> DetectorHarness:
    """A detector of a policy that names a priority class, which has this value if there is one."""
    made = world(ON, policy(**BY_CLASS))
    if value is not None:
        det.take_template(made.state, HIGH, priority_class(value))
    if settled:
        made.settles()
    return made


def priority(decision: DetectorDecision) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(request(decision).spec)["schedulePriority"]
    return found


def told(decision: DetectorDecision) -> list[str]:
    return [message for _, message in notes(decision)]


def requested(verdict: DetectorDecision) -> dict[str, Any] | None:
    found = [msgspec.json.decode(event.spec) for event in verdict.events if isinstance(event, BindingRequested)]
    return found[0] if found else None


def test_gated_fields_are_absent_by_default() -> None:
    placement = {**STATIC, "workloadAffinity": AFFINITY}
    made = world(DetectorOptions(), policy(**BY_CLASS, placement=placement))
    spec = requested(made.decides())
    assert spec is not None
    assert not {"schedulePriority", "workloadAffinityGroups", "components"} & spec.keys()


@pytest.mark.parametrize("value", [1000, 0, -10])
def test_priority_class_value_becomes_the_priority(value: int) -> None:
    assert priority(ranked(value).decides()) == {"priority": value}


def test_missing_priority_class_is_reported_and_waited_for() -> None:
    made = ranked()
    verdict = made.decides()
    assert verdict.events == []
    (complaint,) = told(verdict)
    assert complaint == (
        "Apply policy(default/nginx-propagation) failed: schedulePriority.priorityClassName 'high':"
        " the control plane has no such PriorityClass; create it"
    )
    assert KEY in det.take_template(made.state, HIGH, priority_class(7))
    assert priority(made.decides()) == {"priority": 7}


def test_missing_class_is_not_reported_before_the_list() -> None:
    made = world(ON, policy(**BY_CLASS), listed=False)
    verdict = made.decides()
    assert requested(verdict) is None
    assert told(verdict) == []
    assert KEY in det.take_list(made.state, det.PRIORITY_CLASSES, {HIGH: priority_class(7)})
    assert requested(made.decides()) is not None


def test_list_without_the_class_reports_it() -> None:
    made = world(ON, policy(**BY_CLASS), listed=False)
    made.decides()
    assert KEY in det.take_list(made.state, det.PRIORITY_CLASSES, {})
    assert told(made.decides())


def test_changed_priority_class_changes_the_binding() -> None:
    made = ranked(7, settled=True)
    assert KEY in det.take_template(made.state, HIGH, priority_class(9))
    assert priority(made.decides()) == {"priority": 9}


def test_binding_stands_while_its_class_is_gone() -> None:
    made = ranked(7, settled=True)
    assert KEY in det.take_template(made.state, HIGH, None)
    verdict = made.decides()
    assert verdict.events == []
    assert told(verdict)
    binding = made.state.binding_facts[KEY]
    assert isinstance(binding, BindingRequested)
    assert msgspec.json.decode(binding.spec)["schedulePriority"] == {"priority": 7}


def test_lazy_policy_applies_once_the_class_exists() -> None:
    made = world(ON)
    made.sees(None)
    lazy = policy(**BY_CLASS, activationPreference="Lazy")
    made.takes(lazy)
    made.sees(deployment())
    assert requested(made.decides()) is None
    det.take_template(made.state, HIGH, priority_class(7))
    assert requested(made.decides()) is not None


def test_other_priority_sources_are_refused() -> None:
    other = {"schedulePriority": {"priorityClassSource": "FederatedPriorityClass", "priorityClassName": "high"}}
    made = world(ON, policy(**other))
    det.take_template(made.state, HIGH, priority_class(7))
    verdict = made.decides()
    assert requested(verdict) is None
    assert "'FederatedPriorityClass' is not supported yet; use KubePriorityClass" in told(verdict)[0]


def test_deleted_template_is_forgotten_by_its_class() -> None:
    made = ranked()
    made.decides()
    assert made.state.ranked == {"high": {KEY}}
    made.sees(None)
    assert made.state.ranked == {}


@pytest.mark.parametrize(
    ("labels", "groups"),
    [
        ({"app": "a", "tier": "b"}, {"affinityGroup": "app=a", "antiAffinityGroup": "tier=b"}),
        ({"app": ""}, {"affinityGroup": "app="}),
        ({"tier": "b"}, {"antiAffinityGroup": "tier=b"}),
        ({"else": "c"}, {}),
    ],
)
def test_affinity_groups_are_named_by_template_labels(labels: dict[str, str], groups: dict[str, str]) -> None:
    assert affinity_groups({"placement": {"workloadAffinity": AFFINITY}}, labels) == groups


def test_affinity_groups_follow_the_labels() -> None:
    made = world(ON, policy(placement={**STATIC, "workloadAffinity": AFFINITY}))
    spec = requested(made.decides())
    assert spec is not None
    assert spec["workloadAffinityGroups"] == {"affinityGroup": "app=nginx"}
    made.sees(deployment(generation=2, labels={"app": "other", "tier": "web"}))
    spec = requested(made.decides())
    assert spec is not None
    assert spec["workloadAffinityGroups"] == {"affinityGroup": "app=other", "antiAffinityGroup": "tier=web"}


def test_cluster_scoped_objects_have_no_groups() -> None:
    role = {"apiVersion": "rbac/v1", "kind": "ClusterRole", "metadata": {"name": "r", "labels": {"app": "a"}}}
    asked = binding_spec(role, {"placement": {"workloadAffinity": AFFINITY}}, ON, lambda name: None)
    assert "workloadAffinityGroups" not in asked.spec


class Sets(NativeInterpreter):
    """Describes every Deployment as a set of two components."""

    def hook_enabled(self, api_version: str, kind: str, operation: str) -> bool:
        offered = operation == Operation.COMPONENT and kind == "Deployment"
        return offered or super().hook_enabled(api_version, kind, operation)

    def interpret(self, operation: str, obj: dict[str, Any], *arguments: Any) -> Any:
        if operation != Operation.COMPONENT:
            return super().interpret(operation, obj, *arguments)
        requirements = {"resourceRequest": {"cpu": "1"}}
        return [{"name": name, "replicas": 1, "replicaRequirements": requirements} for name in ("head", "worker")]


def test_components_replace_replicas_in_the_binding() -> None:
    asked = binding_spec(deployment(3), {}, ON, lambda name: None, Sets())
    assert [component["name"] for component in asked.spec["components"]] == ["head", "worker"]
    assert not {"replicas", "replicaRequirements"} & asked.spec.keys()
    assert (asked.replicas, asked.workload) == (0, False)


def test_replicas_count_without_gate_or_components() -> None:
    for options, interpreter in ((DetectorOptions(), Sets()), (ON, NativeInterpreter())):
        asked = binding_spec(deployment(3), {}, options, lambda name: None, interpreter)
        assert (asked.replicas, asked.workload) == (3, True)
        assert "components" not in asked.spec


def test_quota_adds_the_namespace_to_requirements() -> None:
    manifest = deployment(3)
    container = manifest["spec"]["template"]["spec"]["containers"][0]
    container["resources"] = {"requests": {"cpu": "1"}}
    with_quota = binding_spec(manifest, {}, DetectorOptions(quotas=True), lambda name: None).spec["replicaRequirements"]
    without = binding_spec(manifest, {}, DetectorOptions(), lambda name: None).spec["replicaRequirements"]
    assert with_quota == {**without, "namespace": "default"}


def test_a_priority_without_class_is_refused_with_its_name() -> None:
    with pytest.raises(Unresolved, match="'high'"):
        binding_spec(deployment(), BY_CLASS, ON, lambda name: None)


def test_settings_read_gates_and_refuse_unknown() -> None:
    needed = {"FLEETLOG_CONTROL_KUBECONFIG": "k"}
    on = load(
        DetectorSettings, {**needed, "FLEETLOG_FEATURE_GATES": "WorkloadAffinity=true,ResourceQuotaEstimate=true"}
    )
    assert (on.options().affinities, on.options().quotas, on.options().components) == (True, True, False)
    with pytest.raises(SettingsError, match="WorkloadAffinity"):
        load(DetectorSettings, {**needed, "FLEETLOG_FEATURE_GATES": "WorkloadAffinty=true"})


Posted = tuple[list[tuple[str, str]], list[int], KubeClient]


@pytest.fixture
async def posted() -> AsyncIterator[Posted]:
    """What is written, and what is answered next (200 when the list is empty)."""
    seen: list[tuple[str, str]] = []
    answers: list[int] = []

    async def answer(request: web.Request) -> web.Response:
        body = await request.json() if request.can_read_body else {}
        seen.append((request.method, body.get("message", "")))
        status = answers.pop(0) if answers else 200
        return web.json_response({"kind": "Status", "reason": "x", "message": "m"}, status=status)

    async with answering(answer) as client:
        yield seen, answers, client


def note(message: str) -> Note:
    return Note(KEY, "u1", "apps/v1", "Deployment", "ApplyPolicyFailed", message, "resource-detector", True)


async def test_complaint_is_written_once_until_settled(
    posted: Posted,
) -> None:
    seen, answers, client = posted
    complaints = EventRecorder(client, lambda: 1.0)
    answers += [503, 200, 200, 409]
    async with asyncio.timeout(60):
        for message in ("a", "a", "b"):
            complaints.tell_once(note(message))
            await complaints.drained()
        assert seen == [("POST", "a"), ("POST", "a"), ("POST", "b")], "a busy server is asked again"
        complaints.settled(KEY)
        complaints.tell_once(note("b"))
        await complaints.drained()
    assert seen[3:] == [("POST", "b"), ("GET", ""), ("PATCH", "")], "what an earlier instance said is renewed"
    await complaints.drop()
