"""An API server that asks the webhook gives the answers that the embedded one gives by itself."""

from __future__ import annotations

import asyncio
import datetime as dt
import re
import shutil
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp
import msgspec
import pytest
from msgspec import Struct

from services._kit.base.clock import SystemClock
from services._kit.kube.client import KubeClient
from services._rules import constants as const
from services._rules.admission import Context
from services._rules.admission.webhook_configurations import Target
from services._rules.admission.write_steps import Guard
from services.apiserver.core.request_context import Identity
from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.server import ApiServer
from services.apiserver.settings import Settings
from services.apiserver.store.memory_store import MemoryStore
from services.cli.common.waiting import opened
from services.cli.installation.install_crds import (
    apply_definitions,
    apply_webhooks,
    needed_definitions,
    remove_webhooks,
    wanted_definitions,
)
from services.webhook.stored_objects import StoredObjects
from tests.integration.webhook.running import DAY, make_pair, running
from tests.support.reviews import reviewing

POLICIES: Final = "/apis/policy.karmada.io/v1alpha1/namespaces/default/propagationpolicies"
WIDE: Final = "/apis/policy.karmada.io/v1alpha1/clusterpropagationpolicies"
QUOTAS: Final = "/apis/policy.karmada.io/v1alpha1/namespaces/default/federatedresourcequotas"
TAINTING: Final = "/apis/policy.karmada.io/v1alpha1/clustertaintpolicies"
SCRIPTS: Final = "/apis/config.karmada.io/v1alpha1/resourceinterpretercustomizations"
CLUSTERS: Final = "/apis/cluster.karmada.io/v1alpha1/clusters"
BINDINGS: Final = "/apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings"
MAPS: Final = "/api/v1/namespaces/default/configmaps"
MERGE: Final = "application/merge-patch+json"
ID: Final = const.PROPAGATION_POLICY_ID_LABEL
_DRAWN: Final = re.compile(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d{4}-\d\d-\d\dT[\d:]+Z")
_SERVED: Final = ("resourceVersion", "managedFields")


class Front(Struct, eq=False):
    """One API server and a client of it."""

    server: ApiServer
    session: aiohttp.ClientSession
    kubeconfig: Path

    async def __call__(self, method: str, path: str, body: Any = None, media: str = "application/json") -> Any:
        """Code and answer."""
        headers = {"Content-Type": media, "Authorization": "Bearer admin"}
        data = None if body is None else msgspec.json.encode(body)
        url = f"{self.server.url}{path}"
        async with self.session.request(method, url, data=data, headers=headers, ssl=False) as response:
            return response.status, msgspec.json.decode(await response.read())


@asynccontextmanager
async def front(directory: Path, *, admission: bool, everything: bool = False) -> AsyncIterator[Front]:
    """A server with Karmada's kinds, with admission of its own or without."""
    tokens = {"admin": Identity("admin", "admin", ("system:masters",))}
    settings = Settings(data_dir=directory, admission=admission, tokens=tokens, allow_local_extensions=("1",))
    server = ApiServer(MemoryStore(), builtin_registry(), settings)
    await server.start()
    server.write_kubeconfig(directory / "kubeconfig")
    client = await KubeClient.from_kubeconfig(directory / "kubeconfig")
    try:
        wanted = wanted_definitions(None, everything=True) if everything else needed_definitions()
        await apply_definitions(client, wanted)
        async with aiohttp.ClientSession() as session:
            yield Front(server, session, directory / "kubeconfig")
    finally:
        await client.close()
        await server.stop()


@asynccontextmanager
async def asking(
    directory: Path, *, everything: bool = False, quotas: bool = False, guard: Guard | None = None
) -> AsyncIterator[Front]:
    """A server without admission of its own that asks a running webhook."""
    async with AsyncExitStack() as stack:
        made = await stack.enter_async_context(front(directory / "api", admission=False, everything=everything))
        stored = StoredObjects(str(made.kubeconfig))
        caller = await stack.enter_async_context(
            reviewing(directory / "hook", stored, Context(keeps_faults=True), quotas=quotas, guard=guard)
        )
        client = await KubeClient.from_kubeconfig(made.kubeconfig)
        stack.push_async_callback(client.close)
        bundle = b64encode((directory / "hook" / "ca.crt").read_bytes()).decode()
        assert await apply_webhooks(client, Target(bundle, url=caller.url)) == "2 created, 0 updated"
        yield made


def policy(name: str = "web", **spec: Any) -> dict[str, Any]:
    selectors = [{"apiVersion": "apps/v1", "kind": "Deployment"}]
    return {
        "apiVersion": const.POLICY_API,
        "kind": "PropagationPolicy",
        "metadata": {"name": name},
        "spec": {"resourceSelectors": selectors, "placement": {"spreadConstraints": [{"maxGroups": 2}]}, **spec},
    }


def of_kind(kind: str, name: str, api: str = const.POLICY_API, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name}, "spec": spec}


