"""What discovery says of metrics of many members, and what answers say that they lack."""

import msgspec
import pytest

from services._rules.metrics import metric_lists
from services._rules.metrics.answer_coverage import Coverage, LeftOut
from services._rules.metrics.metric_lists import ServedMetric, metrics_of, resource_entries, united

CUSTOM, EXTERNAL = "custom.metrics.k8s.io", "external.metrics.k8s.io"


def listed(*names: str, namespaced: bool = True) -> bytes:
    resources = [{"name": name, "namespaced": namespaced, "kind": "MetricValueList"} for name in names]
    return msgspec.json.encode({"kind": "APIResourceList", "groupVersion": "x/v1", "resources": resources})


def test_names_of_metrics_are_read() -> None:
    assert metrics_of(listed("pods/hits", "ingresses.networking.k8s.io/a:b"), CUSTOM) == {
        ServedMetric("pods/hits"),
        ServedMetric("ingresses.networking.k8s.io/a:b"),
    }
    assert metrics_of(listed("s0-queue"), EXTERNAL) == {ServedMetric("s0-queue")}


@pytest.mark.parametrize(
    "name", ["hits", "pods/", "/hits", "pods/a/b", "pods/..", "pods/\x1b[", "pods/" + "x" * 300, ""]
)
def test_what_is_no_name_of_a_metric_is_left_out(name: str) -> None:
    assert metrics_of(listed(name, "pods/hits"), CUSTOM) == {ServedMetric("pods/hits")}


def test_no_more_than_a_bound_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metric_lists, "MOST_METRICS", 3)
    lists = [metrics_of(listed(*(f"pods/{letter}{number}" for number in range(9))), CUSTOM) for letter in "ab"]
    assert [len(one) for one in lists] == [3, 3]
    assert len(united(lists)) == 3


@pytest.mark.parametrize(
    "body", [b"", b"404 page not found", b'{"kind":"Status"}', b"[]", b'{"kind":"APIResourceList","resources":[1]}']
)
def test_what_is_no_list_is_refused(body: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        metrics_of(body, CUSTOM)


def test_metrics_of_members_are_united() -> None:
    one, other = listed("pods/hits", "nodes/load", namespaced=False), listed("pods/hits", "pods/age")
    found = united([metrics_of(one, CUSTOM), metrics_of(other, CUSTOM)])
    assert found == [ServedMetric("nodes/load", False), ServedMetric("pods/age"), ServedMetric("pods/hits")]
    assert resource_entries(CUSTOM, found)[2] == {
        "name": "pods/hits",
        "namespaced": True,
        "singularName": "",
        "kind": "MetricValueList",
        "verbs": ["get"],
    }
    assert resource_entries(EXTERNAL, [ServedMetric("q")])[0]["kind"] == "ExternalMetricValueList"


def test_an_answer_says_what_it_lacks() -> None:
    coverage = Coverage(
        answered=frozenset({"m1"}),
        silent={"m2": "cluster m2: no\nanswer"},
        unready=("m4",),
        left_out={"m1": LeftOut(3, "a/web: 'NaN' is no quantity")},
    )
    assert coverage.texts() == [
        "metrics without those of m2 (no answer)",
        "metrics without those of members that are not ready: m4",
        "metrics that cannot be used are left out: 3 of m1 (a/web: 'NaN' is no quantity)",
    ]
    assert (coverage.missing, coverage.whole) == (["m2", "m4"], False)


def test_an_answer_of_all_members_says_nothing() -> None:
    coverage = Coverage(answered=frozenset({"m1"}))
    assert (coverage.texts(), coverage.missing, coverage.whole) == ([], [], True)


def test_what_is_said_is_bounded() -> None:
    coverage = Coverage(silent={f"m{number}": "x" * 10_000 for number in range(1000)})
    assert len(coverage.texts()) == 1
    assert len(coverage.texts()[0]) < 2000
    assert coverage.texts()[0].endswith("and 995 more")
