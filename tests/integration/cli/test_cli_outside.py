"""An installation of API servers that are not ours: a wrong control plane ends the start, a wrong member does not."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from services._kit.kube.client import resource_path
from services.cli.common.layout import CONTROL
from tests.e2e.fleet import Fleet, until
from tests.e2e.reading import Unread, reader_of
from tests.integration.stock.servers import Servers, servers
from tests.support.commands import run_command

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]
SOON = {"FLEETLOG_CLUSTER_STATUS_UPDATE_FREQUENCY": "0.5", "FLEETLOG_CLUSTER_SUCCESS_THRESHOLD": "0"}


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """Four API servers and their kubeconfigs."""
    with servers(tmp_path_factory.mktemp("outside")) as made:
        yield made


def wrong_token(content: dict[str, Any]) -> None:
    content["users"][0]["user"] = {"token": "made-up"}


def closed_port(content: dict[str, Any]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        content["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{free.getsockname()[1]}"


def changed(path: Path, target: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """A copy of a kubeconfig with something wrong in it."""
    content = json.loads(path.read_text())
    change(content)
    target.write_text(json.dumps(content))
    return target


def test_unusable_control_plane_ends_the_start_with_its_file(given: Servers, tmp_path: Path) -> None:
    wrong = changed(given.control, tmp_path / "wrong.kubeconfig", wrong_token)
    done = run_command(
        "fleetlog", "up", "--dir", str(tmp_path / "f"), "--control-kubeconfig", str(wrong), "--members=0"
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert f"the control plane cannot be used: kubeconfig {wrong}, context " in done.stderr
    assert "the server does not accept the token" in done.stderr


def clusters(fleet: Fleet, among: Iterable[str]) -> dict[str, str]:
    """The status of the condition Ready by cluster; other tests have joined others to the same control plane."""
    try:
        found = reader_of(fleet.layout.kubeconfig(CONTROL)).items("clusters")
    except Unread:
        return {}
    return {
        item["metadata"]["name"]: next(
            (c["status"] for c in (item.get("status") or {}).get("conditions") or () if c["type"] == "Ready"), ""
        )
        for item in found
        if item["metadata"]["name"] in among
    }


def test_unusable_member_is_named_and_joined_once_corrected(given: Servers, tmp_path: Path) -> None:
    files = {name: tmp_path / name for name in ("one", "two", "three")}
    files["one"].write_text(given.members["one"].read_text())
    changed(given.members["two"], files["two"], closed_port)
    changed(given.members["three"], files["three"], wrong_token)
    arguments = [f"--control-kubeconfig={given.control}", *(f"--member={name}={file}" for name, file in files.items())]
    fleet = Fleet(tmp_path / "fleet", arguments, SOON).start()
    try:
        printed = fleet.printed()
        assert f"member two is not usable: kubeconfig {files['two']}, context" in printed
        assert "nothing listens at this port" in printed
        assert f"member three is not usable: kubeconfig {files['three']}, context" in printed
        assert "does not accept the token" in printed
        assert "members … one, two (not usable), three (not usable)" in printed
        assert "Not usable, and tried again: two, three" in printed
        assert clusters(fleet, files) == {"one": "True"}
        files["two"].write_text(given.members["two"].read_text())
        until("two is joined", lambda: "member two is usable now" in fleet.printed())
        assert clusters(fleet, files) == {"one": "True", "two": "True"}
        assert "member three is usable" not in fleet.printed()
    finally:
        fleet.stop()
    # A member with stored credentials whose file is wrong now.
    changed(given.members["one"], files["one"], wrong_token)
    changed(given.members["two"], files["two"], closed_port)
    changed(given.members["three"], files["three"], closed_port)
    (tmp_path / "fleet" / "up.log").unlink()
    fleet.start()
    try:
        printed = fleet.printed()
        for name, why in (("one", "does not accept the token"), ("two", "nothing listens at this port")):
            (line,) = [line for line in printed.splitlines() if f"member {name} is not usable: " in line]
            assert str(files[name]) in line
            assert why in line
            assert "the credentials stored at that time stay in use for https://127.0.0.1:" in line
        assert "member three is not usable" in printed
        until("those that are joined stay so", lambda: clusters(fleet, files) == {"one": "True", "two": "True"})
        changed(given.members["two"], files["one"], lambda _: None)
        until("another cluster", lambda: "member one is still not usable" in fleet.printed())
        assert "this is another cluster (uid of kube-system " in fleet.printed()
    finally:
        fleet.stop()
    assert fleet.failures() == []


def test_refused_credentials_are_replaced_from_the_kubeconfig(given: Servers, tmp_path: Path) -> None:
    arguments = [f"--control-kubeconfig={given.control}", f"--member=again={given.members['three']}"]
    fleet = Fleet(tmp_path / "fleet", arguments, SOON).start()
    secret = resource_path("", "v1", "secrets", "karmada-cluster", "again")
    try:
        kubectl = fleet.kubectl()
        broken = {"data": {"token": "bWFkZS11cA=="}}
        kubectl.run("patch", "secret", "again", "-n", "karmada-cluster", "--type=merge", "-p", json.dumps(broken))
    finally:
        fleet.stop()
    fleet.start()
    try:
        assert "bWFkZS11cA==" not in fleet.kubectl().run("get", "--raw", secret)
        assert clusters(fleet, ["again"]) == {"again": "True"}
        assert "not usable" not in fleet.printed()
    finally:
        fleet.stop()