def script(name: str, code: str = "function GetReplicas(desiredObj)\n  return 1\nend") -> dict[str, Any]:
    target = {"apiVersion": "example.com/v1", "kind": "Widget"}
    rules = {"replicaResource": {"luaScript": code}}
    api = "config.karmada.io/v1alpha1"
    return of_kind("ResourceInterpreterCustomization", name, api, target=target, customizations=rules)


def cluster(**spec: Any) -> dict[str, Any]:
    return of_kind(
        "Cluster", "m1", const.CLUSTER_API, **({"syncMode": "Push", "apiEndpoint": "https://10.0.0.1:6443"} | spec)
    )


KEPT: Final = {"metadata": {"name": "kept", "labels": {const.DELETION_PROTECTED_LABEL: "Always"}}}
REQUESTS: Final[list[tuple[Any, ...]]] = [
    (201, "POST", POLICIES, policy()),
    (200, "PATCH", f"{POLICIES}/web", {"spec": {"priority": 3}}, MERGE),
    (403, "PATCH", f"{POLICIES}/web", {"metadata": {"labels": {ID: "mine"}}}, MERGE),
    (403, "PATCH", f"{POLICIES}/web", {"metadata": {"labels": {ID: None}}}, MERGE),
    (403, "PATCH", f"{POLICIES}/web", {"spec": {"schedulerName": "other"}}, MERGE),
    (403, "POST", POLICIES, policy("bad", preemption="Always")),
    (
        403,
        "POST",
        POLICIES,
        policy("two", placement={"clusterAffinity": {}, "clusterAffinities": [{"affinityName": "a"}]}),
    ),
    (422, "POST", POLICIES, policy("word", preemption="Sometimes")),
    (422, "POST", POLICIES, policy("text", placement="x")),
    (422, "POST", CLUSTERS, cluster(taints="x")),
    (201, "POST", WIDE, policy() | {"kind": "ClusterPropagationPolicy"}),
    (200, "DELETE", f"{POLICIES}/web"),
    (200, "PATCH", f"{POLICIES}/web", {"metadata": {"finalizers": None}}, MERGE),
    (404, "GET", f"{POLICIES}/web"),
    (403, "POST", QUOTAS, of_kind("FederatedResourceQuota", "q", overall={"cpu": "-1"})),
    (403, "POST", TAINTING, of_kind("ClusterTaintPolicy", "t", taints=[{"key": "a", "effect": "NoExecute"}])),
    (201, "POST", SCRIPTS, script("one")),
    (403, "POST", SCRIPTS, script("one-again")),
    (403, "POST", SCRIPTS, script("broken", "function GetReplicas(")),
    (201, "POST", CLUSTERS, cluster(zone="z", taints=[{"key": "a", "effect": "NoExecute"}])),
    (201, "POST", MAPS, KEPT),
    (403, "DELETE", f"{MAPS}/kept"),
    (403, "DELETE", MAPS),
    (200, "PATCH", f"{MAPS}/kept", {"metadata": {"labels": None}}, MERGE),
    (200, "DELETE", f"{MAPS}/kept"),
]
"""What is asked, each after the expected code."""


