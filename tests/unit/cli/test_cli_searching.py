"""`fleetlog search`: what it refuses, what it asks and prints, and what it finds on the log for a time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web
from msgspec import Raw

from schemas.events.observed import WorkObserved
from schemas.events.work import WorkRendered, WorkWithdrawn
from schemas.keys import ObjectKey
from schemas.topology import STREAMS
from services._kit.kube.client import encode as encoded
from services._kit.log import fact_history
from services.cli.common.karmadactl_options import ControlPlaneOptions
from services.cli.common.running import Failed
from services.cli.search.found_objects import FoundObject, show
from services.cli.search.past_objects import past_objects
from services.cli.search.searching import SearchRequest, search_index
from services.search.querying.query_syntax import parse_query
from tests.support.endpoints import answering
from tests.support.facts import deployment
from tests.support.kubeconfigs import kubeconfig
from tests.support.member_objects import pod
from tests.support.memory_log import MemoryLog

OF = "resource.karmada.io/cached-from-cluster"


def found(cluster: str, manifest: dict[str, Any]) -> FoundObject:
    manifest["metadata"].setdefault("annotations", {})[OF] = cluster
    return FoundObject(cluster, manifest)


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (SearchRequest("imag=x"), "no field 'imag'"),
        (SearchRequest("kind=Pod", output="table"), "unsupported output"),
        (SearchRequest("kind=Pod", limit=-1), "--limit -1"),
        (SearchRequest("kind=Pod", clusters=("m1 name=x",)), "no name of a cluster"),
        (SearchRequest("kind=Pod", namespace="A"), "no name of a cluster or namespace"),
        (SearchRequest("x" * 100_000), "100000 characters"),
    ],
)
def test_bad_requests_are_refused_before_any_is_sent(request_: SearchRequest, message: str) -> None:
    with pytest.raises(Failed, match=message):
        request_.query()


def test_options_are_conditions_of_the_query() -> None:
    request = SearchRequest("kind=Pod", clusters=("m1", "m2"), namespace="shop")
    assert parse_query(request.whole_text) == request.query()
    assert [str(term) for term in request.query().terms] == ["kind=Pod", "cluster=m1,m2", "namespace=shop"]


def test_table_names_the_member_of_each(capsys: pytest.CaptureFixture[str]) -> None:
    ready = deployment()
    ready["status"] = {"readyReplicas": 1}
    show([found("m1", pod("a", phase="Pending", node="n1")), found("m2", ready)], "wide")
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[0] == ["CLUSTER", "NAMESPACE", "KIND", "NAME", "STATUS", "AGE", "NODE", "IMAGES"]
    assert rows[1][:5] == ["m1", "shop", "Pod", "a", "Pending"]
    assert rows[1][-2:] == ["n1", "registry.example.com/shop/web:1.2.3"]
    assert rows[2][:6] == ["m2", "default", "Deployment", "nginx", "1/2", "ready"]


def test_names_and_documents_are_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    objects = [found("m1", pod("a")), found("m2", deployment())]
    show(objects, "name")
    assert capsys.readouterr().out.splitlines() == ["m1/shop/pod/a", "m2/default/deployment.apps/nginx"]
    show(objects, "json")
    assert [item["kind"] for item in json.loads(capsys.readouterr().out)["items"]] == ["Pod", "Deployment"]
    show([], "json")
    assert json.loads(capsys.readouterr().out)["items"] == []
    show([], "")
    assert "no object was found" in capsys.readouterr().err


def reached(path: Path, url: str) -> ControlPlaneOptions:
    path.write_text(json.dumps(kubeconfig(url)))
    return ControlPlaneOptions(str(path))


async def test_pages_are_read_up_to_the_limit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[dict[str, str]] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        asked.append(dict(request.query))
        start = int(request.query.get("continue") or 0)
        count = min(int(request.query["limit"]), 3)
        items = [found("m1", pod(f"p{number}")).manifest for number in range(start, min(start + count, 10))]
        token = {"continue": str(start + count)} if start + count < 10 else {}
        body = {"apiVersion": "v1", "kind": "List", "metadata": token, "items": items}
        return web.Response(body=encoded(body), content_type="application/json")

    async with answering(answer) as client:
        target = reached(tmp_path / "kubeconfig", client.server)
        assert await search_index(target, SearchRequest("kind=Pod", output="name", limit=7)) == 0
        printed = capsys.readouterr()
        assert printed.out.splitlines() == [f"m1/shop/pod/p{number}" for number in range(7)]
        assert "only the first 7" in printed.err
        assert await search_index(target, SearchRequest("kind=Pod", output="name", limit=0)) == 0
        printed = capsys.readouterr()
        assert len(printed.out.splitlines()) == 10
        assert not printed.err
    assert {each["query"] for each in asked} == {"kind=Pod"}


@pytest.mark.parametrize(
    ("code", "message"), [(404, "does not answer searches"), (503, "does not answer searches"), (403, "refused: no")]
)
async def test_refusals_say_what_to_do(tmp_path: Path, code: int, message: str) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.json_response({"kind": "Status", "message": "no", "reason": "R", "code": code}, status=code)

    async with answering(answer) as client:
        target = reached(tmp_path / "kubeconfig", client.server)
        with pytest.raises(Failed, match=message):
            await search_index(target, SearchRequest("kind=Pod"))


def rendered(cluster: str, image: str, name: str = "nginx") -> WorkRendered:
    manifest = deployment(image=image, name=name)
    return WorkRendered(
        cluster=cluster,
        key=ObjectKey("apps", "deployments", "default", name),
        uid="u1",
        api_version="apps/v1",
        kind="Deployment",
        digest="d",
        manifest=Raw(msgspec.json.encode(manifest)),
    )


async def test_past_objects_are_those_delivered_then(monkeypatch: pytest.MonkeyPatch) -> None:
    async def held(history: Any, position: int, patience: float = 0.0) -> int:
        return position

    monkeypatch.setattr(fact_history, "until_held", held)
    logs = {stream.name: MemoryLog(stream) for stream in STREAMS}
    secret = WorkRendered(
        cluster="m1",
        key=ObjectKey("", "secrets", "default", "s"),
        uid="u2",
        api_version="v1",
        kind="Secret",
        digest="d",
        manifest=Raw(b'{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"}}'),
    )
    ended = rendered("m2", "nginx:1.1")
    times = []
    for event in (
        rendered("m1", "nginx:1.1"),
        ended,
        secret,
        WorkObserved(cluster="m1", key=ended.key, uid="u1", status=Raw(b'{"readyReplicas":2}')),
        rendered("m1", "nginx:1.2"),
        WorkWithdrawn(cluster="m2", key=ended.key, uid="u1", api_version="apps/v1", kind="Deployment"),
    ):
        log = logs["OBSERVED" if isinstance(event, WorkObserved) else "FACTS"]
        await log.given(event)
        last = (await log.identity()).last_seq
        message = await log.get(last)
        assert message is not None
        times.append(message.time)

    async def at(query: str, then: float) -> list[tuple[str, str, Any]]:
        found = [each async for each in past_objects(logs, parse_query(query), then)]
        return [
            (
                each.cluster,
                each.manifest["spec"]["template"]["spec"]["containers"][0]["image"],
                (each.manifest.get("status") or {}).get("readyReplicas"),
            )
            for each in found
        ]

    assert await at("kind=Deployment", times[0] - 1) == []
    assert await at("kind=Deployment", times[3]) == [("m1", "nginx:1.1", 2), ("m2", "nginx:1.1", None)]
    assert await at("kind=Deployment", times[5] + 1) == [("m1", "nginx:1.2", 2)]
    assert await at("image~1.1 cluster=m2", times[3]) == [("m2", "nginx:1.1", None)]
    assert await at("kind=Secret", times[5]) == []
