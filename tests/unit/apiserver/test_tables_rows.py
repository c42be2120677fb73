"""Table rows: what people see of pods, services, nodes, jobs and custom objects."""

import datetime as dt
from types import SimpleNamespace
from typing import Any

import pytest

from services.apiserver.tables.build import printer_of
from services.apiserver.tables.human import duration
from services.apiserver.tables.printer import table

NOW = dt.datetime(2026, 1, 1, 12, 0, tzinfo=dt.UTC)
META = {"name": "x", "creationTimestamp": "2026-01-01T11:00:00Z"}


def kind(plural: str, group: str = "", columns: list | None = None) -> Any:
    more = {} if columns is None else {"columns": columns}
    return SimpleNamespace(resource=SimpleNamespace(group=group, plural=plural), **more)


def cells(plural: str, obj: dict, group: str = "", columns: list | None = None) -> list:
    whole = {"metadata": META, **obj}
    return table(printer_of(kind(plural, group, columns)), [whole], "", "v1", True, NOW)["rows"][0]["cells"]


def pod(status: dict, spec: dict | None = None, **meta: str) -> dict:
    return {"metadata": {**META, **meta}, "spec": {"containers": [{"name": "c"}], **(spec or {})}, "status": status}


WAITING = {"waiting": {"reason": "CrashLoopBackOff"}}
TWO_INITS = {"initContainers": [{"name": "a"}, {"name": "b"}]}


