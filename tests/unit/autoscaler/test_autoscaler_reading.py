"""What rounds read: pods by their labels, samples, values of metrics, scales of clusters as the log knows them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from schemas.codec import subject_of
from schemas.events.rollup import ClusterStatusItem
from schemas.keys import PolicyKey
from services._kit.kube.client import ApiError, KubeClient, Unreachable
from services._rules.autoscaling.metric_specs import metric_spec
from services._rules.autoscaling.pod_readings import MetricError
from services._rules.constants import RETAIN_REPLICAS_LABEL
from services._rules.kubernetes.selectors import parse_selector
from services.autoscaler.reading.member_pods import MemberPods
from services.autoscaler.reading.metric_source import ControlPlaneMetrics, Question, RoundAnswers
from services.autoscaler.reading.pod_index import PodIndex, Shape, Shapes
from services.autoscaler.reading.round_rules import pending, rivals, scales_to_zero, shared_samples, unique_views
from services.autoscaler.replica_rules import replicas_of_members
from services.autoscaler.state import AutoscalerState, Target, fold
from tests.support import facts
from tests.support.facts import KEY, raw


def pod(name: str, namespace: str = "default", **labels: str) -> bytes:
    """A pod as an API server sends it."""
    container = {"name": "app", "resources": {"requests": {"cpu": "100m"}}}
    return msgspec.json.encode(
        {
            "metadata": {"name": name, "namespace": namespace, "labels": labels, "resourceVersion": "7"},
            "spec": {"containers": [container], "nodeName": "n1"},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        }
    )


def shape(name: str, **labels: str) -> Shape:
    found = Shapes(frozenset({"default"})).shape(pod(name, **labels))
    assert found is not None
    return found


def names(index: PodIndex, selector: str) -> list[str]:
    return [found.name for found in index.selected("default", parse_selector(selector))]


def test_pods_are_found_by_labels_as_they_are_now() -> None:
    index = PodIndex()
    index.listed([shape("a", app="web"), shape("b", app="web", tier="x"), shape("c", app="db")])
    assert names(index, "app=web") == ["a", "b"]
    assert names(index, "app=web,tier=x") == ["b"]
    assert names(index, "app in (web,db),!tier") == ["a", "c"]
    index.put(shape("a", app="db"))
    index.drop(shape("c", app="db"))
    assert (names(index, "app=web"), names(index, "app=db"), len(index)) == (["b"], ["a"], 2)
    index.listed([])
    assert names(index, "app=db") == []


def test_pods_of_other_namespaces_are_not_kept() -> None:
    assert Shapes(frozenset({"other"})).shape(pod("a", app="web")) is None
    with pytest.raises(msgspec.MsgspecError):
        Shapes(frozenset({"default"})).shape(b'{"metadata": {"name": 7}}')


def test_equal_labels_and_requests_are_one_object() -> None:
    shapes = Shapes(frozenset({"default"}))
    first, second = shapes.shape(pod("a", app="web")), shapes.shape(pod("b", app="web"))
    assert first is not None
    assert second is not None
    assert first.labels is second.labels
    assert first.view.requests is second.view.requests


class Api:
    """A control plane that answers by path; an exception is raised."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self.answers = answers
        self.asked: list[str] = []

    async def request(
        self, method: str, path: str, *, params: Mapping[str, str] | None = None, timeout: float
    ) -> bytes:
        del params, timeout
        self.asked.append(f"{method} {path}")
        answer = self.answers[path]
        if isinstance(answer, Exception):
            raise answer
        return msgspec.json.encode({"items": answer})


def ask(api: Api, *questions: Question, timeout: float = 5.0, at_once: int = 4) -> dict[Question, Any]:
    source = ControlPlaneMetrics(api, timeout, at_once)  # type: ignore[arg-type]  # only `request` is used

    async def answered() -> dict[Question, Any]:
        async with asyncio.TaskGroup() as group:
            answers = RoundAnswers(source, group, timeout, lambda *_: None)
            return dict(zip(questions, await asyncio.gather(*map(answers.of, questions)), strict=True))

    return asyncio.run(answered())


