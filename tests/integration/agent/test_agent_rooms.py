"""Questions about room cross to an agent and back over its own account; a hostile one answers for itself only."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from schemas.agent import Reported, ReportedAnswer, RoomAnswers, RoomQuestions, TakenPods
from schemas.manifest import Manifest
from services._kit.base.log_errors import LogError
from services._kit.base.settings import credentials
from services._kit.kube.client import resource_path
from services._kit.log.connection import Connection
from services.registrar.settings import RegistrarSettings
from tests.integration.agent.conftest import Agents, Hub, Member
from tests.integration.agent.hub_servers import Users
from tests.support.waiting import PATIENCE, eventually

CLAIM = {"tolerations": [{"operator": "Exists"}]}
WANTED = {
    "namespace": "default",
    "replicaRequirements": {"resourceRequest": {"cpu": "3"}, "nodeClaim": CLAIM},
    "components": [],
}
TAKEN = TakenPods(count=1, namespace="default", requests={"cpu": "3"}, claim=CLAIM)
SINCE = "2026-01-01T00:00:00Z"


async def asked(hub: Hub, cluster: str, question: RoomQuestions, timeout: float = PATIENCE) -> RoomAnswers:
    """What the registrar answers to the estimator."""
    message = await hub.connection.request(f"rooms.{cluster}", msgspec.json.encode(question), timeout=timeout)
    return msgspec.json.decode(message.data, type=RoomAnswers)


async def furnish(member: Member) -> None:
    """Three nodes of four CPUs, a quota of six, and a Deployment one of whose two pods finds no node."""
    client = member.client
    for name in ("a", "b", "c"):
        await client.create(resource_path("", "v1", "nodes"), {"metadata": {"name": name}})
        status = {"metadata": {"name": name}, "status": {"allocatable": {"cpu": "4", "pods": "10"}}}
        await client.patch(resource_path("", "v1", "nodes", "", name, "status"), status)
    labels = {"app": "web"}
    template: Manifest = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    apps = resource_path("apps", "v1", "deployments", "default")
    body = {"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": labels}, "template": template}}
    deployment = await client.create(apps, body)
    uid = deployment["metadata"]["uid"]
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": uid, "controller": True}
    hashed = {**labels, "pod-template-hash": "1"}
    replica_set = await client.create(
        resource_path("apps", "v1", "replicasets", "default"),
        {
            "metadata": {"name": "web-1", "labels": hashed, "ownerReferences": [owner]},
            "spec": {
                "selector": {"matchLabels": hashed},
                "template": {**template, "metadata": {"labels": hashed}},
            },
        },
    )
    uid = replica_set["metadata"]["uid"]
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": uid, "controller": True}
    pods = resource_path("", "v1", "pods", "default")
    for name in ("web-1-x", "web-1-y"):
        metadata = {"name": name, "labels": hashed, "ownerReferences": [owner]}
        await client.create(pods, {"metadata": metadata, "spec": template["spec"]})
    waiting = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": SINCE}
    await client.patch(f"{pods}/web-1-x/status", {"status": {"conditions": [waiting]}})


async def test_agent_estimates_from_nodes_quotas_and_pods(hub: Hub, member: Member, agents: Agents) -> None:
    await hub.join("m1")
    await furnish(member)
    agents.start()

    async def counts(**question: Any) -> tuple[int, ...]:
        return (await asked(hub, "m1", RoomQuestions(id="2", **question))).replicas

    async def answers_so(expected: tuple[int, ...], **question: Any) -> bool:
        try:
            found = await asked(hub, "m1", RoomQuestions(id="2", **question), timeout=5)
        except LogError:
            return False  # the agent is not there yet: nobody answers for it
        return found.replicas == expected

    await eventually(lambda: answers_so((3,), requirements=(WANTED,)), "an answer")
    assert await counts(requirements=(WANTED, WANTED), taken=(TAKEN,)) == (2, 2)
    quotas = resource_path("", "v1", "resourcequotas", "default")
    hard = {"requests.cpu": "6"}
    await member.client.create(quotas, {"metadata": {"name": "q"}, "spec": {"hard": hard}})
    await member.client.patch(f"{quotas}/q/status", {"status": {"hard": hard, "used": {"requests.cpu": "0"}}})
    await eventually(lambda: answers_so((2,), requirements=(WANTED,)), "an answer within the quota")
    assert await counts(requirements=(WANTED,), quotas=False) == (3,)
    web = {"kind": "Deployment", "namespace": "default", "name": "web"}
    await eventually(lambda: answers_so((1,), workload=web, threshold=60.0), "the pod without a node")
    job = await asked(hub, "m1", RoomQuestions(id="3", workload={**web, "kind": "Job"}))
    assert "kind(Job) of workload(default/web) is not supported" in job.problem
    nowhere = await asked(hub, "m1", RoomQuestions(id="4", workload={**web, "name": "gone"}))
    assert "gone" in nowhere.problem
    broken = {**WANTED, "replicaRequirements": {"resourceRequest": {"cpu": "a lot"}}}
    assert "a lot" in (await asked(hub, "m1", RoomQuestions(id="5", requirements=(broken,)))).problem
    assert await counts(requirements=(WANTED,), quotas=False) == (3,)


async def test_hostile_agent_answers_only_its_own_questions(hub: Hub, users: Users) -> None:
    await hub.join("m1")
    await hub.join("m2")
    opened = []
    for cluster in ("m1", "m2"):
        settings = RegistrarSettings(nats_url=hub.server.url, **hub.server.agent_settings(cluster, users))
        opened.append(await Connection.open(hub.server.url, **credentials(settings)))
    evil, good = opened
    registrar: Any = hub.registrar  # type: ignore[attr-defined]  # set by the fixture

    async def says(connection: Connection, cluster: str, *answers: RoomAnswers, timeout: float = 2.0) -> Any:
        body = msgspec.json.encode(Reported(waits=True, answers=answers))
        message = await connection.request(f"reports.{cluster}", body, timeout=timeout)
        return msgspec.json.decode(message.data, type=ReportedAnswer).questions

    try:
        waiting = asyncio.create_task(says(good, "m2", timeout=PATIENCE))
        before = registrar.stats.refused
        question = asyncio.create_task(_asked_once_there(hub, RoomQuestions(id="mine", requirements=(WANTED,))))
        (handed,) = await waiting
        # The number of a question to another cluster, a number of its own making, and another cluster's subject.
        unheard = asyncio.create_task(says(evil, "m1", RoomAnswers(id=handed.id, replicas=(99,)), timeout=PATIENCE))
        await eventually(lambda: registrar.stats.refused == before + 1, "the refusal")
        for subject, body in (
            ("reports.m2", msgspec.json.encode(Reported(answers=(RoomAnswers(id=handed.id, replicas=(99,)),)))),
            ("rooms.m2", msgspec.json.encode(RoomQuestions(id="x", requirements=(WANTED,)))),
            ("rooms.m1", msgspec.json.encode(RoomQuestions(id="x", requirements=(WANTED,)))),
            ("unschedulable.m2", b"{}"),
        ):
            assert await _reaches_nobody(evil, subject, body), subject
        assert not question.done()
        done = asyncio.create_task(says(good, "m2", RoomAnswers(id=handed.id, replicas=(4,)), timeout=PATIENCE))
        assert await question == RoomAnswers(id="mine", replicas=(4,))
        for task in (unheard, done):
            task.cancel()
        await asyncio.gather(unheard, done, return_exceptions=True)
    finally:
        for connection in opened:
            await connection.close()


async def _asked_once_there(hub: Hub, question: RoomQuestions) -> RoomAnswers:
    """Ask m2's agent as soon as the registrar knows of it."""
    while True:
        answers = await asked(hub, "m2", question)
        if "is away" not in answers.problem:
            return answers


async def _reaches_nobody(connection: Connection, subject: str, body: bytes) -> bool:
    try:
        await connection.request(subject, body, timeout=0.3)
    except LogError:
        return True
    return False
