"""What two members report of one object, its health, and what their reports add up to on binding and template.

Kinds whose controllers the simulated members play are played; for others the test says what a controller would.
"""

from __future__ import annotations

import asyncio
from functools import partial
from operator import is_not
from typing import Any

import msgspec
import pytest
from msgspec import Raw, UnsetType
from msgspec.structs import replace

from schemas.codec import subject_of
from schemas.events.observed import WorkObserved
from schemas.events.template import TemplateChanged
from schemas.events.work import WorkRendered
from schemas.manifest import Manifest
from services._rules.interpreter import Operation
from services._rules.interpreter.native.status_conformance import ConformingInterpreter
from services.status_aggregator.decide import decide
from services.status_aggregator.state import AggregatorState, fold
from tests.support import facts
from tests.support.manifests import manifest, pod_spec, workload

pytestmark = pytest.mark.asyncio(loop_scope="module")
NOW = "2030-01-01T00:00:00Z"


def status_of(event: WorkObserved) -> Any:
    return None if isinstance(event.status, UnsetType) else msgspec.json.decode(event.status)


class Sum:
    """The binding's items and the template's status."""

    def __init__(self, template: Manifest, *seen: WorkObserved) -> None:
        key = seen[0].key
        state, names = AggregatorState(), [event.cluster for event in seen]
        known = TemplateChanged(
            key=key,
            uid="u1",
            api_version=template["apiVersion"],
            kind=template["kind"],
            digest="d",
            generation=template["metadata"].get("generation", 0),
            manifest=Raw(msgspec.json.encode(template)),
        )
        placement = replace(facts.placement(**dict.fromkeys(names, 1)), key=key)
        binding = replace(facts.binding(1), key=key, api_version=template["apiVersion"], kind=template["kind"])
        works = [
            WorkRendered(
                cluster=event.cluster,
                key=key,
                uid="u1",
                api_version=template["apiVersion"],
                kind=template["kind"],
                digest=event.digest,
            )
            for event in seen
        ]
        events = [*(facts.cluster(name) for name in names), known, binding, placement, *works, *seen]
        for seq, event in enumerate(events, 1):
            fold(state, seq, subject_of(event), event)
        rollup = decide(state, key)
        assert rollup is not None
        self.fully_applied = rollup.fully_applied
        self.health = [item.health for item in rollup.items]
        items = []
        for item in rollup.items:
            entry: Manifest = {"clusterName": item.cluster, "applied": item.applied, "health": item.health}
            if not isinstance(item.status, UnsetType):
                entry["status"] = msgspec.json.decode(item.status)
            items.append(entry)
        self.status = ConformingInterpreter().interpret(Operation.AGGREGATE, template, items, NOW).get("status")


def template_of(made: Manifest, generation: int = 1, **status: Any) -> Manifest:
    """The template in the control plane."""
    return {**made, "metadata": {**made["metadata"], "generation": generation, "uid": "u1"}, "status": status}


async def played(members: Any, *made: Manifest, health: str = "Healthy", **wanted: Any) -> list[WorkObserved]:
    """Deliver one manifest to each member; their reports once health and status are as wanted."""

    async def one(member: Any, each: Manifest) -> WorkObserved:
        event = await member.deliver(each)

        def holds(seen: WorkObserved) -> bool:
            status = status_of(seen) or {}
            return seen.health == health and all(status.get(name) == value for name, value in wanted.items())

        found: WorkObserved = await member.desk.until(event.key, holds)
        return found

    return list(await asyncio.gather(*(one(member, each) for member, each in zip(members, made, strict=True))))


async def told(members: Any, made: Manifest, *statuses: Manifest | None) -> list[WorkObserved]:
    """Deliver one manifest everywhere, have each member's controller report, and see what arrives."""
    found = []
    for member, status in zip(members, statuses, strict=True):
        event = await member.deliver(made)
        if status is not None:
            desk, before = member.desk, event
            await member.put_status(made, status)
            event = await desk.until(event.key, partial(is_not, before))
        found.append(event)
    return found