def test_samples_that_cannot_be_are_left_out() -> None:
    def item(name: str, *amounts: Any) -> dict[str, Any]:
        containers = [{"name": f"c{number}", "usage": {"cpu": amount}} for number, amount in enumerate(amounts)]
        return {"metadata": {"name": name, "namespace": "default"}, "window": "15s", "containers": containers}

    path = "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods"
    answer = [item("a", "100m", "1"), item("b", "NaN"), item("c", "-1"), item("d", "100m", "many"), item("e")]

    async def read() -> dict[str, int | None]:
        pods = MemberPods("m1", opening, frozenset({"default"}))
        try:
            pods._client = Api({path: answer})  # type: ignore[assignment]  # only `request` is used
            found = await pods.samples("default", 1.0)
        finally:
            await pods.close()
        samples = {name: use.sample("cpu") for (_, name), use in found.items()}
        return {name: sample.value if sample is not None else None for name, sample in samples.items()}

    async def opening() -> KubeClient:
        raise Unreachable("it is not there")

    assert asyncio.run(read()) == {"a": 1100, "b": None, "c": None, "d": None, "e": None}


QUEUE = Question("default", "queue", metric_selector="q=a")
RPS = Question("default", "rps", "pods", kind="Pod", selector="app=web")
INGRESS = Question("default", "hits", "ingresses.networking.k8s.io", "main", "Ingress")


def test_values_of_one_name_are_summed() -> None:
    api = Api(
        {
            QUEUE.path: [{"value": "3"}, {"value": "1500m"}],
            RPS.path: [
                {"describedObject": {"name": "a"}, "value": "100m"},
                {"describedObject": {"name": "b"}, "value": "1"},
            ],
        }
    )
    found = ask(api, QUEUE, RPS, QUEUE)
    assert found[QUEUE].total == 4500
    assert {name: sample.value for name, sample in found[RPS].values.items()} == {"a": 100, "b": 1000}
    assert len(api.asked) == 2


@pytest.mark.parametrize("value", ["NaN", "-1", None, "1e400", "many", {"a": 1}])
def test_value_that_cannot_be_is_a_problem(value: Any) -> None:
    with pytest.raises(MetricError, match="queue"):
        _ = ask(Api({QUEUE.path: [{"value": value}]}), QUEUE)[QUEUE].total


def test_problem_of_one_metric_is_not_that_of_another() -> None:
    api = Api(
        {
            QUEUE.path: Unreachable("no answer within 5 s"),
            RPS.path: ApiError(404, "NotFound", "the metric is not served"),
            INGRESS.path: [{"value": "7"}],
        }
    )
    found = ask(api, QUEUE, RPS, INGRESS)
    assert "no answer within 5 s" in found[QUEUE].problem
    assert "the metric is not served" in found[RPS].problem
    assert found[INGRESS].total == 7000
    assert INGRESS.path.endswith("/namespaces/default/ingresses.networking.k8s.io/main/hits")


def test_questions_that_hang_end_together() -> None:
    class Mute(Api):
        async def request(self, method: str, path: str, **_: Any) -> bytes:
            self.asked.append(path)
            return await asyncio.Event().wait()  # type: ignore[return-value]  # never

    api = Mute({})
    questions = [replace(QUEUE, metric=f"m{number}") for number in range(20)]
    found = ask(api, *questions, timeout=0.01, at_once=2)
    assert len(api.asked) == 2
    assert all("all questions together" in found[question].problem for question in questions)