def same(answer: Any) -> Any:
    """An answer without what is drawn or counted anew for each object."""
    code, body = answer
    if isinstance(body, dict) and isinstance(body.get("metadata"), dict):
        body = body | {"metadata": {name: one for name, one in body["metadata"].items() if name not in _SERVED}}
    return code, msgspec.json.decode(_DRAWN.sub(b"<drawn>", msgspec.json.encode(body)))


async def test_both_front_doors_answer_alike(tmp_path: Path) -> None:
    async with front(tmp_path / "own", admission=True) as own, asking(tmp_path) as asked:
        for code, *request in REQUESTS:
            expected, found = same(await own(*request)), same(await asked(*request))
            assert found == expected, request
            assert expected[0] == code, request


async def test_a_cluster_is_refused_with_the_same_causes(tmp_path: Path) -> None:
    async with front(tmp_path / "own", admission=True) as own, asking(tmp_path) as asked:
        wrong = cluster(apiEndpoint="10.0.0.1:6443", zone="z", zones=["y"])
        (code, refused), (asked_code, answer) = await own("POST", CLUSTERS, wrong), await asked("POST", CLUSTERS, wrong)
        assert code == asked_code == 422
        assert answer["reason"] == "Invalid"
        assert answer["details"]["causes"] == refused["details"]["causes"]


async def test_a_webhook_that_is_away_stops_policies_but_no_taints(tmp_path: Path) -> None:
    async with front(tmp_path / "api", admission=False) as made, opened(made.kubeconfig) as client:
        await apply_webhooks(client, Target("", url="https://127.0.0.1:9"))
        code, answer = await made("POST", POLICIES, policy())
        assert code == 500
        assert 'failed calling webhook "propagationpolicy.karmada.io"' in answer["message"]
        assert (await made("POST", CLUSTERS, cluster()))[0] == 201
        assert await apply_webhooks(client, Target("", url="https://127.0.0.1:9")) == "0 created, 2 updated"
        await remove_webhooks(client)
        await remove_webhooks(client)
        assert (await made("POST", POLICIES, policy()))[0] == 201


def binding(replicas: int, *, request: str = "1500m") -> dict[str, Any]:
    resource = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "default"}
    return of_kind(
        "ResourceBinding",
        "web",
        const.BINDING_API,
        resource=resource,
        replicas=replicas,
        replicaRequirements={"resourceRequest": {"cpu": request}},
        clusters=[{"name": "m1", "replicas": replicas}],
    )


async def test_bindings_are_held_to_the_quotas_of_their_namespace(tmp_path: Path) -> None:
    async with asking(tmp_path, everything=True, quotas=True) as made:

        async def used() -> Any:
            return (await made("GET", f"{QUOTAS}/q"))[1].get("status", {}).get("overallUsed")

        async def scale(replicas: int, query: str = "") -> tuple[int, Any]:
            spec = {"replicas": replicas, "clusters": [{"name": "m1", "replicas": replicas}]}
            return await made("PATCH", f"{BINDINGS}/web{query}", {"spec": spec}, MERGE)  # type: ignore[no-any-return]

        assert (await made("POST", BINDINGS, binding(1)))[0] == 201, "without a quota nothing is limited"
        assert (await made("DELETE", f"{BINDINGS}/web"))[0] == 200
        quota = of_kind("FederatedResourceQuota", "q", overall={"cpu": "4"})
        assert (await made("POST", QUOTAS, quota))[0] == 201
        assert (await made("POST", BINDINGS, binding(2)))[0] == 201
        assert await used() == {"cpu": "3"}
        code, answer = await scale(3)
        assert (code, answer["reason"]) == (403, "QuotaExceeded")
        assert "FederatedResourceQuota q is exceeded: cpu 4500m of 4; use fewer" in answer["message"]
        assert await used() == {"cpu": "3"}
        assert (await scale(1, "?dryRun=All"))[0] == 200
        assert await used() == {"cpu": "3"}, "a dry run records nothing"
        assert (await scale(1))[0] == 200
        assert await used() == {"cpu": "1500m"}


