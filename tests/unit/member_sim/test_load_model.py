"""What simulated containers and nodes use."""

from typing import Any

import pytest

from services.member_sim.faults import UnknownTarget
from services.member_sim.usage.cluster_usage import SYSTEM, ClusterUsage, PodLoad
from services.member_sim.usage.load_model import Load, UnreadableLoad, load_of, usage_of
from services.member_sim.usage.metrics_kinds import NodeMetrics, PodMetrics

NOW = 1_700_000_000.0
NONE = Load()


def pod(*containers: dict[str, Any]) -> dict[str, Any]:
    statuses = [{"name": one["name"], "state": {"running": {}}} for one in containers]
    return {
        "metadata": {"uid": "u"},
        "spec": {"containers": list(containers)},
        "status": {"containerStatuses": statuses},
    }


def container(name: str = "c", cpu: str = "", memory: str = "", limit: str = "") -> dict[str, Any]:
    requests = {key: value for key, value in (("cpu", cpu), ("memory", memory)) if value}
    return {"name": name, "resources": {"requests": requests, "limits": {"cpu": limit} if limit else {}}}


def test_without_a_load_a_share_of_the_requests_is_used() -> None:
    used = usage_of(pod(container(cpu="1", memory="100Mi")), None, NOW)["c"]
    assert 270 <= used.cpu_milli <= 330
    assert used.memory_bytes == 60 << 20
    assert used == usage_of(pod(container(cpu="1", memory="100Mi")), None, NOW)["c"]
    assert used != usage_of(pod(container(cpu="1", memory="100Mi")), None, NOW + 15)["c"]


def test_without_requests_a_little_is_used() -> None:
    assert 0 < usage_of(pod(container()), None, NOW)["c"].cpu_milli < 10


def test_a_share_is_of_the_requests_and_exact() -> None:
    found = usage_of(pod(container("a", "200m"), container("b", "100m")), load_of("80%", "", NONE), NOW)
    assert [found[name].cpu_milli for name in "ab"] == [160, 80]


def test_an_amount_is_shared_as_the_requests_are() -> None:
    found = usage_of(pod(container("a", "300m"), container("b", "100m")), load_of("1", "1Gi", NONE), NOW)
    assert [found[name].cpu_milli for name in "ab"] == [750, 250]
    assert [found[name].memory_bytes for name in "ab"] == [512 << 20, 512 << 20]


def test_a_limit_is_never_exceeded() -> None:
    assert usage_of(pod(container(cpu="1", limit="2")), load_of("900%", None, NONE), NOW)["c"].cpu_milli == 2000


def test_containers_that_do_not_run_use_nothing() -> None:
    assert usage_of({**pod(container()), "status": {}}, None, NOW) == {}


@pytest.mark.parametrize("text", ["x", "-1%", "-1", "101Ei", "1e400", "%", "99999999%"])
def test_what_is_no_load_is_refused(text: str) -> None:
    with pytest.raises(UnreadableLoad):
        load_of("", text, NONE)


def test_what_is_not_named_stays() -> None:
    before = load_of("80%", "1Gi", NONE)
    assert load_of("50%", None, before) == load_of("50%", "1Gi", NONE)
    assert load_of("", "", before) == NONE


def test_a_load_reaches_the_pods_of_its_workload(web_cluster: Any) -> None:
    usage = ClusterUsage(web_cluster.state)
    usage.set(PodLoad(namespace="default", name="web", cpu="50%"))
    kind = PodMetrics(usage, lambda: NOW)
    found = kind.computed("default", "") or []
    assert [one["containers"][0]["usage"]["cpu"] for one in found] == ["500000000n"] * 2
    assert found[0]["window"] == "15s"
    assert found[0]["timestamp"] == "2023-11-14T22:13:15Z"
    assert found[0]["metadata"]["labels"]["app"] == "web"
    assert kind.computed("other", "") == []
    one = web_cluster.all("Pod")[0]["metadata"]["name"]
    usage.set(PodLoad(namespace="default", name=one, kind="Pod", cpu="100m"))
    assert (kind.computed("default", one) or [{}])[0]["containers"][0]["usage"]["cpu"] == "100000000n"
    usage.set(PodLoad(namespace="default", name="web", cpu="", memory=""))
    assert [load.kind for load in usage.shown()] == ["Pod"]


def test_a_node_uses_what_its_pods_do_and_no_more_than_it_has(web_cluster: Any) -> None:
    usage = ClusterUsage(web_cluster.state)
    usage.set(PodLoad(namespace="default", name="web", cpu="50%", memory="1Gi"))
    node = NodeMetrics(usage, lambda: NOW)
    used = (node.computed("", "") or [{}])[0]["usage"]
    assert used == {"cpu": "1100000000n", "memory": f"{(SYSTEM.memory_bytes + (2 << 30)) / 1024:.0f}Ki"}
    usage.set(PodLoad(namespace="default", name="web", cpu="900%"))
    assert (node.computed("", "") or [{}])[0]["usage"]["cpu"] == "4000000000n"
    pods = PodMetrics(usage, lambda: NOW).computed("default", "") or []
    assert [one["containers"][0]["usage"]["cpu"] for one in pods] == ["1950000000n"] * 2


def test_a_stopped_kubelet_tells_nothing(web_cluster: Any) -> None:
    usage = ClusterUsage(web_cluster.state)
    web_cluster.state.down.update(one["metadata"]["name"] for one in web_cluster.all("Node"))
    assert NodeMetrics(usage, lambda: NOW).computed("", "") == []
    assert PodMetrics(usage, lambda: NOW).computed("", "") == []


def test_a_load_needs_something_that_is_there(web_cluster: Any) -> None:
    with pytest.raises(UnknownTarget, match="there is no StatefulSet default/web in this member"):
        ClusterUsage(web_cluster.state).set(PodLoad(namespace="default", name="web", kind="StatefulSet", cpu="1"))
