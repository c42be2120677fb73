"""Which values of custom and external metrics are used, and how they are summed."""

from typing import Any

import msgspec
import pytest

from services._rules.metrics.measured_values import Unusable
from services._rules.metrics.metric_questions import ExternalQuestion, ValueQuestion
from services._rules.metrics.value_items import Measured, shown_value, summed, value_reading

HITS = ValueQuestion("pods", "hits", "a")
QUEUE = ExternalQuestion("queue", "a")


def older(name: str = "p1", value: Any = "3", at: str = "2026-01-01T00:00:00Z", **more: Any) -> dict[str, Any]:
    described = {"kind": "Pod", "namespace": "a", "name": name, "apiVersion": "v1"}
    measured = {"metricName": "hits", "timestamp": at, "window": 30, "value": value, "selector": None}
    return {"describedObject": described, **measured, **more}


def newer(name: str = "p1", value: Any = "3", **more: Any) -> dict[str, Any]:
    given = older(name, value)
    metric = {"name": given.pop("metricName"), "selector": given.pop("selector")}
    window = given.pop("window")
    return {**given, "metric": metric, "windowSeconds": window, **more}


def external(value: Any = "5", **labels: str) -> dict[str, Any]:
    return {"metricName": "queue", "metricLabels": labels, "timestamp": "2026-01-01T00:00:00Z", "value": value}


def read(item: Any, question: Any = HITS, version: str = "v1beta1") -> Measured:
    return value_reading(question, version)(msgspec.json.encode(item))


def shown(values: list[Measured], question: Any = HITS, version: str = "v1beta2") -> list[dict[str, Any]]:
    return [msgspec.to_builtins(shown_value(one, question, version)) for one in values]


def test_both_versions_are_read_and_written() -> None:
    assert read(older()) == read(newer(), version="v1beta2")
    assert shown([read(older())]) == [newer()]
    assert shown([read(newer(), version="v1beta2")], version="v1beta1") == [older()]


def test_the_metric_selector_is_repeated() -> None:
    selector = {"matchLabels": {"verb": "GET"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}
    assert shown([read(older(selector=selector))])[0]["metric"] == {"name": "hits", "selector": selector}


def test_values_of_one_name_are_summed_over_members() -> None:
    first = [read(older("p1", "700m")), read(older("p2", 2))]
    second = [read(older("p1", "1", at="2025-12-31T23:59:59.5Z", window=60))]
    found = shown(summed({"m2": second, "m1": first}))
    assert [(one["describedObject"]["name"], one["value"]) for one in found] == [("p1", "1700m"), ("p2", "2")]
    assert (found[0]["timestamp"], found[0]["windowSeconds"]) == ("2025-12-31T23:59:59.5Z", 60)


def test_the_order_of_members_changes_nothing() -> None:
    parts = {"b": [read(older("p2"))], "a": [read(older("p1"))], "c": [read(older("p1", "4"))]}
    assert summed(parts) == summed(dict(reversed(parts.items())))
    assert summed({}) == []


def test_a_value_without_a_window_has_none() -> None:
    item = older()
    del item["window"]
    assert "windowSeconds" not in shown(summed({"a": [read(item)], "b": [read(item)]}))[0]
    assert shown(summed({"a": [read(item)], "b": [read(older())]}))[0]["windowSeconds"] == 30


def test_external_values_are_summed_by_their_labels() -> None:
    parts = {
        name: [read(external("5", queue="mail"), QUEUE), read(external("1", queue="print"), QUEUE)] for name in "ab"
    }
    found = shown(summed(parts), QUEUE, "v1beta1")
    assert [(one["metricLabels"], one["value"]) for one in found] == [
        ({"queue": "mail"}, "10"),
        ({"queue": "print"}, "2"),
    ]


@pytest.mark.parametrize(
    ("item", "why"),
    [
        (older(value="NaN"), "'NaN' is no quantity"),
        (older(value="+Inf"), "is no quantity"),
        (older(value="-1"), "'-1' is negative"),
        (older(value="1E"), "'1E' is more than anything can have"),
        (older(value=True), "it is no value of a metric"),
        (older(value=None), "it is no value of a metric"),
        (older(value=1e308), "is more than anything can have"),
        (older(metricName="other"), "it is of metric 'other', not 'hits'"),
        (older(timestamp="now"), "'now' is no time"),
        (older(window=-1), "a window of '-1' seconds"),
        (older(window=10**12), "a window of '1000000000000' seconds"),
        (older(selector=3), "it is no value of a metric"),
        (older("\x1b[2J"), "is no name"),
        (older(describedObject={"name": "p", "namespace": "b"}), "namespace 'a' was asked for"),
        (older(describedObject={"name": "p", "kind": "\u202e"}), "is no name"),
        (newer(), "it is no value of a metric"),
        ({}, "it is no value of a metric"),
        ([1], "it is no value of a metric"),
    ],
)
def test_values_that_cannot_be_used_are_refused(item: Any, why: str) -> None:
    with pytest.raises(Unusable) as refused:
        read(item)
    assert why in str(refused.value)
    assert str(refused.value).isprintable()


@pytest.mark.parametrize(("item", "why"), [(external("NaN"), "'NaN'"), (external(**{"a b": "c"}), "'a b'")])
def test_external_values_are_checked_likewise(item: Any, why: str) -> None:
    with pytest.raises(Unusable, match=why):
        read(item, QUEUE)


def test_only_the_object_asked_for_counts() -> None:
    question = ValueQuestion("pods", "hits", "a", "p2")
    assert read(older("p2"), question).described.name == "p2"
    with pytest.raises(Unusable, match="'p2' was asked for"):
        read(older("p1"), question)


def test_a_namespace_has_metrics_of_its_own() -> None:
    question = ValueQuestion("metrics", "hits", "a", "a")
    item = older(describedObject={"kind": "Namespace", "name": "a", "apiVersion": "/v1"})
    assert read(item, question).described.kind == "Namespace"