async def test_bindings_that_arrive_at_once_are_all_counted(tmp_path: Path) -> None:
    async with asking(tmp_path, everything=True, quotas=True) as made:
        quota = of_kind("FederatedResourceQuota", "q", overall={"cpu": "3"})
        assert (await made("POST", QUOTAS, quota))[0] == 201

        def named(number: int) -> dict[str, Any]:
            return binding(1, request="1") | {"metadata": {"name": f"web-{number}"}}

        answers = await asyncio.gather(*(made("POST", BINDINGS, named(number)) for number in range(5)))
        admitted = [code for code, _ in answers].count(201)
        assert {code for code, _ in answers} <= {201, 403, 500}
        assert (await made("GET", f"{QUOTAS}/q"))[1]["status"]["overallUsed"] == {"cpu": str(admitted)}
        assert 1 <= admitted <= 3


async def test_quotas_that_cannot_be_read_let_no_binding_pass(tmp_path: Path) -> None:
    async with asking(tmp_path, everything=True, quotas=True) as made:
        assert (await made("DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/" + QUOTA_CRD))[0] == 200
        async with asyncio.timeout(60):
            while QUOTA_CRD.partition(".")[0] in await served(made):
                continue
        code, answer = await made("POST", BINDINGS, binding(1))
        assert code == 500
        assert "the FederatedResourceQuotas of namespace default cannot be read" in answer["message"]
        assert "try again" in answer["message"]


async def served(made: Front) -> set[str]:
    """Names of the resources of the policies' group."""
    _, found = await made("GET", "/apis/policy.karmada.io/v1alpha1")
    return {item["name"] for item in found["resources"]}


QUOTA_CRD: Final = "federatedresourcequotas.policy.karmada.io"


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on PATH")
async def test_kubectl_shows_what_the_webhook_says(tmp_path: Path) -> None:
    async def kubectl(kubeconfig: Path, *words: str, body: Any = None) -> tuple[int, str]:
        file = tmp_path / "manifest.json"
        file.write_bytes(msgspec.json.encode(body))
        run = await asyncio.create_subprocess_exec(
            *("kubectl", "--kubeconfig", str(kubeconfig), *words, *(("-f", str(file)) if body is not None else ())),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        text, _ = await run.communicate()
        return run.returncode or 0, text.decode()

    async with asking(tmp_path) as made:
        code, text = await kubectl(made.kubeconfig, "apply", body=policy(preemption="Always"))
        assert code == 1
        assert 'admission webhook "propagationpolicy.karmada.io" denied the request: spec.resourceSelectors[0]' in text
        for word in ("created", "web "):
            code, text = await kubectl(made.kubeconfig, "apply", body=policy())
            assert (code, word in text) == (0, True), text
        words = ("apply", "--server-side", "--force-conflicts")
        code, text = await kubectl(made.kubeconfig, *words, body=policy(priority=2))
        assert code == 0, text


async def test_an_expired_certificate_is_named_to_the_user(tmp_path: Path) -> None:
    """What kubectl shows when nobody replaced it: the certificate, not a missing authority."""
    now = dt.datetime.now(dt.UTC)
    make_pair(tmp_path, now - 2 * DAY, now - DAY)
    async with (
        front(tmp_path / "api", admission=False) as made,
        running(tmp_path, SystemClock()) as hook,
        opened(made.kubeconfig) as client,
    ):
        bundle = b64encode((tmp_path / "tls.crt").read_bytes()).decode()
        await apply_webhooks(client, Target(bundle, url=f"https://127.0.0.1:{hook.port}"))
        code, answer = await made("POST", POLICIES, policy())
        assert code == 500
        assert "x509: certificate has expired or is not yet valid: replace the certificate" in answer["message"]
        assert (await hook.ready())["ready"] is False
