"""What kubelets of tests make of a pod for the engine, and what they refuse."""

from __future__ import annotations

from copy import deepcopy

import pytest

from schemas.manifest import Manifest
from tests.containers.cluster.names import known_names
from tests.containers.cluster.pod_options import Unsupported, check, engine_options, expanded

POD: Manifest = {
    "metadata": {"name": "nats-0", "namespace": "fleet", "uid": "1"},
    "spec": {
        "nodeName": "node-1",
        "enableServiceLinks": False,
        "securityContext": {"runAsUser": 7, "runAsGroup": 8, "fsGroup": 9, "runAsNonRoot": True},
        "volumes": [{"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "1Ki"}}],
        "containers": [
            {
                "name": "nats",
                "image": "nats",
                "command": ["nats-server"],
                "args": ["-n", "$(NAME)"],
                "resources": {"limits": {"memory": "2Mi"}, "requests": {"cpu": "500m"}},
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]},
                },
                "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}, {"name": "data", "mountPath": "/data"}],
            }
        ],
    },
}


def test_the_engine_is_told_what_the_manifest_says() -> None:
    check(POD)
    options = engine_options(POD, {"NAME": "one"}, {"data": "/here"})
    assert (options["entrypoint"], options["command"]) == (["nats-server"], ["-n", "one"])
    assert (options["user"], options["group_add"], options["read_only"]) == ("7:8", ["9"], True)
    assert (options["cap_drop"], options["security_opt"]) == (["ALL"], ["no-new-privileges:true"])
    assert (options["mem_limit"], options["memswap_limit"], options["cpu_shares"]) == (2 << 20, 2 << 20, 512)
    assert (options["volumes"], options["tmpfs"]) == (["/here:/data"], {"/tmp": "mode=1777,size=1024"})


@pytest.mark.parametrize(
    ("where", "field", "value"),
    [
        ("pod", "hostNetwork", True),
        ("pod", "initContainers", [{"name": "first"}]),
        ("pod", "enableServiceLinks", True),
        ("pod", "restartPolicy", "Never"),
        ("pod", "volumes", [{"name": "disk", "hostPath": {"path": "/"}}]),
        ("container", "livenessProbe", {"grpc": {"port": 1}}),
        ("container", "lifecycle", {"postStart": {"exec": {"command": ["true"]}}}),
        ("container", "securityContext", {"privileged": True}),
        ("container", "stdin", True),
    ],
)
def test_what_would_not_be_honoured_is_refused(where: str, field: str, value: object) -> None:
    pod = deepcopy(POD)
    spec = pod["spec"] if where == "pod" else pod["spec"]["containers"][0]
    spec[field] = value
    with pytest.raises(Unsupported):
        check(pod)


def test_a_pod_without_a_user_is_refused() -> None:
    pod = deepcopy(POD)
    del pod["spec"]["securityContext"]["runAsUser"]
    with pytest.raises(Unsupported, match="runAsUser"):
        engine_options(pod, {}, {"data": "/here"})


def test_only_known_variables_are_replaced() -> None:
    assert expanded("$(A) $(B) $$(A) $A", {"A": "1"}) == "1 $(B) $(A) $A"


def test_names_lead_to_ready_pods() -> None:
    ready = [{"ip": "10.0.0.1", "hostname": "nats-0"}, {"ip": "10.0.0.2"}]
    subset = {"addresses": ready, "notReadyAddresses": [{"ip": "10.0.0.3"}]}
    endpoints = {"metadata": {"namespace": "fleet", "name": "nats"}, "subsets": [subset]}
    assert known_names([endpoints]) == {"fleet": {"nats": ["10.0.0.1", "10.0.0.2"], "nats-0.nats": ["10.0.0.1"]}}
