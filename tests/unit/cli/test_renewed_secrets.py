"""`fleetlog certs --renew --secrets`: what is written into a Secret, and what keeps it from being written."""

from __future__ import annotations

import base64
import datetime as dt
from pathlib import Path
from typing import Any, Self

import msgspec
import pytest
from cryptography import x509

from schemas.manifest import Manifest
from services._kit.kube.client import ApiError
from services.apiserver.auth.certificate_authority import Authority
from services.apiserver.auth.kubeconfig_files import write as write_kubeconfig
from services.cli.common.running import Failed
from services.cli.renewal import secret_renewal
from services.cli.renewal.host_cluster import of_pod
from services.cli.renewal.renewed_pairs import authorities_in
from services.cli.renewal.secret_renewal import SECRETS, Renewal, decide, renew_secrets
from tests.support.aged_certificates import aged, belong_together

NOW = dt.datetime.now(dt.UTC)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    made = Authority(tmp_path / "authority")
    made.load()
    return made


@pytest.fixture
def other(tmp_path: Path) -> Authority:
    """An authority of the same name that is not at hand."""
    made = Authority(tmp_path / "other")
    made.load()
    return made


def pair(authority: Authority, *, left: float, names: list[str] | None = None) -> dict[str, bytes]:
    """A certificate of 90 days with so many left."""
    plain, _ = authority.issue("fleetlog:one", ("fleetlog",), names if names is not None else ["one.svc"])
    return dict(zip(("tls.crt", "tls.key"), aged(authority, plain, days=90 - left, left=left), strict=True))


def end(pem: bytes) -> dt.datetime:
    return x509.load_pem_x509_certificate(pem).not_valid_after_utc


def test_a_pair_in_its_last_third_is_made_again_for_as_long(authority: Authority) -> None:
    data = {**pair(authority, left=29), "tokens": b"kept", "ca.crt": authority.ca_pem}
    found = decide("Secret one", data, [authority], NOW)
    assert found.renewed == ["tls.crt"]
    assert set(found.changes) == {"tls.crt", "tls.key"}
    assert belong_together(found.changes["tls.crt"], found.changes["tls.key"])
    assert dt.timedelta(days=88) < end(found.changes["tls.crt"]) - NOW < dt.timedelta(days=91)
    assert authority.signed(found.changes["tls.crt"])


def test_a_pair_before_its_last_third_stays(authority: Authority) -> None:
    found = decide("Secret one", pair(authority, left=31), [authority], NOW)
    assert (found.changes, found.renewed) == ({}, [])
    assert found.ends is not None
    assert 30 <= (found.ends - NOW).days <= 31


def test_one_that_has_ended_is_made_again(authority: Authority) -> None:
    assert decide("Secret one", pair(authority, left=-1), [authority], NOW).renewed == ["tls.crt"]


def test_another_authoritys_certificate_is_refused_when_it_ends(authority: Authority, other: Authority) -> None:
    with pytest.raises(Failed, match=r"Secret one: tls\.crt ends at .* none of the authorities at hand"):
        decide("Secret one", pair(other, left=5), [authority], NOW)
    found = decide("Secret one", pair(other, left=60), [authority], NOW)
    assert (found.changes, found.foreign) == ({}, ["tls.crt"])


def test_a_secret_with_one_of_anothers_is_not_written(authority: Authority, other: Authority) -> None:
    data = {f"a{name.removeprefix('tls')}": value for name, value in pair(authority, left=5).items()}
    with pytest.raises(Failed, match=r"a\.crt ends at .*tls\.crt was signed by none"):
        decide("Secret one", {**data, **pair(other, left=60)}, [authority], NOW)


def test_the_pair_that_signs_tokens_stays(authority: Authority) -> None:
    data = {name.replace("tls", "service-accounts"): value for name, value in pair(authority, left=5).items()}
    assert decide("Secret one", data, [authority], NOW).changes == {}


def test_a_kubeconfig_keeps_everything_but_its_pair(authority: Authority, tmp_path: Path) -> None:
    old = pair(authority, left=5)
    path = tmp_path / "kubeconfig"
    write_kubeconfig(
        path, server="https://k:6443", name="one", ca=authority.ca_pem, cert=old["tls.crt"], key=old["tls.key"]
    )
    found = decide("Secret one", {"kubeconfig": path.read_bytes()}, [authority], NOW)
    before, after = msgspec.json.decode(path.read_bytes()), msgspec.json.decode(found.changes["kubeconfig"])
    was, user = before["users"][0].pop("user"), after["users"][0].pop("user")
    assert before == after
    assert was.keys() == user.keys()
    cert, key = (base64.b64decode(user[f"client-{part}-data"]) for part in ("certificate", "key"))
    assert belong_together(cert, key)
    assert end(cert) > end(old["tls.crt"])
    assert x509.load_pem_x509_certificate(cert).subject == x509.load_pem_x509_certificate(old["tls.crt"]).subject


def test_a_kubeconfig_with_a_token_has_nothing_to_renew(authority: Authority) -> None:
    text = b"users:\n- name: one\n  user: {token: secret}\nclusters: []\n"
    assert decide("Secret one", {"kubeconfig": text}, [authority], NOW).ends is None


@pytest.mark.parametrize(
    "data", [{"tls.crt": b"nothing", "tls.key": b""}, {"kubeconfig": b"{"}, {"kubeconfig": b"users: [1]"}]
)
def test_what_cannot_be_read_is_named(authority: Authority, data: dict[str, bytes]) -> None:
    with pytest.raises(Failed, match="Secret one"):
        decide("Secret one", data, [authority], NOW)


