"""Metrics of all members at the control plane's address and at the gateway's: merged, bounded, honest, authorized."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from schemas.events.cluster import ClusterChanged, ClusterRemoved
from services.gateway.member_metrics import served_metrics
from tests.integration.gateway.conftest import Writer
from tests.integration.gateway.member_plane import MemberPlane, grant, member_plane, secret
from tests.support.metric_member import (
    CUSTOM,
    MetricMember,
    external_value,
    metric_member,
    newer_value,
    older_value,
    pod_usage,
)
from tests.support.waiting import eventually

USAGE = "/apis/metrics.k8s.io/v1beta1"
OLDER, NEWER = f"/apis/{CUSTOM}/v1beta1", f"/apis/{CUSTOM}/v1beta2"
EXTERNAL = "/apis/external.metrics.k8s.io/v1beta1"
HITS = "namespaces/default/pods/*/hits"
READ = {"apiGroups": ["metrics.k8s.io"], "resources": ["pods"], "verbs": ["get", "list"]}


@pytest.fixture(autouse=True)
def _nothing_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """What members serve is read for every question: tests change it."""
    monkeypatch.setattr(served_metrics, "KEPT_SECONDS", 0.0)


class Ground:
    """A control plane, its gateway, and members m1 and m2 that answer as they are instructed."""

    def __init__(self, plane: MemberPlane, writer: Writer, m1: MetricMember, m2: MetricMember) -> None:
        self.plane, self.writer, self.m1, self.m2 = plane, writer, m1, m2
        self.headers: Any = {}

    async def ask(
        self, path: str, user: str = "root", accept: str = "application/json", **params: str
    ) -> tuple[int, Any]:
        """Status and decoded body of an answer."""
        headers = {"Authorization": f"Bearer {user}", "Accept": accept}
        async with self.plane.session.get(self.plane.base + path, params=params, headers=headers) as answer:
            self.headers = answer.headers
            body = await answer.read()
            return answer.status, msgspec.json.decode(body) if body[:1] == b"{" else body

    async def says(
        self, name: str, *, ready: bool = True, groups: tuple[str, ...] = ("metrics.k8s.io/v1beta1",)
    ) -> None:
        """Put a fact about a member on the log."""
        conditions = [{"type": kind, "status": str(ready)} for kind in ("Ready", "CompleteAPIEnablements")]
        status = {"conditions": conditions, "apiEnablements": [{"groupVersion": one} for one in groups]}
        manifest = msgspec.Raw(msgspec.json.encode({"metadata": {"name": name}, "spec": {}, "status": status}))
        seq = await self.writer.append(ClusterChanged(name=name, uid=f"uid-{name}", manifest=manifest))
        await self.folded(seq)

    async def folded(self, seq: int) -> None:
        gateway = self.plane.gateway
        await eventually(lambda: gateway._state.facts >= seq, "the fact to be folded")


@asynccontextmanager
async def ground(tmp_path: Path, start: Any, writer: Writer, **settings: Any) -> AsyncIterator[Ground]:
    async with AsyncExitStack() as stack:
        plane = await stack.enter_async_context(member_plane(tmp_path, start, **settings))
        m1, m2 = [await stack.enter_async_context(metric_member()) for _ in range(2)]
        made = Ground(plane, writer, m1, m2)
        for name, member in (("m1", m1), ("m2", m2)):
            local = plane.control.local
            await local.create("v1", "secrets", secret(f"{name}-i", "token"))
            reference = {"namespace": "karmada-cluster", "name": f"{name}-i"}
            spec = {"syncMode": "Push", "apiEndpoint": member.url, "impersonatorSecretRef": reference}
            await local.create("cluster.karmada.io/v1alpha1", "clusters", {"metadata": {"name": name}, "spec": spec})
            await made.says(name)

        async def served() -> bool:
            return (await made.ask(f"{EXTERNAL}"))[0] == 200 and (await made.ask(f"{USAGE}/pods"))[0] == 200

        await eventually(served, "the metrics APIs")
        m1.heard.clear()
        m2.heard.clear()
        yield made


@pytest.fixture(params=["aggregated", "in front"])
async def both(request: Any, tmp_path: Path, start_gateway: Any, writer: Writer) -> AsyncIterator[Ground]:
    """The control plane that sends requests on, and the gateway before one that does not."""
    outside = request.param == "in front"
    async with ground(tmp_path, start_gateway, writer, outside=outside, member_metrics_seconds=60.0) as made:
        yield made


@pytest.fixture
async def one(tmp_path: Path, start_gateway: Any, writer: Writer) -> AsyncIterator[Ground]:
    async with ground(tmp_path, start_gateway, writer, outside=True, member_metrics_seconds=60.0) as made:
        yield made


def names(found: Any) -> list[tuple[str, str]]:
    """Names and clusters of what a list holds."""
    marks = "resource.karmada.io/query-from-cluster"
    return [(item["metadata"]["name"], item["metadata"]["annotations"][marks]) for item in found["items"]]


async def test_a_list_holds_the_pods_of_all_members(both: Ground) -> None:
    both.m1.usage(pod_usage("a"), pod_usage("b"))
    both.m2.usage(pod_usage("a", "20m"))
    code, found = await both.ask(f"{USAGE}/namespaces/default/pods", labelSelector="app=web,x!=y", limit="1")
    assert (code, found["kind"], names(found)) == (200, "PodMetricsList", [("a", "m1"), ("b", "m1"), ("a", "m2")])
    assert "Warning" not in both.headers
    assert [dict(heard.query) for heard in both.m1.heard] == [{"labelSelector": "app=web,x!=y"}]
    assert both.m1.heard[0].headers["Impersonate-User"] == "fleetlog:gateway"
    assert (await both.ask(f"{USAGE}/nodes"))[1] == {
        "kind": "NodeMetricsList",
        "apiVersion": "metrics.k8s.io/v1beta1",
        "metadata": {},
        "items": [],
    }


async def test_one_by_name_is_in_one_cluster(both: Ground) -> None:
    both.m1.usage(pod_usage("a"), pod_usage("b"))
    both.m2.usage(pod_usage("a"))
    code, found = await both.ask(f"{USAGE}/namespaces/default/pods/b")
    assert (code, found["kind"], found["metadata"]["name"]) == (200, "PodMetrics", "b")
    code, found = await both.ask(f"{USAGE}/namespaces/default/pods/a")
    assert (code, found["reason"]) == (409, "Conflict")
    assert "in several clusters: m1, m2" in found["message"]
    code, found = await both.ask(f"{USAGE}/namespaces/default/pods/none")
    assert (code, found["reason"], found["details"]["name"]) == (404, "NotFound", "none")


async def test_custom_metrics_are_summed_by_name(both: Ground) -> None:
    both.m1.custom(HITS, "v1beta1", older_value("p1", "700m"), older_value("p2", "1"))
    both.m2.custom(HITS, "v1beta2", newer_value("p1", "2"))
    code, found = await both.ask(f"{NEWER}/{HITS}", labelSelector="a=b", metricLabelSelector="c=d")
    assert (code, found["apiVersion"]) == (200, f"{CUSTOM}/v1beta2")
    assert [(one["describedObject"]["name"], one["value"]) for one in found["items"]] == [("p1", "2700m"), ("p2", "1")]
    assert dict(both.m2.heard[-1].query) == {"labelSelector": "a=b", "metricLabelSelector": "c=d"}
    code, found = await both.ask(f"{OLDER}/{HITS}")
    assert (code, found["items"][0]["metricName"], found["items"][0]["window"]) == (200, "hits", 30)
    assert (await both.ask(f"{OLDER}/namespaces/default/pods/*/none"))[0] == 404
    code, found = await both.ask(f"{NEWER}")
    assert [one["name"] for one in found["resources"]] == ["pods/hits"]


async def test_external_metrics_are_summed_or_not_found(both: Ground) -> None:
    both.m1.external("queue", external_value("queue", "5", q="mail"))
    both.m2.external("queue", external_value("queue", "1", q="mail"), external_value("queue", "2"))
    path = f"{EXTERNAL}/namespaces/default"
    code, found = await both.ask(f"{path}/queue", labelSelector="q")
    assert (code, found["kind"]) == (200, "ExternalMetricValueList")
    assert [(one["metricLabels"], one["value"]) for one in found["items"]] == [({"q": "mail"}, "6"), ({}, "2")]
    code, found = await both.ask(f"{path}/none")
    assert (code, found["message"]) == (404, "metric 'none' is served by no cluster that is ready")


async def test_the_control_plane_decides_who_may_ask(both: Ground) -> None:
    both.m1.usage(pod_usage("a"))
    assert (await both.ask(f"{USAGE}/pods", "eve"))[0] == 403
    assert (await both.ask(f"{USAGE}/pods", "unknown"))[0] == 401
    assert (await both.ask(f"{NEWER}/{HITS}", "eve"))[0] == 403
    assert not both.m1.heard
    await grant(both.plane.control.local, "jane", READ)
    assert (await both.ask(f"{USAGE}/pods", "jane"))[0] == 200
    assert (await both.ask(f"{USAGE}/nodes", "jane"))[0] == 403
    hits = {"apiGroups": [CUSTOM], "resources": ["pods/hits"], "verbs": ["get"]}
    await grant(both.plane.control.local, "eve", hits)
    both.m1.custom(HITS, "v1beta1", older_value("p1", "1"))
    assert (await both.ask(f"{NEWER}/{HITS}", "eve"))[0] == 200
    assert (await both.ask(f"{NEWER}/namespaces/default/pods/*/other", "eve"))[0] == 403


async def test_discovery_shows_the_metrics_groups(both: Ground) -> None:
    groups = {"metrics.k8s.io", CUSTOM, "external.metrics.k8s.io", "work.karmada.io"}
    assert groups <= {one["name"] for one in (await both.ask("/apis"))[1]["groups"]}
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    items = {one["metadata"].get("name"): one for one in (await both.ask("/apis", accept=accept))[1]["items"]}
    assert groups <= items.keys()
    assert [one["version"] for one in items[CUSTOM]["versions"]] == ["v1beta2", "v1beta1"]
    plurals = {one["resource"] for one in items["metrics.k8s.io"]["versions"][0]["resources"]}
    assert plurals == {"nodes", "pods"}
    code, found = await both.ask(f"/openapi/v3{USAGE}")
    assert (code, "paths" in found) == (200, True)


async def test_a_table_has_the_cluster(one: Ground) -> None:
    one.m1.usage(pod_usage("a", "1500m"))
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    code, found = await one.ask(f"{USAGE}/pods", accept=accept)
    assert (code, found["rows"][0]["cells"]) == (200, ["a", "m1", "1500m", "1024Ki", "15s"])
    assert (await one.ask(f"{NEWER}/{HITS}", accept=accept))[0] == 406
    assert (await one.ask(f"{USAGE}/pods", accept="application/yaml"))[0] == 406


async def test_values_that_cannot_be_used_are_left_out(one: Ground) -> None:
    one.m1.usage(pod_usage("good"), pod_usage("bad", "NaN"), pod_usage("less", "-1"))
    one.m2.usage(pod_usage("other", namespace="elsewhere"))
    code, found = await one.ask(f"{USAGE}/namespaces/default/pods")
    assert (code, names(found)) == (200, [("good", "m1")])
    text = one.headers["Warning"]
    assert text.startswith("299 - ")
    assert "2 of m1 (default/bad: 'NaN' is no quantity)" in text
    assert "1 of m2 (elsewhere/other: namespace 'default' was asked for)" in text
    one.m1.custom(HITS, "v1beta1", older_value("p1", "NaN"), older_value("p2", "1"), older_value("p2", "5"))
    code, found = await one.ask(f"{NEWER}/{HITS}")
    assert [(each["describedObject"]["name"], each["value"]) for each in found["items"]] == [("p2", "1")]
    assert "1 of m1 (p1: 'NaN' is no quantity)" in one.headers["Warning"]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"\x00garbage", "its answer cannot be used"),
        (b'{"kind":"PodMetricsList","items":[' + b'"x",' * 2_500_000 + b'""]}', "items cannot be used"),
        (b'{"kind":"PodMetricsList","items":' + b"[" * 1_000_000, "its answer cannot be used"),
        (b'{"kind":"PodMetricsList","items":[{"a":"' + b"x" * (10 << 20) + b'"}]}', "its answer cannot be used"),
        (b" " * (33 << 20), "its answer has more than"),
    ],
    ids=["garbage", "ten million bytes of small items", "deep", "ten million bytes in one", "too many bytes"],
)
async def test_a_hostile_answer_costs_only_its_member(one: Ground, body: bytes, why: str) -> None:
    one.m1.usage(pod_usage("a"))
    one.m2.answers[f"{USAGE}/pods"] = body
    code, found = await one.ask(f"{USAGE}/pods")
    assert (code, names(found)) == (200, [("a", "m1")])
    assert "metrics without those of m2 (" in one.headers["Warning"]
    assert why in one.headers["Warning"]
    assert one.headers["Fleetlog-Missing-Members"] == "m2"
    silent = one.plane.gateway._measuring.answers._questions
    assert silent.held_bytes == 0


async def test_a_member_that_hangs_is_left_out(tmp_path: Path, start_gateway: Any, writer: Writer) -> None:
    async with ground(tmp_path, start_gateway, writer, outside=True, member_metrics_seconds=5.0) as found:
        found.m1.usage(pod_usage("a"))
        found.m2.hangs = True
        for seconds in ("5", "1"):
            code, answer = await found.ask(f"{USAGE}/pods")
            assert (code, names(answer)) == (200, [("a", "m1")])
            # It is not waited for as long a second time.
            assert f"m2 (no answer within {seconds} s)" in found.headers["Warning"]
        code, answer = await found.ask(f"{USAGE}/namespaces/default/pods/none")
        assert (code, answer["reason"]) == (503, "ServiceUnavailable")
        assert "not all clusters answered" in answer["message"]
        assert (await found.ask(f"{USAGE}/namespaces/default/pods/a"))[0] == 200


async def test_a_member_that_hung_is_asked_again(tmp_path: Path, start_gateway: Any, writer: Writer) -> None:
    async with ground(tmp_path, start_gateway, writer, outside=True, member_metrics_seconds=5.0) as found:
        found.m1.custom(HITS, "v1beta1", older_value("p1", "1"))
        found.m2.custom(HITS, "v1beta1", older_value("p1", "2"))
        found.m2.hangs = True
        code, answer = await found.ask(f"{OLDER}/{HITS}")
        assert (code, answer["items"][0]["value"]) == (200, "1")
        assert "no answer within 5 s" in found.headers["Warning"]
        # What hangs stays so; the next questions are answered.
        found.m2.hangs = False

        async def whole() -> bool:
            return (await found.ask(f"{OLDER}/{HITS}"))[1]["items"][0]["value"] == "3"

        await eventually(whole, "the sum of both members")
        assert "Warning" not in found.headers


async def test_a_refusal_of_a_member_is_explained(one: Ground) -> None:
    one.m1.usage(pod_usage("a"))
    one.m2.usage()
    one.m2.status = 403
    assert (await one.ask(f"{USAGE}/pods"))[0] == 200
    assert "its roles do not permit fleetlog:gateway to read metrics (join it again)" in one.headers["Warning"]
    one.m2.status = 500
    assert (await one.ask(f"{USAGE}/pods"))[0] == 200
    assert "m2 (HTTP 500" in one.headers["Warning"]
    one.m1.status = 500
    assert (await one.ask(f"{USAGE}/pods"))[0] == 503


async def test_only_members_that_can_have_an_answer_are_asked(one: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served_metrics, "KEPT_SECONDS", 3600.0)
    one.plane.gateway._measuring.served._kept.clear()
    one.m1.usage(pod_usage("a"))
    one.m1.custom(HITS, "v1beta1", older_value("p1", "1"))
    await one.says("m2", groups=("apps/v1",))
    assert (await one.ask(f"{USAGE}/pods"))[0] == 200
    assert not one.m2.heard
    for _ in range(2):
        assert (await one.ask(f"{NEWER}/{HITS}"))[0] == 200
    # It was asked once what it serves.
    assert {heard.path for heard in one.m2.heard} == {f"/apis/{CUSTOM}/v1beta1", f"/apis/{CUSTOM}/v1beta2"}
    await one.says("m2", ready=False)
    assert (await one.ask(f"{USAGE}/pods"))[0] == 200
    assert "members that are not ready: m2" in one.headers["Warning"]
    await one.folded(await one.writer.append(ClusterRemoved(name="m2", uid="uid-m2")))
    assert (await one.ask(f"{USAGE}/pods"))[0] == 200
    assert "Warning" not in one.headers


async def test_what_is_no_question_is_refused(one: Ground) -> None:
    assert (await one.ask(f"{USAGE}/secrets"))[0] == 404
    assert (await one.ask("/apis/metrics.k8s.io/v1/pods"))[0] == 404
    assert (await one.ask(f"{USAGE}/pods", watch="true"))[0] == 405
    async with one.plane.session.delete(
        f"{one.plane.base}{USAGE}/pods", headers={"Authorization": "Bearer root"}
    ) as answer:
        assert answer.status == 405


async def test_answers_are_counted(one: Ground) -> None:
    one.m1.usage(pod_usage("a"), pod_usage("b", "NaN"))
    one.m2.answers[f"{USAGE}/pods"] = b"?"
    assert (await one.ask(f"{USAGE}/pods"))[0] == 200
    counted = one.plane.gateway._measuring.answers._questions._metrics
    assert dict(counted._silent.rows())[("m2",)] >= 1
    assert dict(counted._left_out.rows())[("m1",)] == 1
    assert counted._answers.labels("metrics.k8s.io", "partial")._value.get() >= 1
