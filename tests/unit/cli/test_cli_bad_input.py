"""What commands say about kubeconfigs, clusters and kinds that cannot be used."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from typer.testing import CliRunner

from services._kit.kube.client import ApiError, ApiResource, KubeClient, Unreachable
from services.cli import karmadactl
from services.cli.common.control_plane import client_of
from services.cli.common.logbook import LogAccess, open_log
from services.cli.common.printing import aligned
from services.cli.common.running import Failed
from services.cli.listing import object_reading
from services.cli.listing.listing_options import Query
from services.cli.log import archive as log_files
from services.cli.log import export as log_export
from services.cli.log.log_options import ExportChoice
from services.cli.members import membership
from services.cli.members.clusters import CLUSTERS, Endpoint
from tests.support.kubeconfigs import kubeconfig

SYSTEM = "/api/v1/namespaces/kube-system"
EXPORTS = ApiResource(name="serviceexports", kind="ServiceExport", group="multicluster.x-k8s.io", version="v1alpha1")


class Answers:
    """Answers by path; an exception is raised."""

    server = "https://somewhere"

    def __init__(self, answers: dict[str, Any]) -> None:
        self._answers = answers

    async def get(self, path: str, **_: object) -> Any:
        answer = self._answers[path]
        if isinstance(answer, Exception):
            raise answer
        return answer


def client(answers: dict[str, Any]) -> KubeClient:
    return cast("KubeClient", Answers(answers))


def refusal(status: int, reason: str, message: str) -> ApiError:
    return ApiError(status, reason, message)


def system(uid: str) -> dict[str, Any]:
    return {"metadata": {"uid": uid}}


def test_every_command_that_help_groups_is_offered() -> None:
    shown = CliRunner().invoke(karmadactl.app, ["--help"]).stdout
    assert not [verb for verbs in karmadactl.GROUPS.values() for verb in verbs if f"  {verb} " not in shown]


async def test_the_control_plane_cannot_join_itself() -> None:
    other = {"metadata": {"name": "m1"}, "spec": {"id": "b"}}
    control = client({CLUSTERS: {"items": [other]}, SYSTEM: system("a")})
    with pytest.raises(Failed, match="m2 would be the control plane itself"):
        await membership.check_new(control, "m2", "a")
    await membership.check_new(control, "m2", "c")
    nameless = client({CLUSTERS: {"items": []}, SYSTEM: refusal(404, "NotFound", "no such namespace")})
    await membership.check_new(nameless, "m2", "a")


@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        (refusal(401, "Unauthorized", "Unauthorized"), r"m\.yaml \(https://somewhere\) refuses .*: Unauthorized"),
        (Unreachable("GET https://somewhere: refused"), r"the cluster of m\.yaml does not answer: GET"),
    ],
)
async def test_errors_of_a_member_name_its_kubeconfig(trouble: Exception, said: str) -> None:
    with pytest.raises(Failed, match=said):
        await membership.member_id(client({SYSTEM: trouble}), membership.MemberFile("m.yaml"))


@pytest.mark.parametrize("names", [(), ("x",)])
async def test_kind_not_served_by_a_member_is_named(names: tuple[str, ...]) -> None:
    path = f"/apis/multicluster.x-k8s.io/v1alpha1/namespaces/default/serviceexports{'/x' if names else ''}"
    member = Endpoint("m3", client({path: refusal(404, "Not Found", "404 page not found")}))
    asked = object_reading.Asked(msgspec.structs.replace(EXPORTS, namespaced=True), names, "serviceexports")
    (found,) = await object_reading.ask([member], asked, "default", Query(words=("serviceexports",)))
    assert found.troubles == ("error: cluster(m3): the server doesn't have a resource type 'serviceexports'",)


async def test_an_object_that_is_missing_stays_an_error_of_the_server() -> None:
    path = "/apis/multicluster.x-k8s.io/v1alpha1/namespaces/default/serviceexports/x"
    member = Endpoint("m3", client({path: refusal(404, "NotFound", 'serviceexports "x" not found')}))
    asked = object_reading.Asked(msgspec.structs.replace(EXPORTS, namespaced=True), ("x",), "serviceexports")
    (found,) = await object_reading.ask([member], asked, "default", Query(words=("serviceexports", "x")))
    assert found.troubles == ('Error from server (NotFound): cluster(m3): serviceexports "x" not found',)


async def test_invalid_key_is_named_with_its_kubeconfig(tmp_path: Path) -> None:
    given = kubeconfig("https://127.0.0.1:1", {"client-certificate-data": "AAAA", "client-key-data": "AAAA"})
    with pytest.raises(Failed, match=r"x\.yaml: certificate, key or authority cannot be read"):
        await client_of(Path("x.yaml"), given, "")


async def test_connection_timeout_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("client", "answers.exchange"):
        monkeypatch.setattr(f"services._kit.kube.{module}.CONNECT_SECONDS", 0.05)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        # TLS begins and nobody answers: to the client that is a connection that is not there yet.
        reached = KubeClient.from_token(f"https://127.0.0.1:{silent.getsockname()[1]}", "t", insecure=True)
        try:
            with pytest.raises(Unreachable, match=r"no connection within 0\.05 s"):
                await reached.get("/readyz")
        finally:
            await reached.close()


async def test_log_that_refuses_the_user_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: object, on_error: Callable[[Exception], None], **__: object) -> None:
        on_error(ValueError("nats: 'Authorization Violation'"))
        raise TimeoutError

    monkeypatch.setattr("services.cli.common.logbook.Connection.open", refuse)
    with pytest.raises(Failed, match=r"nats://h:1 does not let this command in: .*; name the installation with --dir"):
        async with open_log(LogAccess("nats://u:p@h:1")):
            pass


@pytest.mark.parametrize("choice", [ExportChoice(since="1h", until="2h"), ExportChoice(since="20", until="10")])
def test_a_span_that_ends_before_it_begins_is_refused(choice: ExportChoice) -> None:
    with pytest.raises(Failed, match="nothing lies between"):
        log_export._bounds(choice, 1e9)


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(Failed, match=r"none/x\.gz cannot be written: No such file"):
        log_files.Writer(tmp_path / "none" / "x.gz", log_files.Header())


def test_one_long_cell_does_not_move_the_other_lines() -> None:
    lines = [["a", "b" * 30, "end"], ["aa", "bb", "end"]]
    assert aligned(lines, broadest=20) == f"a    {'b' * 30}   end\naa   bb   end\n"
    assert aligned(lines).splitlines()[1] == f"aa   bb{' ' * 28}   end"