async def test_deployment_replicas_and_generation_are_summed(members: Any, fresh_name: str) -> None:
    made = [workload("Deployment", fresh_name, count) for count in (1, 2)]
    seen = await asyncio.gather(
        *(
            played([member], each, readyReplicas=each["spec"]["replicas"])
            for member, each in zip(members, made, strict=True)
        )
    )
    reports = [one[0] for one in seen]
    assert [status_of(event)["resourceTemplateGeneration"] for event in reports] == [1, 1]
    total = Sum(template_of(made[0]), *reports)
    assert total.fully_applied
    assert total.health == ["Healthy", "Healthy"]
    told = {entry["type"]: entry["reason"] for entry in total.status.pop("conditions")}
    assert told == {"Available": "MinimumReplicasAvailable", "Progressing": "NewReplicaSetAvailable"}
    assert total.status == {
        "replicas": 3,
        "readyReplicas": 3,
        "updatedReplicas": 3,
        "availableReplicas": 3,
        "observedGeneration": 1,
    }
    newer = Sum(template_of(made[0], 2, observedGeneration=1), *reports)
    assert newer.status["observedGeneration"] == 1


async def test_a_crashing_deployment_is_unhealthy(member: Any, fresh_name: str) -> None:
    web = workload("Deployment", fresh_name)
    (healthy,) = await played([member], web, readyReplicas=1)
    await member.fault("/faults/pods", {"namespace": "default", "name": fresh_name, "crash": True})
    sick = await member.desk.until(healthy.key, lambda seen: seen.health == "Unhealthy")
    assert status_of(sick)["unavailableReplicas"] == 1
    await member.fault("/faults/pods", {"namespace": "default", "name": fresh_name, "crash": False})
    await member.desk.until(healthy.key, lambda seen: seen.health == "Healthy")


async def test_a_daemon_set_sums_its_pods(members: Any, fresh_name: str) -> None:
    made = workload("DaemonSet", fresh_name, None)
    reports = await played(members, made, made, numberAvailable=1)
    total = Sum(template_of(made), *reports)
    numbers = ("currentNumberScheduled", "desiredNumberScheduled", "numberAvailable", "numberReady")
    assert [total.status[name] for name in numbers] == [2, 2, 2, 2]
    assert (total.status["updatedNumberScheduled"], total.status["observedGeneration"]) == (2, 1)


async def test_stateful_set_replicas_are_summed(members: Any, fresh_name: str) -> None:
    made = workload("StatefulSet", fresh_name, 1, spec={"serviceName": fresh_name})
    reports = await played(members, made, made, readyReplicas=1, availableReplicas=1)
    assert [status_of(event)["observedGeneration"] for event in reports] == [1, 1]
    total = Sum(template_of(made, 7, observedGeneration=3), *reports)
    assert (total.status["replicas"], total.status["readyReplicas"], total.status["availableReplicas"]) == (2, 2, 2)
    assert total.status["observedGeneration"] == 3
    assert Sum(template_of(made), *reports).status["observedGeneration"] == 1


def job(name: str) -> Manifest:
    template = {"metadata": {"labels": {"app": name}}, "spec": pod_spec(restartPolicy="Never")}
    return manifest("batch/v1", "Job", name, spec={"backoffLimit": 0, "suspend": True, "template": template})


class Played:
    """What members with other controllers than ours would have reported."""

    def __init__(self, event: WorkObserved, made: Manifest) -> None:
        self.event, self.made = event, made

    def saying(self, cluster: str, status: Manifest) -> WorkObserved:
        live = {**self.made, "status": status}
        reflected = ConformingInterpreter().interpret(Operation.STATUS, live)
        return replace(self.event, cluster=cluster, status=Raw(msgspec.json.encode(reflected)))