def test_nothing_lasts_longer_than_its_authority(tmp_path: Path, authority: Authority) -> None:
    short, key = aged(authority, authority.ca_pem, days=300, left=40)
    directory = tmp_path / "short"
    directory.mkdir()
    (directory / "ca.crt").write_bytes(short)
    (directory / "ca.key").write_bytes(key)
    (ending,) = authorities_in(directory)
    found = decide("Secret one", pair(ending, left=5), [ending], NOW)
    assert end(found.changes["tls.crt"]) <= ending.ends
    with pytest.raises(Failed, match="its authority ends at"):
        decide("Secret one", pair(ending, left=25) | pair(ending, left=39.9), [ending], NOW + dt.timedelta(days=20))


def test_no_authority_is_made_where_there_is_none(tmp_path: Path) -> None:
    assert authorities_in(tmp_path / "empty") == []
    assert not (tmp_path / "empty").exists()


def test_secrets_of_other_contents_are_never_asked_for() -> None:
    assert len(set(SECRETS)) == len(SECRETS)
    assert not {"fleetlog-authority", "fleetlog-secrets-keys", "fleetlog-log", "fleetlog-nats-accounts"} & set(SECRETS)


class Host:
    """A cluster that holds Secrets and answers writes as it is told."""

    def __init__(self, **secrets: dict[str, bytes]) -> None:
        self.secrets = {name: self._secret(name, data) for name, data in secrets.items()}
        self.answers: list[ApiError | None] = []
        self.between: Any = lambda: None
        self.written: list[str] = []

    @staticmethod
    def _secret(name: str, data: dict[str, bytes], version: str = "1") -> Manifest:
        encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
        return {"metadata": {"name": name, "resourceVersion": version}, "data": encoded}

    def put(self, name: str, data: dict[str, bytes]) -> None:
        """Somebody else writes a Secret."""
        self.secrets[name] = self._secret(name, data, "2")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def get(self, path: str) -> Manifest:
        name = path.rpartition("/")[2]
        if name not in self.secrets:
            raise ApiError(404, "NotFound", f"secrets {name!r} not found")
        return msgspec.json.decode(msgspec.json.encode(self.secrets[name]))  # type: ignore[no-any-return]

    async def request(self, method: str, path: str, *, body: Manifest) -> bytes:
        assert method == "PUT"
        name = path.rpartition("/")[2]
        self.between()
        if self.answers and (error := self.answers.pop(0)) is not None:
            raise error
        if body["metadata"]["resourceVersion"] != self.secrets[name]["metadata"]["resourceVersion"]:
            raise ApiError(409, "Conflict", "the object has been modified")
        self.secrets[name] = body
        self.written.append(name)
        return b"{}"


async def renewed(
    host: Host, authority: Authority, monkeypatch: pytest.MonkeyPatch, *names: str, directory: Path | None = None
) -> int:
    monkeypatch.setattr(secret_renewal, "opened_host", lambda _: host)
    return await renew_secrets(Renewal("n", names, directory or authority.directory))


async def test_what_another_run_renewed_is_not_overwritten(
    authority: Authority, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    host, theirs = Host(one=pair(authority, left=5)), pair(authority, left=89)
    host.between = lambda: host.put("one", theirs)
    assert await renewed(host, authority, monkeypatch, "one") == 0
    assert host.written == []
    assert base64.b64decode(host.secrets["one"]["data"]["tls.key"]) == theirs["tls.key"]
    assert "one: good until" in capsys.readouterr().out


async def test_what_is_wrong_with_one_keeps_no_other_back(
    authority: Authority, other: Authority, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    host = Host(
        foreign=pair(other, left=5),
        refused=pair(authority, left=5),
        broken={"tls.crt": b"", "tls.key": b""},
        good=pair(authority, left=5),
        managed=pair(authority, left=5),
    )
    host.secrets["managed"]["metadata"]["annotations"] = {"cert-manager.io/certificate-name": "managed"}
    host.answers = [ApiError(422, "Invalid", "field is immutable when `immutable` is set")]
    names = ("missing", "foreign", "refused", "broken", "managed", "good")
    assert await renewed(host, authority, monkeypatch, *names) == 1
    assert host.written == ["good"]
    said = capsys.readouterr()
    assert "missing: is not there" in said.out
    assert "managed: is renewed by cert-manager" in said.out
    assert "good: renewed tls.crt" in said.out
    assert [line for line in said.err.splitlines() if line.startswith("error: Secret ")] == said.err.splitlines()
    assert len(said.err.splitlines()) == 3


async def test_without_an_authority_only_what_ends_is_an_error(
    authority: Authority, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    host = Host(fresh=pair(authority, left=60), ends=pair(authority, left=5))
    nowhere = tmp_path / "nowhere"
    assert await renewed(host, authority, monkeypatch, "fresh", directory=nowhere) == 0
    assert await renewed(host, authority, monkeypatch, "ends", directory=nowhere) == 1
    assert host.written == []


async def test_a_secret_that_changes_all_the_time_is_left(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Host(one=pair(authority, left=5))
    host.answers = [ApiError(409, "Conflict", "the object has been modified")] * 100
    assert await renewed(host, authority, monkeypatch, "one") == 1
    assert len(host.answers) > 90


def test_a_pod_finds_its_cluster(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")
    (tmp_path / "ca.crt").write_text("PEM")
    found = of_pod({"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}, tmp_path)
    assert found["clusters"][0]["cluster"]["server"] == "https://[fd00::1]:6443"
    assert found["users"][0]["user"] == {"token": "secret"}
    with pytest.raises(Failed, match="KUBERNETES_SERVICE_HOST"):
        of_pod({}, tmp_path)
    with pytest.raises(Failed, match="--kubeconfig"):
        of_pod({"KUBERNETES_SERVICE_HOST": "h"}, tmp_path / "none")
