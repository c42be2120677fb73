"""Which items of NodeMetrics and PodMetrics are used."""

from typing import Any

import msgspec
import pytest

from services._rules.metrics.measured_values import Unusable
from services._rules.metrics.metric_questions import UsageQuestion
from services._rules.metrics.usage_items import usage_item

PODS = UsageQuestion("pods", "a")


def pod(**changed: Any) -> dict[str, Any]:
    item = {
        "metadata": {
            "name": "web-1",
            "namespace": "a",
            "labels": {"app": "web"},
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "timestamp": "2026-01-01T00:00:00Z",
        "window": "15.5s",
        "containers": [{"name": "c", "usage": {"cpu": "12n", "memory": "3Ki"}}],
    }
    return {**item, **changed}


def using(**usage: Any) -> dict[str, Any]:
    return pod(containers=[{"name": "c", "usage": usage}])


def test_an_item_says_its_cluster_and_nothing_unknown() -> None:
    given = pod(extra=1)
    given["metadata"]["annotations"] = {"forged": "x"}
    found = msgspec.json.decode(usage_item(msgspec.json.encode(given), PODS, "m1"))
    assert found.pop("metadata") == {
        **pod()["metadata"],
        "annotations": {"resource.karmada.io/query-from-cluster": "m1"},
    }
    assert found == {name: pod()[name] for name in ("timestamp", "window", "containers")}


def test_one_by_name_says_its_kind() -> None:
    question = UsageQuestion("pods", "a", "web-1")
    found = msgspec.json.decode(usage_item(msgspec.json.encode(pod()), question, "m1"))
    assert (found["kind"], found["apiVersion"]) == ("PodMetrics", "metrics.k8s.io/v1beta1")


def test_nodes_have_a_usage_and_no_namespace() -> None:
    node = {"metadata": {"name": "n"}, "timestamp": "2026-01-01T00:00:00Z", "window": "1m0s", "usage": {"cpu": "1"}}
    found = msgspec.json.decode(usage_item(msgspec.json.encode(node), UsageQuestion("nodes"), "m1"))
    assert found["usage"] == {"cpu": "1"}
    with pytest.raises(Unusable, match="a node has no namespace"):
        usage_item(
            msgspec.json.encode({**node, "metadata": {"name": "n", "namespace": "x"}}), UsageQuestion("nodes"), "m1"
        )


@pytest.mark.parametrize("text", ["0", "12n", "1500m", "2", "1.5", "2e-3", "100u"])
def test_amounts_as_members_write_them_are_used(text: str) -> None:
    assert b'"cpu":"%s"' % text.encode() in usage_item(msgspec.json.encode(using(cpu=text, memory="1Gi")), PODS, "m")


@pytest.mark.parametrize(
    ("item", "why"),
    [
        (using(cpu="NaN"), "'NaN' is no quantity"),
        (using(cpu="Infinity"), "'Infinity' is no quantity"),
        (using(cpu="-1n"), "'-1n' is negative"),
        (using(memory="-3Ki"), "'-3Ki' is negative"),
        (using(cpu="99999999"), "'99999999' is more than anything can have"),
        (using(memory="9999Pi"), "is more than anything can have"),
        (using(cpu="1e400"), "is more than anything can have"),
        (using(cpu="9" * 600), "is no quantity"),
        (using(cpu=""), "'' is no quantity"),
        (using(cpu=1.5), "it is no PodMetrics"),
        (using(**{"a b": "1"}), "'a b' is no resource"),
        (using(), "it says no usage"),
        (pod(timestamp="yesterday"), "'yesterday' is no time"),
        (pod(timestamp="2026-13-01T00:00:00Z"), "is no time"),
        (pod(window="long"), "'long' is no duration"),
        (pod(metadata={"name": "web-1", "namespace": "b"}), "namespace 'a' was asked for"),
        (pod(metadata={"name": "\x1b[31m", "namespace": "a"}), "is no name"),
        (pod(metadata={"name": "x", "namespace": "a", "labels": {"a": "\n"}}), "is no label"),
        (pod(containers=None), "it is no PodMetrics"),
        (pod(containers=[{"name": "c", "usage": {"cpu": "1"}}] * 1001), "it has 1001 containers"),
        ({"metadata": {}}, "it is no PodMetrics"),
        ([], "it is no PodMetrics"),
    ],
)
def test_what_cannot_be_used_is_refused(item: Any, why: str) -> None:
    with pytest.raises(Unusable) as refused:
        usage_item(msgspec.json.encode(item), PODS, "m1")
    assert why in str(refused.value)
    assert str(refused.value).isprintable()


def test_another_object_than_asked_for_is_refused() -> None:
    with pytest.raises(Unusable, match="'other' was asked for"):
        usage_item(msgspec.json.encode(pod()), UsageQuestion("pods", "a", "other"), "m1")


@pytest.mark.parametrize("raw", [b"", b"{", b"NaN", b"\xff", b'{"metadata":NaN}', b"[" * 10_000])
def test_what_is_no_json_is_refused(raw: bytes) -> None:
    with pytest.raises(Unusable, match="it is no PodMetrics"):
        usage_item(raw, PODS, "m1")
