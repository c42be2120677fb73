"""Attaching clusters: which credentials are kept, which settings reach which service, what a later start may change."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from schemas import topology
from services._kit.kube.client import ApiError, KubeClient
from services.cli.common.running import Failed, JoinRefused
from services.cli.installation import environment as surroundings
from services.cli.installation.installation_plan import prepare
from services.cli.installation.up import DESCHEDULER, SERVICES, services_of, up
from services.cli.installation.up_options import InstallationOptions
from services.cli.members import member_account
from services.cli.members.join import access_of_kubeconfig, kubeconfig_of
from services.cli.members.member_account import MemberAccess, member_identity
from tests.support.kubeconfigs import kubeconfig

OWN = MemberAccess(endpoint="https://m1.example", token="own")
WITHOUT = MemberAccess(endpoint="https://m1.example")


class Issuing:
    """A member that issues tokens for some days, or none, and writes tokens into Secrets, or does not."""

    def __init__(self, days: int, *, fills: bool) -> None:
        self._days = days
        self._fills = fills

    async def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Take any object; answer a request for a token."""
        if body["kind"] == "Secret" and self._fills:
            return {**body, "data": {"token": base64.b64encode(b"stored").decode()}}
        if not path.endswith("/token"):
            return body
        if not self._days:
            raise ApiError(404, "NotFound", "the server could not find the requested resource")
        expires = datetime.now(UTC) + timedelta(days=self._days)
        return {"status": {"token": "issued", "expirationTimestamp": expires.strftime("%Y-%m-%dT%H:%M:%SZ")}}


