"""What kubelets of tests make of a pod for the engine, and what they refuse."""

from __future__ import annotations

import io
import tarfile
from copy import deepcopy
from pathlib import Path

import pytest

from schemas.manifest import Manifest
from tests.containers.cluster.names import known_names
from tests.containers.cluster.pod_options import (
    Unsupported,
    check,
    engine_options,
    expanded,
    is_shared,
    needs_sandbox,
    sandbox_options,
)
from tests.containers.cluster.volumes import Content, archive

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
    options = engine_options(POD, POD["spec"]["containers"][0], {"NAME": "one"}, {"data": "/here"}, None)
    assert (options["entrypoint"], options["command"]) == (["nats-server"], ["-n", "one"])
    assert (options["user"], options["group_add"], options["read_only"]) == ("7:8", ["9"], True)
    assert (options["cap_drop"], options["security_opt"]) == (["ALL"], ["no-new-privileges:true"])
    assert (options["mem_limit"], options["memswap_limit"], options["cpu_shares"]) == (2 << 20, 2 << 20, 512)
    assert (options["volumes"], options["tmpfs"]) == (["/here:/data"], {"/tmp": "mode=1777,size=1024"})
    assert options["hostname"] == "nats-0"
    assert not needs_sandbox(POD)


@pytest.mark.parametrize("processes", [True, False])
def test_containers_of_one_pod_join_its_sandbox(processes: bool) -> None:
    pod = deepcopy(POD)
    pod["spec"]["shareProcessNamespace"] = processes
    beside = {"name": "reloader", "image": "fleetlog", "volumeMounts": [{"name": "tmp", "mountPath": "/run"}]}
    pod["spec"]["containers"].append(beside)
    check(pod)
    assert needs_sandbox(pod)
    assert [is_shared(pod, name) for name in ("tmp", "data")] == [True, False]
    sandbox = sandbox_options(pod, ["shared"])
    assert (sandbox["hostname"], sandbox["user"], sandbox["volumes"]) == ("nats-0", "7:8", ["shared:/volumes/0"])
    for one, volumes in zip(pod["spec"]["containers"], (["shared:/tmp", "/here:/data"], ["shared:/run"]), strict=True):
        options = engine_options(pod, one, {}, {"tmp": "shared", "data": "/here"}, "made")
        assert (options["network_mode"], options.get("pid_mode")) == (
            "container:made",
            "container:made" if processes else None,
        )
        assert (options["volumes"], options["tmpfs"]) == (volumes, {})
        # The engine gives it that of the sandbox, and refuses another one.
        assert "hostname" not in options


def test_what_containers_of_one_pod_ask_for_is_checked_in_each() -> None:
    pod = deepcopy(POD)
    pod["spec"]["containers"].append({"name": "reloader", "image": "fleetlog", "tty": True})
    with pytest.raises(Unsupported, match="tty"):
        check(pod)


def test_files_of_a_volume_are_exchanged_as_a_whole(tmp_path: Path) -> None:
    for content in (b"before", b"after"):
        with tarfile.open(fileobj=io.BytesIO(archive(Content({"a": content, "b/c": content}, 0o400), 9))) as packed:
            assert {entry.gid for entry in packed} == {9}
            packed.extractall(tmp_path, filter="fully_trusted")
        assert [(tmp_path / path).read_bytes() for path in ("a", "b/c")] == [content] * 2
        assert (tmp_path / "a").readlink() == Path("..data/a")
        assert (tmp_path / "a").stat().st_mode & 0o777 == 0o440


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
        engine_options(pod, pod["spec"]["containers"][0], {}, {"data": "/here"}, None)


def test_only_known_variables_are_replaced() -> None:
    assert expanded("$(A) $(B) $$(A) $A", {"A": "1"}) == "1 $(B) $(A) $A"


def test_names_lead_to_ready_pods() -> None:
    ready = [{"ip": "10.0.0.1", "hostname": "nats-0"}, {"ip": "10.0.0.2"}]
    subset = {"addresses": ready, "notReadyAddresses": [{"ip": "10.0.0.3"}]}
    endpoints = {"metadata": {"namespace": "fleet", "name": "nats"}, "subsets": [subset]}
    assert known_names([endpoints]) == {"fleet": {"nats": ["10.0.0.1", "10.0.0.2"], "nats-0.nats": ["10.0.0.1"]}}