def test_pods_of_one_name_in_two_clusters_are_two() -> None:
    pods = [("m1", shape("web-0")), ("m2", shape("web-0")), ("m2", shape("web-1"))]
    views = unique_views(pods)
    assert [view.name for view in views.values()] == ["m1/web-0", "m2/web-0", "web-1"]
    values = ask(
        Api({RPS.path: [{"describedObject": {"name": name}, "value": "4"} for name in ("web-0", "web-1")]}), RPS
    )[RPS].values
    shared = shared_samples(views, values)
    assert {name: sample.value for name, sample in shared.items()} == {
        "m1/web-0": 2000,
        "m2/web-0": 2000,
        "web-1": 4000,
    }


def test_two_autoscalers_of_one_target_are_rivals() -> None:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    keys = [PolicyKey("FederatedHPA", namespace, name) for namespace, name in (("a", "x"), ("a", "y"), ("b", "z"))]
    assert rivals((key, target) for key in keys) == {keys[0]: "y", keys[1]: "x"}


def test_only_metrics_without_pods_bring_a_target_back_from_zero() -> None:
    queue = metric_spec({"type": "External", "external": {"metric": {"name": "q"}, "target": {"averageValue": "1"}}})
    cpu = metric_spec({"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 5}}})
    said = {"fleetlog.io/scale-to-zero": "true"}
    assert (scales_to_zero(said, [cpu, queue]), scales_to_zero(said, [cpu]), scales_to_zero({}, [queue])) == (
        True,
        False,
        False,
    )


def projected(*events: Any) -> tuple[AutoscalerState, Target]:
    """The state after facts, and its Deployment."""
    state = AutoscalerState()
    for seq, event in enumerate(events, 1):
        list(fold(state, seq, subject_of(event), event))
    return state, state.objects[KEY]


def reported(**replicas: int) -> Any:
    items = tuple(
        ClusterStatusItem(cluster=name, applied=True, health="Healthy", status=raw({"replicas": count}))
        for name, count in replicas.items()
    )
    return replace(facts.ready_in(), items=items)


def divided(**counts: int) -> Any:
    return replace(facts.placement(**counts), placement=raw(facts.DIVIDED), binding_generation=1)


MEMBERS = (facts.member("m1"), facts.member("m2"))


def test_scales_of_clusters_are_those_on_the_log() -> None:
    state, target = projected(*MEMBERS, facts.binding(), divided(m1=1, m2=1), reported(m1=1))
    first, second = state.scales(target, 2)
    assert (first.cluster, first.replicas, first.existing, first.away) == ("m1", 1, 1, "")
    assert second.away
    state, target = projected(MEMBERS[0], facts.binding(), divided(m1=1, m2=1), reported(m1=1, m2=1))
    assert [bool(item.away) for item in state.scales(target, 2)] == [False, True]


def test_replicas_that_are_not_divided_yet_are_not_compared() -> None:
    _, target = projected(*MEMBERS, replace(facts.binding(), generation=2, replicas=4), divided(m1=1, m2=1))
    found = pending(target, 4)
    assert found is not None
    assert found.reason == "PlacementPending"
    _, target = projected(*MEMBERS, replace(facts.binding(), replicas=2), divided(m1=1, m2=1))
    assert pending(target, 2) is None
    assert pending(target, 3) is not None


def test_template_takes_over_replicas_once_all_members_report() -> None:
    labelled = replace(facts.template(), labels={RETAIN_REPLICAS_LABEL: "true"})
    bound = replace(facts.binding(), replicas=2)
    both = (*MEMBERS, labelled, bound, divided(m1=1, m2=1))
    assert replicas_of_members(*projected(*both, reported(m1=3, m2=2))) == 5
    assert replicas_of_members(*projected(*both, reported(m1=1, m2=1))) is None
    assert replicas_of_members(*projected(*both, reported(m1=3))) is None
    assert replicas_of_members(*projected(*both, reported(m1=3, m2=0))) is None
    plain = (*MEMBERS, facts.template(), bound, divided(m1=1, m2=1))
    assert replicas_of_members(*projected(*plain, reported(m1=3, m2=2))) is None