@pytest.fixture
def accepted(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Tokens that a member accepts; it fills Secrets at once or never."""
    tokens: set[str] = set()

    async def answer(_: MemberAccess, token: str) -> bool:
        return token in tokens

    monkeypatch.setattr(member_account, "_accepted", answer)
    monkeypatch.setattr(member_account, "_FILLING_SECONDS", 0.0)
    return tokens


@pytest.mark.parametrize(
    ("days", "fills", "right", "own", "kept"),
    [
        (3650, False, ("issued",), OWN, "issued"),
        (3650, True, ("stored",), OWN, "stored"),
        (3650, True, (), OWN, "own"),
        (1, True, ("issued", "stored"), OWN, "stored"),
        (1, False, ("issued",), OWN, "own"),
        (0, False, (), OWN, "own"),
        (1, True, ("issued", "stored"), WITHOUT, "stored"),
    ],
    ids=["lasting", "not accepted", "none accepted", "short", "short and none stored", "none issued", "program"],
)
async def test_token_of_a_member_lasts_or_its_own_is_kept(
    accepted: set[str], days: int, fills: bool, right: tuple[str, ...], own: MemberAccess, kept: str
) -> None:
    accepted.update(right)
    access = await member_identity(cast("KubeClient", Issuing(days, fills=fills)), "m1", own)
    assert access.token == kept
    assert access.endpoint == own.endpoint
    assert access.impersonator == ("" if kept == "own" else kept)


async def test_program_for_credentials_needs_a_token_that_lasts(accepted: set[str]) -> None:
    accepted.update(("issued", "stored"))
    with pytest.raises(JoinRefused, match="issues no token that lasts"):
        await member_identity(cast("KubeClient", Issuing(1, fills=False)), "m1", WITHOUT)


def test_way_through_a_proxy_is_read_from_a_kubeconfig() -> None:
    way = {"proxy-url": "socks5://bastion:1080", "tls-server-name": "inner"}
    access = access_of_kubeconfig(kubeconfig("https://m1.example", {"token": "own"}, **way))
    assert (access.proxy, access.server_name) == ("socks5://bastion:1080", "inner")
    assert access_of_kubeconfig(kubeconfig_of(access, "m1")) == access
    wrong = kubeconfig("https://m1.example", {"token": "own"}, proxy_url="ftp://user:password@bastion")
    with pytest.raises(JoinRefused, match="proxy-url is no proxy") as refused:
        access_of_kubeconfig(wrong)
    assert "password" not in str(refused.value)


def test_kubeconfig_with_a_token_and_no_ca_is_read() -> None:
    given = kubeconfig("https://m1.example", {"token": "own"}, insecure_skip_tls_verify=True)
    assert access_of_kubeconfig(given) == MemberAccess(endpoint="https://m1.example", token="own", insecure=True)


def test_a_service_gets_its_own_settings_and_none_of_the_others() -> None:
    environment = {"PATH": "/bin", "FLEETLOG_DIR": "/d", "FLEETLOG_LOG_LEVEL": "debug", "FLEETLOG_LONGEST_BACKOFF": "5"}
    taken = surroundings.take(environment)
    assert environment == {"PATH": "/bin"}
    assert surroundings.known_to("executor", taken) == {
        "FLEETLOG_LOG_LEVEL": "debug",
        "FLEETLOG_LONGEST_BACKOFF": "5",
    }
    assert surroundings.known_to("scheduler", taken) == {"FLEETLOG_LOG_LEVEL": "debug"}


def test_settings_of_members_differ_from_those_of_services() -> None:
    given = {"FLEETLOG_MEMBER_SYNC_TIMEOUT": "5", "FLEETLOG_MEMBER_CPU": "4", "FLEETLOG_MEMBER_NOPE": "1", "PATH": "/b"}
    members = surroundings.beginning_with("FLEETLOG_MEMBER_", given, (*SERVICES, DESCHEDULER))
    assert members == {"FLEETLOG_MEMBER_CPU": "4", "FLEETLOG_MEMBER_NOPE": "1"}


def test_a_later_start_takes_new_kubeconfigs_and_further_members(tmp_path: Path) -> None:
    first = InstallationOptions(directory=tmp_path, control_kubeconfig="/old/cp", attached={"m1": "/old/m1"})
    prepare(first)
    later = InstallationOptions(
        directory=tmp_path, control_kubeconfig="/new/cp", attached={"m1": "/new/m1", "m2": "/new/m2"}
    )
    _, installation, known = prepare(later)
    assert known
    assert installation.control_kubeconfig == "/new/cp"
    assert {member.name: member.kubeconfig for member in installation.members} == {"m1": "/new/m1", "m2": "/new/m2"}


@pytest.mark.parametrize(
    "asked", [{"control_kubeconfig": "/new/cp"}, {"attached": {"member1": "/new/m1"}}], ids=["control plane", "member"]
)
def test_simulated_cluster_is_not_replaced_by_a_real_one(tmp_path: Path, asked: dict[str, Any]) -> None:
    prepare(InstallationOptions(directory=tmp_path))
    with pytest.raises(Failed, match="use another --dir"):
        prepare(InstallationOptions(directory=tmp_path, **asked))


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"attached": {"m1": "none"}}, "--member m1: kubeconfig none does not exist"),
        ({"attached": {"m1": "."}}, "--member m1: kubeconfig . is no file"),
        ({"attached": {"Bad_Name": "none"}}, "'Bad_Name' cannot be a cluster's name"),
        ({"control_kubeconfig": "none"}, "--control-kubeconfig: kubeconfig none does not exist"),
    ],
)
def test_cluster_that_cannot_be_attached_is_not_stored(tmp_path: Path, asked: dict[str, Any], said: str) -> None:
    directory = tmp_path / "d"
    with pytest.raises(Failed, match=said):
        up(InstallationOptions(directory=directory, **asked))
    assert not directory.exists()


def test_a_file_is_no_directory_of_an_installation(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    with pytest.raises(Failed, match="is no directory"):
        up(InstallationOptions(directory=tmp_path / "f"))


def test_a_later_start_does_not_change_the_log(tmp_path: Path) -> None:
    prepare(InstallationOptions(directory=tmp_path / "own"))
    with pytest.raises(Failed, match="runs its own log server"):
        prepare(InstallationOptions(directory=tmp_path / "own", nats_url="nats://a:1"))
    prepare(InstallationOptions(directory=tmp_path / "other", nats_url="a:1, b:1"))
    prepare(InstallationOptions(directory=tmp_path / "other", nats_url="nats://a:1,nats://b:1"))
    prepare(InstallationOptions(directory=tmp_path / "other"))
    with pytest.raises(Failed, match=r"log is at nats://a:1,nats://b:1; use another --dir"):
        prepare(InstallationOptions(directory=tmp_path / "other", nats_url="c:1"))


def test_later_starts_keep_the_choice_of_the_descheduler(tmp_path: Path) -> None:
    def runs(choice: bool | None) -> bool:
        _, installation, _ = prepare(InstallationOptions(directory=tmp_path, descheduler=choice))
        return "descheduler" in services_of(installation)

    assert [runs(choice) for choice in (None, True, None, False, None)] == [False, True, True, False, False]


def test_every_service_of_the_topology_is_started_here(tmp_path: Path) -> None:
    options = InstallationOptions(directory=tmp_path, descheduler=True, control_kubeconfig="/cp", webhook="127.0.0.1")
    _, installation, _ = prepare(options)
    assert set(services_of(installation)) == set(topology.SERVICES)


def test_later_starts_keep_where_the_webhook_is_reached(tmp_path: Path) -> None:
    def asked(host: str) -> tuple[str, bool]:
        options = InstallationOptions(directory=tmp_path, control_kubeconfig="/cp", webhook=host)
        _, installation, _ = prepare(options)
        return installation.webhook, "webhook" in services_of(installation)

    assert asked("") == ("", False)
    for host in ("10.0.0.5", "", "fleet.example"):
        assert asked(host) == (host or "10.0.0.5", True)
    assert asked("none") == ("", False)
    for host in ("https://a", "a:8443", "-a", "a/b"):
        with pytest.raises(Failed, match="without https:// and port"):
            asked(host)


def test_embedded_control_plane_asks_no_webhook(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="--webhook needs --control-kubeconfig"):
        prepare(InstallationOptions(directory=tmp_path, webhook="10.0.0.5"))