async def test_job_is_complete_once_all_members_are(members: Any, fresh_name: str) -> None:
    made = job(fresh_name)
    made["spec"]["suspend"] = False
    reports = await played(members, made, made, succeeded=1)
    total = Sum(template_of(made), *reports)
    assert total.status["succeeded"] == 2
    types = {entry["type"]: entry["reason"] for entry in total.status["conditions"]}
    assert (types["Complete"], types["SuccessCriteriaMet"]) == ("Completed", "CompletionsReached")
    assert total.status["completionTime"] == max(status_of(event)["completionTime"] for event in reports)
    assert total.status["startTime"] == min(status_of(event)["startTime"] for event in reports)


async def test_a_pod_runs_where_all_run(members: Any, fresh_name: str) -> None:
    made = manifest("v1", "Pod", fresh_name, spec=pod_spec())
    reports = await played(members, made, made, phase="Running")
    total = Sum(template_of(made), *reports)
    assert total.status["phase"] == "Running"
    assert [entry["ready"] for entry in total.status["containerStatuses"]] == [True, True]
    said = [{name for name, value in entry.items() if value} for entry in total.status["containerStatuses"]]
    assert said == [{"name", "ready", "state"}] * 2
    assert {entry["type"]: entry["status"] for entry in total.status["conditions"]}["Ready"] == "True"
    waiting = replace(reports[1], status=Raw(b'{"phase":"Pending"}'))
    assert Sum(template_of(made), reports[0], waiting).status["phase"] == "Pending"


async def test_a_pod_that_crashes_is_unhealthy(member: Any, fresh_name: str) -> None:
    made = manifest("v1", "Pod", fresh_name, spec=pod_spec())
    (event,) = await played([member], made, phase="Running")
    await member.fault("/faults/pods", {"namespace": "default", "name": fresh_name, "kind": "Pod", "crash": True})
    await member.desk.until(event.key, lambda seen: seen.health == "Unhealthy")


async def test_a_balanced_service_shows_every_address_once(members: Any, fresh_name: str) -> None:
    spec = {"type": "LoadBalancer", "ports": [{"port": 80}], "selector": {"app": fresh_name}}
    made = manifest("v1", "Service", fresh_name, spec=spec)
    reports = await played(members, made, made)
    entries = [status_of(event)["loadBalancer"]["ingress"][0] for event in reports]
    assert entries[0] == entries[1]
    assert Sum(template_of(made), *reports).status["loadBalancer"]["ingress"] == [entries[0]]
    await members[1].put_status(made, {"loadBalancer": {"ingress": [{"hostname": "b.example"}, {"ip": "10.0.0.9"}]}})
    other = await members[1].desk.until(reports[1].key, lambda seen: "b.example" in bytes(seen.status).decode())
    merged = Sum(template_of(made), reports[0], other).status["loadBalancer"]["ingress"]
    assert [entry.get("hostname") or entry["ip"] for entry in merged] == ["b.example", "10.0.0.9", entries[0]["ip"]]


async def test_cluster_ip_service_is_healthy_without_status(members: Any, fresh_name: str) -> None:
    made = manifest("v1", "Service", fresh_name, spec={"ports": [{"port": 80}], "selector": {"app": "x"}})
    reports = await played(members, made, made)
    assert [status_of(event) for event in reports] == [None, None]
    assert Sum(template_of(made, loadBalancer={}), *reports).status == {"loadBalancer": {}}


async def test_an_ingress_is_healthy_with_an_address_and_shows_all(members: Any, fresh_name: str) -> None:
    backend = {"service": {"name": "web", "port": {"number": 80}}}
    made = manifest("networking.k8s.io/v1", "Ingress", fresh_name, spec={"defaultBackend": backend})
    before = await members[0].deliver(made)
    assert before.health == "Unhealthy"
    addresses = [{"loadBalancer": {"ingress": [{"ip": f"10.0.0.{n}"}]}} for n in (2, 1)]
    reports = await told(members, made, *addresses)
    assert [event.health for event in reports] == ["Healthy", "Healthy"]
    merged = Sum(template_of(made), *reports).status["loadBalancer"]["ingress"]
    assert [entry["ip"] for entry in merged] == ["10.0.0.1", "10.0.0.2"]