@pytest.mark.parametrize(
    ("obj", "shown"),
    [
        (pod({"phase": "Pending"}), ["0/1", "Pending", 0]),
        (pod({"phase": "Running", "containerStatuses": [{"restartCount": 7, "state": WAITING}]}),
         ["0/1", "CrashLoopBackOff", 7]),
        (pod({"phase": "Running", "containerStatuses": [{"ready": True, "state": {"running": {}}}]}),
         ["1/1", "Running", 0]),
        (pod({"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"exitCode": 3}}}]}),
         ["0/1", "ExitCode:3", 0]),
        (pod({"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"exitCode": 1, "signal": 9}}}]}),
         ["0/1", "Signal:9", 0]),
        (pod({"phase": "Failed", "reason": "Evicted"}), ["0/1", "Evicted", 0]),
        (pod({"phase": "Pending", "initContainerStatuses": [{"restartCount": 1, "state": {}}]}, TWO_INITS),
         ["0/1", "Init:0/2", 1]),
        (pod({"phase": "Pending", "initContainerStatuses": [
            {"state": {"terminated": {"exitCode": 0}}}, {"state": {"waiting": {"reason": "ImagePullBackOff"}}}]},
             TWO_INITS),
         ["0/1", "Init:ImagePullBackOff", 0]),
        (pod({"phase": "Running"}, deletionTimestamp="2026-01-01T11:30:00Z"), ["0/1", "Terminating", 0]),
        (pod({"phase": "Running", "reason": "NodeLost"}, deletionTimestamp="2026-01-01T11:30:00Z"),
         ["0/1", "Unknown", 0]),
    ],
)  # fmt: skip
def test_a_pod_is_told_in_one_word(obj: dict, shown: list) -> None:
    assert cells("pods", obj)[1:4] == shown


def test_a_finished_pod_has_a_row_condition_and_a_live_one_has_none() -> None:
    done, live = pod({"phase": "Succeeded"}), pod({"phase": "Running"})
    rows = table(printer_of(kind("pods")), [done, live], "", "v1", True, NOW)["rows"]
    assert rows[0]["conditions"][0]["reason"] == "Succeeded"
    assert "conditions" not in rows[1]


def test_wide_columns_of_a_pod() -> None:
    obj = pod(
        {"phase": "Running", "podIPs": [{"ip": "192.0.2.3"}], "conditions": [{"type": "g", "status": "True"}]},
        {"nodeName": "n1", "readinessGates": [{"conditionType": "g"}, {"conditionType": "h"}]},
    )
    assert cells("pods", obj)[5:] == ["192.0.2.3", "n1", "<none>", "1/2"]


@pytest.mark.parametrize(
    ("spec", "status", "shown"),
    [
        ({"type": "ClusterIP", "clusterIP": "10.0.0.1", "ports": [{"port": 80, "protocol": "TCP"}],
          "selector": {"b": "2", "a": "1"}}, {}, ["ClusterIP", "10.0.0.1", "<none>", "80/TCP", "60m", "a=1,b=2"]),
        ({"type": "NodePort", "clusterIP": "10.0.0.1", "ports": [{"port": 80, "nodePort": 30000, "protocol": "UDP"}]},
         {}, ["NodePort", "10.0.0.1", "<none>", "80:30000/UDP", "60m", "<none>"]),
        ({"type": "ExternalName", "externalName": "e.example.com"}, {},
         ["ExternalName", "<none>", "e.example.com", "<none>", "60m", "<none>"]),
        ({"type": "LoadBalancer", "clusterIP": "10.0.0.1", "externalIPs": ["192.0.2.1"]},
         {"loadBalancer": {"ingress": [{"hostname": "h"}, {"ip": "192.0.2.5"}]}},
         ["LoadBalancer", "10.0.0.1", "192.0.2.5,h,192.0.2.1", "<none>", "60m", "<none>"]),
        ({"type": "LoadBalancer", "clusterIP": "10.0.0.1"}, {},
         ["LoadBalancer", "10.0.0.1", "<pending>", "<none>", "60m", "<none>"]),
    ],
)  # fmt: skip
def test_services(spec: dict, status: dict, shown: list) -> None:
    assert cells("services", {"spec": spec, "status": status})[1:] == shown


def test_nodes_tell_status_roles_and_addresses() -> None:
    obj = {
        "metadata": {**META, "labels": {"node-role.kubernetes.io/master": "", "kubernetes.io/role": "x"}},
        "spec": {"unschedulable": True},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "addresses": [{"type": "InternalIP", "address": "192.0.2.4"}],
            "nodeInfo": {"kubeletVersion": "v9"},
        },
    }
    assert cells("nodes", obj) == [
        "x", "Ready,SchedulingDisabled", "master,x", "60m", "v9", "192.0.2.4", "<none>",
        "<unknown>", "<unknown>", "<unknown>",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "status", "shown"),
    [
        ({"completions": 4}, {"succeeded": 1, "startTime": "2026-01-01T11:59:00Z"}, ["1/4", "60s"]),
        ({"parallelism": 3}, {}, ["0/1 of 3", ""]),
        ({"parallelism": 1}, {"startTime": "2026-01-01T11:00:00Z", "completionTime": "2026-01-01T11:00:05Z"},
         ["0/1", "5s"]),
    ],
)  # fmt: skip
def test_jobs(spec: dict, status: dict, shown: list) -> None:
    assert cells("jobs", {"spec": spec, "status": status}, "batch")[1:3] == shown


@pytest.mark.parametrize(
    ("spec", "status", "shown"),
    [
        ({"targetCPUUtilizationPercentage": 80}, {}, "<unknown>/80%"),
        ({"metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 50}}}]},
         {"currentMetrics": [{"type": "Resource", "resource": {"current": {"averageUtilization": 7}}}]}, "7%/50%"),
        ({"metrics": [{"type": "Pods", "pods": {"target": {"averageValue": "5"}}}] * 3}, {},
         "<unknown>/5, <unknown>/5 + 1 more..."),
        ({"metrics": []}, {}, "<none>"),
    ],
)  # fmt: skip
def test_autoscaler_targets(spec: dict, status: dict, shown: str) -> None:
    assert cells("horizontalpodautoscalers", {"spec": spec, "status": status}, "autoscaling")[2] == shown


def test_custom_columns_follow_their_paths_and_types() -> None:
    columns = [
        {"name": "S", "type": "string", "jsonPath": ".spec.s"},
        {"name": "Map", "type": "string", "jsonPath": ".spec.m"},
        {"name": "Bool", "type": "string", "jsonPath": ".spec.b"},
        {"name": "I", "type": "integer", "jsonPath": ".spec.i", "priority": 1},
        {"name": "Wrong", "type": "integer", "jsonPath": ".spec.s"},
        {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
        {"name": "Missing", "type": "string", "jsonPath": ".spec.q"},
        {"name": "Broken", "type": "string", "jsonPath": ".x["},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]
    obj = {
        "spec": {"s": "v", "m": {"a": 1}, "b": True, "i": 3},
        "status": {"conditions": [{"type": "Other", "status": "x"}, {"type": "Ready", "status": "True"}]},
    }
    shown = ["x", "v", '{"a":1}', "true", 3, None, "True", None, None, "60m"]
    assert cells("planets", obj, "g.example.com", columns) == shown
    built = table(printer_of(kind("planets", "g.example.com", columns)), [], "", "v1", True, NOW)
    assert [item["priority"] for item in built["columnDefinitions"]] == [0, 0, 0, 0, 1, 0, 0, 0, 0, 0]


def test_kinds_without_columns_have_name_and_time() -> None:
    assert cells("planets", {}, "g.example.com", []) == ["x", "60m"]
    assert cells("limitranges", {}) == ["x", "2026-01-01T11:00:00Z"]


@pytest.mark.parametrize(
    ("include", "shown"),
    [
        ("None", None),
        ("Object", {"metadata": META, "data": {"k": "v"}}),
        ("Metadata", {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1beta1", "metadata": META}),
    ],
)
def test_include_object_says_what_comes_with_a_row(include: str, shown: object) -> None:
    obj = {"metadata": META, "data": {"k": "v"}}
    built = table(printer_of(kind("configmaps")), [obj], include, "v1beta1", False, NOW)
    assert built["columnDefinitions"] is None
    assert built["rows"][0]["object"] == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-5, "<invalid>"), (-1, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (125, "2m5s"), (600, "10m"),
        (10799, "179m"), (10800, "3h"), (11100, "3h5m"), (28800, "8h"), (172800, "2d"), (176400, "2d1h"),
        (691200, "8d"), (63072000, "2y"), (63158400, "2y1d"), (315360000, "10y"),
    ],
)  # fmt: skip
def test_durations(seconds: int, shown: str) -> None:
    assert duration(dt.timedelta(seconds=seconds)) == shown
