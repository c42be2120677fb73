"""The values of metrics that are set in a simulated member."""

from __future__ import annotations

from typing import Any

import pytest

from services._rules.kubernetes.selectors import parse_selector
from services._rules.metrics.metric_lists import ServedMetric
from services.apiserver.core.status_errors import ApiError
from services.member_sim.faults import UnknownTarget
from services.member_sim.usage import metric_values
from services.member_sim.usage.cluster_usage import ClusterUsage
from services.member_sim.usage.metric_values import MetricValues, UnreadableValue, WantedValue
from services.member_sim.usage.value_groups import CustomMetrics, ExternalMetrics

NOW = 1_700_000_007.0
ALL = parse_selector("")
HITS = ["namespaces", "default", "pods", "*", "hits"]


def of_web(value: str = "700m", **more: Any) -> WantedValue:
    return WantedValue(
        **{"metric": "hits", "value": value, "namespace": "default", "kind": "Deployment", "name": "web", **more}
    )


def of_service(value: str = "5") -> WantedValue:
    return WantedValue(metric="hits", value=value, namespace="default", resource="services", name="front")


@pytest.fixture
def values(web_cluster: Any) -> MetricValues:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "front", "namespace": "default", "labels": {"a": "b"}},
    }

    def lookup(resource: str, namespace: str, name: str) -> list[dict[str, Any]]:
        return [service] if (resource, namespace) == ("services", "default") and name in ("", "front") else []

    return MetricValues(ClusterUsage(web_cluster.state), lookup, lambda: NOW)


def values_at(values: MetricValues, **query: str) -> list[str]:
    return [item["value"] for item in CustomMetrics(values).answer("v1beta2", HITS, query)["items"]]


def test_each_pod_of_a_workload_has_the_value(values: MetricValues) -> None:
    values.set(of_web(window=60, age=30))
    found = CustomMetrics(values).answer("v1beta2", HITS, {"labelSelector": "app=web"})
    assert [item["value"] for item in found["items"]] == ["700m", "700m"]
    first = found["items"][0]
    assert (first["metric"]["name"], first["windowSeconds"], first["timestamp"]) == ("hits", 60, "2023-11-14T22:12:45Z")
    assert first["describedObject"]["kind"] == "Pod"
    older = CustomMetrics(values).answer("v1beta1", HITS, {})["items"][0]
    assert (older["metricName"], older["window"]) == ("hits", 60)
    with pytest.raises(ApiError, match="no value of hits is set for pods"):
        CustomMetrics(values).answer("v1beta1", HITS, {"labelSelector": "app=other"})


def test_the_nearest_value_of_a_pod_counts(values: MetricValues, web_cluster: Any) -> None:
    pod = web_cluster.all("Pod")[0]["metadata"]["name"]
    values.set(of_web("1"))
    values.set(of_web("9", kind="Pod", name=pod))
    assert sorted(values_at(values)) == ["1", "9"]
    one = CustomMetrics(values).answer("v1beta2", [*HITS[:3], pod, "hits"], {})["items"]
    assert [item["value"] for item in one] == ["9"]
    values.set(of_web("", kind="Pod", name=pod))
    assert values_at(values) == ["1", "1"]


def test_labels_of_a_metric_select_and_add_up(values: MetricValues) -> None:
    values.set(of_web("1", labels={"verb": "GET"}))
    values.set(of_web("2", labels={"verb": "PUT"}))
    assert values_at(values) == ["3", "3"]
    assert values_at(values, metricLabelSelector="verb=PUT") == ["2", "2"]


def test_objects_have_values_of_their_own(values: MetricValues) -> None:
    values.set(of_service())
    path = ["namespaces", "default", "services", "front", "hits"]
    item = CustomMetrics(values).answer("v1beta2", path, {})["items"][0]
    assert (item["describedObject"]["kind"], item["value"]) == ("Service", "5")
    assert len(values.of_objects("services", "default", "", "hits", parse_selector("a=b"), ALL)) == 1
    assert values.of_objects("services", "default", "", "hits", parse_selector("a=c"), ALL) == []
    assert values.of_objects("services", "default", "front", "other", ALL, ALL) == []


def test_stopped_kubelets_leave_pods_without_values(values: MetricValues, web_cluster: Any) -> None:
    values.set(of_web())
    web_cluster.state.down.update(one["metadata"]["name"] for one in web_cluster.all("Node"))
    assert values.of_objects("pods", "default", "", "hits", ALL, ALL) == []


def test_external_metrics_have_labels_and_namespaces(values: MetricValues) -> None:
    values.set(WantedValue(metric="queue", value="30", namespace="default", labels={"q": "mail"}))
    values.set(WantedValue(metric="queue", value="1k", labels={"q": "print"}))
    group = ExternalMetrics(values)
    found = group.answer("v1beta1", ["namespaces", "default", "queue"], {})["items"]
    assert [(item["metricLabels"], item["value"]) for item in found] == [({"q": "mail"}, "30"), ({"q": "print"}, "1k")]
    found = group.answer("v1beta1", ["namespaces", "other", "queue"], {})["items"]
    assert [item["value"] for item in found] == ["1k"]
    with pytest.raises(ApiError) as refused:
        group.answer("v1beta1", ["namespaces", "default", "queue"], {"labelSelector": "q=none"})
    assert refused.value.code == 404


def test_discovery_lists_what_is_set(values: MetricValues) -> None:
    assert (values.custom_metrics(), values.external_metrics()) == ([], [])
    values.set(of_web())
    values.set(of_service())
    values.set(WantedValue(metric="queue", value="30"))
    assert values.custom_metrics() == [ServedMetric("pods/hits"), ServedMetric("services/hits")]
    assert [entry["name"] for entry in ExternalMetrics(values).resources("v1beta1")] == ["queue"]
    values.set(WantedValue(metric="queue"))
    assert ExternalMetrics(values).resources("v1beta1") == []


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (of_web("NaN"), "value 'NaN'"),
        (of_web(metric="a b"), "'a b' is no name of a metric"),
        (of_web(resource="services"), "say either a workload or an object"),
        (of_web(name=""), "a workload or object has a name"),
        (of_web(window=0), "window is a number of seconds above 0"),
        (of_web(age=-1), "age one of 0 or more"),
    ],
)
def test_what_cannot_be_set_is_refused(values: MetricValues, wanted: WantedValue, why: str) -> None:
    with pytest.raises(UnreadableValue, match=why):
        values.set(wanted)
    assert values.shown() == []


def test_targets_have_to_exist(values: MetricValues) -> None:
    with pytest.raises(UnknownTarget, match="there is no Deployment default/none"):
        values.set(of_web(name="none"))
    with pytest.raises(UnknownTarget, match="there is no services default/none"):
        values.set(WantedValue(metric="hits", value="1", namespace="default", resource="services", name="none"))


def test_values_are_bounded(values: MetricValues, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metric_values, "MOST_VALUES", 1)
    values.set(of_web())
    with pytest.raises(UnreadableValue, match="take some back"):
        values.set(of_service())
    values.set(of_web("2"))
    assert [value.value for value in values.shown()] == ["2"]


@pytest.mark.parametrize(
    ("parts", "query", "code"),
    [(["pods"], {}, 404), (HITS, {"labelSelector": "a in"}, 400), (HITS, {"metricLabelSelector": "=="}, 400)],
)
def test_questions_that_cannot_be_answered(
    values: MetricValues, parts: list[str], query: dict[str, str], code: int
) -> None:
    with pytest.raises(ApiError) as refused:
        CustomMetrics(values).answer("v1beta2", parts, query)
    assert refused.value.code == code