async def test_volume_claim_is_healthy_when_bound_everywhere(members: Any, fresh_name: str) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    made = manifest("v1", "PersistentVolumeClaim", fresh_name, spec=spec)
    reports = await played(members, made, made, phase="Bound")
    assert Sum(template_of(made), *reports).status["phase"] == "Bound"
    for phase in ("Pending", "Lost"):
        other = replace(reports[1], status=Raw(msgspec.json.encode({"phase": phase})))
        assert Sum(template_of(made), reports[0], other).status["phase"] == phase
    by_hand = manifest("v1", "PersistentVolumeClaim", f"{fresh_name}-b", spec={**spec, "storageClassName": ""})
    assert (await members[0].deliver(by_hand)).health == "Unhealthy"


async def test_a_volume_shows_the_phase_that_needs_most_attention(members: Any, fresh_name: str) -> None:
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/d"}}
    made = manifest("v1", "PersistentVolume", fresh_name, "", spec={**spec, "storageClassName": "by-hand"})
    reports = await played(members, made, made, phase="Available")
    assert Sum(template_of(made), *reports).status == {"phase": "Available"}
    for phase, shown in (("Failed", "Failed"), ("Bound", "Available"), ("Pending", "Pending")):
        other = replace(reports[1], status=Raw(msgspec.json.encode({"phase": phase})))
        assert Sum(template_of(made), reports[0], other).status == {"phase": shown}


async def test_disruption_budget_is_summed_with_pods_by_cluster(members: Any, fresh_name: str) -> None:
    made = manifest(
        "policy/v1",
        "PodDisruptionBudget",
        fresh_name,
        spec={"minAvailable": 1, "selector": {"matchLabels": {"app": fresh_name}}},
    )
    pods = workload("Deployment", fresh_name, 2)
    await played(members, pods, pods, readyReplicas=2)
    reports = await played(members, made, made, currentHealthy=2, desiredHealthy=1)
    total = Sum(template_of(made), *reports)
    assert (total.status["currentHealthy"], total.status["desiredHealthy"], total.status["expectedPods"]) == (4, 2, 4)
    assert total.status["disruptionsAllowed"] == 2
    says = Played(reports[0], made)
    status = {"currentHealthy": 1, "desiredHealthy": 1, "disruptedPods": {"web-1": "2029-01-01T00:00:00Z"}}
    total = Sum(template_of(made), says.saying("m1", status), says.saying("m2", status))
    assert set(total.status["disruptedPods"]) == {"m1/web-1", "m2/web-1"}


async def test_kind_without_rules_is_healthy_with_its_whole_status(member: Any, fresh_name: str) -> None:
    quota = manifest("v1", "ResourceQuota", fresh_name, spec={"hard": {"count/widgets.example.com": "9"}})
    (event,) = await told([member], quota, {"hard": {"count/widgets.example.com": "9"}, "used": {}})
    assert event.health == "Healthy"
    assert status_of(event)["hard"] == {"count/widgets.example.com": "9"}
    assert not ConformingInterpreter().hook_enabled("v1", "ResourceQuota", "AggregateStatus")


async def test_workload_without_template_generation_is_reported(member: Any, fresh_name: str) -> None:
    web = workload("Deployment", fresh_name)
    (event,) = await played([member], web, readyReplicas=1)
    work, seq = member.desk.works[event.key]
    member.desk.works[event.key] = replace(work, suspended=True), seq
    notes = (await member.live(web))["metadata"]["annotations"]
    generation = next(name for name in notes if "generation" in name and "karmada" in name)
    await member.patch(web, {"metadata": {"annotations": {generation: None}}})
    lame = await member.desk.until(event.key, lambda seen: generation in seen.message)
    assert lame.applied
    assert status_of(lame) == status_of(event), "the last status that could be read stays"
